"""The first screen: who rated what, the answer in plain sentences, and a line for each result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.analyses.outcomes.exclusions import exclusion_words
from analysis.analyses.outcomes.ranking import NOT_SEQUENTIAL
from analysis.analyses.outcomes.shares import deciding_p
from analysis.analyses.reliability.audits import UNBALANCED
from analysis.reports.columns import count_raters, differs, group_name, limits, plain_name, possible_ranks
from analysis.reports.results import Results, Row, group_of, grouped, rows_of
from analysis.verdicts.reading import reading_of
from guard_eval.estimate import why_no_p
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
MAX_FACTS = 4
"""Lines on who rated what."""
MAX_NAMED = 3
"""Methods that a sentence names before it counts the rest."""
NO_EVIDENCE, TOO_FEW, NO_TEST, BALANCED = "no evidence", "too few {unit}s", "no test", "nothing to test"
PREFERRED = "preferred"
UNDECIDED = {
    TOO_FEW: "Too few {unit}s favour a method to tell them apart on {names}.",
    NO_TEST: "On {names} there is no test: {note}.",
    BALANCED: "On {names} every {unit} is balanced, so there is nothing to test.",
}
"""Why there is no p."""
LOOKED_AT_EARLY = (
    "These results were looked at early: {what}. Whoever stops or goes on because of them finds differences "
    "too often."
)
"""Said first of ratings that are not finished, unless they were declared to be looked at."""
CLEAR_LEAD = 0.505
"""A share that is not printed as 50 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerLine:
    """A line of the first screen: a bar from 0 to 100 % with its figures.

    Attributes:
        label: The criterion, or the method that is ranked.
        share: The share of the method ahead, or the expected share of a ranked one; `None` if undefined.
        low: Its lower limit, or None.
        high: Its upper limit, or None.
        word: The deciding p and what it says; or the ranks that are possible.
    """

    label: str
    share: float | None
    low: float | None
    high: float | None
    word: str

    @property
    def figures(self) -> tuple[str, str, str]:
        """Return share, interval and word, as they are printed."""
        return percent(self.share), limits(self.low, self.high), self.word


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
        answer: The answer in two or three sentences.
        bars: The bars of each comparison and of each ranking, as far as there is room.
        foot: The unit, the test, the correction, and for whom the answer holds.
    """

    warning: str
    facts: tuple[str, ...]
    answer: str
    bars: tuple[ResultBars, ...]
    foot: str

    @property
    def summary(self) -> str:
        """Return warning, facts and answer as one paragraph."""
        sentences = (self.warning, *(f"{fact}." for fact in self.facts), self.answer)
        return " ".join(filter(None, sentences))


def first_screen(results: Results) -> FirstScreen:
    """Return the first screen of a report."""
    context = results.context
    in_order = sorted(results.answering, key=lambda row: KIND_PLACE[row.rater_kind])
    # The rows of the family, or all of them.
    groups = [[row for row in rows if row.family] or rows for rows in grouped(in_order, group_of).values()]
    first, *others = groups
    ranked = {(*group_of(row), row.criterion, row.method) for row in rows_of(results["ranking"])}

    def is_ranked(row: Row) -> bool:
        return (*group_of(row), row.criterion, row.method_a) in ranked

    answer = [_ranking_answer(results, first)] if results.is_ranked else []
    comparisons = grouped((row for row in first if not is_ranked(row)), methods_of)
    answer += [_shares_answer(rows, results) for rows in list(comparisons.values())[:MAX_SPELT_OUT]]
    if len(comparisons) > MAX_SPELT_OUT:
        more = plural(len(comparisons) - MAX_SPELT_OUT, "more comparison")
        answer.append(f"The tables below show {more}.")
    if not results.is_ranked:
        judges = [rows for rows in others if rows[0].judge]
        answer += _judges_answer(judges, first, results)
    people = [rows for rows in groups if not rows[0].judge] or groups
    unranked = [row for rows in people for row in rows if not is_ranked(row)]
    bars = [_ranking_bars(rows, results) for rows in results.rankings]
    bars += [_share_bars(rows, results) for rows in grouped(unranked, methods_of).values()]
    answer += _uneven_sides(results)
    answer += _failed_calibrations(results)
    if context.composite is not None and context.composite.weights:
        answer.append(f"The overall result is a composite, declared as {context.composite}.")
    if context.unfinished and context.plan.sequential:
        answer.append(f"Not everything that was planned is rated: {and_list(context.unfinished)}.")
    looked_at_early = context.unfinished and not context.plan.sequential
    return FirstScreen(
        warning=LOOKED_AT_EARLY.format(what=and_list(context.unfinished)) if looked_at_early else "",
        facts=_facts(results),
        answer=" ".join(answer),
        bars=_fitting(bars),
        foot=_foot(results, first),
    )


def methods_of(row: Row) -> tuple[str, str]:
    """Return the two methods that a row compares."""
    return row.method_a, row.method_b


def _fitting(bars: Sequence[ResultBars]) -> tuple[ResultBars, ...]:
    """Return the first bars, up to the lines that the screen has room for."""
    kept: list[ResultBars] = []
    room = MAX_LINES
    for block in bars:
        if room > 0:
            kept.append(replace(block, lines=block.lines[:room]))
        room -= len(block.lines)
    return tuple(kept)


def _facts(results: Results) -> tuple[str, ...]:
    """Return who rated what: a line for people, and one for each of the first judges."""
    context, facts = results.context, []
    for row in rows_of(results["coverage"]):
        if row.judge:
            name = plain_name(row.judge)
            facts.append(f"{_the(name)} judged {plural(row.pairs, 'pair')}")
            continue
        prompts = plural(row.units, "prompt")
        of_prompts = f" ({prompts})" if row.unit == "prompt" and row.units != row.pairs else ""
        criteria = "1 criterion" if row.criteria == 1 else f"{row.criteria} criteria"
        days = [day for day in dict.fromkeys((row.first_day, row.last_day)) if day]
        excluded = exclusion_words(context.exclusions, row.rater_kind) if context.exclusions else ""
        raters = count_raters(row.raters, row.rater_kind)
        parts = (
            f"{raters} rated {plural(row.pairs, 'pair')} of {context.texts}{of_prompts} on {criteria}",
            plural(row.ratings, "rating"),
            " to ".join(days),
            excluded or ("no rater excluded" if context.study_hash else ""),
        )
        facts.append(" · ".join(filter(None, parts)))
    more = len(facts) - MAX_FACTS
    left_out = reading_of(results.evidence.frame).left_out
    facts[MAX_FACTS:] = [*([f"{more} more judges"] if more > 0 else []), *left_out]
    return tuple(facts)


def _the(name: str) -> str:
    """Return a judge as the subject of a sentence; a name such as `judge` or `panel` has an article."""
    return f"The {name}" if name.split(maxsplit=1)[0].casefold() in {"judge", "panel"} else name


def verdict_word(row: Row, alpha: float) -> str:
    """Return what the deciding p says, in a word or two."""
    return _conclusion(row, alpha).format(unit=getattr(row, "unit", "prompt"))


def _conclusion(row: Row, alpha: float) -> str:
    """Return what the deciding p says; `TOO_FEW` has still to name its unit."""
    p = deciding_p(row)
    if p is not None:
        if p > alpha:
            return NO_EVIDENCE
        return "strong evidence" if p <= alpha / 50 else "evidence"
    if not hasattr(row, "smallest_p"):  # of another test than the sign-flip test
        return NO_TEST
    # The smallest p is 1 if at most one unit favours a method; if one does, the share is not one half.
    if row.smallest_p >= 1 and row.win_share is not None and abs(row.win_share - 0.5) < 1e-9:
        return BALANCED
    return TOO_FEW if why_no_p(row.smallest_p, alpha) or "no corrected p" in row.note else NO_TEST


def seen_from(row: Row, method: str) -> tuple[float | None, float | None, float | None]:
    """Return a row's share and limits as those of one of its methods."""
    if method == row.method_a:
        return row.win_share, row.low, row.high
    share, low, high = (None if end is None else 1 - end for end in (row.win_share, row.high, row.low))
    return share, low, high


