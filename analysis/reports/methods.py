"""The report's account of its methods and of what it cannot say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from analysis.reports.context import Context
from analysis.results.agreement import AgreementRow
from analysis.results.bias import PositionRow
from analysis.results.shares import ShareRow, unit_note
from analysis.verdicts.panel import PANEL_OF, FormedPanel
from guard_eval.records import SIMULATED
from guard_eval.reporting.words import RATERS, and_list, judge_name, judged_by, names_of, percent, plural
from guard_eval.rubric import COMPOSITE

FEW_PAIRS = 30
"""Below this many pairs a result is marked as resting on few."""
COARSE_PAIRS = 20
"""Below this many pairs the sign-flip test can take only a few p-values (docs/calibration.md)."""
AGREEMENT_PAIRS = 150
"""Below this many pairs the intervals of κ and α cover less than they say (docs/calibration.md)."""


BOTH = (
    " win_shares.csv has the p-values after Holm's and after Westfall and Young's correction, whichever "
    "decides."
)
JUDGES = (
    "Judges: each is a result of its own, with intervals and tests over pairs; no two are counted together "
    "but in a declared panel. Holm's family is one judge's results: it holds the chance of an error for each "
    "judge by itself, and picking among k judges after seeing them errs up to k times as often. "
    "Declare a judge or a panel beforehand, or multiply p by k."
)


COMPOSED = (
    "The composite, the declared overall result, is {composite}: of a rater's scores of a pair, where the "
    "rater judged it on all of them. It is one more result with intervals and tests of its own, which know "
    "how the criteria go together, and one more member of the family that is corrected. Its wins, ties and "
    "losses are ratings of a pair for one method, level, and for the other; its share is the mean of the "
    "composites and not of these. A ranking counts for which method a composite is."
)


UNFINISHED = (
    "Not everything that was planned is rated: {what}. What is missing is in no figure, and may differ from "
    "what is not, as where a judge refuses long texts."
)
LOOKED = (
    "The tests and intervals are those of a number of pairs fixed beforehand. If a report on unfinished "
    "ratings decides whether to go on, they err: to look after every ten pairs and stop at the first p below "
    ".05 found a difference in 15 to 23 of 100 simulated studies without one. Studies that declare "
    "sequential = true before their first verdict may look at any time."
)


def methods(
    rows: Sequence[ShareRow],
    context: Context,
    panels: Sequence[FormedPanel] = (),
    left_out: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return how the figures were computed, a sentence or two each.

    Args:
        rows: `share_rows`.
        context: What was declared.
        panels: The panels that were formed.
        left_out: Who has no composite, or none of some pairs.
    """
    totals = [row for row in rows if row.dataset is None]
    interval, tests = names_of(row.share.method for row in totals), names_of(methods_of(totals))
    sampled = any(row.estimand == "population" for row in totals)
    whom = "all raters like those who took part" if sampled else "the raters who took part"
    estimand = f"the tie-split win share, (wins + ties/2) / n, per criterion, over pairs, for {whom}"
    alone = "each interval is for itself and is not widened for the number of comparisons"
    null = (
        "no difference means a share of one half"
        if sampled
        else f"no difference means that a {totals[0].unit}'s score is as likely as its mirror image"
    )
    notes = [
        f"Estimand: {estimand}.",
        "Estimate: the mean over pairs of each pair's mean over raters; every pair weighs the same.",
        f"Interval: {percent(1 - context.alpha, 0)}, {interval}; {alone}.",
        f"Test: {tests}, two-sided; {null}. Beside it: {totals[0].paper_test.method}.",
        unit_note(totals),
        _family(totals, context),
        *_flips(totals),
        *context.declared,
    ]
    if sampled:
        notes.append(
            "Raters as a sample: a rating is the share, plus the pair's own part, plus the rater's own part, "
            "plus a rest. The variances of the three parts are estimated from who rated what (sums of "
            "squares equated with their expectations: Henderson 1953), and from them the error the share "
            "would have with other pairs and other raters; t has Satterthwaite's degrees of freedom. Where "
            "raters differ by no more than chance, interval and test are those for these raters; where they "
            "share too few pairs to tell, pairs and raters are crossed clusters (Cameron, Gelbach and Miller "
            "2011). Models are not taken as a sample: their results are about these models."
        )
    own = (row for row in totals if row.criterion != COMPOSITE and not row.judge.startswith(PANEL_OF))
    if any(row.verdicts > row.n for row in own):
        notes.append(
            "Where a rater judged a pair more than once, as a model in both orders, the showings were "
            "averaged to one score before anything else: a verdict that flips with the order counts as a "
            "tie."
        )
    groups = list(dict.fromkeys(row.who for row in totals))
    if len({kind for kind, _ in groups}) > 1:
        notes.append("People, models and simulations are never counted together.")
    notes += [f"{each.title}, a criterion of the study's own: {each.definition}" for each in context.criteria]
    if sum(bool(judge) for _, judge in groups) > 1:
        notes.append(JUDGES)
    notes += [_panel(panel) for panel in panels]
    if context.composite is not None:
        notes.append(" ".join((COMPOSED.format(composite=context.composite), *left_out)))
    drawn = "the draws of bootstraps and of sign patterns, and nothing else here, hang on it"
    given = "none is given, so it is 0" if context.seed is None else f"{context.seed}"
    notes.append(f"Seed: {given}; {drawn}.")
    return tuple(notes)


def methods_of(totals: Sequence[ShareRow]) -> list[str]:
    """Return the tests' methods; a result that every unit balances has none, where others have."""
    return [row.test.method for row in totals if row.test.n] or [row.test.method for row in totals]


