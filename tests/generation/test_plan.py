"""`generate` writes missing texts, stores each batch, and continues if a strategy is refused."""

import json
from collections import Counter
from contextlib import contextmanager
from functools import partial

import pytest
from refusals import expect_refusal
from small_tokenizers import bytes_of
from tiny_models import VOCABULARY, tiny

from guard_eval.errors import StudyError
from guard_eval.generation import FinishedBatch, command
from guard_eval.generation.command import generate_texts
from guard_eval.generation.plan import Engine, GenerationPlan
from guard_eval.study import Study
from guard_eval.texts.continuations import read_continuations
from guard_eval.texts.prompts import read_prompts

pytestmark = pytest.mark.slow

REFUSED, WRITTEN = ["contrastive(k=3, alpha=0.6)", "acs(q=1)"], ["greedy", "guard"]


@pytest.fixture
def study(tmp_path):
    """A study whose model cannot run the first strategy, contrastive search."""
    tiny("xlnet").save_pretrained(tmp_path / "model")
    text = "the cat sat on the mat and the dog ran to the old red house"
    bytes_of([text] * 3, VOCABULARY).save_pretrained(tmp_path / "model")
    lines = [json.dumps({"prompt": f"the cat sat on {n} mats"}) + "\n" for n in range(3)]
    (tmp_path / "prompts.jsonl").write_text("".join(lines))
    (tmp_path / "study.toml").write_text(
        f'name = "s"\nseed = 1\n[model]\nname = "model"\n[generation]\nmax_new_tokens = 4\n'
        f"strategies = {json.dumps([*REFUSED, *WRITTEN])}\n"
        '[pairs]\ncompare = [["greedy", "guard"]]\n'
    )
    return Study.open(tmp_path)


def count_texts(study):
    paths = [path for path in study.continuations_folder.glob("*/*.jsonl") if "trace" not in path.name]
    return {path.stem: len(list(read_continuations(path))) for path in paths}


def test_strategy_that_a_model_cannot_run_does_not_stop_others(study):
    with pytest.raises(StudyError) as refused:
        generate_texts(study)
    assert str(refused.value).startswith(
        "contrastive(k=3, alpha=0.6), acs(q=1): this XLNetLMHeadModel cannot"
    )
    assert str(refused.value).endswith("all other texts are written")
    assert count_texts(study) == dict.fromkeys(WRITTEN, 3)
    with expect_refusal("this XLNetLMHeadModel cannot run"):
        generate_texts(study)
    assert count_texts(study) == dict.fromkeys(WRITTEN, 3)


def test_strategy_option_names_a_wrong_parameter(study):
    with expect_refusal("has no parameter 'windw': did you mean 'window'"):
        generate_texts(study, strategy=["guard(windw=3)"])


def test_failing_user_strategy_does_not_stop_others(study, load_own_strategies):
    load_own_strategies(FAILING)
    toml = study.folder / "study.toml"
    toml.write_text(toml.read_text().replace(json.dumps(REFUSED)[1:-1], '"failing"'))
    with expect_refusal(r"failing: .*mine.py: the function of Failing failed: KeyError"):
        generate_texts(Study.open(study.folder))
    assert count_texts(study) == dict.fromkeys(WRITTEN, 3)


FAILING = """
from dataclasses import dataclass
from guard_eval.generation.strategies import Sampler, apply_step

@dataclass(frozen=True, kw_only=True)
class Failing(Sampler):
    pass

@apply_step.register
def failing(strategy: Failing, logits, context):
    return {}[logits.shape]
"""


def test_full_disk_stops_generate(study, monkeypatch):
    def write(*_arguments):
        raise StudyError("cannot write: no space left on device")

    monkeypatch.setattr(command, "append_continuations", write)
    with expect_refusal(r"^cannot write: no space left"):
        generate_texts(study, strategy=WRITTEN)
    assert count_texts(study) == {}


def test_plan_lists_the_texts_not_yet_written(study):
    prompts = read_prompts(study.prompts_path)
    systems = {name: name for name in WRITTEN}
    facts = {"revision": None, "dtype": None}
    make_plan = partial(GenerationPlan, study=study, systems=systems, prompts=prompts, facts=facts)
    plan = make_plan()
    assert plan.missing_texts == {name: [(prompt, 1) for prompt in prompts] for name in WRITTEN}
    assert plan.missing_count == 6
    generate_texts(study, strategy=["guard"])
    plan = make_plan()
    assert plan.missing_texts == {"greedy": [(prompt, 1) for prompt in prompts]}
    assert plan.make_result(Counter(greedy=2)).lines[0] == "greedy: 2 of 3 continuations exist"


def test_each_batch_is_stored_before_the_next(study, monkeypatch):
    """A small engine checks before each batch that the earlier batches are on disk."""
    generate_texts(study, strategy=["greedy"])
    texts = [
        text
        for path in study.continuations_folder.glob("*/greedy.jsonl")
        for text in read_continuations(path)
    ]
    for path in study.continuations_folder.glob("*/*"):
        path.unlink()
    seen = []

    def write(_name, _texts):
        for text in texts:
            seen.append(count_texts(study).get("greedy", 0))
            yield FinishedBatch([text], [{"id": text.id}])

    @contextmanager
    def open_engine(plan):
        yield Engine(plan.facts, write)

    monkeypatch.setattr(command, "resolve_name", lambda _name: open_engine)
    result = generate_texts(study, strategy=["greedy"])
    assert seen == [0, 1, 2]
    assert (result.written, result.missing) == ({"greedy": 3}, 0)
    (trace,) = study.continuations_folder.glob("*/greedy.trace.jsonl")
    assert [json.loads(line)["id"] for line in trace.read_text().splitlines()] == [text.id for text in texts]