def ahead_and_behind(row: Row) -> tuple[str, str]:
    """Return the method with the larger share, the first one of two equal ones; and the other."""
    is_first = row.win_share is None or row.win_share >= 0.5
    return (row.method_a, row.method_b) if is_first else (row.method_b, row.method_a)


def leading_method(rows: Sequence[Row]) -> str:
    """Return which method of one comparison has the larger share in the mean of rows."""
    is_first = sum((row.win_share or 0.5) - 0.5 for row in rows) >= 0
    return str(rows[0].method_a if is_first else rows[0].method_b)


def _lead(row: Row) -> float:
    """Return the share of the method that is ahead."""
    return seen_from(row, ahead_and_behind(row)[0])[0] or 0.5


def _share_bars(rows: Sequence[Row], results: Results) -> ResultBars:
    """Return a line for each criterion of one comparison, of the method that is ahead over all lines."""
    first, lead = rows[0], leading_method(rows)
    other = first.method_b if lead == first.method_a else first.method_a
    kinds = {group_of(row) for row in rows}
    lines = []
    for row in rows:
        label, p = capital(title(row.criterion)), deciding_p(row)
        share, low, high = seen_from(row, lead)
        word = verdict_word(row, results.context.plan.alpha)
        lines.append(
            AnswerLine(
                label=f"{label} · {group_name(row)}" if len(kinds) > 1 else label,
                share=share,
                low=low,
                high=high,
                word=word if p is None else f"{p_value(p)} · {word}",
            )
        )
    corrected = f" ({first.correction.split('–')[0]})" if any(row.family > 1 for row in rows) else ""
    level = percent(results.evidence.level, 0)
    heads = ("Criterion", f"{lead} won", f"{level} interval", f"p{corrected}")
    return ResultBars(lines=tuple(lines), heads=heads, sides=(other, lead))


