"""The paper's figures beside ours, in the layout of the paper's table, and where our setting is another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

from guard_eval.cli.replication.paper import (
    BERTSCORE,
    COHERENCE_MODEL,
    MEDIAN,
    MODELS,
    NEW_TOKENS,
    Entry,
    Figure,
)
from guard_eval.reporting.escaping import NOTHING
from guard_eval.study.settings import Settings
from guard_eval.texts.generations import HUMAN

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
"""How a figure of ours compares with the paper's: the paper's is within our interval, ours is above or below
it, a tick is the same or not, or why there is no answer."""

MARKS: dict[State, tuple[str, str]] = {
    "inside": ("=", "the paper's figure is within our interval"),
    "same": ("≡", "the same as printed"),
    "above": (">", "ours is higher, the paper's is outside our interval"),
    "below": ("<", "ours is lower, the paper's is outside our interval"),
    "differs": ("≠", "not the same"),
    "no interval": ("?", "no interval"),
}
"""The sign of a state, and what it means."""

_ROUNDING = 1e-9  # 47.5 may be printed as 47 or as 48

Key = tuple[str, str, str, str, str]
"""Of a figure: model ("" where the table is about one), dataset, strategy, versus, metric."""


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


@dataclass(frozen=True, kw_only=True)
class Departures:
    """What differs from the paper's setting: a difference then says nothing of the paper.

    Attributes:
        common: What holds for all figures.
        datasets: What holds for those of a dataset.
        models: What holds for those of a model.
    """

    common: tuple[str, ...] = ()
    datasets: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def hold_for(self, figure: Figure) -> bool:
        """Say whether a figure is of another setting than the paper's.

        The references' diversity is that of the prompts alone, whichever model continues them.
        """
        part = bool(self.datasets) if figure.dataset in {"", "All"} else figure.dataset in self.datasets
        if (figure.strategy, figure.metric) == (HUMAN, "diversity"):
            return part
        return bool(self.common or part or self.models.get(figure.model))

    @property
    def words(self) -> tuple[str, ...]:
        """Return all of them, each once."""
        of_models = (f"{model}: {', '.join(what)}" for model, what in self.models.items() if what)
        return tuple(dict.fromkeys((*self.common, *self.datasets.values(), *of_models)))

    def sentence(self, about: str) -> str:
        """Return the sentence that marks another setting; empty where it is the paper's."""
        if not self.words:
            return ""
        return f"OTHER SETTING: {'; '.join(self.words)}. A difference says nothing of {about}."


def departures(
    entry: Entry, settings: Settings, prompts: Mapping[str, int], *, model: str = ""
) -> Departures:
    """Return what a study does otherwise than the paper says it did.

    What the paper does not say (the prompts' length in tokens, the arithmetic, contrastive decoding's and
    adaptive decoding's settings, seeds) cannot depart from it.

    Args:
        entry: The table.
        settings: The study's.
        prompts: How many prompts of each dataset it has.
        model: Which of the paper's models it is compared with; the entry's first if not given.
    """
    wanted, used = MODELS[model or entry.models[0]].hub, settings.model.name
    found = []
    if used != wanted:
        shown = PurePath(used).name if used.startswith((".", "/")) else used
        instead = f"not {wanted}" if entry.named else f"where we take {wanted}, as the paper names none"
        found.append(f"model {shown}, {instead}")
    if (tokens := settings.generation.max_new_tokens) != NEW_TOKENS:
        found.append(f"at most {tokens} tokens a text, not {NEW_TOKENS}")
    if settings.generation.chat:
        found.append("prompts through a chat template")
    scorer = settings.metrics.coherence_model
    if "coherence" in settings.metrics.compute and scorer != COHERENCE_MODEL:
        found.append(f"coherence by {PurePath(scorer).name}, not {COHERENCE_MODEL}")
    if "" in entry.prompts and (count := sum(prompts.values())) != entry.prompts[""]:
        found.append(f"{count} prompts, not {entry.prompts['']}")
    other = {
        dataset: f"{prompts[dataset]} prompts of {dataset}, not {wanted}"
        for dataset, wanted in entry.prompts.items()
        if prompts.get(dataset, wanted) != wanted
    }
    if entry.kind == "verdicts":
        other |= {name: f"no prompts of {name}" for name in entry.prompts if name not in prompts}
    return Departures(common=tuple(found), datasets=other)


