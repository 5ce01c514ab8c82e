"""Studies for Ray, and their texts."""

import signal
from pathlib import Path

from guard_eval.study.folder import Study
from guard_eval.texts.continuations import continuation_files, read_continuations, read_run_folders

STUDY = """
name = "many"
seed = 5
[model]
name = "bundled"
[generation]
strategies = ["top_k(k=50)", "guard"]
max_new_tokens = 12
max_prompt_tokens = 24
batch_size = 8
[pairs]
compare = [["guard", "top_k(k=50)"]]
[metrics]
compute = ["coherence", "perplexity", "length"]
coherence_model = "bundled"
"""
PROMPTS = 96


def write_study(folder: Path, prompts: int = PROMPTS) -> Study:
    folder.mkdir()
    (folder / "study.toml").write_text(STUDY)
    animals = ("cat", "dog", "fox", "owl", "hen", "ox")
    lines = [
        f'{{"prompt": "Once there was a {animals[n % 6]} who had {n} friends{" and more" * (n % 4)}", '
        f'"reference": "who sang to number {n}"}}\n'
        for n in range(prompts)
    ]
    (folder / "prompts.jsonl").write_text("".join(lines))
    return Study.open(folder)


def texts_of(study: Study) -> list[tuple]:
    """Return what must be the same wherever it is made, of every text on disk, sorted."""
    return sorted(
        (one.recipe.strategy, one.prompt_id, one.id, one.text, one.prompt_tokens, one.new_tokens, one.finish)
        for folder in read_run_folders(study.continuations)
        for strategy in study.settings.generation.strategies
        for path in continuation_files(folder, strategy)
        for one in read_continuations(path)
    )


def kill(process) -> None:
    process.send_signal(signal.SIGKILL)
