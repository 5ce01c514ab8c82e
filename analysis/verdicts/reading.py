"""What was read from a table: which column is what and why, which are not used, and what was left out."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

READING = "reading"
"""The key of a table's `attrs` under which its `Reading` is."""

CERTAIN = ("its name", "declared")
"""The reasons of roles that nobody has to be told of."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Role:
    """A role of a column.

    Attributes:
        role: The role: pair, prompt, dataset, methods, rater, criterion, verdict, sides.
        column: The column or columns that have it; empty if the table has none.
        why: The reason.
    """

    role: str
    column: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What was read from one table or several.

    Attributes:
        roles: The roles, each with its column and the reason.
        unused: The columns that are not read.
        left_out: How many rows were left out, and why.
        notes: The same with their lines, and what else a reader must know.
    """

    roles: tuple[Role, ...] = ()
    unused: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self) -> tuple[str, ...]:
        """Return the reading as lines, a role each."""
        width = max((len(role.role) for role in self.roles), default=0)
        lines = [f"{role.role:<{width}}  {role.column or '–'}  ({role.why})" for role in self.roles]
        if self.unused:
            lines.append(f"{'not used':<{width}}  {', '.join(self.unused)}")
        return tuple(lines)


def warn_of(frame: pd.DataFrame) -> None:
    """Warn in Python of a reading that was not certain, or that left something out."""
    reading = reading_of(frame)
    if reading.notes or any(role.why not in CERTAIN for role in reading.roles):
        text = "\n  ".join(("What was read:", *reading.lines(), *reading.notes))
        warnings.warn(text, UserWarning, stacklevel=3)


def reading_of(frame: pd.DataFrame) -> Reading:
    """Return what was read from a table; an empty `Reading` for one that needed none."""
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
