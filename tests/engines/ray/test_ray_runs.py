"""Several texts a prompt, stop strings and DRY's breakers on Ray's workers: the same as in one process."""

import pytest
from ray_cluster import texts_of, write_study

from guard_eval.cli.generate import generate
from guard_eval.study import Study
from guard_eval.texts.continuations import continuation_files, read_continuations

pytestmark = pytest.mark.slow

NAME = "dry(breakers=standard) + top_k(k=20)"


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
@pytest.mark.timeout(0)  # it waits for what must come, however long the machine takes
def test_runs_and_stop_strings(tmp_path):
    made = {}
    for engine in ("local", "ray"):
        folder = write_study(tmp_path / engine, prompts=6).folder
        toml = folder / "study.toml"
        text = toml.read_text(encoding="utf-8")
        text = text.replace("[generation]\n", '[generation]\nruns = 2\nstop = [", ", "e"]\n', 1)
        toml.write_text(text.replace('strategies = ["', f'strategies = ["{NAME}", "', 1))
        study = Study.open(folder)
        generate(study, engine=engine, strategies=[NAME, "guard"])
        made[engine] = texts_of(study)
        [strategy] = [name for name in study.settings.generation.strategies if name.startswith("dry")]
        runs = [
            one.run
            for path in continuation_files(study.continuations, strategy)
            for one in read_continuations(path)
        ]
        assert sorted(runs) == [1] * 6 + [2] * 6
    assert made["ray"] == made["local"]
    assert len(made["ray"]) == 18
    assert "stop" in {one[-1] for one in made["ray"]}
