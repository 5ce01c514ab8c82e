"""Audits of a tidy table of verdicts: what a reader of its results must know. Nothing is dropped.

Comparisons are never pooled, and neither are people, models and simulated raters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from analysis.analyses.evidence import Evidence, frame_of
from analysis.verdicts.scores import side_of_a
from guard_eval.estimate import sign_flip
from guard_eval.records import TIE
from guard_eval.reporting.words import KIND_PLACE, RATERS, and_list, equals, number, percent, plural, title

REDUNDANT = "redundant criteria"
UNBALANCED = "unbalanced sides"
"""The kind of finding that bears on how many results there are."""
REDUNDANT_KAPPA = 0.8
"""Two criteria count as one from this κ on ("almost perfect", Landis and Koch 1977)."""
SIDE_ALPHA = 0.01
"""Sides as uneven as chance makes them this seldom, where it decides by pair, are reported."""
UNEVEN = 0.6
"""From this share of showings on sides decide enough of a result to be named in the report's answer."""
ONE_SIDED = 0.9
"""From this share of a rater's non-tied verdicts for one place or method on, the rater is reported."""
UNSEEN = 0.1
"""Above this share of showings rated before the end of every text was on the screen, there is a warning."""
TEXTS_SHOWN = 3
"""Prompt, A and B."""
FEWEST = 10
"""Below this number of showings, or of non-tied verdicts, there is no finding on raters or criteria."""

_MISSING = -9
_ROUNDING = 1e-12
"""A κ that is the threshold but for rounding is the threshold."""
_SHEET = ["cell", "rater", "pair", "showing"]

