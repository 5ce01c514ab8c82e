"""Audits of a table of verdicts: warnings for readers of its results. No verdict is removed.

Comparisons are never pooled, and neither are people, models and simulated raters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Literal, cast

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.likeness import describe_signs
from analysis.scores.scores import side_of_a
from analysis.sections.raters.likeness import likeness
from analysis.sections.section import Section, make_table_section, remove_word_simulated
from guard_eval.estimate import Floats
from guard_eval.frozen import record
from guard_eval.records import TIE
from guard_eval.reporting.words import (
    KIND_PLACE,
    RATERS,
    and_list,
    format_p_in_sentence,
    number,
    percent,
    plural,
    title,
)
from guard_eval.sign_flip import sign_flip

Severity = Literal["note", "warning"]
UNBALANCED = "unbalanced sides"
"""The kind of finding that bears on how many results there are."""
REDUNDANT_KAPPA = 0.8
"""Two criteria count as one from this κ on ("almost perfect", Landis and Koch 1977)."""
ROUNDING = 1e-12
"""A κ that is the threshold but for rounding is the threshold."""
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
"""Below this number of showings, or of non-tied verdicts, nothing is found."""


@record
class FindingRow:
    """A finding, and the comparison or rater that it is about.

    Attributes:
        kind: What it is, such as `redundant criteria`.
        where: The rater, if it concerns one, the comparison and the kind of raters.
        what: The finding with its figures, in words.
        severity: A `warning` bears on how the results may be read; a `note` does not.
    """

    kind: str
    where: str = ""
    what: str
    severity: Severity = "warning"


@declare_plan_keys()
def audits(evidence: Evidence) -> list[FindingRow]:
    """Run all audits. Return warnings before notes."""
    rows: list[FindingRow] = []
    for (a, b, kind), verdicts, showings in _split_by_comparison(evidence.frame):
        findings = (
            *find_redundant_criteria(verdicts),
            *find_unbalanced_sides(showings, (a, b)),
            *(find_unvarying_raters(verdicts, showings, (a, b)) if evidence.are_raters_known else ()),
            *find_unseen_ends(showings),
        )
        where = f"{a} against {b}, {RATERS[kind]}"
        rows += [replace(finding, where=f"{finding.where}{where}") for finding in findings]
    signs = describe_signs(evidence.rows(likeness), evidence.context.conduct)
    rows += [
        FindingRow(kind="like a model", where=f"rater {name}", what=what) for name, what in signs.items()
    ]
    kinds = list(dict.fromkeys(row.kind for row in rows))
    return sorted(rows, key=lambda row: (row.severity != "warning", kinds.index(row.kind)))


def _split_by_comparison(
    frame: pd.DataFrame,
) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame, pd.DataFrame]]:
    """Yield each comparison with enough showings: its methods and kind of raters, verdicts and showings.

    A showing is a pair of texts as one rater once saw it; it has a verdict on each criterion. All are
    numbered at once, since a table may have a million verdicts, and many methods have many comparisons.
    """
    cells = frame.groupby(["method_a", "method_b", "rater_kind"], sort=True)
    first = side_of_a(frame, "shown_first") if "shown_first" in frame else 0
    table = frame[["rater", "criterion"]].assign(
        cell=cells.ngroup(),
        pair=pd.factorize(frame["pair_id"])[0],
        side=side_of_a(frame, "verdict"),
        first=first,
        ends_seen=frame.get("ends_seen", np.nan),
        presentation=frame.get("presentation", first),
    )
    # An empty presentation is one showing, too.
    showing = ["cell", "rater", "pair", "presentation"]
    table["showing"] = table.groupby(showing, sort=True, dropna=False).ngroup()
    groups = table.groupby("showing")
    showings = groups[["cell", "rater", "pair", "first"]].first()
    showings[["criteria", "lowest", "highest"]] = groups["side"].agg(["size", "min", "max"])
    showings["ends_seen"] = groups["ends_seen"].max()
    verdicts_of, showings_of = (dict(iter(rows.groupby("cell"))) for rows in (table, showings))
    names = cast(list[tuple[str, str, str]], list(cells.groups))
    for cell, name in sorted(enumerate(names), key=lambda numbered: KIND_PLACE[numbered[1][2]]):
        if len(showings_of[cell]) >= FEWEST:
            yield name, verdicts_of[cell], showings_of[cell]


def find_redundant_criteria(rows: pd.DataFrame) -> Iterator[FindingRow]:
    """Find groups of criteria that nearly always have the same verdict.

    Criteria are linked if Cohen's κ (Cohen 1960) between them is at least `REDUNDANT_KAPPA`. A group is what
    such links connect. If κ is undefined there is no link.
    """
    if rows["criterion"].nunique() < 2:
        return
    verdicts = rows.pivot_table(index="showing", columns="criterion", values="side", aggfunc="first")
    names = [title(str(name)) for name in verdicts]
    sides = verdicts.to_numpy(dtype=float)
    kappas = np.full((len(names), len(names)), np.nan)
    for pair in combinations(range(len(names)), 2):
        kappas[pair] = _compute_kappa(sides[:, pair])
    count, group_of = connected_components(kappas >= REDUNDANT_KAPPA - ROUNDING, directed=False)
    for label in range(count):
        group = np.flatnonzero(group_of == label)
        if len(group) < 2:
            continue
        whole = _keep_complete_showings(sides[:, group])
        same = int((whole == whole[:, :1]).all(axis=1).sum())
        least = float(np.nanmin(kappas[np.ix_(group, group)]))
        yield FindingRow(
            kind="redundant criteria",
            what=(
                f"{and_list([names[index] for index in group])} carry the same verdict on {same} of "
                f"{plural(len(whole), 'showing')}, any two with κ\u00a0≥\u00a0{number(least)}: they hardly "
                "count as separate evidence"
            ),
        )


def _keep_complete_showings(sides: Floats) -> Floats:
    """Return the showings that have a verdict on every one of these criteria."""
    return np.asarray(sides[~np.isnan(sides).any(axis=1)])


def _compute_kappa(sides: Floats) -> float:
    """Return Cohen's κ of two criteria's verdicts, [showings, 2]; NaN if it is undefined or n is small."""
    both = _keep_complete_showings(sides)
    if len(both) < FEWEST or np.ptp(both) == 0:
        return np.nan
    by_chance = sum((both == side).mean(axis=0).prod() for side in (-1, 0, 1))
    agreed = (both[:, 0] == both[:, 1]).mean()
    return float((agreed - by_chance) / (1 - by_chance))


def find_unbalanced_sides(showings: pd.DataFrame, methods: tuple[str, str]) -> Iterator[FindingRow]:
    """Find comparisons in which one method was shown first more often than by chance.

    Sides are decided by pair in most designs (one side for all raters, or slots that balance each other), so
    that a pair's showings are no separate throws. The test is the sign-flip test of each pair's showings with
    one method first less those with the other: it holds where a pair's sides are as likely as their mirror
    image, whatever the showings of the pair have to do with each other. A showing counts once, however many
    criteria it has. A table that does not say what was shown first has no findings.
    """
    placed = showings[showings["first"] != 0]
    nets = placed.groupby("pair")["first"].sum()
    test = sign_flip(nets)
    if test.p is None or test.p > SIDE_ALPHA:
        return
    n = len(placed)
    net = int(nets.sum())
    ahead = methods[0] if net > 0 else methods[1]
    times = (n + abs(net)) // 2
    yield FindingRow(
        kind=UNBALANCED,
        what=(
            f"{ahead} was shown first in {times} of {plural(n, 'showing')} ({percent(times / n)}; sign-flip "
            f"test by pair, {format_p_in_sentence(test.p)}): preferences for place and method mix"
        ),
        severity="warning" if times / n > UNEVEN else "note",
    )


def find_unvarying_raters(
    rows: pd.DataFrame, showings: pd.DataFrame, methods: tuple[str, str]
) -> Iterator[FindingRow]:
    """Find raters whose verdicts hardly depend on the texts, among raters with at least `FEWEST` verdicts.

    The kinds are: one verdict on everything; one verdict for all criteria of a showing, on every showing
    (straight-lining); and, from `ONE_SIDED` of at least `FEWEST` non-tied verdicts on, one place or one
    method. The last may be the method's merit, and is a note.
    """
    is_repeated = showings["criteria"] > 1
    decided = rows["side"] != 0
    placed = decided & (rows["first"] != 0)
    of_verdicts = rows[["rater"]].assign(
        verdicts=1,
        decided=decided,
        low=rows["side"] == 1,
        placed=placed,
        at_first=placed & (rows["side"] == rows["first"]),
    )
    of_showings = showings[["rater"]].assign(
        showings=1,
        repeated=is_repeated,
        straight=is_repeated & (showings["lowest"] == showings["highest"]),
    )
    sums = [table.groupby("rater", observed=True).sum() for table in (of_showings, of_verdicts)]
    for rater, counts in pd.concat(sums, axis=1).astype(int).iterrows():
        for kind, what in _find_habits(counts, methods) if counts["showings"] >= FEWEST else ():
            severity: Severity = "note" if kind == "one method" else "warning"
            yield FindingRow(kind=kind, where=f"rater {rater}, ", what=what, severity=severity)


def _find_habits(counts: pd.Series, methods: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each habit of a rater as its kind and a sentence."""
    verdicts = counts["verdicts"]
    low = counts["low"]
    decided = counts["decided"]
    answers = {methods[0]: low, methods[1]: decided - low, TIE: verdicts - decided}
    always = next((answer for answer, times in answers.items() if times == verdicts), None)
    if always is not None:
        yield "unvarying rater", f"all {plural(verdicts, 'verdict')} are {always}"
    elif counts["repeated"] >= FEWEST and counts["straight"] == counts["repeated"]:
        showings = plural(counts["repeated"], "showing")
        yield "straight-lining", f"one verdict for all criteria on each of {showings}"
    places = ("the text shown first", "the text shown second")
    sided = [("one place", counts["at_first"], counts["placed"], places)]
    if always is None:
        sided.append(("one method", low, decided, methods))
    for kind, times_first, whole, names in sided:
        times, name = (times_first, names[0]) if 2 * times_first > whole else (whole - times_first, names[1])
        if whole >= FEWEST and times >= ONE_SIDED * whole:
            of = plural(whole, "non-tied verdict")
            yield kind, f"{times} of {of} are for {name} ({percent(times / whole)})"


