"""The first screen: who rated what, the answer in plain sentences, and a line for each result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.evidence import Evidence
from analysis.sections.answering import answering
from analysis.sections.audits import UNBALANCED, audits
from analysis.sections.equivalence import equivalence
from analysis.sections.excluded import describe_exclusions
from analysis.sections.judge_run import CalibrationRow, calibration
from analysis.sections.ranking import NO_RANK, RankingRow, ranking, rankings
from analysis.sections.rounds import describe_rounds
from analysis.sections.section import group_by, group_name, plain_name, share_limits
from analysis.sections.shares import (
    BALANCED,
    NO_EVIDENCE,
    NO_TEST,
    TOO_FEW,
    CoverageRow,
    ShareRow,
    WinShareRow,
    conclude,
    coverage,
    verdict_word,
)
from analysis.stats.detectable import detectable_share
from analysis.verdicts.reading import reading_of
from guard_eval.estimate import Estimate
from guard_eval.records import PEOPLE_OF, SIMULATED
from guard_eval.reporting.words import (
    KIND_PLACE,
    and_list,
    capital,
    equals,
    p_value,
    percent,
    plural,
    title,
)

MAX_LINES = 12
"""Lines of the first screen."""
MAX_SPELT_OUT = 6
"""Results that a sentence names before it counts the rest."""
MAX_DECLARED = 6
"""Declared results of several methods up to which they come before the ranking."""
MAX_FACTS = 4
"""Lines on who rated what."""
MAX_NAMED = 3
"""Methods that a sentence names before it counts the rest."""
PREFERRED = "preferred"
UNDECIDED = {
    TOO_FEW: "Too few {unit}s favour {first} or {second} to tell them apart on {names}.",
    NO_TEST: "On {names} there is no test of {first} against {second}: {note}.",
    BALANCED: "On {names} every {unit} is balanced between {first} and {second}.",
}
"""Why there is no p."""
LOOKED_AT_EARLY = (
    "These results were looked at early: {what}. Whoever stops or goes on because of them finds differences "
    "too often."
)
"""Said first of ratings that are not finished, unless they were declared to be looked at."""
NOT_CORRECTED = "An interval can exclude 50\u00a0% without evidence: it is not corrected as p is."
CLEAR_LEAD = 0.505
"""A share that is not printed as 50 %."""
CALIBRATED = {
    "identical": "called a text and itself similar in",
    "shuffled": "preferred a text to its own words in disorder in",
    "swapped": "gave one verdict on both orders of a pair in",
    "padded": "preferred a text with filler to the same text without it in",
}
"""What a judge does in each check of its calibration. It fails the last check if it does so in more than half
of the pairs, and the others if it does so in no more than half."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerLine:
    """A line of the first screen: a bar from 0 to 100 % with its figures.

    Attributes:
        label: The criterion, or the method that is ranked.
        interval: The share of the first method, or the expected share of a ranked one, with its limits.
        word: The deciding p and what it says; or the ranks that are possible.
        won: The part of the ratings that the method won; None for a ranked one.
        tied: The part of the ratings that were ties.
    """

    label: str
    interval: Estimate
    word: str
    won: float | None = None
    tied: float = 0.0

    @property
    def figures(self) -> tuple[str, str, str]:
        """Return share, interval and word, as they are printed."""
        return percent(self.interval.value), share_limits(self.interval), self.word

    @property
    def outcomes(self) -> str:
        """Return wins and ties in words; empty for a ranked method."""
        if self.won is None:
            return ""
        return f"{percent(self.won, 0)} won, {percent(self.tied, 0)} tied"


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultBars:
    """The bars of one comparison, or of one ranking.

    Attributes:
        lines: One line for each criterion, or for each ranked method.
        heads: The headings of the lines' columns.
        sides: The methods on the left and on the right of the bars, or what the sides mean.
    """

    lines: tuple[AnswerLine, ...]
    heads: tuple[str, ...]
    sides: tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstScreen:
    """What a reader sees first.

    Attributes:
        warning: A sentence that must be read before all others; empty if there is none.
        facts: Who rated what, and who was excluded.
        answer: The answer in a sentence or two.
        more: What else must be known of it.
        bars: The bars of each comparison and of each ranking, as far as there is room.
        foot: The unit, the test, the correction, and for whom the answer holds.
    """

    warning: str
    facts: tuple[str, ...]
    answer: str
    more: str
    bars: tuple[ResultBars, ...]
    foot: str

    @property
    def summary(self) -> str:
        """Return warning, facts and answer as one paragraph."""
        sentences = (self.warning, *(f"{fact}." for fact in self.facts), self.answer, self.more)
        return " ".join(filter(None, sentences))


