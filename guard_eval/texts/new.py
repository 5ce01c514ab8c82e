"""Make a study's folder: study.toml to edit, and prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.reporting.writing import write_whole
from guard_eval.results import Result
from guard_eval.study import Study
from guard_eval.study.folder import locate_model, seen_from
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.model_files import known_revision
from guard_eval.texts.model_hub import check_name
from guard_eval.texts.prompts import read_dataset, read_prompts

TEMPLATE = resources.files(__package__).joinpath("study.toml.in").read_text(encoding="utf-8")
"""A new study's settings, with {names} in place of what differs."""

EXAMPLES = (
    "There was once a tailor who was so small that he slept in a shoe. One day",
    "The storm had passed, and when they opened the door they saw that",
    '"I have never told this to anybody," said the old captain, "but',
    "On the far side of the river lived a people who",
)


@dataclass(frozen=True, kw_only=True)
class NewStudy(Result):
    """A study that was just made.

    Attributes:
        folder: Its folder.
        prompts: The number of its prompts.
    """

    folder: Path
    prompts: int


def new(
    folder: Path,
    /,
    *,
    model: str = "bundled",
    prompts: Path | None = None,
    dataset: str | None = None,
    words: int | None = None,
    limit: int | None = None,
    seed: int = 1,
) -> NewStudy:
    """Make a study: study.toml to edit, and prompts.

    Prompts are copied into it: from a file, from a Hugging Face dataset, or a few examples to be replaced.

    Args:
        folder: The folder to make.
        model: A Hugging Face id, a folder, or 'bundled'.
        prompts: Prompts (JSONL, CSV or .txt) to copy into the study.
        dataset: A Hugging Face dataset, or a folder of one: the texts of its split 'test', column 'text',
            become prompts.
        words: Words of a text that become the prompt; 32 unless given.
        limit: Take only the first so many prompts.
        seed: The study's seed.

    Raises:
        StudyError: The folder has a study or prompts already, or prompts or the model cannot be read.
    """
    folder = Path(folder)
    _check(folder, prompts, dataset, words)
    for name, count in (("words", words), ("limit", limit)):
        if count is not None and count < 1:
            raise StudyError(f"--{name} {count}: it is at least 1")
    location = locate_model(model, Path())
    check_name(model, location)
    loaded = read_prompts(prompts, limit=limit) if prompts else []
    if dataset:
        loaded = read_dataset(dataset, words=words or 32, limit=limit)
    examples = enumerate(EXAMPLES, start=1)
    used = loaded or [
        Prompt(id=f"example-{number}", dataset="examples", text=text) for number, text in examples
    ]
    settings, prompts_path = folder / "study.toml", folder / "prompts.jsonl"
    write_whole(prompts_path, prompt_lines(used), make_folder=True)
    write_whole(settings, _settings(folder, model, seed).encode())
    study = Study.open(folder)
    said = [
        f"{settings}: the settings, to be edited",
        f"{prompts_path}: {len(used)} prompt{'' if len(used) == 1 else 's'}"
        + ("" if loaded else ", examples to be replaced"),
    ]
    if not Path(location).is_absolute() and known_revision(model, "main") is None:
        said.append(
            f"{model} is no folder, so it is taken for a Hugging Face id; it is not on this machine yet"
        )
    return NewStudy(
        folder=folder, prompts=len(used), lines=tuple(said), next=(study.command("generate", "--dry-run"),)
    )


def prompt_lines(prompts: Iterable[Prompt]) -> bytes:
    """Return prompts as the lines of a prompts.jsonl."""
    names = {"id": "id", "dataset": "dataset", "prompt": "text", "reference": "reference"}
    rows = ({key: getattr(each, name) for key, name in names.items()} for each in prompts)
    lines = (
        json.dumps({key: value for key, value in row.items() if value is not None}, ensure_ascii=False)
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _check(folder: Path, prompts: Path | None, dataset: str | None, words: int | None) -> None:
    """Refuse to overwrite a study or prompts, and options that contradict each other."""
    if folder.exists() and not folder.is_dir():
        raise StudyError(f"{folder} is a file; name the folder to make")
    if (folder / "study.toml").exists():
        raise StudyError(f"{folder} is a study already; edit {folder / 'study.toml'}, or name another folder")
    if (folder / "prompts.jsonl").exists():
        raise StudyError(
            f"{folder / 'prompts.jsonl'} exists already and would be overwritten; move it elsewhere and name "
            "it with --prompts, or name another folder"
        )
    if prompts is not None and not prompts.is_file():
        raise StudyError(f"--prompts: there is no file {prompts}; name a .jsonl, .csv, .tsv or .txt file")
    if prompts and dataset:
        raise StudyError("prompts come from a file or from a dataset; give --prompts or --dataset, not both")
    if words is not None and dataset is None:
        raise StudyError("--words is about a dataset; name one with --dataset, or leave it out")


def _settings(folder: Path, model: str, seed: int) -> str:
    """Return the text of a new study.toml."""
    small = model == "bundled"
    compute = ["diversity", "coherence", "perplexity", "repetition", "length", "speed"]
    if not small:  # the bundled model is for trying things out, where there may be no network
        compute[1:1] = ["mauve", "bertscore"]
    return TEMPLATE.format(
        name=_toml_text(folder.resolve().name or "study"),
        seed=seed,
        model=_toml_text(seen_from(folder, model)),
        compute=", ".join(map(_toml_text, compute)),
        scorer=_toml_text("bundled" if small else MetricSettings().coherence_model),
        new_tokens=128 if small else 256,
        prompt_tokens=128 if small else 256,
    )


def _toml_text(text: str) -> str:
    r"""Return a text as TOML has it: with JSON's escapes, but without surrogates and DEL.

    >>> print(_toml_text('étude😀 "a"\x7f'))
    "étude😀 \"a\"\u007f"
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
