"""The report's account of its methods and of what it cannot say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from analysis.evidence import Context, Evidence
from analysis.reports.first_screen import is_simulated
from analysis.sections.agreement import agreement
from analysis.sections.answering import answering
from analysis.sections.judge_run import failures, mixed_forms
from analysis.sections.order_and_length import position
from analysis.sections.section import group_by, group_name, plain_name
from analysis.sections.shares import WinShareRow
from analysis.verdicts.reading import reading_of
from guard_eval.records import PEOPLE_OF, SIMULATED
from guard_eval.reporting.words import and_list, names_of, percent, plural, sentence, title

FEW_PAIRS = 30
"""Below this many pairs a result is marked as resting on few."""
COARSE_UNITS = 20
"""Below this many units the sign-flip test can take only a few p-values (docs/calibration.md)."""
KAPPA_PAIRS = 150
"""Below this many pairs the interval of κ covers less than it says (docs/calibration.md)."""
READ = "Read from the table"
MAX_NOTES = 4
"""Notes of results that are repeated among the limits."""

UNIT_PAIR = (
    "The unit is the pair: nothing says which pairs share a source (column prompt_id). If several do, tests "
    "find differences too often and intervals are too narrow."
)
UNIT_PROMPTS = "The unit is the prompt: all pairs of a prompt change sides together."
UNIT_PROMPT = "The unit is the prompt, with one pair each."
RANDOM_RATERS = (
    "Raters as a sample: the variances of pairs, raters and the rest come from sums of squares (Henderson "
    "1953), and t has Satterthwaite's degrees of freedom. Models are not taken as a sample."
)
SHOWINGS = "A rater who judged a pair more than once has one score of it: a verdict that flips is a tie."
KINDS = "People, each judge and simulated raters are results of their own; they are never counted together."
SEVERAL_JUDGES = "Who picks among k judges after seeing them errs up to k times as often."
RANKS = (
    "Methods are ranked by Davidson's model (Davidson 1970) of all comparisons, with ties as verdicts. "
    "Possible ranks come from the differences of expected shares, with sandwich errors over units; they hold "
    "for all methods at once (Mogstad, Romano, Shaikh and Wilhelm 2024). That no method is better is tested "
    "by flipping the signs of units, with {correction} over the criteria."
)
ROUNDS = (
    "Prompts were divided into rounds, and a comparison stopped after a round once it was decided: by z, the "
    "sum of prompts' leads over its error, and the largest |z| t^¼ over the rounds, t being the part of the "
    "prompts (Wang and Tsiatis 1987; its p is integrated round by round: Armitage, McPherson and Rowe 1969), "
    "with Holm's correction over all comparisons. A prompt counts when all its ratings are in. No p and no "
    "interval of a fixed number of prompts is given; shares of comparisons that stopped early are on average "
    "too far from 50\u00a0%."
)
EQUIVALENCE = (
    "That a share lies within {margin:g} points of 50 % is shown by two one-sided t tests (Schuirmann 1987), "
    "corrected as the others."
)

SIMULATED_VERDICTS = "Made-up raters and judges are programs that follow a rule."
FIXED_RATERS = (
    "The raters are a fixed panel: intervals and tests speak of other pairs judged by the same raters. If "
    "raters differ in which method they prefer, more pairs measure ever more precisely what these raters "
    "think."
)
NO_EVIDENCE = (
    "A p above the error rate means that these data do not tell the methods apart, not that they are alike."
)
UNFINISHED = "Not everything that was planned is rated: {what}. What is missing may differ from what is not."
LOOKING = (
    "Whoever looks at unfinished ratings to decide whether to go on errs: to look after every ten pairs and "
    "stop at the first p below .05 found a difference in 15 to 23 of 100 simulated studies without one. "
    "Declare sequential = true before the first verdict to look at any time."
)
COARSE = (
    "With fewer than {units} units the test can take few p-values, and errs on the side of finding nothing; "
    "if none can reach the error rate, none is given."
)
KAPPA = (
    "The interval of κ rests on fewer than {pairs} pairs. With up to 80 % ties 95 % intervals covered as "
    "little as 91 % with 40 pairs, and 88 % with 20."
)
NO_POSITION = "Nothing says which text was shown first, so a preference for a place cannot be ruled out."
MODELS = "A model's verdicts are those of one prompt and one version; they stand in for no person's."


def methods(evidence: Evidence) -> tuple[str, ...]:
    """Return how the figures were computed, a sentence or two each."""
    return (
        *_tests(evidence),
        *_raters(evidence),
        *_outcomes(evidence),
        *_panels(evidence),
        *_declared(evidence),
    )


def _tests(evidence: Evidence) -> Iterator[str]:
    """Yield what is estimated and tested, over which units."""
    rows = evidence.rows(answering)
    whom = "all raters of the same kind" if evidence.plan.raters == "random" else "the raters who took part"
    weighs = "Every pair weighs the same, and so do the raters of a pair."
    if evidence.plan.weights == "precision":
        weighs = "A pair weighs by one over the variance of its mean rating."
    yield (f"We report win shares, (wins + ties/2) / n, for each criterion and for {whom}. {weighs}")
    tests = names_of(row.method for row in rows)
    yield f"Intervals ({percent(evidence.plan.level, 0)}) and tests: {tests}."
    if all(row.unit == "pair" for row in rows):
        yield UNIT_PAIR
    else:
        yield UNIT_PROMPTS if any(row.units < row.pairs for row in rows) else UNIT_PROMPT
    yield from _correction(evidence.context, rows)


def _correction(context: Context, rows: Sequence[WinShareRow]) -> Iterator[str]:
    """Yield the correction of the families of several results."""
    families = {group_name(row): row.family for row in rows if row.family > 1}
    if families:
        sizes = and_list([f"{size} for {who}" for who, size in families.items()])
        declared = "declared beforehand" if context.planned is not None else "none declared beforehand"
        yield (
            f"Correction of p: {rows[0].correction} over the results of all datasets ({sizes}), {declared}. "
            "Intervals are not corrected."
        )


def _raters(evidence: Evidence) -> Iterator[str]:
    """Yield how raters count."""
    rows = evidence.rows(answering)
    if evidence.plan.raters == "random":
        yield RANDOM_RATERS
    if any(row.verdicts > row.ratings for row in rows):
        yield SHOWINGS
    if len({row.who for row in rows}) > 1:
        yield KINDS
    if len({row.judge for row in rows if row.judge}) > 1:
        yield SEVERAL_JUDGES


def _outcomes(evidence: Evidence) -> Iterator[str]:
    """Yield what is claimed besides which of two methods is better."""
    if evidence.stops_early:
        yield ROUNDS
    elif evidence.is_ranked:
        yield RANKS.format(correction=evidence.rows(answering)[0].correction)
    if evidence.plan.margin is not None:
        yield EQUIVALENCE.format(margin=100 * evidence.plan.margin)
    if evidence.context.composite is not None:
        composite = evidence.context.composite
        yield f"The composite is {composite}, of each rater on each pair; it is one more result."


def _panels(evidence: Evidence) -> Iterator[str]:
    """Yield which judges count as one."""
    for panel in evidence.scored.panels:
        members = and_list([plain_name(name) for name in panel.members])
        lacking = f", and has no score of {plural(panel.without, 'pair')} that a member lacks"
        without = lacking if panel.without else ""
        yield f"The {panel.name}: {members}; it counts as one rater{without}."


def _declared(evidence: Evidence) -> Iterator[str]:
    """Yield what was declared and read, and what changed afterwards."""
    context = evidence.context
    for criterion in context.criteria:
        yield f"{criterion.title}, a criterion of the study's own: {criterion.definition}"
    yield from context.declared
    reading = [f"{role}: {column} ({why})" for role, column, why in reading_of(evidence.frame).rows()]
    if reading:
        yield f"{READ}: {'; '.join(reading)}."
    if context.why_exploratory:
        yield f"Exploratory: {'; '.join(context.why_exploratory)}."
    for change in context.changed_judges:
        yield f"Exploratory: settings were changed after the first verdict of {change}."
    seed = "none is given, so it is 0" if context.seed is None else f"{context.seed}"
    yield f"Seed of drawn signs: {seed}."


def limitations(evidence: Evidence) -> tuple[str, ...]:
    """Return what a reader must keep in mind, as far as it applies to these data."""
    rows = evidence.rows(answering)
    warned = group_by((row for row in rows if row.note), lambda row: row.note)
    return (
        *_limits_of_raters(evidence),
        *_limits_of_size(evidence),
        *_limits_of_judges(evidence),
        *mixed_forms(evidence),
        *(_name_note(note, noted, len(rows)) for note, noted in list(warned.items())[:MAX_NOTES]),
        *(f"{text}." for text in reading_of(evidence.frame).notes),
    )


def _name_note(note: str, rows: Sequence[WinShareRow], count: int) -> str:
    """Return a note of results as a sentence, which names them if they are not all there are."""
    if len(rows) == count:
        return sentence(note)
    results = [f"{row.method_a} against {row.method_b} on {title(row.criterion)}" for row in rows[:MAX_NOTES]]
    more = [f"{len(rows) - MAX_NOTES} more"] if len(rows) > MAX_NOTES else []
    return f"Of {and_list([*results, *more])}: {sentence(note)}"


def _limits_of_raters(evidence: Evidence) -> Iterator[str]:
    rows = evidence.rows(answering)
    if is_simulated(evidence):
        yield SIMULATED_VERDICTS
    are_people = any(row.rater_kind not in {*PEOPLE_OF, *SIMULATED} for row in rows)
    if evidence.plan.raters == "fixed" and are_people:
        yield FIXED_RATERS
    yield NO_EVIDENCE
    if evidence.context.unfinished:
        yield UNFINISHED.format(what=and_list(evidence.context.unfinished))
        if not evidence.plan.sequential:
            yield LOOKING


def _limits_of_size(evidence: Evidence) -> Iterator[str]:
    rows = evidence.rows(answering)
    fewest = min(row.pairs for row in rows)
    if fewest < FEW_PAIRS:
        yield f"Some results rest on as few as {plural(fewest, 'pair')}: only large differences show there."
    if min(row.units for row in rows) < COARSE_UNITS:
        yield COARSE.format(units=COARSE_UNITS)
    kappas = [row for row in evidence.rows(agreement) if row.fleiss_kappa.low is not None]
    if any(row.pairs_rated_twice < KAPPA_PAIRS for row in kappas):
        yield KAPPA.format(pairs=KAPPA_PAIRS)


def _limits_of_judges(evidence: Evidence) -> Iterator[str]:
    if not evidence.rows(position):
        yield NO_POSITION
    if any(row.rater_kind == "model" for row in evidence.rows(answering)):
        yield MODELS
    missing = sum(row.count for row in evidence.rows(failures))
    if missing:
        showings = plural(missing, "showing")
        yield f"Some verdicts are missing from every count, since a judge failed ({showings})."