def _ranking_bars(rows: Sequence[Row], results: Results) -> ResultBars:
    """Return a line for each method of a ranking, the best one first."""
    lines = tuple(
        AnswerLine(
            label=f"{row.rank}. {row.method}",
            share=row.expected_share,
            low=row.share_low,
            high=row.share_high,
            word=f"rank {possible_ranks(row)}" if row.possible_best else possible_ranks(row),
        )
        for row in rows
    )
    who = f" · {group_name(rows[0])}" if rows[0].judge else ""
    level = percent(results.evidence.level, 0)
    heads = (f"{capital(title(rows[0].criterion))}{who}", "Expected share", f"{level} interval")
    return ResultBars(lines=lines, heads=(*heads, "Ranks possible"), sides=("loses", "wins"))


def _shares_answer(rows: Sequence[Row], results: Results) -> str:
    """Say of one comparison who was preferred, and on what no difference was found."""
    alpha = results.context.plan.alpha
    by_word = grouped(rows, lambda row: PREFERRED if differs(row, alpha) else _conclusion(row, alpha))
    winners = grouped(by_word.get(PREFERRED, ()), ahead_and_behind)
    sentences = [
        f"{name} was preferred to {other} on {_with_shares(won)}." for (name, other), won in winners.items()
    ]
    if none := by_word.get(NO_EVIDENCE):
        where = f" on {_criteria(none)}" if len(by_word) > 1 else ""
        sentences.append(f"No difference between {none[0].method_a} and {none[0].method_b} was found{where}.")
        leads = grouped((row for row in none if _lead(row) >= CLEAR_LEAD), ahead_and_behind)
        if leads:
            parts = [f"{name} won more often on {_with_shares(ahead)}" for (name, _), ahead in leads.items()]
            chance = "but results this far from 50\u00a0% are to be expected by chance"
            sentences.append(f"{and_list(parts)}, {chance}.")
    for word, text in UNDECIDED.items():
        if known := by_word.get(word):
            sentences.append(text.format(names=_criteria(known), unit=known[0].unit, note=known[0].note))
    return " ".join((*sentences, *_equivalent(results, rows)))


