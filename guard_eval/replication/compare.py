"""Our figures beside the paper's, in the layout of the paper's table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from guard_eval.estimate import Estimate
from guard_eval.replication.paper import Figure
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Table
from guard_eval.texts.generations import HUMAN

State = Literal[
    "inside", "above", "below", "same", "differs", "no interval", "other setting", "not run"
]  # fmt: skip
"""How our figure compares with the paper's."""

MARKS: dict[State, tuple[str, str]] = {
    "inside": ("=", "the paper's figure is within our interval"),
    "same": ("≡", "the same as printed"),
    "above": (">", "ours is higher, the paper's is outside our interval"),
    "below": ("<", "ours is lower, the paper's is outside our interval"),
    "differs": ("≠", "not the same"),
    "no interval": ("?", "no interval"),
}
"""The sign of a state, and its meaning."""

COUNTED = "the paper's own counts"
"""The method of an estimate that must be the paper's figure, because it is computed from the same counts."""

_ROUNDING = 1e-9  # 47.5 may be printed as 47 or as 48

Key = tuple[str, str, str, str, str]
"""Of a figure: model ("" if the table is about one), dataset, strategy, versus, metric."""


@dataclass(frozen=True, kw_only=True)
class SettingDifference:
    """A difference from the paper's setting.

    Attributes:
        words: The difference.
        model: The model whose figures it concerns; "" for all.
        dataset: The dataset whose figures it concerns; "" for all.
    """

    words: str
    model: str = ""
    dataset: str = ""

    def concerns(self, figure: Figure) -> bool:
        """Return whether a figure has another setting than the paper's.

        The references' diversity is that of the prompts alone, whichever model continues them.
        """
        if (figure.strategy, figure.metric) == (HUMAN, "diversity") and not self.dataset:
            return False
        return self.model in {"", figure.model} and (
            not self.dataset or figure.dataset in {"", "All", self.dataset}
        )


def setting_sentence(differences: Sequence[SettingDifference], about: str = "the paper") -> str:
    """Return the sentence that marks another setting; empty if it is the paper's."""
    words = dict.fromkeys(f"{each.model and f'{each.model}: '}{each.words}" for each in differences)
    if not words:
        return ""
    return f"OTHER SETTING: {'; '.join(words)}. A difference says nothing of {about}."


@dataclass(frozen=True, kw_only=True)
class ComparedFigure:
    """A figure of the paper with ours.

    Attributes:
        figure: The paper's.
        ours: Ours in the same unit, a tick as 1 and a cross as 0; None if there is none.
        state: How ours compares.
    """

    figure: Figure
    ours: Estimate | None
    state: State

    @property
    def shown(self) -> str:
        """Return our figure with as many decimals as the paper's."""
        return self._rounded(None if self.ours is None else self.ours.value)

    @property
    def is_equal(self) -> bool:
        """Return whether ours is the paper's to the last digit printed."""
        return self.figure.value == self.shown

    @property
    def cell(self) -> str:
        """Return our figure with its mark and its interval."""
        mark = MARKS[self.state][0] if self.state in MARKS else ""
        limits = ""
        if self.ours is not None and self.ours.low is not None:
            limits = f"[{self._rounded(self.ours.low)}, {self._rounded(self.ours.high)}]"
        return " ".join(filter(None, (self.shown, mark, limits)))

    def _rounded(self, value: float | None) -> str:
        if value is None:
            return NOTHING
        if self.figure.metric.endswith(".agree"):
            return "yes" if value else "no"
        shown = f"{value:.{max(self.figure.decimals, 1 if '.' in self.figure.metric else 2)}f}"
        return shown.lstrip("-") if float(shown) == 0 else shown


def compare(
    figures: Sequence[Figure],
    ours: Mapping[Key, Estimate],
    differences: Sequence[SettingDifference] = (),
    *,
    several_models: bool = False,
) -> tuple[ComparedFigure, ...]:
    """Return each figure of the paper with ours.

    Args:
        figures: The paper's.
        ours: Ours.
        differences: Where the setting differs.
        several_models: Whether the table is about several models.
    """
    compared = []
    for figure in figures:
        estimate = ours.get(key_of(figure, several_models=several_models))
        concerned = any(difference.concerns(figure) for difference in differences)
        state = state_of(figure, estimate, other_setting=concerned)
        compared.append(ComparedFigure(figure=figure, ours=estimate, state=state))
    return tuple(compared)


def key_of(figure: Figure, *, several_models: bool = False) -> Key:
    """Return what a figure is of."""
    model = figure.model if several_models else ""
    return (model, figure.dataset, figure.strategy, figure.versus, figure.metric)


def state_of(figure: Figure, ours: Estimate | None, *, other_setting: bool = False) -> State:
    """Return how our figure compares with the paper's.

    The paper's is rounded: it counts as inside if any number that rounds to it does.
    """
    if ours is None or ours.value is None:
        return "not run"
    if other_setting:
        return "other setting"
    if figure.metric.endswith(".agree"):
        return "same" if (figure.value == "yes") == bool(ours.value) else "differs"
    if ours.low is None or ours.high is None:
        near = abs(ours.value - figure.number) <= figure.half_unit * (1 + _ROUNDING)
        return "same" if near else "differs" if ours.method == COUNTED else "no interval"
    if ours.low > figure.number + figure.half_unit:
        return "above"
    return "below" if ours.high < figure.number - figure.half_unit else "inside"


def tables_of(compared: Sequence[ComparedFigure]) -> tuple[Table, ...]:
    """Return a table for each group of the paper's columns: what the paper prints, and ours beside it.

    If all groups have the same single column, the groups are the columns of one table. Rows and columns
    without a figure of ours are left out.
    """
    single = len({each.figure.column for each in compared}) == 1
    cells: dict[str, dict[tuple[str, str], ComparedFigure]] = {}
    for each in compared:
        figure = each.figure
        row = ", ".join(filter(None, (figure.block, figure.row)))
        group, column = ("", figure.group or figure.column) if single else (figure.group, figure.column)
        if each.ours is not None:
            cells.setdefault(group, {})[row, column] = each
    return tuple(_table(group, by_position) for group, by_position in cells.items())


def _table(group: str, cells: Mapping[tuple[str, str], ComparedFigure]) -> Table:
    rows, columns = (tuple(dict.fromkeys(position[axis] for position in cells)) for axis in (0, 1))
    return Table(
        columns=("", *(head for column in columns for head in (f"{column}, paper", "ours"))),
        rows=tuple((row, *_row(cells, row, columns)) for row in rows),
        caption=group or "Paper and ours",
    )


def _row(
    cells: Mapping[tuple[str, str], ComparedFigure], row: str, columns: Sequence[str]
) -> tuple[str, ...]:
    """Return the paper's figure and ours for each column."""
    return tuple(
        text
        for column in columns
        for each in [cells.get((row, column))]
        for text in ((NOTHING, NOTHING) if each is None else (each.figure.value, each.cell))
    )


def legend(compared: Sequence[ComparedFigure]) -> str:
    """Return what the marks mean that occur, and how many of the paper's figures our intervals hold."""
    tested = [each for each in compared if each.state in {"inside", "above", "below"}]
    inside = sum(each.state == "inside" for each in tested)
    count = (
        f"{inside} of {len(tested)} of the paper's figures lie within our intervals, "
        f"and {sum(each.is_equal for each in tested)} are the same to the last digit"
        if tested
        else ""
    )
    marks = dict.fromkeys(" ".join(MARKS[each.state]) for each in compared if each.state in MARKS)
    return ". ".join(filter(None, (count, "; ".join(marks))))