def first_screen(evidence: Evidence) -> FirstScreen:
    """Return the first screen of a report."""
    context, alpha = evidence.context, evidence.plan.alpha
    in_order = sorted(evidence.rows(answering), key=lambda row: KIND_PLACE[row.rater_kind])
    by_raters = group_by(in_order, lambda row: row.who).values()
    # The rows of the family, or all of them.
    groups = [[row for row in rows if row.family] or rows for rows in by_raters]
    first, *others = groups
    declared = evidence.is_ranked and _come_first(evidence, first)
    is_ranked = _ranked_results(evidence)
    shown = [row for row in first if declared or not is_ranked(row)]
    answers = list(_shares_answers(shown, evidence))
    nothing = [row for row in shown if conclude(row, alpha) == NO_EVIDENCE]
    notes = [*_leads(nothing, alpha), *_detectable(nothing, evidence), *_equivalent(evidence, first[0].who)]
    if evidence.is_ranked and declared:
        notes.insert(0, _ranking_answer(evidence))
    elif evidence.is_ranked:
        answers.insert(0, _ranking_answer(evidence))
        notes.insert(0, _count_differences(first, alpha))
    if not evidence.is_ranked:
        judges = [rows for rows in others if rows[0].judge]
        notes += _judges_answer(judges, first, alpha, is_single=len(evidence.comparisons) == 1)
    notes = [*describe_rounds(evidence), *notes, *_uneven_sides(evidence)]
    notes += _failed_calibrations(evidence)
    if context.composite is not None:
        notes.append(f"The overall result is a composite, declared as {context.composite}.")
    unfinished = and_list(context.unfinished) if context.unfinished else ""
    if unfinished and evidence.plan.sequential:
        notes.append(f"Not everything that was planned is rated: {unfinished}.")
    looked_at_early = unfinished and not evidence.plan.sequential
    return FirstScreen(
        warning=LOOKED_AT_EARLY.format(what=unfinished) if looked_at_early else "",
        facts=_facts(evidence),
        answer=" ".join(answers),
        more=" ".join(filter(None, notes)),
        bars=_fitting(_bars(evidence, groups, declared=declared)),
        foot=_foot(evidence, first, ranks_first=evidence.is_ranked and not declared),
    )


def _come_first(evidence: Evidence, rows: Sequence[WinShareRow]) -> bool:
    """Return whether comparisons of several methods were declared, and are few enough to come first."""
    return evidence.context.planned is not None and 0 < rows[0].family <= MAX_DECLARED


def _ranked_results(evidence: Evidence) -> Callable[[ShareRow], bool]:
    """Return whether a result is one of methods that are ranked."""
    rows = evidence.rows(ranking) if evidence.is_ranked else []
    ranked = {(*row.who, row.criterion, row.method) for row in rows}
    return lambda row: (*row.who, row.criterion, row.method_a) in ranked


def _bars(evidence: Evidence, groups: Sequence[list[WinShareRow]], *, declared: bool) -> Iterator[ResultBars]:
    """Yield the bars of people's results, and those of the rankings; declared comparisons come first."""
    is_ranked = _ranked_results(evidence)
    people = [rows for rows in groups if not rows[0].judge] or groups
    shown = [row for rows in people for row in rows if declared or not is_ranked(row)]
    compared = group_by(shown, lambda row: row.methods).values()
    shares = [_share_bars(results, evidence) for results in compared]
    ranked = rankings(evidence) if evidence.is_ranked else []
    ranks = [_ranking_bars(rows, evidence.plan.level) for rows in ranked]
    yield from (*shares, *ranks) if declared else (*ranks, *shares)


def _fitting(bars: Iterable[ResultBars]) -> tuple[ResultBars, ...]:
    """Return the first bars, up to the lines that the screen has room for."""
    kept: list[ResultBars] = []
    room = MAX_LINES
    for block in bars:
        if room > 0:
            kept.append(replace(block, lines=block.lines[:room]))
        room -= len(block.lines)
    return tuple(kept)


