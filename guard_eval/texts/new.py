"""Make a study's folder: study.toml to edit, and prompts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.files.opening import read_bytes
from guard_eval.records import Prompt
from guard_eval.reporting.writing import write_whole
from guard_eval.results import Result
from guard_eval.study import Study
from guard_eval.study.folder import BUNDLED, locate_model, seen_from
from guard_eval.study.settings import MetricSettings
from guard_eval.texts.models import check_name, known_revision
from guard_eval.texts.prompts import read_prompts

TEMPLATE = Path(__file__).with_name("study.toml.in").read_text(encoding="utf-8")
"""A new study's settings, with {names} in place of what differs."""


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
    limit: int | None = None,
    seed: int = 1,
) -> NewStudy:
    """Make a study: study.toml to edit, and prompts.

    Prompts are copied into it: from a file, or a few examples to be replaced.

    Args:
        folder: The folder to make.
        model: A Hugging Face id, a folder, or 'bundled'.
        prompts: Prompts (JSONL, CSV or .txt) to copy into the study.
        limit: Take only the first so many prompts.
        seed: The study's seed.

    Raises:
        StudyError: The folder has a study or prompts already, or prompts or the model cannot be read.
    """
    folder = Path(folder)
    settings, prompts_path = folder / "study.toml", folder / "prompts.jsonl"
    if limit is not None and limit < 1:
        raise StudyError(f"--limit {limit}: it is at least 1")
    location = locate_model(model, Path())
    check_name(model, location)
    used = read_prompts(prompts or Path(__file__).with_name("examples.jsonl"), limit=limit)
    content = prompt_lines(used)
    _refuse_existing(settings)
    # An interrupted command leaves the same prompts without settings.
    has_size = prompts_path.is_file() and prompts_path.stat().st_size == len(content)
    if not has_size or read_bytes(prompts_path, limit=len(content)) != content:
        _refuse_existing(prompts_path)
    write_whole(prompts_path, content, make_folder=True)
    write_whole(settings, _settings(folder, model, seed).encode())
    replaced = "" if prompts else ", examples to be replaced"
    lines = [f"{settings}: the settings, to be edited", f"{prompts_path}: {len(used)} prompts{replaced}"]
    if known_revision(location, "main") is None:
        lines.append(f"{model} is no folder but a Hugging Face id, and not on this machine yet")
    next_command = Study.open(folder).command("generate", "--dry-run")
    return NewStudy(folder=folder, prompts=len(used), lines=tuple(lines), next=(next_command,))


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise StudyError(f"{path} exists already and would be overwritten; move it, or name another folder")


def prompt_lines(prompts: Iterable[Prompt]) -> bytes:
    """Return prompts as the lines of a prompts.jsonl."""
    lines = []
    for prompt in prompts:
        row = {"id": prompt.id, "dataset": prompt.dataset, "prompt": prompt.text}
        if prompt.reference is not None:
            row["reference"] = prompt.reference
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8", "replace")


def _settings(folder: Path, model: str, seed: int) -> str:
    """Return the text of a new study.toml."""
    small = model == BUNDLED  # for trying things out, where there may be no network
    compute = ["diversity", "coherence", "perplexity", "repetition", "length", "speed"]
    return TEMPLATE.format(
        name=_toml_text(folder.resolve().name or "study"),
        seed=seed,
        model=_toml_text(seen_from(folder, model)),
        compute=json.dumps(compute if small else [*compute, "mauve", "bertscore"]),
        scorer=_toml_text(BUNDLED if small else MetricSettings().coherence_model),
        tokens=128 if small else 256,
    )


def _toml_text(text: str) -> str:
    r"""Return a text as TOML has it: with JSON's escapes, but without surrogates and DEL.

    >>> print(_toml_text('étude😀 "a"\x7f'))
    "étude😀 \"a\"\u007f"
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
