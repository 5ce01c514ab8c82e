"""The report's account of its methods and of what it cannot say."""

from __future__ import annotations

from analysis.reports.answer import is_simulated
from analysis.reports.columns import group_name, plain_name
from analysis.reports.results import Results, rows_of
from analysis.verdicts.tidy import remarks
from guard_eval.records import PEOPLE_OF, SIMULATED
from guard_eval.reporting.words import and_list, names_of, percent, plural

FEW_PAIRS = 30
"""Below this many pairs a result is marked as resting on few."""
COARSE_UNITS = 20
"""Below this many units the sign-flip test can take only a few p-values (docs/calibration.md)."""
KAPPA_PAIRS = 150
"""Below this many pairs the interval of κ covers less than it says (docs/calibration.md)."""


def methods(results: Results) -> tuple[str, ...]:
    """Return how the figures were computed, a sentence or two each."""
    context, rows = results.context, results.answering
    first = rows[0]
    random = context.raters == "random"
    whom = "all raters of the same kind" if random else "the raters who took part"
    family = {group_name(row.rater_kind, row.judge): row.family for row in rows if row.family > 1}
    notes = [
        f"Estimand: the tie-split win share, (wins + ties/2) / n, per criterion, for {whom}.",
        "Every pair weighs the same, and so do the raters of a pair.",
        f"Interval ({percent(results.evidence.level, 0)}) and test: {names_of(row.method for row in rows)}.",
        _unit(results),
    ]
    if family:
        of = and_list([f"{size} for {who}" for who, size in family.items()])
        planned = "declared beforehand" if context.planned is not None else "none was declared beforehand"
        notes.append(f"Correction: {first.correction} over the results of all datasets ({of}), {planned}.")
    if random:
        notes.append(
            "Raters as a sample: the variances of pairs, raters and the rest come from sums of squares "
            "(Henderson "
            "1953), and t has Satterthwaite's degrees of freedom. Models are not taken as a sample."
        )
    own = [row for row in rows if row.verdicts > row.wins + row.ties + row.losses]
    if own:
        notes.append(
            "A rater who judged a pair more than once has one score of it: a verdict that flips is a tie."
        )
    if len({(row.rater_kind, row.judge) for row in rows}) > 1:
        notes.append(
            "People, each judge and simulated raters are results of their own; they are never counted "
            "together."
        )
    if len({row.judge for row in rows if row.judge}) > 1:
        notes.append("Who picks among k judges after seeing them errs up to k times as often.")
    for panel in results.evidence.scored.panels:
        notes.append(  # noqa: PERF401
            f"The {panel.name}: {and_list([plain_name(name) for name in panel.members])}; it counts as one "
            f"rater"
            + (
                f", and has no score of {plural(panel.without, 'pair')} that a member lacks."
                if panel.without
                else "."
            )
        )
    if results.is_ranked:
        notes.append(
            "Ranks: Davidson's model (1970) of all comparisons, with ties as verdicts; sets of ranks from "
            "the "
            "differences of expected shares with sandwich errors over units, all at once by simulation "
            "(Mogstad, "
            "Romano, Shaikh and Wilhelm 2024). Any difference: sign flips of units, Holm over the criteria."
        )
    if context.composite is not None:
        notes.append(
            f"The composite is {context.composite}, of each rater on each pair; it is one more result."
        )
    notes += [f"{each.title}, a criterion of the study's own: {each.definition}" for each in context.criteria]
    notes += context.declared
    if context.why_exploratory:
        notes.append(f"Exploratory: {'; '.join(context.why_exploratory)}.")
    notes += [
        f"Exploratory: settings were changed after the first verdict of {change}."
        for change in context.changed_judges
    ]
    seed = "none is given, so it is 0" if context.seed is None else f"{context.seed}"
    notes.append(f"Seed of drawn signs: {seed}.")
    return tuple(notes)


def _unit(results: Results) -> str:
    rows = results.answering
    if all(row.unit == "pair" for row in rows):
        return (
            "Unit: the pair; nothing says which pairs share a source (column prompt_id). If several do, "
            "tests "
            "find differences too often and intervals are too narrow."
        )
    several = any(row.units < row.pairs for row in rows)
    how = "all pairs of a prompt change sides together" if several else "one pair each"
    return f"Unit: the prompt, {how}."


def limitations(results: Results) -> tuple[str, ...]:  # noqa: C901  one list of conditions
    """Return what a reader must keep in mind, as far as it applies to these data."""
    context, rows = results.context, results.answering
    notes = []
    if is_simulated(results):
        notes.append(
            "Made-up raters and judges are programs that follow a rule. Their verdicts are evidence of "
            "nothing."
        )
    if context.raters == "fixed" and any(row.rater_kind not in {*PEOPLE_OF, *SIMULATED} for row in rows):
        notes.append(
            "The raters are a fixed panel: intervals and tests speak of other pairs judged by the same "
            "raters. If "
            "raters differ in which method they lean to, more pairs measure ever more precisely what these "
            "think."
        )
    notes.append(
        "A p above the error rate means that these data do not tell the methods apart, not that they are "
        "alike."
    )
    if context.unfinished:
        notes.append(
            f"Not everything that was planned is rated: {and_list(context.unfinished)}. What is missing may "
            f"differ "
            "from what is not."
        )
        if not context.sequential:
            notes.append(
                "Whoever looks at unfinished ratings to decide whether to go on errs: to look after every "
                "ten pairs "
                "and stop at the first p below .05 found a difference in 15 to 23 of 100 simulated studies "
                "without "
                "one. Declare sequential = true before the first verdict to look at any time."
            )
    fewest, units = min(row.pairs for row in rows), min(row.units for row in rows)
    if fewest < FEW_PAIRS:
        notes.append(
            f"Some results rest on as few as {plural(fewest, 'pair')}: only large differences show there."
        )
    if units < COARSE_UNITS:
        notes.append(
            f"With fewer than {COARSE_UNITS} units the test can take few p-values, and errs on the side of "
            f"finding "
            "nothing; if none can reach the error rate, none is given."
        )
    if any(
        row.kappa_low is not None and row.pairs_rated_twice < KAPPA_PAIRS
        for row in rows_of(results["agreement"])
    ):
        notes.append(
            f"The interval of κ rests on fewer than {KAPPA_PAIRS} pairs; in simulated studies with up to 80 "
            f"% ties "
            "95 % intervals covered 91 % at worst with 40 pairs and 88 % with 20."
        )
    if results["position"].empty:
        notes.append(
            "Nothing says which text was shown first, so a preference for a place cannot be ruled out."
        )
    if any(row.rater_kind == "model" for row in rows):
        notes.append(
            "A model's verdicts are those of one prompt and one version; they stand in for no person's."
        )
    if context.failures:
        lost = and_list([f"{kind}: {count}" for kind, count in context.failures])
        notes.append(f"Some verdicts are missing from every count, since a judge failed ({lost}).")
    warned = dict.fromkeys(row.note for row in rows if row.note)
    notes += [f"{text[0].upper()}{text[1:]}." for text in list(warned)[:4]]
    return (*notes, *(f"{text}." for text in remarks(results.evidence.frame)))