def _criteria(rows: Sequence[Row]) -> str:
    return _some([title(row.criterion) for row in rows])


def _with_shares(rows: Sequence[Row]) -> str:
    return _some([f"{title(row.criterion)} ({percent(_lead(row), 0)})" for row in rows])


def _equivalent(results: Results, rows: Sequence[Row]) -> Iterator[str]:
    """Say on which criteria methods are shown to be equally good, if a margin was declared."""
    group = [row for row in rows_of(results["equivalence"]) if group_of(row) == group_of(rows[0])]
    if not group:
        return
    shown = [row for row in group if row.conclusion in {"equivalent", "different but negligible"}]
    margin = f"within {100 * group[0].margin:g} points of 50\u00a0%"
    yield (
        f"On {_criteria(shown)} the share is shown to lie {margin}."
        if shown
        else f"No share is shown to lie {margin}."
    )


def _judges_answer(groups: Sequence[list[Row]], first: Sequence[Row], results: Results) -> Iterator[str]:
    """Say in a sentence what each judge found."""
    alpha = results.context.plan.alpha
    is_single = len(results.comparisons) == 1
    for rows in groups[:MAX_NAMED]:
        name = plain_name(rows[0].judge)
        who = _the(name) if _the(name) != name else f"The judge {name}"
        different = [row for row in rows if differs(row, alpha)]
        also = "also " if bool(different) == any(differs(row, alpha) for row in first) else ""
        parts = [_preference(row, is_single=is_single) for row in different[:MAX_SPELT_OUT]]
        yield f"{who} {also}preferred {and_list(parts)}." if parts else f"{who} {also}found no difference."
    if len(groups) > MAX_NAMED:
        yield f"The table has {len(groups) - MAX_NAMED} more judges."


def _preference(row: Row, *, is_single: bool) -> str:
    """Name the method ahead; of several comparisons, the one behind, too."""
    ahead, behind = ahead_and_behind(row)
    return f"{ahead if is_single else f'{ahead} to {behind}'} on {title(row.criterion)}"


def _ranking_answer(results: Results, first: Sequence[Row]) -> str:
    """Say who leads each ranking, and how many comparisons show a difference."""
    alpha, tables = results.context.plan.alpha, results.rankings
    several = len({group_of(rows[0]) for rows in tables}) > 1
    sentences = [
        ranking_sentence(rows, alpha, who=f", judged by {group_name(rows[0])}," if several else "")
        for rows in tables[:MAX_SPELT_OUT]
    ]
    if len(tables) > MAX_SPELT_OUT:
        sentences.append(f"{plural(len(tables) - MAX_SPELT_OUT, 'more ranking')} stand below.")
    shown = sum(differs(row, alpha) for row in first)
    results_of = "comparisons" if len({row.criterion for row in first}) == 1 else "results"
    corrected = f" after {first[0].correction}'s correction" if first[0].family > 1 else ""
    verb = "show" if shown > 1 else "shows"
    sentences.append(
        f"Of {len(first)} {results_of}, {shown or 'none'} {verb} a difference by itself{corrected}."
    )
    return " ".join(sentences)


def ranking_sentence(rows: Sequence[Row], alpha: float, *, who: str = "") -> str:
    """Name the leading method, those that may lead as well, and the last; or say that no method is better."""
    names, first = [row.method for row in rows], rows[0]
    on = f"On {title(first.criterion)}{who}"
    p = first.p_any_difference_adjusted
    about = f"any difference: {equals(p)}" if p is not None else "no test of any difference"
    if NOT_SEQUENTIAL in first.note:
        return f"{on} {names[0]} is first of {len(names)} methods, and no rank is sure ({about})."
    if p is None or p > alpha:
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