def _facts(evidence: Evidence) -> tuple[str, ...]:
    """Return who rated what: a line for people, and one for each of the first judges."""
    facts = [describe_coverage(row, evidence) for row in evidence.rows(coverage)]
    more = len(facts) - MAX_FACTS
    unnamed = [f"{more} more judges"] if more > 0 else []
    return (*facts[:MAX_FACTS], *unnamed, *reading_of(evidence.frame).left_out)


def describe_coverage(row: CoverageRow, evidence: Evidence) -> str:
    """Return what people or a judge rated."""
    context = evidence.context
    pairs = plural(row.pairs, "pair")
    if row.judge:
        return f"{_the(plain_name(row.judge))} judged {pairs}"
    prompts = plural(row.units, "prompt")
    of_prompts = f" ({prompts})" if row.unit == "prompt" and row.units != row.pairs else ""
    criteria = "1 criterion" if row.criteria == 1 else f"{row.criteria} criteria"
    days = [day for day in dict.fromkeys((row.first_day, row.last_day)) if day]
    excluded = describe_exclusions(context.exclusions, row.rater_kind)
    raters = count_raters(row.raters, row.rater_kind)
    parts = (
        f"{raters} rated {pairs} of {context.texts}{of_prompts} on {criteria}",
        plural(row.ratings, "rating"),
        " to ".join(days),
        excluded or ("no rater excluded" if context.study_hash else ""),
    )
    return " · ".join(filter(None, parts))


def count_raters(count: int, kind: str) -> str:
    """Return how many raters there are, as what they are known to be."""
    names = {"person": ("person", "people"), "unknown": ("rater of unknown kind", "raters of unknown kind")}
    singular, many = names.get(kind, ("rater", "raters"))
    return f"{count}\u00a0{singular if count == 1 else many}"


def _the(name: str) -> str:
    """Return a judge as the subject of a sentence; a name such as `judge` or `panel` has an article."""
    return f"The {name}" if name.split(maxsplit=1)[0].casefold() in {"judge", "panel"} else name


def _share_bars(rows: Sequence[WinShareRow], evidence: Evidence) -> ResultBars:
    """Return a line for each criterion of one comparison, with the share of its first method."""
    first = rows[0]
    several_kinds = len({row.who for row in rows}) > 1
    several_sizes = len({row.units for row in rows}) > 1
    lines = []
    for row in rows:
        label = capital(title(row.criterion))
        label += f" · {group_name(row)}" if several_kinds else ""
        label += f" · n = {row.units}" if several_sizes else ""
        p, word = row.deciding_p, verdict_word(row, evidence.plan.alpha)
        lines.append(
            AnswerLine(
                label=label,
                interval=row.win_share,
                word=word if p is None else f"{p_value(p)} · {word}",
                won=row.wins / row.ratings,
                tied=row.ties / row.ratings,
            )
        )
    corrected = f" ({first.correction.split('–')[0]})" if any(row.family > 1 for row in rows) else ""
    level = percent(evidence.plan.level, 0)
    heads = ("Criterion", f"Share of {first.method_a}, ties half", f"{level} interval", f"p{corrected}")
    return ResultBars(lines=tuple(lines), heads=heads, sides=(first.method_b, first.method_a))


def _ranking_bars(rows: Sequence[RankingRow], level: float) -> ResultBars:
    """Return a line for each method of a ranking, the best one first."""
    lines = tuple(
        AnswerLine(
            label=f"{row.rank}. {row.method}",
            interval=row.expected_share,
            word=f"rank {row.possible_ranks}" if row.possible_best else row.possible_ranks,
        )
        for row in rows
    )
    who = f" · {group_name(rows[0])}" if rows[0].judge else ""
    criterion = f"{capital(title(rows[0].criterion))}{who}"
    heads = (criterion, "Expected share", f"{percent(level, 0)} interval", "Ranks possible")
    return ResultBars(lines=lines, heads=heads, sides=("loses", "wins"))


def _shares_answers(rows: Sequence[WinShareRow], evidence: Evidence) -> Iterator[str]:
    """Say of each comparison who was preferred, and once for all in which nothing was found."""
    alpha = evidence.plan.alpha
    comparisons = list(group_by(rows, lambda row: row.methods).values())
    nothing = [rows for rows in comparisons if {conclude(row, alpha) for row in rows} == {NO_EVIDENCE}]
    told = [rows for rows in comparisons if rows not in nothing]
    yield from (_shares_answer(rows, alpha) for rows in told[:MAX_SPELT_OUT])
    if nothing:
        pairs = [f"{rows[0].method_a} and {rows[0].method_b}" for rows in nothing]
        yield f"No difference between {_some(pairs, MAX_NAMED, join=' or between ')} was found."
    if len(told) > MAX_SPELT_OUT:
        yield f"The tables below show {plural(len(told) - MAX_SPELT_OUT, 'more comparison')}."