Severity = Literal["note", "warning"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing an audit found.

    Attributes:
        kind: What it is, such as `redundant criteria`.
        where: The rater or criterion, the comparison and the kind of raters it concerns.
        what: The finding with its figures, in words.
        severity: A `warning` bears on how the results may be read; a `note` does not.
    """

    kind: str
    where: str
    what: str
    severity: Severity


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class CodedVerdicts:
    """The verdicts as numbers, and what the numbers stand for.

    `rows` has cell, pair, rater, criterion and showing as codes; `side` is 1 for the cell's first method,
    −1 for its second and 0 for a tie; `first` is the side shown first, or 0 where unknown;
    `ends_seen` is the table's, or NaN.
    """

    rows: pd.DataFrame
    cells: tuple[tuple[str, str, str], ...]
    raters: Sequence[str]
    criteria: Sequence[str]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> CodedVerdicts:
        """Return a validated table, which has each comparison one way round, as numbers."""
        by_cell = frame.groupby(["method_a", "method_b", "rater_kind"], sort=True)
        known: list[tuple[str, str, str]] = list(by_cell.groups)  # type: ignore[arg-type]
        cells = sorted(known, key=lambda cell: (KIND_PLACE[cell[2]], cell))
        numbers = np.array([cells.index(cell) for cell in known], dtype=np.int64)
        rows = pd.DataFrame({"cell": numbers[by_cell.ngroup().to_numpy()]})
        names = {}
        for name in ("pair_id", "rater", "criterion"):
            rows[name.removesuffix("_id")], values = pd.factorize(frame[name], sort=True)
            names[name] = list(values)
        rows["side"] = side_of_a(frame, "verdict")
        rows["first"] = side_of_a(frame, "shown_first") if "shown_first" in frame else 0
        rows["showing"] = pd.factorize(frame["presentation"])[0] if "presentation" in frame else rows["first"]
        rows["ends_seen"] = frame["ends_seen"].to_numpy() if "ends_seen" in frame else np.nan
        return cls(rows=rows, cells=tuple(cells), raters=names["rater"], criteria=names["criterion"])

    def where(self, cell: int, about: str = "") -> str:
        """Return a comparison and who judged it, in words."""
        a, b, kind = self.cells[cell]
        return f"{about}{', ' if about else ''}{a} against {b}, {RATERS.get(kind, kind)}"

    def answer(self, cell: int, side: int) -> str:
        """Return the verdict that a side means."""
        return TIE if side == 0 else self.cells[cell][0 if side == 1 else 1]


def audits(evidence: Evidence) -> pd.DataFrame:
    """Return the findings of all audits, warnings first: kind, where, what, severity."""
    table = CodedVerdicts.of(evidence.frame)
    findings = [
        *redundant_criteria(table),
        *unbalanced_sides(table),
        *unvarying_raters(table),
        *unseen_ends(table),
    ]
    findings.sort(key=lambda finding: finding.severity != "warning")
    return frame_of([asdict(finding) for finding in findings], ("kind", "where", "what", "severity"))


def redundant_criteria(table: CodedVerdicts) -> Iterator[Finding]:
    """Yield the groups of criteria that agree on a showing: a pair of texts as one rater once saw it.

    Criteria are linked if Cohen's κ (Cohen 1960) between them is at least `REDUNDANT_KAPPA`. A group is what
    such links connect. If κ is undefined there is no link.
    """
    sheets = table.rows.groupby(_SHEET, sort=True)
    number_of = sheets.ngroup().to_numpy()
    verdicts = np.full((sheets.ngroups, len(table.criteria)), _MISSING, dtype=np.int8)
    verdicts[number_of, table.rows["criterion"]] = table.rows["side"]
    cell = np.zeros(sheets.ngroups, dtype=np.int64)
    cell[number_of] = table.rows["cell"]
    for index in range(len(table.cells)):
        subset = verdicts[cell == index]
        kappas = {
            (left, right): kappa
            for left, right in combinations(range(len(table.criteria)), 2)
            if (kappa := _kappa(_cross_table(subset[:, left], subset[:, right]))) is not None
        }
        alike = np.zeros((len(table.criteria), len(table.criteria)), dtype=bool)
        for pair, kappa in kappas.items():
            alike[pair] = kappa >= REDUNDANT_KAPPA - _ROUNDING
        groups, group_of = connected_components(alike, directed=False)
        for group in (np.flatnonzero(group_of == label).tolist() for label in range(groups)):
            if len(group) < 2:
                continue
            whole = subset[:, group][(subset[:, group] != _MISSING).all(axis=1)]
            same = int((whole == whole[:, :1]).all(axis=1).sum())
            least = min(kappas[pair] for pair in combinations(group, 2) if pair in kappas)
            names = and_list([title(table.criteria[code]) for code in group])
            what = (
                f"{names} carry the same verdict on {same} of {plural(len(whole), 'showing')}, any two with "
                f"κ\u00a0≥\u00a0{number(least)}: they hardly count as separate evidence"
            )
            yield Finding(kind=REDUNDANT, where=table.where(index), what=what, severity="warning")


def _kappa(counts: NDArray[np.int64]) -> float | None:
    """Return Cohen's κ of two criteria's verdicts, [3, 3]; None if it is undefined or n is small."""
    n = int(counts.sum())
    if n < FEWEST or counts.diagonal().max() == n:
        return None
    chance = float(counts.sum(axis=0) @ counts.sum(axis=1)) / n**2
    return (int(counts.trace()) / n - chance) / (1 - chance)


def _cross_table(left: NDArray[np.int8], right: NDArray[np.int8]) -> NDArray[np.int64]:
    """Return how often two criteria have each pair of verdicts, [3, 3]."""
    both = (left != _MISSING) & (right != _MISSING)
    pairs = 3 * (left[both].astype(np.int64) + 1) + right[both] + 1
    return np.bincount(pairs, minlength=9).reshape(3, 3)


def unbalanced_sides(table: CodedVerdicts) -> Iterator[Finding]:
    """Yield the comparisons where one method was shown first more often than chance would have it.

    Sides are decided by pair in most designs (one side for all raters, or slots that balance each other), so
    that a pair's showings are no separate throws. The test is the sign-flip test of each pair's showings with
    one method first less those with the other: it holds where a pair's sides are as likely as their mirror
    image, whatever the showings of the pair have to do with each other. A showing counts once, however many
    criteria it has. A table that does not say what was shown first has no findings.
    """
    known = table.rows[table.rows["first"] != 0].drop_duplicates(_SHEET)
    for index in range(len(table.cells)):
        showings = known["first"][known["cell"] == index]
        nets = showings.groupby(known["pair"]).sum().to_numpy()
        test = sign_flip(nets)
        if test.p is None or test.p > SIDE_ALPHA:
            continue
        n, side = len(showings), 1 if nets.sum() > 0 else -1
        times = (n + abs(int(nets.sum()))) // 2
        what = (
            f"{table.answer(index, side)} was shown first in {times} of {plural(n, 'showing')} "
            f"({percent(times / n)}; sign-flip test by pair, {equals(test.p)}): "
            "preferences for place and method mix"
        )
        severity: Severity = "warning" if times / n > UNEVEN else "note"
        yield Finding(kind=UNBALANCED, where=table.where(index), what=what, severity=severity)


def unvarying_raters(table: CodedVerdicts) -> Iterator[Finding]:
    """Yield the raters whose verdicts hardly depend on what they read, of those with `FEWEST` showings.

    The kinds are: one verdict on everything; one verdict for all criteria of a showing, on every showing
    (straight-lining); and, from `ONE_SIDED` of at least `FEWEST` non-tied verdicts on, one place or one
    method. The last may be the method's merit, and is a note.
    """
    rows = table.rows.drop_duplicates([*_SHEET, "criterion"])
    decided = rows["side"] != 0
    placed = decided & (rows["first"] != 0)
    marks = rows[["cell", "rater"]].assign(
        verdicts=1,
        decided=decided,
        low=rows["side"] == 1,
        placed=placed,
        at_first=placed & (rows["side"] == rows["first"]),
    )
    sheets = rows.groupby(_SHEET)["side"].agg(["min", "max", "count"]).reset_index()
    sheets["several"] = sheets["count"] > 1
    sheets["straight"] = sheets["several"] & (sheets["min"] == sheets["max"])
    habits = (
        sheets.groupby(["cell", "rater"])
        .agg(showings=("count", "size"), several=("several", "sum"), straight=("straight", "sum"))
        .join(marks.groupby(["cell", "rater"]).sum())
        .astype(int)
    )
    often: list[Any] = list(habits[habits["showings"] >= FEWEST].reset_index().itertuples())
    for row in often:
        where = table.where(row.cell, f"rater {table.raters[row.rater]}")
        for kind, what in _unvarying(row, table.cells[row.cell][:2]):
            severity: Severity = "note" if kind == "one method" else "warning"
            yield Finding(kind=kind, where=where, what=what, severity=severity)


def _unvarying(did: Any, methods: tuple[str, str]) -> Iterator[tuple[str, str]]:  # noqa: ANN401  a row of numbers
    """Yield the kind of each habit worth reporting, and the sentence."""
    answers = {methods[0]: did.low, methods[1]: did.decided - did.low, TIE: did.verdicts - did.decided}
    always = next((answer for answer, times in answers.items() if times == did.verdicts), None)
    if always is not None:
        yield "unvarying rater", f"all {plural(did.verdicts, 'verdict')} are {always}"
    elif did.several >= FEWEST and did.straight == did.several:
        yield "straight-lining", f"one verdict for all criteria on each of {plural(did.several, 'showing')}"
    places = ("the text shown first", "the text shown second")
    yield from _one_sided("one place", did.at_first, did.placed, places)
    if always is None:
        yield from _one_sided("one method", did.low, did.decided, methods)


def _one_sided(kind: str, part: int, whole: int, names: tuple[str, str]) -> Iterator[tuple[str, str]]:
    times, name = (part, names[0]) if 2 * part > whole else (whole - part, names[1])
    if whole >= FEWEST and times >= ONE_SIDED * whole:
        verdicts = plural(whole, "non-tied verdict")
        yield kind, f"{times} of {verdicts} are for {name} ({percent(times / whole)})"


def unseen_ends(table: CodedVerdicts) -> Iterator[Finding]:
    """Yield the comparisons with showings that were rated before the end of every text was on the screen.

    The table says so in the column `ends_seen`: how many of prompt, A and B were seen to their end, at the
    first submission. Showings without it are left out.
    """
    known = table.rows.groupby(_SHEET)["ends_seen"].max().dropna().reset_index()
    for index in range(len(table.cells)):
        group = known[known["cell"] == index]
        unseen = group[group["ends_seen"] < TEXTS_SHOWN]
        if unseen.empty:
            continue
        counts = np.bincount(unseen["rater"].to_numpy())
        rater, times = int(counts.argmax()), int(counts.max())
        share = len(unseen) / len(group)
        what = (
            f"{len(unseen)} of {plural(len(group), 'showing')} ({percent(share)}) were rated before the end "
            f"of every text had been on the screen; {times} of them by rater {table.raters[rater]}"
        )
        severity: Severity = "warning" if share > UNSEEN else "note"
        yield Finding(kind="unseen ends", where=table.where(index), what=what, severity=severity)
