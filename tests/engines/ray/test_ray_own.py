"""A strategy of one's own on Ray's workers, which do not have its file."""

import pytest
from ray_cluster import texts_of, write_study

from guard_eval.cli.generate import generate
from guard_eval.strategies import own
from guard_eval.study import Study

pytestmark = pytest.mark.slow

SOURCE = """
from dataclasses import dataclass
import torch
from guard_eval.strategies import OwnStrategy


@dataclass(frozen=True, kw_only=True)
class Nearly(OwnStrategy):
    share: float = 0.5

    def candidates(self, logits, history):
        p = logits.softmax(-1)
        logits[:, 5] -= 0.1 * (history >= 0).sum(-1)
        return logits.masked_fill(p < self.share * p.amax(-1, keepdim=True), -torch.inf)
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
@pytest.mark.timeout(0)  # it waits for what must come, however long the machine takes
def test_workers_are_sent_its_source(tmp_path, own_registry):
    made = {}
    own.use_text("nowhere/nearly.py", SOURCE)
    for engine in ("local", "ray"):
        folder = write_study(tmp_path / engine).folder
        toml = folder / "study.toml"
        text = toml.read_text(encoding="utf-8")
        assert 'strategies = ["' in text
        toml.write_text(text.replace('strategies = ["', 'strategies = ["dry + nearly(share=0.4)", "', 1))
        study = Study.open(folder)
        generate(study, engine=engine, strategies=["dry + nearly(share=0.4)"])
        made[engine] = [one for one in texts_of(study) if "nearly" in str(one)]
    assert made["ray"] == made["local"] != []