def _shares_answer(rows: Sequence[WinShareRow], alpha: float) -> str:
    """Say of one comparison who was preferred, and on what no difference was found."""
    pair = rows[0]
    by_word = group_by(rows, lambda row: PREFERRED if row.is_significant(alpha) else conclude(row, alpha))
    winners = group_by(by_word.get(PREFERRED, ()), lambda row: (row.ahead, row.behind))
    sentences = [
        f"{name} was preferred to {other} on {_with_shares(won)}." for (name, other), won in winners.items()
    ]
    if none := by_word.get(NO_EVIDENCE):
        sentences.append(
            f"No difference between {pair.method_a} and {pair.method_b} was found on {_criteria(none)}."
        )
    for word, text in UNDECIDED.items():
        if undecided := by_word.get(word):
            words = {"names": _criteria(undecided), "unit": undecided[0].unit, "note": undecided[0].note}
            sentences.append(text.format(first=pair.method_a, second=pair.method_b, **words))
    return " ".join(sentences)


def _leads(rows: Sequence[WinShareRow], alpha: float) -> Iterator[str]:
    """Say who won more often, without evidence of a difference."""
    leads = group_by((row for row in rows if row.lead >= CLEAR_LEAD), lambda row: (row.ahead, row.behind))
    if leads:
        parts = [
            f"{name} won more often than {other} on {_with_shares(ahead)}"
            for (name, other), ahead in list(leads.items())[:MAX_NAMED]
        ]
        alone = any(row.p is not None and row.p <= alpha for row in rows)
        chance = "results this far from 50\u00a0% are to be expected by chance"
        if alone:
            chance = (
                f"among {rows[0].family} results, one this far from 50\u00a0% is to be expected by chance"
            )
        yield f"{and_list(parts)}, but {chance}."


def _detectable(rows: Sequence[WinShareRow], evidence: Evidence) -> Iterator[str]:
    """Say how large a share would probably have been found; the largest of several results."""
    plan = evidence.plan
    if (
        evidence.stops_early or plan.sequential or plan.assisted_by is not None or plan.raters == "random"
    ):  # other tests than this
        return
    known = [
        detectable_share(row.standard_error, row.units, alpha=evidence.plan.alpha / max(1, row.family))
        for row in rows
        if row.standard_error is not None
    ]
    if known and max(known) < 1:
        units = plural(max(row.units for row in rows), rows[0].unit)
        share = percent(max(known), 0)
        yield f"With {units}, a share of {share} or more would have been found in 4 of 5 studies."


def _criteria(rows: Sequence[ShareRow]) -> str:
    return _some([title(row.criterion) for row in rows])


def _with_shares(rows: Sequence[ShareRow]) -> str:
    """Name criteria with the share of the first method, which is named if the other one is ahead."""
    return _some([f"{title(row.criterion)} ({_named_share(row)})" for row in rows])


def _named_share(row: ShareRow) -> str:
    share = percent(row.win_share.value, 0)
    return share if row.ahead == row.method_a else f"{row.method_a} {share}"


def _equivalent(evidence: Evidence, who: tuple[str, str]) -> Iterator[str]:
    """Say on which criteria methods are shown to be equally good, if a margin was declared."""
    rows = [row for row in evidence.rows(equivalence) if row.who == who]
    if not rows:
        return
    shown = [row for row in rows if row.conclusion in {"equivalent", "different but negligible"}]
    margin = f"within {100 * rows[0].margin:g} points of 50\u00a0%"
    if shown:
        yield f"On {_criteria(shown)} the share is shown to lie {margin}."
    else:
        yield f"No share is shown to lie {margin}."


