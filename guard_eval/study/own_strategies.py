"""What a study records of its user's own strategies: only commands that make texts then need their file.

The record is data. It is a stranger's, as the study is, and runs nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.files.opening import read_text
from guard_eval.generation.strategies import RecordedStrategy, draws_tokens, own, signature
from guard_eval.reporting.writing import write_whole
from guard_eval.study.criteria_settings import find_study_file

RECORD = "own_strategies.json"
"""The file in the study's folder: by spelling in study.toml, what is known of each strategy."""


def record_strategies(folder: Path, in_use: Collection[str]) -> None:
    """Record the user's own strategies that the study uses, if there are any."""
    strategies = own.recorded | own.spellings
    rows = {
        spelling: {
            "text": signature(strategy),
            "drawn": draws_tokens(strategy),
            "digest": own.hash_own_source(strategy),
        }
        for spelling, strategy in strategies.items()
        if signature(strategy) in in_use
    }
    if rows:
        write_whole(folder / RECORD, (json.dumps(rows, indent=2, sort_keys=True) + "\n").encode())


def recall_strategies(folder: Path) -> None:
    """Make the strategies that the study recorded known by name.

    Raises:
        StudyError: The record cannot be used.
    """
    if not (folder / RECORD).exists():
        return
    try:
        rows = json.loads(read_text(find_study_file(folder, RECORD)))
        strategies = {spelling: RecordedStrategy(**row) for spelling, row in rows.items()}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise StudyError(
            f"cannot use {folder / RECORD}: {error}; remove it, and name your strategies' file by --code"
        ) from None
    own.recorded.update({strategy.text: strategy for strategy in strategies.values()} | strategies)