def _some(names: Sequence[str], most: int = MAX_SPELT_OUT) -> str:
    """Return a few names, and how many there are besides."""
    if len(names) <= most:
        return and_list(names)
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def _uneven_sides(results: Results) -> list[str]:
    """Say that a preference may be one for a place, if an audit found so."""
    audits = [row for row in rows_of(results["audits"]) if row.kind == UNBALANCED]
    uneven = [row.what for row in audits if row.severity == "warning"]
    more = f" (so in {len(uneven)} comparisons)" if len(uneven) > 1 else ""
    return [f"However, {uneven[0]}{more}."] if uneven else []


_CALIBRATED = {
    "identical": "called a text and itself similar in",
    "shuffled": "preferred a text to its own words in disorder in",
    "swapped": "gave one verdict on both orders of a pair in",
    "padded": "preferred a text with filler to the same text without it in",
}
"""What a judge does in each check of its calibration. It fails the last check if it does so in more than half
of the pairs, and the others if it does so in no more than half."""


def _failed_calibrations(results: Results) -> Iterator[str]:
    """Say which judges of the report failed their calibration, and how."""
    judges = {row.judge for row in results.answering}
    checked = grouped(rows_of(results["judge_calibration"]), lambda row: (row.judge, row.check))
    failures: dict[str, list[str]] = {}
    for (judge, check), rows in checked.items():
        hits = sum(row.hits for row in rows)
        items = sum(row.items for row in rows)
        is_good = 2 * hits <= items if check == "padded" else 2 * hits > items
        if judge in judges and items and not is_good:
            failures.setdefault(judge, []).append(f"{_CALIBRATED[check]} {hits} of {items} checks")
    for judge, sentences in failures.items():
        name = plain_name(judge)
        who = _the(name) if _the(name) != name else f"the judge {name}"
        yield f"However, {who} failed its calibration: it {and_list(sentences)}."


def _foot(results: Results, rows: Sequence[Row]) -> str:
    """Say what counts once, what the test is, and for whom the answer holds."""
    context, first = results.context, rows[0]
    covered = next(row for row in rows_of(results["coverage"]) if group_of(row) == group_of(first))
    test = "exact sign-flip test" if "exact sign-flip" in first.method else "sign-flip test"
    if context.plan.sequential:
        test = "test that holds whenever one looks"
    elif context.plan.raters == "random" and not first.judge:
        test = "t test over raters and prompts"
    elif context.plan.assisted_by is not None:
        test = f"prediction-powered t test, assisted by {context.plan.assisted_by}"
    correction = f", {first.correction} for {first.family} results" if first.family > 1 else ""
    if first.rater_kind in PEOPLE_OF:
        whom = f"The result is about {plain_name(first.judge)}, and not about other raters."
    elif context.plan.raters == "random":
        whom = "The result is about all raters of the same kind."
    else:
        who = count_raters(covered.raters, first.rater_kind)
        whose = f"these {who}" if covered.raters > 1 else f"this {who[2:]}"  # without the number
        whom = f"The result is about {whose}, not raters in general."
    sentences = [f"Each {covered.unit} counts once (n = {covered.units}; {test}{correction}).", whom]
    unclear = [row for row in rows if verdict_word(row, context.plan.alpha) == NO_EVIDENCE]
    if any(row.low is not None and not row.low <= 0.5 <= row.high for row in unclear):
        sentences.append(f"An interval can exclude 50\u00a0% without evidence: {_why_apart(unclear)}.")
    if context.why_exploratory:
        sentences.append("These results are exploratory: see Methods.")
    return " ".join(sentences)


def _why_apart(rows: Sequence[Row]) -> str:
    """Return why an interval and a test may disagree."""
    if any(row.family > 1 for row in rows):
        return "it is not corrected as p is"
    return "it rests on the t distribution, and the test does not"


def is_simulated(results: Results) -> bool:
    """Return whether some verdicts are made up."""
    return any(row.rater_kind in SIMULATED for row in results.answering)