def _judges_answer(
    groups: Sequence[list[WinShareRow]], first: Sequence[WinShareRow], alpha: float, *, is_single: bool
) -> Iterator[str]:
    """Say in a sentence what each judge found."""
    is_first_different = any(row.is_significant(alpha) for row in first)
    for rows in groups[:MAX_NAMED]:
        name = plain_name(rows[0].judge)
        who = _the(name) if _the(name) != name else f"The judge {name}"
        different = [row for row in rows if row.is_significant(alpha)]
        also = "also " if bool(different) == is_first_different else ""
        parts = [_preference(row, is_single=is_single) for row in different[:MAX_SPELT_OUT]]
        yield f"{who} {also}preferred {and_list(parts)}." if parts else f"{who} {also}found no difference."
    if len(groups) > MAX_NAMED:
        yield f"The table has {len(groups) - MAX_NAMED} more judges."


def _preference(row: ShareRow, *, is_single: bool) -> str:
    """Name the method ahead; of several comparisons, the one behind, too."""
    ahead = row.ahead if is_single else f"{row.ahead} to {row.behind}"
    return f"{ahead} on {title(row.criterion)}"


def _ranking_answer(evidence: Evidence) -> str:
    """Say who leads each ranking, and once for all in which nothing was found."""
    alpha, tables = evidence.plan.alpha, rankings(evidence)
    several = len({rows[0].who for rows in tables}) > 1
    nothing = [rows for rows in tables if _is_unclear(rows[0], alpha)]
    together = nothing if len(nothing) > 1 and not several else []
    told = [rows for rows in tables if rows not in together]
    sentences = [
        ranking_sentence(rows, alpha, who=f", judged by {group_name(rows[0])}," if several else "")
        for rows in told[:MAX_SPELT_OUT]
    ]
    if together:
        where = _some([title(rows[0].criterion) for rows in together])
        most = max(len(rows) for rows in together)
        none = f"there is no evidence that one of {most} methods is better than another"
        sentences.append(f"On {where} {none}.")
    if len(told) > MAX_SPELT_OUT:
        sentences.append(f"{plural(len(told) - MAX_SPELT_OUT, 'more ranking')} stand below.")
    return " ".join(sentences)


def _count_differences(rows: Sequence[WinShareRow], alpha: float) -> str:
    """Say how many comparisons show a difference by themselves."""
    shown = sum(row.is_significant(alpha) for row in rows)
    results = "comparisons" if len({row.criterion for row in rows}) == 1 else "results"
    corrected = f" after {rows[0].correction}'s correction" if rows[0].family > 1 else ""
    verb = "show" if shown > 1 else "shows"
    return f"Of {len(rows)} {results}, {shown or 'none'} {verb} a difference by itself{corrected}."


def _is_unclear(row: RankingRow, alpha: float) -> bool:
    """Return whether a ranking has no evidence that any method is better."""
    p = row.p_any_difference_adjusted
    return NO_RANK not in row.note and (p is None or p > alpha)


def ranking_sentence(rows: Sequence[RankingRow], alpha: float, *, who: str = "") -> str:
    """Name the leading method, those that may lead as well, and the last; or say that no method is better."""
    names, first = [row.method for row in rows], rows[0]
    on = f"On {title(first.criterion)}{who}"
    p = first.p_any_difference_adjusted
    about = f"any difference: {equals(p)}" if p is not None else "no test of any difference"
    if NO_RANK in first.note:
        return f"{on} {names[0]} is first of {len(names)} methods, and no rank is sure ({about})."
    if _is_unclear(first, alpha):
        return f"{on} there is no evidence that one of {len(names)} methods is better than another ({about})."
    if first.possible_best is None:
        return f"{on} the {len(names)} methods differ ({about}); {names[0]} is first, and no rank is sure."
    may_lead = [row.method for row in rows if row.possible_best == 1]
    may_be_last = [row.method for row in rows if row.possible_worst == len(names)]
    if len(may_lead) == len(names) == len(may_be_last):
        return f"{on} the {len(names)} methods differ ({about}), and no rank is sure; {names[0]} is first."
    text = f"{on} {names[0]} leads, ahead of all others"
    if len(may_lead) > 1:
        others = [name for name in may_lead if name != names[0]]
        text = f"{on} {names[0]} leads and cannot be told apart from {_some(others, MAX_NAMED)}"
    if len(may_lead) + len(may_be_last) <= len(names) or len(may_be_last) == 1:
        comes = "comes" if len(may_be_last) == 1 else "may come"
        text += f"; {_some(may_be_last[::-1], MAX_NAMED)} {comes} last"
    return f"{text} ({about})."