@dataclass(frozen=True, kw_only=True)
class ComparedCell:
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
        return MARKS[self.state][0] if self.state in MARKS else ""

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
    rows: tuple[tuple[str, tuple[ComparedCell | None, ...]], ...]

    @property
    def cells(self) -> list[ComparedCell]:
        """Return its cells, row by row."""
        return [cell for _, cells in self.rows for cell in cells if cell is not None]

    @property
    def title(self) -> str:
        """Return both headings."""
        return ", ".join(filter(None, (self.block, self.group)))

    @property
    def only_ours(self) -> bool:
        """Say whether the paper prints nothing of it: its dataset or model is not the paper's."""
        return not any(cell.figure.value for cell in self.cells)


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
    places: dict[tuple[str, str], dict[tuple[str, str], ComparedCell]] = {}
    for figure in (*figures, *_only_ours(figures, ours, several_models=several_models)):
        own = ours.get(key_of(figure, several_models=several_models))
        block, group, row, column = _place(figure)
        cell = ComparedCell(figure=figure, ours=own, state=state_of(figure, own, apart))
        places.setdefault((block, group), {})[row, column] = cell
    return tuple(
        _block(*place, cells)
        for place, cells in places.items()
        if any(cell.ours is not None for cell in cells.values())
    )


def key_of(figure: Figure, *, several_models: bool) -> Key:
    """Return what a figure is of."""
    model = figure.model if several_models else ""
    return (model, figure.dataset, figure.strategy, figure.versus, figure.metric)


def state_of(figure: Figure, ours: Ours | None, apart: Departures) -> State:  # noqa: PLR0911 (a list of cases)
    """Return how our figure compares with the paper's.

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


def _place(figure: Figure) -> tuple[str, str, str, str]:
    """Return the headings of block and group of a figure, its row and its column."""
    if figure.table == MEDIAN:
        return ("", figure.group, f"{figure.block}, {figure.row}", figure.column)
    if figure.table == BERTSCORE:
        return (figure.block, "", figure.row, figure.group)
    return (figure.block, figure.group, figure.row, figure.column)


def _block(block: str, group: str, cells: Mapping[tuple[str, str], ComparedCell]) -> Block:
    for axis in (0, 1):  # leave out rows and columns of nothing at all
        filled = {name[axis] for name, cell in cells.items() if cell.figure.value or cell.ours is not None}
        cells = {name: cell for name, cell in cells.items() if name[axis] in filled}
    rows, columns = (tuple(dict.fromkeys(name[axis] for name in cells)) for axis in (0, 1))
    return Block(
        block=block,
        group=group,
        columns=columns,
        rows=tuple((row, tuple(cells.get((row, column)) for column in columns)) for row in rows),
    )


def _only_ours(figures: Sequence[Figure], ours: Mapping[Key, Ours], *, several_models: bool) -> list[Figure]:
    """Return places for models and datasets of ours that the paper does not have: with nothing printed."""
    models = {figure.model for figure in figures} if several_models else {""}
    datasets = dict.fromkeys(figure.dataset for figure in figures)
    if not datasets.keys() - {"", "All"}:
        return []  # a table without datasets
    made: list[Figure] = []
    for model, dataset in dict.fromkeys((key[0], key[1]) for key in ours):
        if model not in models or dataset not in datasets:
            pattern = dataset if dataset in datasets else next(iter(datasets))
            made += [
                _moved(figure, dataset, model)
                for figure in figures
                if figure.dataset == pattern and (figure.model == figures[0].model or not several_models)
            ]
    return made


def _moved(figure: Figure, dataset: str, model: str) -> Figure:
    """Return a place of the table for another dataset, and model if one is given, with nothing printed."""
    names = {
        name: dataset
        for name in ("block", "row", "group")
        if figure.dataset and getattr(figure, name).startswith(figure.dataset)
    }
    if figure.table == MEDIAN:
        names = {"group": dataset}
    if model:
        names |= {"row": model, "model": model}
    return replace(figure, **names, dataset=dataset, value="", mark="", unit="")


def legend(blocks: Sequence[Block]) -> str:
    """Return what the marks mean that occur, and how many of the paper's figures lie in our intervals."""
    cells = [cell for block in blocks for cell in block.cells]
    tested = [cell for cell in cells if cell.state in {"inside", "above", "below"}]
    within = sum(cell.state == "inside" for cell in tested)
    count = (
        f"{within} of {len(tested)} of the paper's figures lie within our intervals, "
        f"and {sum(cell.equal for cell in tested)} are the same to the last digit"
        if tested
        else ""
    )
    used = dict.fromkeys(" ".join(MARKS[cell.state]) for cell in cells if cell.state in MARKS)
    return ". ".join(filter(None, (count, "; ".join(used))))
