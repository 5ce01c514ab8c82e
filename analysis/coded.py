"""A tidy table of verdicts as numbers, for audits of a million rows, and what the numbers stand for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.text_codes import combined, text_codes
from analysis.words import KIND_PLACE, RATERS, and_list
from guard_eval.errors import StudyError
from guard_eval.records import TIE

NAMED = 5
"""How many pairs a finding names before it counts the rest."""

_COLUMNS = ("pair_id", "method_a", "method_b", "rater", "criterion", "verdict")


@dataclass(frozen=True, kw_only=True, slots=True)
class Coded:
    """The verdicts as numbers, and what the numbers stand for.

    `rows` has cell, pair, rater, criterion and showing as codes; `side` is 1 for the cell's first method,
    −1 for its second and 0 for a tie; `first` is the side shown first, or 0 where unknown.
    """

    rows: pd.DataFrame
    cells: tuple[tuple[str, str, str], ...]
    pairs: tuple[str, ...]
    raters: tuple[str, ...]
    criteria: tuple[str, ...]

    def where(self, cell: int, about: str = "") -> str:
        """Return a comparison and who judged it, in words."""
        a, b, kind = self.cells[cell]
        return f"{about}{', ' if about else ''}{a} against {b}, {RATERS.get(kind, kind)}"

    def answer(self, cell: int, side: int) -> str:
        """Return the verdict that a side stands for."""
        return TIE if side == 0 else self.cells[cell][0 if side == 1 else 1]

    def some(self, codes: Iterable[int]) -> str:
        """Return the first of some pairs by name, and how many there are besides."""
        found = sorted(set(codes))  # codes are in the order of the names
        names = [self.pairs[code] for code in found[:NAMED]]
        more = [f"{len(found) - NAMED} more"] if len(found) > NAMED else []
        return f"pair{'' if len(found) == 1 else 's'} {and_list([*names, *more])}"


def coded(frame: pd.DataFrame) -> Coded:
    """Return a tidy table as numbers, each comparison one way round, whichever way a row has it.

    Raises:
        StudyError: A column is missing.
    """
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        raise StudyError(
            f"the verdicts lack the column(s) {', '.join(missing)}; an audit reads {', '.join(_COLUMNS)}"
        )
    cell, turned, cells = _cells(frame)
    rows = pd.DataFrame({"cell": cell})
    names = {}
    for column in ("pair_id", "rater", "criterion"):
        ranked = text_codes(frame[column]).ranked()
        rows[column.removesuffix("_id")] = ranked.codes
        names[column] = ranked.texts
    rows["side"] = _side(frame, "verdict", turned)
    rows["first"] = _side(frame, "shown_first", turned) if "shown_first" in frame.columns else 0
    rows["showing"] = (
        text_codes(frame["presentation"]).codes if "presentation" in frame.columns else rows["first"]
    )
    return Coded(
        rows=rows,
        cells=cells,
        pairs=names["pair_id"],
        raters=names["rater"],
        criteria=names["criterion"],
    )


def _cells(
    frame: pd.DataFrame,
) -> tuple[NDArray[np.int64], NDArray[np.bool_], tuple[tuple[str, str, str], ...]]:
    """Return each row's cell, whether the row has its methods the other way round, and the cells in order."""
    known = "rater_kind" in frame.columns
    kind = frame["rater_kind"].fillna("person") if known else pd.Series("person", index=frame.index)
    columns = [text_codes(one) for one in (frame["method_a"], frame["method_b"], kind)]
    _, first, as_given = np.unique(
        combined(*(one.codes for one in columns)), return_index=True, return_inverse=True
    )
    triples = [tuple(one.texts[one.codes[row]] for one in columns) for row in first]
    one_way = [(min(a, b), max(a, b), of) for a, b, of in triples]
    cells = sorted(set(one_way), key=lambda cell: (KIND_PLACE.get(cell[2], len(KIND_PLACE)), cell))
    place = {cell: code for code, cell in enumerate(cells)}
    cell = np.array([place[own] for own in one_way], dtype=np.int64)[as_given]
    turned = np.array([a > b for a, b, _ in triples], dtype=bool)[as_given]
    return cell, turned, tuple(cells)


def _side(frame: pd.DataFrame, column: str, turned: NDArray[np.bool_]) -> NDArray[np.int64]:
    named = frame[column]
    side = (named == frame["method_a"]).astype(int) - (named == frame["method_b"]).astype(int)
    return np.where(turned, -side, side).astype(np.int64)