def _some(names: Sequence[str], most: int = MAX_SPELT_OUT, *, join: str = "") -> str:
    """Return a few names, and how many there are besides."""
    if len(names) <= most:
        return join.join(names) if join else and_list(names)
    return f"{(join or ', ').join(names[:most])} and {len(names) - most} more"


def _uneven_sides(evidence: Evidence) -> list[str]:
    """Say that a preference may be one for a place, if an audit found so."""
    rows = evidence.rows(audits)
    uneven = [row.what for row in rows if row.kind == UNBALANCED and row.severity == "warning"]
    more = f" (so in {len(uneven)} comparisons)" if len(uneven) > 1 else ""
    return [f"However, {uneven[0]}{more}."] if uneven else []


def _failed_calibrations(evidence: Evidence) -> Iterator[str]:
    """Say which judges of the report failed their calibration, and how."""
    judges = {row.judge for row in evidence.rows(answering)}
    checked = [row for row in evidence.rows(calibration) if row.judge in judges]
    failures: dict[str, list[str]] = {}
    for (judge, check), rows in group_by(checked, lambda row: (row.judge, row.check)).items():
        if failed := _failed_check(check, rows):
            failures.setdefault(judge, []).append(failed)
    for judge, sentences in failures.items():
        name = plain_name(judge)
        who = _the(name) if _the(name) != name else f"the judge {name}"
        yield f"However, {who} failed its calibration: it {and_list(sentences)}."


def _failed_check(check: str, rows: Sequence[CalibrationRow]) -> str:
    """Say what a judge did in a check that it failed; empty if it passed."""
    hits = sum(row.hits for row in rows)
    items = sum(row.items for row in rows)
    is_good = 2 * hits <= items if check == "padded" else 2 * hits > items
    return "" if is_good or not items else f"{CALIBRATED[check]} {hits} of {items} checks"


def _foot(evidence: Evidence, rows: Sequence[WinShareRow], *, ranks_first: bool) -> str:
    """Say what counts once, what the test is, and for whom the answer holds."""
    first = rows[0]
    covered = next(row for row in evidence.rows(coverage) if row.who == first.who)
    correction = f", {first.correction} for {first.family} results" if first.family > 1 else ""
    sizes = sorted({row.units for row in rows})
    counted = f"n = {sizes[0]}" if len(sizes) == 1 else f"n = {sizes[0]} to {sizes[-1]}"
    test = f"{_test_name(evidence, first)}{correction}"
    if ranks_first and not evidence.stops_early:
        test = f"Davidson’s model; all ranks hold at once at {percent(evidence.plan.level, 0)}"
    sentences = [f"Each {covered.unit} counts once ({counted}; {test}).", _whom(evidence, covered)]
    unclear = [row for row in rows if conclude(row, evidence.plan.alpha) == NO_EVIDENCE]
    if not ranks_first and any(_excludes_half(row.win_share) for row in unclear):
        sentences.append(NOT_CORRECTED)
    if evidence.context.why_exploratory:
        sentences.append("These results are exploratory: see Methods.")
    return " ".join(sentences)


def _test_name(evidence: Evidence, row: WinShareRow) -> str:
    """Return the test that decides, in a few words."""
    plan = evidence.plan
    if plan.sequential:
        return "test that holds whenever one looks"
    if evidence.stops_early:
        return "test that holds at whichever round a comparison stops"
    if plan.raters == "random" and not row.judge:
        return "t test over raters and prompts"
    if plan.assisted_by is not None:
        return f"prediction-powered t test, assisted by {plan.assisted_by}"
    return "exact sign-flip test" if "exact sign-flip" in row.method else "sign-flip test"


def _whom(evidence: Evidence, covered: CoverageRow) -> str:
    """Say whom the result is about."""
    if covered.rater_kind in PEOPLE_OF:
        return f"The result is about {plain_name(covered.judge)}, and not about other raters."
    if evidence.plan.raters == "random":
        return "The result is about all raters of the same kind."
    raters = count_raters(covered.raters, covered.rater_kind)
    whose = f"these {raters}" if covered.raters > 1 else f"this {raters[2:]}"  # without the number
    return f"The result is about {whose}, not raters in general."


def _excludes_half(share: Estimate) -> bool:
    return share.low is not None and share.high is not None and not share.low <= 0.5 <= share.high


def is_simulated(evidence: Evidence) -> bool:
    """Return whether some verdicts are made up."""
    return any(row.rater_kind in SIMULATED for row in evidence.rows(answering))