def find_unseen_ends(showings: pd.DataFrame) -> Iterator[FindingRow]:
    """Count the showings that were rated before the end of every text was on the screen.

    The table says so in the column `ends_seen`: how many of prompt, A and B were seen to their end, at the
    first submission. Showings without it are left out.
    """
    seen = showings["ends_seen"].dropna()
    too_soon = showings.loc[seen.index[seen < TEXTS_SHOWN], "rater"].value_counts()
    count = int(too_soon.sum())
    if not count:
        return
    share = count / len(seen)
    yield FindingRow(
        kind="unseen ends",
        what=(
            f"{count} of {plural(len(seen), 'showing')} ({percent(share)}) were rated before the end of "
            f"every text had been on the screen; {too_soon.max()} of them by rater {too_soon.idxmax()}"
        ),
        severity="warning" if share > UNSEEN else "note",
    )


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Is anything odd in the data?"."""
    return make_table_section(
        evidence.rows(audits),
        lambda row: {"Finding": row.kind, "Where": remove_word_simulated(row.where), "What": row.what},
        lambda _: {},
        csv="audits",
        caption="What the audits found",
        question="Is anything odd in the data?",
        answer=_answer_question,
    )


def _answer_question(rows: Sequence[FindingRow]) -> str:
    """Count the warnings and notes."""
    warnings = sum(row.severity == "warning" for row in rows)
    return f"{plural(warnings, 'warning')}, {plural(len(rows) - warnings, 'note')}"
