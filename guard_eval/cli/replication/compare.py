"""The paper's figures beside ours, in the layout of the paper's table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from guard_eval.cli.replication.figures import Figure
from guard_eval.cli.replication.settings_apart import Departures
from guard_eval.reporting.escaping import NOTHING

State = Literal[
    "inside",
    "above",
    "below",
    "same",
    "differs",
    "no interval",
    "other setting",
    "not in the paper",
    "not run",
]
"""How a figure of ours stands to the paper's: the paper's lies within our interval, ours lies above or below
it, a tick is the same or not, or why nothing can be said."""

MARKS: dict[State, str] = {
    "inside": "=",
    "same": "≡",
    "above": ">",
    "below": "<",
    "differs": "≠",
    "no interval": "?",
}
MEANINGS: dict[str, str] = {
    "=": "the paper's figure lies within our interval",
    ">": "ours is higher, the paper's lies outside our interval",
    "<": "ours is lower, the paper's lies outside our interval",
    "≡": "the same as printed",
    "≠": "not the same",
    "?": "no interval",
}


@dataclass(frozen=True, kw_only=True)
class Ours:
    """A figure of ours, in the paper's unit; a tick is 1 and a cross 0.

    Attributes:
        value: The figure.
        low: Lower limit of its interval; None where there is none.
        high: Upper limit.
        n: Of how many texts, pairs or verdicts.
        recomputed: Whether it is of the paper's own counts, and must therefore be the paper's.
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    recomputed: bool = False


_ROUNDING = 1e-9  # 47.5 may be printed as 47 or as 48

