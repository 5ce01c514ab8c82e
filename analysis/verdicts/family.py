"""The results that were declared beforehand, as a person names them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pandas as pd

from analysis.verdicts.combined import Composite
from guard_eval.errors import StudyError
from guard_eval.reporting.words import and_list
from guard_eval.rubric import COMPOSITE

_NAMED = 12
"""Results that a refusal lists."""


def with_composites(cells: Sequence[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """Return a family with the declared composite of each comparison, which is one of its results."""
    return (*dict.fromkeys((a, b, COMPOSITE) for a, b, _ in cells), *cells)


def declared_results(
    verdicts: pd.DataFrame, entries: Sequence[str] | None, composite: Composite | None
) -> tuple[tuple[str, str, str], ...] | None:
    """Return the family of a table, or None where none was declared: `named_results`, and composites.

    Raises:
        StudyError: An entry names nothing of the table, or there are no verdicts for the composite.
    """
    if composite is not None:
        composite.check(verdicts)
    named = None if entries is None else named_results(verdicts, entries)
    return named if named is None or composite is None else with_composites(named)


def named_results(verdicts: pd.DataFrame, entries: Sequence[str]) -> tuple[tuple[str, str, str], ...]:
    """Return the results that the entries name, each once, in their order: (method_a, method_b, criterion).

    Args:
        verdicts: A validated table.
        entries: A criterion, `A against B` or `A against B: CRITERION` each.

    Raises:
        StudyError: An entry names nothing of the table.
    """
    compared = (
        verdicts[["method_a", "method_b", "criterion"]]
        .drop_duplicates()
        .sort_values(["criterion", "method_a", "method_b"])
    )
    cells = [(str(a), str(b), str(c)) for a, b, c in compared.itertuples(index=False, name=None)]
    criteria = list(dict.fromkeys(c for _, _, c in cells))
    methods = sorted({name for a, b, _ in cells for name in (a, b)})
    result: dict[tuple[str, str, str], None] = {}
    way_round: dict[frozenset[str], tuple[str, str]] = {}  # a comparison keeps its first order
    for entry in entries:
        if entry in criteria:
            named = [cell for cell in cells if cell[2] == entry]
        else:
            named = [
                (a, b, c)
                for a, b in permutations(methods, 2)
                if entry.startswith(f"{a} against {b}")
                for c in criteria
                if entry in {f"{a} against {b}", f"{a} against {b}: {c}"}
            ]
        if not named:
            raise StudyError(
                f"the family names {entry!r}, which the table does not compare; write a criterion "
                f"({_some(criteria)}), METHOD against METHOD, or METHOD against METHOD: CRITERION, of the "
                f"methods {_some(methods)}"
            )
        for a, b, c in named:
            first, second = way_round.setdefault(frozenset((a, b)), (a, b))
            result[first, second, c] = None
    return tuple(result)


def _some(names: Sequence[str]) -> str:
    more = [f"{len(names) - _NAMED} more"] if len(names) > _NAMED else []
    return and_list([*names[:_NAMED], *more])
