"""Audits of a table of verdicts: warnings for readers of the results. No verdict is removed.

Comparisons are never pooled. People, models and simulated raters are never pooled either.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal, cast

import numpy as np
import pandas as pd
from scipy.sparse.csgraph import connected_components
from statsmodels.stats.inter_rater import cohens_kappa, to_table

from analysis.evidence import Evidence, declare_plan_keys
from analysis.scores.likeness import describe_signs_of_llm_use
from analysis.scores.scores import convert_methods_to_signs
from analysis.sections.raters.likeness import measure_likeness_to_judges
from analysis.sections.section import Section, make_table_section, remove_word_simulated
from guard_eval.estimate import Floats
from guard_eval.records import TIE, Couple, record
from guard_eval.reporting.words import (
    KIND_PLACE,
    RATERS,
    count_in_words,
    find_criterion_title,
    format_number,
    format_p_in_sentence,
    format_percent,
    join_with_and,
)
from guard_eval.sign_flip import sign_flip

Severity = Literal["note", "warning"]
UNBALANCED = "unbalanced sides"
"""The kind of a finding about a method that was shown first too often."""
REDUNDANT_KAPPA = 0.8
"""If κ is at least this value, two criteria count as one ("almost perfect", Landis and Koch 1977)."""
ROUNDING = 1e-12
"""The largest rounding error of a κ that equals the threshold."""
SIDE_ALPHA = 0.01
"""A finding about uneven sides needs a p below this value, from a test with one random side per pair."""
UNEVEN = 0.6
"""If one method is first in more than this share of showings, the finding is a warning, not a note."""
ONE_SIDED = 0.9
"""A rater is reported if at least this share of the verdicts without ties is for one place."""
UNSEEN = 0.1
"""There is a warning if more than this share of showings was rated before all text ends were shown."""
TEXTS_SHOWN = 3
"""The number of texts in a showing: the prompt, A and B."""
FEWEST = 10
"""An audit has no finding with fewer showings, or fewer verdicts other than ties, than this number."""


@record
class FindingRow:
    """A finding, and the comparison or rater that it is about.

    Attributes:
        kind: The kind of finding, such as `redundant criteria`.
        where: The rater (if the finding is about one rater), the comparison and the kind of raters.
        what: The finding in words, with its numbers.
        severity: A `warning` changes how the results may be read; a `note` does not.
    """

    kind: str
    where: str = ""
    what: str
    severity: Severity = "warning"


@declare_plan_keys()
def run_data_audits(evidence: Evidence) -> list[FindingRow]:
    """Run all audits. Return warnings before notes."""
    rows: list[FindingRow] = []
    for (a, b, kind), verdicts, showings in _split_by_comparison(evidence.frame):
        findings = (
            *find_redundant_criteria(verdicts),
            *find_unbalanced_sides(showings, (a, b)),
            *(find_unvarying_raters(verdicts, showings, (a, b)) if evidence.are_raters_known else ()),
            *find_showings_rated_too_soon(showings),
        )
        where = f"{a} against {b}, {RATERS[kind]}"
        rows += [replace(finding, where=f"{finding.where}{where}") for finding in findings]
    signs = describe_signs_of_llm_use(evidence.rows(measure_likeness_to_judges), evidence.context.conduct)
    rows += [
        FindingRow(kind="like a model", where=f"rater {name}", what=what) for name, what in signs.items()
    ]
    kinds = list(dict.fromkeys(row.kind for row in rows))
    return sorted(rows, key=lambda row: (row.severity != "warning", kinds.index(row.kind)))


def _split_by_comparison(
    frame: pd.DataFrame,
) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame, pd.DataFrame]]:
    """Yield each comparison with enough showings: (methods and kind of raters), verdicts, showings.

    A showing is one presentation of a pair to one rater, with a verdict on each criterion. All showings are
    numbered at once for speed: a table may have a million verdicts and many comparisons.
    """
    cells = frame.groupby(["method_a", "method_b", "rater_kind"], sort=True)
    first = convert_methods_to_signs(frame, "shown_first") if "shown_first" in frame else 0
    # Each of many comparisons would search all categories of raters.
    table = frame[["rater", "criterion"]].astype({"rater": object})
    table = table.assign(
        cell=cells.ngroup(),
        pair=pd.factorize(frame["pair_id"])[0],
        side=convert_methods_to_signs(frame, "verdict"),
        first=first,
        ends_seen=frame.get("ends_seen", np.nan),
        presentation=frame.get("presentation", first),
    )
    # Rows with an empty presentation are one showing, too.
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

    Two criteria are linked if their Cohen's κ (Cohen 1960) is at least `REDUNDANT_KAPPA`. A group contains
    all criteria that links connect. If κ is undefined, there is no link.
    """
    if rows["criterion"].nunique() < 2:
        return
    verdicts = rows.pivot_table(index="showing", columns="criterion", values="side", aggfunc="first")
    names = [find_criterion_title(str(name)) for name in verdicts]
    # The types of pandas know no function as a method.
    kappas = verdicts.corr(_compute_kappa_of_criteria, FEWEST).to_numpy()  # type: ignore[arg-type]
    count, group_of = connected_components(kappas >= REDUNDANT_KAPPA - ROUNDING, directed=False)
    for label in range(count):
        group = np.flatnonzero(group_of == label)
        if len(group) < 2:
            continue
        whole = verdicts.iloc[:, group].dropna().to_numpy()
        same = int((whole == whole[:, :1]).all(axis=1).sum())
        least = float(np.nanmin(kappas[np.ix_(group, group)]))
        yield FindingRow(
            kind="redundant criteria",
            what=(
                f"{join_with_and(names[index] for index in group)} carry the same verdict on {same} of "
                f"{count_in_words(len(whole), 'showing')}, any two with "
                f"κ\u00a0≥\u00a0{format_number(least)}: they hardly count as separate evidence"
            ),
        )