Key = tuple[str, str, str, str, str]
"""Of a figure: model ("" where the table is about one), dataset, strategy, versus, metric."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A place of the table: what the paper prints there, and what we found."""

    figure: Figure
    ours: Ours | None
    state: State

    @property
    def paper(self) -> str:
        """Return what the paper prints."""
        return self.figure.value or NOTHING

    @property
    def shown(self) -> str:
        """Return our figure with as many decimals as the paper's."""
        return NOTHING if self.ours is None else self._rounded(self.ours.value)

    @property
    def interval(self) -> str:
        """Return our interval in brackets; nothing where there is none."""
        if self.ours is None or self.ours.low is None or self.ours.high is None:
            return ""
        return f"[{self._rounded(self.ours.low)}, {self._rounded(self.ours.high)}]"

    @property
    def equal(self) -> bool:
        """Say whether ours is the paper's to the last digit printed."""
        return self.ours is not None and self.figure.value == self.shown

    @property
    def mark(self) -> str:
        """Return the sign of the state, or nothing."""
        return MARKS.get(self.state, "")

    def _rounded(self, value: float) -> str:
        if self.figure.metric.endswith(".agree"):
            return "yes" if value else "no"
        shown = f"{value:.{max(self.figure.decimals, 1 if '.' in self.figure.metric else 2)}f}"
        return shown.lstrip("-") if float(shown) == 0 else shown


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of the table with columns of one kind.

    Attributes:
        block: The heading of its rows, or "".
        group: The heading over its columns, or "".
        columns: Their headings.
        rows: Names of rows with a cell, or none, for each column.
    """

    block: str
    group: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell | None, ...]], ...]

    @property
    def title(self) -> str:
        """Return both headings."""
        return ", ".join(filter(None, (self.block, self.group)))

    @property
    def only_ours(self) -> bool:
        """Say whether the paper prints nothing of it: its dataset or model is not the paper's."""
        return not any(cell.figure.value for _, cells in self.rows for cell in cells if cell is not None)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A whole table.

    Attributes:
        label: The table's label in the paper's TeX.
        title: What it is about.
        blocks: Its parts in the paper's order.
        departures: Where our setting is not the paper's, in words.
        remarks: What else a reader must know.
    """

    label: str
    title: str
    blocks: tuple[Block, ...]
    departures: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def cells(self) -> list[Cell]:
        """Return all cells."""
        return [
            cell for block in self.blocks for _, cells in block.rows for cell in cells if cell is not None
        ]


def compare(
    figures: Sequence[Figure], ours: Mapping[Key, Ours], apart: Departures, *, several_models: bool = False
) -> tuple[Block, ...]:
    """Return the blocks of a table: those of the paper of which we have something, then what only we have.

    Args:
        figures: The paper's.
        ours: Ours.
        apart: Where the setting differs.
        several_models: Whether the table is about several models.
    """
    wanted = [*figures, *_only_ours(figures, ours, several_models=several_models)]
    cells = [
        _cell(figure, ours.get(key_of(figure, several_models=several_models)), apart) for figure in wanted
    ]
    places: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        places.setdefault(_place(cell.figure), []).append(cell)
    return tuple(
        _block(*place, mine) for place, mine in places.items() if any(cell.ours is not None for cell in mine)
    )


def key_of(figure: Figure, *, several_models: bool) -> Key:
    """Return what a figure is of."""
    model = figure.model if several_models else ""
    return (model, figure.dataset, figure.strategy, figure.versus, figure.metric)


def state_of(figure: Figure, ours: Ours | None, apart: Departures) -> State:  # noqa: PLR0911 (a list of cases)
    """Return how our figure stands to the paper's.

    The paper's is rounded: it counts as inside where any number that rounds to it does.
    """
    if ours is None:
        return "not run"
    if not figure.value:
        return "not in the paper"
    if apart.hold_for(figure):
        return "other setting"
    if figure.metric.endswith(".agree"):
        return "same" if (figure.value == "yes") == bool(ours.value) else "differs"
    if ours.low is None or ours.high is None:
        near = abs(ours.value - figure.number) <= figure.half_unit * (1 + _ROUNDING)
        return "same" if near else "differs" if ours.recomputed else "no interval"
    if ours.low > figure.number + figure.half_unit:
        return "above"
    return "below" if ours.high < figure.number - figure.half_unit else "inside"


def _cell(figure: Figure, ours: Ours | None, apart: Departures) -> Cell:
    return Cell(figure=figure, ours=ours, state=state_of(figure, ours, apart))


def _place(figure: Figure) -> tuple[str, str]:
    """Return block and group, under which a figure stands."""
    if figure.table == "tab:median_selection":
        return ("", figure.group)
    if figure.table == "tab:model_size_bertscore_results":
        return (figure.block, "")
    return (figure.block, figure.group)


def _names(figure: Figure) -> tuple[str, str]:
    """Return the names of row and column within the block."""
    if figure.table == "tab:median_selection":
        return (f"{figure.block}, {figure.row}", figure.column)
    if figure.table == "tab:model_size_bertscore_results":
        return (figure.row, figure.group)
    return (figure.row, figure.column)


def _block(block: str, group: str, cells: Iterable[Cell]) -> Block:
    by_name = {_names(cell.figure): cell for cell in cells}
    for axis in (0, 1):  # rows and columns of nothing at all
        filled = {name[axis] for name, cell in by_name.items() if cell.figure.value or cell.ours is not None}
        by_name = {name: cell for name, cell in by_name.items() if name[axis] in filled}
    rows, columns = (tuple(dict.fromkeys(name[i] for name in by_name)) for i in (0, 1))
    return Block(
        block=block,
        group=group,
        columns=columns,
        rows=tuple((row, tuple(by_name.get((row, column)) for column in columns)) for row in rows),
    )


def _only_ours(figures: Sequence[Figure], ours: Mapping[Key, Ours], *, several_models: bool) -> list[Figure]:
    """Return places for models and datasets of ours that the paper does not have: with nothing printed."""
    models = [figure.model for figure in figures] if several_models else [""]
    datasets = dict.fromkeys(figure.dataset for figure in figures)
    if not datasets.keys() - {"", "All"}:
        return []  # a table that does not tell datasets apart
    made: list[Figure] = []
    for model, dataset in dict.fromkeys((key[0], key[1]) for key in ours):
        if (model in models) and (dataset in datasets):
            continue
        first_model, first = figures[0].model, dataset if dataset in datasets else next(iter(datasets))
        pattern = [
            figure
            for figure in figures
            if figure.dataset == first and (figure.model == first_model or not several_models)
        ]
        made += [_moved(figure, dataset, model if several_models else "") for figure in pattern]
    return made


def _moved(figure: Figure, dataset: str, model: str) -> Figure:
    """Return a place of the table for another dataset, and model if one is given, with nothing printed."""
    names = {
        name: dataset
        for name in ("block", "row", "group")
        if figure.dataset and getattr(figure, name).startswith(figure.dataset)
    }
    if figure.table == "tab:median_selection":
        names = {"group": dataset}
    if model:
        names |= {"row": model, "model": model}
    return replace(figure, **names, dataset=dataset, value="", mark="", unit="")
