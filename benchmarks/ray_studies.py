"""Studies of many short prompts for the benchmarks of `--engine ray`, and what became of them.

(A script called `ray.py` would hide the package of that name from its neighbours.)
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from guard_eval.continuations import continuation_files, iter_continuations
from guard_eval.study import Study

STUDY = """
name = "many prompts"
seed = 5
[model]
name = "bundled"
[generation]
strategies = ["greedy", "guard"]
max_new_tokens = {tokens}
max_prompt_tokens = 24
batch_size = 32
[pairs]
compare = [["greedy", "guard"]]
"""
ANIMALS = ("cat", "dog", "fox", "owl", "hen", "ox")


def make(folder: Path, *, prompts: int, tokens: int) -> Study:
    """Write a study of `prompts` prompts of about ten words."""
    folder.mkdir(parents=True)
    (folder / "study.toml").write_text(STUDY.format(tokens=tokens), encoding="utf-8")
    with (folder / "prompts.jsonl").open("w", encoding="utf-8") as file:
        for n in range(prompts):
            file.write(f'{{"prompt": "Once there was a {ANIMALS[n % 6]} who had {n} good friends"}}\n')
    return Study.open(folder)


def command(study: Study, *more: str) -> list[str]:
    """Return the command that makes the study's continuations."""
    return [sys.executable, "-m", "guard_eval", "generate", str(study.folder), *more]


def environment() -> dict[str, str]:
    """Return the environment of the command."""
    return {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(Path(__file__).parent)}  # of Ray's workers


def texts(study: Study) -> list[tuple[str, str, str, str, int]]:
    """Return strategy, prompt, id, text and tokens of every continuation on disk, sorted."""
    return sorted(
        (one.recipe.strategy, one.prompt_id, one.id, one.text, one.new_tokens)
        for strategy in study.settings.generation.strategies
        for path in continuation_files(study.continuations, strategy)
        for one in iter_continuations(path)
    )