def _flips(totals: Sequence[ShareRow]) -> tuple[str, ...]:
    """Say how max-T corrects, where it does."""
    how = sorted({row.corrected_by for row in totals if row.corrected_by})
    if not how:
        return ()
    text = (
        "Westfall–Young: step-down max-T. All criteria of a unit change sign together, those of different "
        "comparisons independently; p is how often the largest statistic of the results not yet found "
        f"reaches a result's own, over {and_list(how)}."
    )
    return (text,)


def _panel(panel: FormedPanel) -> str:
    """Say how the panel's score follows from its members'."""
    rule = {
        "majority": "Each member votes for the method that its verdicts on a pair are for, all orders and "
        "samples together, and for a tie where they are level; the panel says what more members say than "
        "anything else, and ties where two say are level.",
        "mean": "Its score of a pair is the mean of its members' scores, each of which is the mean of its "
        "verdicts in all orders and samples.",
    }[panel.rule]
    text = f"The {panel.name}: {and_list(panel.members)}. {rule} It counts as one rater."
    if panel.without:
        text += (
            f" It has no score of {plural(panel.without, 'pair')} (of each criterion) that a member lacks."
        )
    return text


def _family(totals: Sequence[ShareRow], context: Context) -> str:
    sizes = {judged_by(*row.who): row.family for row in totals if row.family}
    size = and_list([f"{count} for {who}" for who, count in sizes.items()]) if sizes else "none"
    name = next((row.correction for row in totals if row.family), "none")
    both = "" if all(row.max_t is None for row in totals) else BOTH
    if context.planned is None:
        return (
            f"Correction: {name} over all results in the table ({size}); none was declared beforehand.{both}"
        )
    silent = sum(all(row.cell != cell for row in totals) for cell in context.planned)
    unjudged = f" {plural(silent, 'declared comparison')} had no verdicts." if silent else ""
    return f"Correction: {name} over the comparisons declared beforehand and judged ({size}).{unjudged}{both}"


def limitations(
    rows: Sequence[ShareRow],
    agreement: Sequence[AgreementRow],
    position: Sequence[PositionRow],
    context: Context,
) -> tuple[str, ...]:
    """Return what a reader must keep in mind, as far as it applies to these data."""
    totals = [row for row in rows if row.dataset is None]
    notes = _of_raters(totals)
    if context.unfinished:
        notes.append(UNFINISHED.format(what=and_list(context.unfinished)))
        if not context.sequential:
            notes.append(LOOKED)
    notes.append(
        "A p-value above the error rate means that these data do not tell the methods apart; it does not "
        "show them to be alike."
    )
    fewest, units = min(row.items for row in totals), min(row.units for row in totals)
    if fewest < FEW_PAIRS:
        notes.append(
            f"Some results rest on as few as {plural(fewest, 'pair')}: only large differences show there."
        )
    if units < COARSE_PAIRS:
        name = "pairs" if all(row.unit == "pair" for row in totals) else "prompts"
        notes.append(
            f"With fewer than {COARSE_PAIRS} {name} the item-level test can take few p-values and errs on "
            "the side of finding nothing; with five or fewer that are not balanced no p-value is .05 or "
            "less, and where none can reach the error rate none is given."
        )
    if any(row.agreement.low is not None and row.agreement.n < AGREEMENT_PAIRS for row in agreement):
        notes.append(
            f"The intervals of κ and α rest on fewer than {AGREEMENT_PAIRS} pairs: in simulated studies with "
            "up to 80 % ties 95 % intervals covered 88 % at worst with 40 pairs and 79 % with 20, less with "
            "more ties, and lay too low when wrong."
        )
    if not position:
        notes.append(
            "Nothing says which text was shown first, so a preference for a place cannot be ruled out."
        )
    if any(row.agreement.reason for row in agreement):
        notes.append("Agreement is undefined for some results; the table of agreement says why.")
    if context.failures:
        lost = and_list([f"{kind}: {count}" for kind, count in context.failures])
        notes.append(f"Some verdicts could not be had and are missing from every count ({lost}).")
    return (*notes, *_warnings(totals))


def _warnings(totals: Sequence[ShareRow]) -> list[str]:
    """Return each warning once, and of how many results it is one where it is not of all."""
    of = Counter(text for row in totals for text in {*row.warnings, *row.share.warnings})
    return [
        f"{text[0].upper()}{text[1:]}."
        if count == len(totals)
        else f"In {count} of {len(totals)} results: {text}."
        for text, count in sorted(of.items())
    ]


def _of_raters(totals: Sequence[ShareRow]) -> list[str]:
    kinds = {row.rater_kind for row in totals}
    notes = []
    if kinds & SIMULATED:
        notes.append(
            "SIMULATED raters and judges are programs that follow a rule. Their verdicts are evidence of "
            "nothing."
        )
    fixed = {row.rater_kind for row in totals if row.estimand == "these"} - SIMULATED
    if fixed:
        whole = {row.who: row.whole.raters for row in totals if row.rater_kind in fixed}
        panel = and_list(
            [
                judge_name(judge, kind) if judge else f"{count}\u00a0{RATERS[kind]}"
                for (kind, judge), count in whole.items()
            ]
        )
        notes.append(
            f"The raters are a fixed panel ({panel}): intervals and "
            "tests speak of other pairs judged by the same raters, not of other raters. If raters differ in "
            "which method they lean to, more pairs measure ever more precisely what these raters think."
        )
    if any(row.n > row.items for row in totals):
        notes.append(
            "Several ratings of one pair depend on each other. The binomial test ignores that and rejects "
            "too often (where methods did not differ, in 10 to 29 of 100 simulated studies with three or "
            "five raters whose κ is about .4); the item-level test and interval do not."
        )
    if "model" in kinds:
        notes.append(
            "A model's verdicts are those of one prompt and one version; they stand in for no person's."
        )
    return notes
