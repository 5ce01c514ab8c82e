"""The reading of a table: the role of each column, unused columns, and rows that were left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd

READING = "reading"
"""The key of a table's `attrs` under which its `Reading` is."""

_WIDEST = 40
"""The width of a column that is still filled up with spaces."""
CERTAIN = ("its name", "declared", "the format")
"""The reasons of roles that nobody has to be told of."""


_ROLES = {
    "pair_id": "pair",
    "prompt_id": "prompt",
    "dataset": "dataset",
    **dict.fromkeys(("method_a", "method_b", "methods"), "method"),
    "rater": "rater",
    "rater_kind": "kind of rater",
    "criterion": "criterion",
    "verdict": "verdict",
    "_words": "words",
    **dict.fromkeys(("shown_first", "left", "right", "sides"), "side"),
    "presentation": "showing",
    "length_a": "length",
    "length_b": "length",
}
"""What a reader calls the columns, in the order in which they are listed."""


class Role(NamedTuple):
    """A role of a column.

    Attributes:
        role: The role, or the own name of the column that has it.
        column: The column or columns that have it; empty if the table has none.
        why: The reason.
    """

    role: str
    column: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """The reading of one table or several.

    Attributes:
        roles: The roles, each with its column and the reason.
        unused: The columns that are not read.
        left_out: How many rows were left out, and why.
        notes: The same with line numbers, and other warnings.
    """

    roles: tuple[Role, ...] = ()
    unused: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __deepcopy__(self, memo: object) -> Reading:
        """Return itself: nothing changes it, and pandas copies a table's `attrs` at every step."""
        return self

    def rows(self) -> list[tuple[str, str, str]]:
        """Return a table of the roles with their columns and the reasons, and of the columns without one."""
        roles: dict[str, list[Role]] = {name: [] for name in _ROLES.values()}
        for role in self.roles:
            roles.setdefault(_ROLES.get(role.role, role.role), []).append(role)
        rows = []
        for name, same in roles.items():
            columns = ", ".join(dict.fromkeys(role.column for role in same if role.column))
            if same:
                rows.append((name, columns or "–", "; ".join(dict.fromkeys(role.why for role in same))))
        return [*rows, ("not used", ", ".join(self.unused), "they have no role")] if self.unused else rows

    def lines(self) -> tuple[str, ...]:
        """Return the table as lines of equal columns."""
        rows = [("role", "column", "why"), *self.rows()] if self.roles else []
        widths = [min(_WIDEST, max((len(row[index]) for row in rows), default=0)) for index in (0, 1)]
        return tuple(f"{name:<{widths[0]}}  {column:<{widths[1]}}  {why}" for name, column, why in rows)


def warn_of(frame: pd.DataFrame) -> None:
    """Warn about a reading that was uncertain, left out rows or did not use columns."""
    reading = reading_of(frame)
    is_certain = all(role.why in CERTAIN for role in reading.roles)
    if reading.notes or reading.unused or not is_certain:
        text = "\n  ".join(("What was read:", *reading.lines(), *reading.notes))
        warnings.warn(text, UserWarning, stacklevel=3)


def reading_of(frame: pd.DataFrame) -> Reading:
    """Return the reading of a table; an empty `Reading` if the table was tidy."""
    reading = frame.attrs.get(READING)
    return reading if isinstance(reading, Reading) else Reading()


def join_readings(readings: Iterable[Reading]) -> Reading:
    """Return several readings as one, each line once."""
    listed = list(readings)
    return Reading(
        roles=tuple(dict.fromkeys(role for reading in listed for role in reading.roles)),
        unused=tuple(dict.fromkeys(name for reading in listed for name in reading.unused)),
        left_out=tuple(text for reading in listed for text in reading.left_out),
        notes=tuple(dict.fromkeys(note for reading in listed for note in reading.notes)),
    )
