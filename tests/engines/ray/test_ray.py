"""Texts by Ray's workers are those of one process, also when a worker dies."""

import threading

import psutil
import pytest
from ray_cluster import kill, texts_of, write_study

from guard_eval.engines.command import generate
from guard_eval.errors import StudyError
from guard_eval.strategies import own
from guard_eval.study import Study

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(0),  # it waits for what must come, however long the machine takes
]

OWN = """
from dataclasses import dataclass
import torch
from guard_eval.strategies import Sampler, apply_step

@dataclass(frozen=True, kw_only=True)
class Nearly(Sampler):
    share: float = 0.5

@apply_step.register
def nearly(strategy: Nearly, logits, context):
    p = logits.softmax(-1)
    return logits.masked_fill(p < strategy.share * p.amax(-1, keepdim=True), -torch.inf)
"""
NAME = "dry(breakers=standard) + nearly(share=0.4)"


def test_runs_stop_strings_and_a_strategy_whose_file_workers_do_not_have(tmp_path, own_registry):
    own.use_text("nowhere/nearly.py", OWN)
    texts = {}
    for engine in ("local", "ray"):
        folder = write_study(tmp_path / engine, prompts=6).folder
        toml = folder / "study.toml"
        text = toml.read_text(encoding="utf-8")
        text = text.replace("[generation]\n", '[generation]\nruns = 2\nstop = [", ", "e"]\n', 1)
        toml.write_text(text.replace('strategies = ["', f'strategies = ["{NAME}", "', 1))
        study = Study.open(folder)
        result = generate(study, engine=engine, strategy=[NAME, "guard"])
        assert result.missing == 0
        texts[engine] = texts_of(study)
    assert texts["ray"] == texts["local"]
    assert len(texts["ray"]) == 18
    assert "stop" in {text[-1] for text in texts["ray"]}


def test_a_worker_that_dies_loses_and_doubles_nothing(study, one_machine):
    killed: list[int] = []
    over = threading.Event()

    def kill_the_first_worker():
        while not killed and not over.wait(0.05):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "ray::Worker" in " ".join(process.cmdline()) and not killed:
                        kill(process)
                        killed.append(process.pid)
                except psutil.Error:
                    continue

    killer = threading.Thread(target=kill_the_first_worker)
    killer.start()
    try:
        generate(study, engine="ray", workers=1, strategy=["guard"])
    finally:
        over.set()
        killer.join()
    assert killed
    assert texts_of(study) == [text for text in one_machine.texts if text[0] == "guard"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trace": True}, "--trace is for --engine local"),
        ({"workers": 99}, "at most"),
    ],
)
def test_what_does_not_go_together_is_refused(study, options, says):
    with pytest.raises(StudyError, match=says):
        generate(study, engine="ray", **options)
