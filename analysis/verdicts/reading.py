"""Describe how a table was read: the role of each column, the unused columns, and the rows left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import NamedTuple

import pandas as pd

from guard_eval.records import record

READING = "reading"
"""The key of the `Reading` in a table's `attrs`."""

_WIDEST = 40
"""The printed columns are padded with spaces up to this number of characters."""
WIDE = "a wide table: its headings"
"""The reason for the role of the headings of a wide table."""
UNKNOWN_RATERS = "unknown; write --set rater_kind=person if all are people, or --set rater_kind=model"
CERTAIN = ("its name", "declared", "the format", UNKNOWN_RATERS)
"""The reasons that make a column's role certain. Any other reason is a guess, and the user is warned."""


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
"""The printed name of each role, in the order in which the roles are printed."""


class Role(NamedTuple):
    """The role of a column, such as the pair, the rater or the verdict.

    Attributes:
        role: The role, or the standard name of the column.
        column: The heading of the column or columns with this role; empty if the table has none.
        why: The reason why the column has this role.
    """

    role: str
    column: str
    why: str


@record
class Reading:
    """The description of how one table or several tables were read.

    Attributes:
        roles: The roles, each with its column and the reason.
        unused: The columns that are not read.
        left_out: The number of rows that were left out, with the reasons.
        notes: The left-out rows with line numbers, and other warnings.
    """

    roles: tuple[Role, ...] = ()
    unused: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __deepcopy__(self, memo: object) -> Reading:
        """Return the object itself. It never changes, and pandas copies a table's `attrs` at every step."""
        return self

    def find_column(self, role: str) -> str:
        """Return the heading of the first column with a role; empty if there is none."""
        return next((used.column for used in self.roles if used.role == role), "")

    def list_roles(self) -> list[tuple[str, str, str]]:
        """Return a row for each role: its name, columns and reasons. The last row lists unused columns."""
        roles: dict[str, list[Role]] = {name: [] for name in _ROLES.values()}
        for role in self.roles:
            roles.setdefault(_ROLES.get(role.role, role.role), []).append(role)
        rows = []
        for name, same in roles.items():
            columns = ", ".join(dict.fromkeys(role.column for role in same if role.column))
            if same:
                rows.append((name, columns or "–", "; ".join(dict.fromkeys(role.why for role in same))))
        return [*rows, ("not used", ", ".join(self.unused), "they have no role")] if self.unused else rows

    def format_lines(self) -> tuple[str, ...]:
        """Return the table as lines of text, with aligned columns."""
        rows = [("role", "column", "why"), *self.list_roles()] if self.roles else []
        widths = [min(_WIDEST, max((len(row[index]) for row in rows), default=0)) for index in (0, 1)]
        return tuple(f"{name:<{widths[0]}}  {column:<{widths[1]}}  {why}" for name, column, why in rows)


def warn_about_reading(frame: pd.DataFrame) -> None:
    """Warn if the reading of a table was uncertain, rows were left out, or columns were not used."""
    reading = get_reading(frame)
    is_certain = all(role.why in CERTAIN for role in reading.roles)
    if reading.notes or reading.unused or not is_certain:
        text = "\n  ".join(("What was read:", *reading.format_lines(), *reading.notes))
        warnings.warn(text, UserWarning, stacklevel=3)


def get_reading(frame: pd.DataFrame) -> Reading:
    """Return how a table was read. A table that was already tidy has an empty `Reading`."""
    reading = frame.attrs.get(READING)
    return reading if isinstance(reading, Reading) else Reading()


def add_reading_notes(frame: pd.DataFrame, *notes: str) -> None:
    """Add notes to the reading of a table, which must not share its `attrs` with another table."""
    frame.attrs[READING] = join_readings([get_reading(frame), Reading(notes=notes)])


def join_readings(readings: Iterable[Reading]) -> Reading:
    """Join several readings, and keep each line only once."""
    listed = list(readings)
    return Reading(
        roles=tuple(dict.fromkeys(role for reading in listed for role in reading.roles)),
        unused=tuple(dict.fromkeys(name for reading in listed for name in reading.unused)),
        left_out=tuple(text for reading in listed for text in reading.left_out),
        notes=tuple(dict.fromkeys(note for reading in listed for note in reading.notes)),
    )