def _compute_kappa_of_criteria(first: Floats, second: Floats) -> float:
    """Return Cohen's κ of the verdicts on two criteria, [showings] each; NaN if it is undefined."""
    both = np.column_stack([first, second])
    if np.ptp(both) == 0:
        return np.nan
    table, _ = to_table(both)
    return float(cohens_kappa(table, return_results=False))


def find_unbalanced_sides(showings: pd.DataFrame, methods: Couple) -> Iterator[FindingRow]:
    """Find comparisons in which one method was shown first more often than chance explains.

    Most designs decide the sides by pair (one side for all raters, or slots that balance each other), so the
    showings of a pair are not independent. The sign-flip test uses one number per pair: showings with one
    method first minus showings with the other first. It is valid if the sides of a pair are as likely as
    their mirror image, even if its showings depend on each other. A showing counts once, even with several
    criteria. If the table does not say which text was shown first, there are no findings.
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
            f"{ahead} was shown first in {times} of {count_in_words(n, 'showing')} "
            f"({format_percent(times / n)}; sign-flip test by pair, {format_p_in_sentence(test.p)}): "
            "preferences for place and method mix"
        ),
        severity="warning" if times / n > UNEVEN else "note",
    )


def find_unvarying_raters(
    rows: pd.DataFrame, showings: pd.DataFrame, methods: Couple
) -> Iterator[FindingRow]:
    """Find raters whose verdicts hardly depend on the texts, among raters with at least `FEWEST` verdicts.

    There are three kinds: always the same verdict; the same verdict on all criteria of a showing, in every
    showing (straight-lining); and one place in at least `ONE_SIDED` of at least `FEWEST` verdicts without
    ties.
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
    by_rater = [table.groupby("rater", observed=True).sum() for table in (of_showings, of_verdicts)]
    sums = pd.concat(by_rater, axis=1).astype(int)
    for rater, counts in sums[sums["showings"] >= FEWEST].iterrows():
        for kind, what in _find_rater_habits(counts, methods):
            yield FindingRow(kind=kind, where=f"rater {rater}, ", what=what)


def _find_rater_habits(counts: pd.Series, methods: Couple) -> Iterator[tuple[str, str]]:
    """Yield each habit of a rater as its kind and a sentence."""
    verdicts = counts["verdicts"]
    low = counts["low"]
    decided = counts["decided"]
    answers = {methods[0]: low, methods[1]: decided - low, TIE: verdicts - decided}
    always = [answer for answer, times in answers.items() if times == verdicts]
    if always:
        yield "unvarying rater", f"all {count_in_words(verdicts, 'verdict')} are {always[0]}"
    elif counts["repeated"] >= FEWEST and counts["straight"] == counts["repeated"]:
        showings = count_in_words(counts["repeated"], "showing")
        yield "straight-lining", f"one verdict for all criteria on each of {showings}"
    placed = counts["placed"]
    at_first = counts["at_first"]
    times, rank = max((at_first, "first"), (placed - at_first, "second"))
    if placed >= FEWEST and times >= ONE_SIDED * placed:
        of = count_in_words(placed, "non-tied verdict")
        share = format_percent(times / placed)
        yield "one place", f"{times} of {of} are for the text shown {rank} ({share})"


def find_showings_rated_too_soon(showings: pd.DataFrame) -> Iterator[FindingRow]:
    """Count the showings that were rated before the end of every text was on the screen.

    The column `ends_seen` gives the number of texts (prompt, A and B) whose end had been on the screen at the
    first submission. Showings without this number are left out.
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
            f"{count} of {count_in_words(len(seen), 'showing')} ({format_percent(share)}) were rated before "
            f"the end of every text had been on the screen; {too_soon.max()} of them by rater "
            f"{too_soon.idxmax()}"
        ),
        severity="warning" if share > UNSEEN else "note",
    )


def make_section(evidence: Evidence) -> Section | None:
    """Make the section "Is anything odd in the data?"."""
    return make_table_section(
        evidence.rows(run_data_audits),
        lambda row: {"Finding": row.kind, "Where": remove_word_simulated(row.where), "What": row.what},
        lambda _: {},
        csv_name="audits",
        caption="What the audits found",
        question="Is anything odd in the data?",
        answer=_answer_question,
    )


def _answer_question(rows: Sequence[FindingRow]) -> str:
    """Answer the section's question with the number of warnings and notes."""
    warnings = sum(row.severity == "warning" for row in rows)
    return f"{count_in_words(warnings, 'warning')}, {count_in_words(len(rows) - warnings, 'note')}"
