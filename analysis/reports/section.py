"""A part of the report: what it says, shows and exports, whatever the format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from guard_eval.reporting.drawing import Drawing
from guard_eval.reporting.tables import Table


@dataclass(frozen=True, kw_only=True)
class Section:
    """One subject of the report.

    Attributes:
        anchor: Its place in the page: a word, unique in a report.
        title: Its heading, also in the list of contents.
        paragraphs: The text before tables and figures, plain.
        parts: Tables and figures, in the order shown.
        folded: Whether a page shows it only when it is opened: what most readers do not need.
        exports: Tables for csv/ by file name without ending, unrounded.
    """

    anchor: str
    title: str
    paragraphs: tuple[str, ...] = ()
    parts: tuple[Table | Drawing, ...] = ()
    folded: bool = False
    exports: Mapping[str, Table] = field(default_factory=dict)

    @property
    def drawings(self) -> tuple[Drawing, ...]:
        """Return the figures among the parts."""
        return tuple(part for part in self.parts if isinstance(part, Drawing))
