"""Record the user's own strategies in a study, so that only commands that make texts need the user's code.

The record is data and is never run, because a study may come from a stranger.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from guard_eval.errors import StudyError
from guard_eval.files.opening import read_text
from guard_eval.generation.strategies import RecordedStrategy, is_stochastic, own, signature
from guard_eval.reporting.writing import write_atomically
from guard_eval.study.criteria_settings import find_study_file

RECORD = "own_strategies.json"
"""The file in the study's folder: a strategy as written in study.toml → the known facts about it."""


def record_own_strategies(folder: Path, in_use: Collection[str]) -> None:
    """Record the user's own strategies that the study uses."""
    strategies = own.recorded | own.spellings
    rows = {
        spelling: {
            "text": signature(strategy),
            "drawn": is_stochastic(strategy),
            "digest": own.hash_own_strategy_source(strategy),
        }
        for spelling, strategy in strategies.items()
        if signature(strategy) in in_use
    }
    if rows:
        write_atomically(folder / RECORD, (json.dumps(rows, indent=2, sort_keys=True) + "\n").encode())


def register_recorded_strategies(folder: Path) -> None:
    """Register the names of the strategies that the study recorded.

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
            f"cannot use {folder / RECORD}: {error}; remove this file, and give your strategies with --code"
        ) from None
    own.recorded.update({strategy.text: strategy for strategy in strategies.values()} | strategies)
