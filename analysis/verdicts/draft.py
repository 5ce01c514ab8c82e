"""A table on its way to tidy verdicts: its columns, and what was read of it so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.verdicts.columns import Columns
from analysis.verdicts.layout import KNOWN, name_lines
from analysis.verdicts.reading import Reading, Role
from guard_eval.errors import StudyError
from guard_eval.records import RaterKind

SHOWN = ("left", "right")
"""Columns of the methods by the side on which a rater saw them."""
METHODS = ("method_a", "method_b")
UNKNOWN_RATER = "unknown rater"
ItemCells = Mapping[str, Mapping[str, str]]
"""What a file says of items, by their ids."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What the user says of tables.

    Attributes:
        columns: The headings by the column that they are; an empty one says that there is none.
        words: What the words of verdicts mean: `a`, `b`, `tie`, a method, or empty for a missing verdict.
        form: The format of the files; by default that of their first records.
        rater_kind: Who judged, where the table does not say; by default it is unknown.
        groups: Columns that name groups of pairs, and so neither pairs nor prompts.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    form: str | None = None
    rater_kind: RaterKind | None = None
    groups: Sequence[str] = ()


@dataclass
class Draft:
    """A table that is being read.

    Attributes:
        columns: Its columns.
        declared: What the user says of it.
        items: What another file says of items, by their ids: the methods, and more.
        roles: The roles that were found.
        notes: What a reader must be told.
        unused: Columns with no role that are gone by now.
        left_out: How many rows were left out, and why.
    """

    columns: Columns
    declared: Declared
    items: ItemCells
    roles: list[Role] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def frame(self) -> pd.DataFrame:
        """Return the table, with numbered rows."""
        return self.columns.frame

    def replace(self, frame: pd.DataFrame) -> None:
        """Go on with another table."""
        self.columns = Columns(frame)

    def has(self, *names: str) -> bool:
        """Return whether the table has all of some columns."""
        return set(names) <= set(self.columns.names)

    def free(self) -> list[str]:
        """Return the columns that have no role."""
        return [name for name in self.columns.names if name not in KNOWN and name not in SHOWN]

    def record(self, role: str, column: str, why: str) -> None:
        """Write down what has a role."""
        self.roles.append(Role(role=role, column=column, why=why))

    def rename(self, heading: str, name: str, why: str = "its name") -> None:
        """Give a column the name of its role."""
        self.record(name, heading, why)
        if heading != name:
            self.replace(self.frame.rename(columns={heading: name}))

    def leave_out(self, is_left_out: NDArray[np.bool_], why: str) -> None:
        """Leave out rows, and count them."""
        if is_left_out.any():
            lines = name_lines(is_left_out, self.frame.index)
            text = f"{int(is_left_out.sum())} left out: {why}"
            self.left_out.append(text)
            self.notes.append(f"{text} ({lines})")
            self.replace(self.frame[~is_left_out])
        if self.frame.empty:
            raise StudyError(
                f"the table holds no verdicts; {'; '.join(self.notes) or 'it has a header and no rows'}"
            )

    def reading(self) -> Reading:
        """Return what was read."""
        free = self.free()
        groups = [name for name in self.declared.groups if name in free]
        by = [Role(role="by", column=name, why="declared") for name in groups]
        return Reading(
            roles=(*self.roles, *by),
            unused=(*self.unused, *(name for name in free if name not in groups)),
            left_out=tuple(self.left_out),
            notes=tuple(dict.fromkeys(self.notes)),
        )
