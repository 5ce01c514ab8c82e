"""Find the results that were declared beforehand, by the names in the declaration."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.scores.combined import Composite
from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list
from guard_eval.rubric import COMPOSITE

_LISTED = 12
"""The largest number of results that an error message lists."""


def add_composites(results: Sequence[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """Add the composite of each comparison to a family of results."""
    return (*dict.fromkeys((a, b, COMPOSITE) for a, b, _ in results), *results)


def find_declared_results(
    verdicts: pd.DataFrame, entries: Sequence[str] | None, composite: Composite | None
) -> tuple[tuple[str, str, str], ...] | None:
    """Return the declared family of results with composites, or None if no family was declared.

    Raises:
        StudyError: The table lacks the results of an entry, or the verdicts for the composite.
    """
    if composite is not None:
        composite.require_verdicts(verdicts)
    named = None if entries is None else find_named_results(verdicts, entries)
    return named if named is None or composite is None else add_composites(named)


def find_named_results(verdicts: pd.DataFrame, entries: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """Find the results that the entries name, without repeats: (method_a, method_b, criterion).

    Args:
        verdicts: A validated table.
        entries: Each entry is a criterion, `A against B` or `A against B: CRITERION`.

    Raises:
        StudyError: The table lacks the results of an entry.
    """
    compared = verdicts[["criterion", "method_a", "method_b"]].drop_duplicates()
    named: dict[str, list[tuple[str, str, str]]] = {}
    for row in sorted(compared.itertuples(index=False, name=None)):
        c, a, b = map(str, row)
        named.setdefault(c, []).append((a, b, c))
        for first, second in ((a, b), (b, a)):
            for words in (f"{first} against {second}", f"{first} against {second}: {c}"):
                named.setdefault(words, []).append((first, second, c))
    result: dict[tuple[str, str, str], None] = {}
    way_round: dict[frozenset[str], tuple[str, str]] = {}  # each comparison keeps its first order of methods
    for entry in entries:
        if entry not in named:
            results = [words for words in named if ": " not in words]
            listed = and_list([*results[:_LISTED], *(["…"] if len(results) > _LISTED else [])])
            raise StudyError(
                f"the family names {entry!r}, which the table does not compare; write one of {listed}, or "
                "METHOD against METHOD: CRITERION"
            )
        for a, b, c in named[entry]:
            first, second = way_round.setdefault(frozenset((a, b)), (a, b))
            result[first, second, c] = None
    return tuple(result)
