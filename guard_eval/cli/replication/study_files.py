"""The study.toml of each table: shipped in `studies/`, and adapted to another model or a smaller run.

A shipped file is changed line by line, so that its comments and its order stay.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from guard_eval.cli.replication.registry import Entry
from guard_eval.errors import StudyError
from guard_eval.study.settings import Settings

FOLDER = Path(__file__).parent / "studies"

Changes = Mapping[tuple[str, str], str | int | list[str]]
"""New values by table and key."""


def shipped(entry: Entry) -> str:
    """Return the text of an entry's study.toml as it is shipped.

    Raises:
        StudyError: There is nothing to run.
    """
    if not entry.study:
        raise StudyError(f"{entry.label} has nothing to run; {entry.pointer}")
    return (FOLDER / f"{entry.study}.toml").read_text(encoding="utf-8")


def settings_of(entry: Entry) -> Settings:
    """Return the settings of an entry's study as shipped."""
    return Settings.model_validate(tomllib.loads(shipped(entry)))


def changed(text: str, changes: Changes) -> str:
    r"""Return a study's text with other values; a key that is not there is added to its table.

    >>> changed('[model]\nname = "a"  # which\n', {("model", "name"): "b", ("model", "dtype"): "auto"})
    '[model]\ndtype = "auto"\nname = "b"\n'
    """
    lines = text.split("\n")
    for (table, key), value in changes.items():
        start = lines.index(f"[{table}]")
        end = next((n for n in range(start + 1, len(lines)) if lines[n].startswith("[")), len(lines))
        written = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        place = next((n for n in range(start, end) if re.match(rf"{key}\s*=", lines[n])), None)
        if place is None:
            lines.insert(start + 1, written)
        else:
            lines[place] = written
    return "\n".join(lines)


def without(text: str, strategy: str) -> str:
    """Return a study's text without a strategy, which stands on a line of its own."""
    return text.replace(f'    "{strategy}",\n', "")
