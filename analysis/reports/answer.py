"""The first screen: who rated what, the answer in plain sentences, and a line for each result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.analyses.audits import UNBALANCED
from analysis.analyses.exclusions import exclusion_words
from analysis.analyses.shares import deciding_p
from analysis.reports.columns import (
    count_raters,
    differs,
    group_name,
    plain_name,
    possible_ranks,
)
from analysis.reports.results import Results, Row, rows_of
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
NO_EVIDENCE, TOO_FEW, NO_TEST, NOTHING_TO_TEST = (
    "no evidence",
    "too few prompts",
    "no test",
    "nothing to test",
)
PREFERRED = "preferred"
UNDECIDED = {
    TOO_FEW: "Too few {unit}s favour a method to tell them apart on {names}.",
    NO_TEST: "On {names} there is no test: {note}.",
    NOTHING_TO_TEST: "On {names} every {unit} is balanced, so there is nothing to test.",
}
"""Why there is no p."""
CLEAR_LEAD = 0.505
"""A share that is not printed as 50 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerLine:
    """A line of the first screen: a bar from 0 to 100 % with its figures; `None` if undefined.

    Attributes:
        label: The criterion, or the method that is ranked.
        share: The share of the method ahead, or the expected share of a ranked one.
        low: Its lower limit.
        high: Its upper limit.
        p: The deciding p, as papers print it; or the ranks that are possible.
        word: What p says.
    """

    label: str
    share: float | None
    low: float | None
    high: float | None
    p: str
    word: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstScreen:
    """What a reader sees first.

    Attributes:
        facts: Who rated what, and who was excluded.
        answer: The answer in two or three sentences.
        lines: One line for each criterion, or for each ranked method.
        heads: The headings of the lines' columns.
        left: The method on the bars' left, or empty.
        right: The method on their right.
        foot: The unit, the test, the correction, and for whom the answer holds.
    """

    facts: tuple[str, ...]
    answer: str
    lines: tuple[AnswerLine, ...]
    heads: tuple[str, ...]
    left: str
    right: str
    foot: str

    @property
    def summary(self) -> str:
        """Return facts and answer as one paragraph."""
        return " ".join((". ".join((*self.facts, "")).strip(), self.answer))


def first_screen(results: Results) -> FirstScreen:
    """Return the first screen of a report."""
    context, groups = results.context, _groups(results.answering)
    first = next(iter(groups.values()))
    if results.is_ranked:
        lines, heads, sides = _ranking_lines(results)
        answer = [_ranking_answer(results, first)]
    else:
        lines, heads, sides = _share_lines(results, groups)
        judges = [rows for who, rows in groups.items() if who[1] and rows is not first]
        answer = [_shares_answer(first, results), *_judges_answer(judges, first, results)]
    answer += _uneven_sides(results)
    if context.composite is not None and context.composite.weights:
        answer.append(f"The overall result is a composite, declared as {context.composite}.")
    if context.unfinished:
        answer.append(f"Not everything that was planned is rated: {and_list(context.unfinished)}.")
    return FirstScreen(
        facts=_facts(results),
        answer=" ".join(answer),
        lines=lines,
        heads=heads,
        left=sides[0],
        right=sides[1],
        foot=_foot(results, first),
    )


def _groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of the family, or all, by who judged, people first."""
    in_order = sorted(rows, key=lambda row: KIND_PLACE[row.rater_kind])
    groups = _grouped(in_order, lambda row: (row.rater_kind, row.judge))
    return {who: [row for row in group if row.family] or group for who, group in groups.items()}


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
    return (*facts[:MAX_FACTS], *([f"{more} more judges"] if more > 0 else []))


def _the(name: str) -> str:
    """Return a judge as the subject of a sentence; a name such as `judge` or `panel` has an article."""
    return f"The {name}" if name.split(maxsplit=1)[0].casefold() in {"judge", "panel"} else name


def verdict_word(row: Row, alpha: float) -> str:
    """Return what the deciding p says, in a word or two."""
    p = deciding_p(row)
    if p is not None:
        if p > alpha:
            return NO_EVIDENCE
        return "strong evidence" if p <= alpha / 50 else "evidence"
    if not hasattr(row, "smallest_p"):  # of another test than the sign-flip test
        return NO_TEST
    # The smallest p is 1 if at most one unit favours a method; if one does, the share is not one half.
    if row.smallest_p >= 1 and row.win_share is not None and abs(row.win_share - 0.5) < 1e-9:
        return NOTHING_TO_TEST
    return TOO_FEW if why_no_p(row.smallest_p, alpha) or "no corrected p" in row.note else NO_TEST


def seen_from(row: Row, method: str) -> tuple[float | None, float | None, float | None]:
    """Return a row's share and limits as those of one of its methods."""
    if method == row.method_a:
        return row.win_share, row.low, row.high
    share, low, high = (None if end is None else 1 - end for end in (row.win_share, row.high, row.low))
    return share, low, high


def method_ahead(row: Row) -> str:
    """Return the method with the larger share, the first one of two equal ones."""
    return str(row.method_a if row.win_share is None or row.win_share >= 0.5 else row.method_b)


def _behind(row: Row) -> str:
    return str(row.method_b if method_ahead(row) == row.method_a else row.method_a)


def _lead(row: Row) -> float:
    """Return the share of the method that is ahead."""
    return seen_from(row, method_ahead(row))[0] or 0.5


def _share_lines(
    results: Results, groups: dict[tuple[str, str], list[Row]]
) -> tuple[tuple[AnswerLine, ...], tuple[str, ...], tuple[str, str]]:
    """Return a line for each criterion, of the method that is ahead over all lines."""
    people = {who: rows for who, rows in groups.items() if not who[1]} or groups
    rows = [row for group in people.values() for row in group][:MAX_LINES]
    first = rows[0]
    is_turned = sum((row.win_share or 0.5) - 0.5 for row in rows) < 0
    right, left = (first.method_b, first.method_a) if is_turned else (first.method_a, first.method_b)
    lines = []
    for row in rows:
        label, p = capital(title(row.criterion)), deciding_p(row)
        share, low, high = seen_from(row, row.method_b if is_turned else row.method_a)
        lines.append(
            AnswerLine(
                label=f"{label} · {group_name(row.rater_kind, row.judge)}" if len(people) > 1 else label,
                share=share,
                low=low,
                high=high,
                p="" if p is None else p_value(p),
                word=verdict_word(row, results.context.alpha),
            )
        )
    corrected = f" ({first.correction.split('–')[0]})" if any(row.family > 1 for row in rows) else ""
    heads = ("Criterion", f"{right} won", _interval_head(results), f"p{corrected}")
    return tuple(lines), heads, (left, right)


def _interval_head(results: Results) -> str:
    return f"{percent(results.evidence.level, 0)} interval"


def _ranking_lines(results: Results) -> tuple[tuple[AnswerLine, ...], tuple[str, ...], tuple[str, str]]:
    """Return a line for each of the best methods of the first ranking."""
    rows = results.rankings[0]
    lines = tuple(
        AnswerLine(
            label=f"{row.rank}. {row.method}",
            share=row.expected_share,
            low=row.share_low,
            high=row.share_high,
            p=f"rank {possible_ranks(row)}" if row.possible_best else possible_ranks(row),
            word="",
        )
        for row in rows[:MAX_LINES]
    )
    heads = (capital(title(rows[0].criterion)), "Expected share", _interval_head(results), "Ranks possible")
    return lines, heads, ("loses", "wins")


def _shares_answer(rows: Sequence[Row], results: Results) -> str:
    """Say who was preferred, and on what no difference was found."""
    alpha = results.context.alpha
    by_word = _grouped(rows, lambda row: PREFERRED if differs(row, alpha) else verdict_word(row, alpha))
    winners = _grouped(by_word.get(PREFERRED, ()), lambda row: (method_ahead(row), _behind(row)))
    sentences = [
        f"{name} was preferred to {other} on {_with_shares(won)}." for (name, other), won in winners.items()
    ]
    if none := by_word.get(NO_EVIDENCE):
        where = f" on {_criteria(none)}" if len(by_word) > 1 else ""
        sentences.append(f"No difference between {none[0].method_a} and {none[0].method_b} was found{where}.")
        leads = _grouped((row for row in none if _lead(row) >= CLEAR_LEAD), method_ahead)
        if leads:
            parts = [f"{name} won more often on {_with_shares(ahead)}" for name, ahead in leads.items()]
            chance = "but results this far from 50\u00a0% are to be expected by chance"
            sentences.append(f"{and_list(parts)}, {chance}.")
    for word, text in UNDECIDED.items():
        if known := by_word.get(word):
            sentences.append(text.format(names=_criteria(known), unit=known[0].unit, note=known[0].note))
    return " ".join((*sentences, *_equivalent(results, rows)))


def _grouped(rows: Iterable[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _criteria(rows: Sequence[Row]) -> str:
    return _some([title(row.criterion) for row in rows])


def _with_shares(rows: Sequence[Row]) -> str:
    return _some([f"{title(row.criterion)} ({percent(_lead(row), 0)})" for row in rows])


def _equivalent(results: Results, rows: Sequence[Row]) -> Iterator[str]:
    """Say on which criteria methods are shown to be equally good, if a margin was declared."""
    who = (rows[0].rater_kind, rows[0].judge)
    group = [row for row in rows_of(results["equivalence"]) if (row.rater_kind, row.judge) == who]
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
    alpha = results.context.alpha
    for rows in groups[:MAX_NAMED]:
        name = plain_name(rows[0].judge)
        who = _the(name) if _the(name) != name else f"The judge {name}"
        different = [row for row in rows if differs(row, alpha)]
        also = "also " if bool(different) == any(differs(row, alpha) for row in first) else ""
        parts = [f"{method_ahead(row)} on {title(row.criterion)}" for row in different[:MAX_SPELT_OUT]]
        yield f"{who} {also}preferred {and_list(parts)}." if parts else f"{who} {also}found no difference."
    if len(groups) > MAX_NAMED:
        yield f"The table has {len(groups) - MAX_NAMED} more judges."


def _ranking_answer(results: Results, first: Sequence[Row]) -> str:
    """Say who leads each ranking, and how many comparisons show a difference."""
    alpha, tables = results.context.alpha, results.rankings
    several = len({(rows[0].rater_kind, rows[0].judge) for rows in tables}) > 1
    sentences = []
    for rows in tables[:MAX_SPELT_OUT]:
        who = f" by {group_name(rows[0].rater_kind, rows[0].judge)}" if several else ""
        sentences.append(ranking_sentence(rows, alpha, who=who))
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
    on = f"On {title(first.criterion)}{f', judged{who},' if who else ''}"
    p = first.p_any_difference_adjusted
    about = f"any difference: {equals(p)}" if p is not None else "no test of any difference"
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


def _uneven_sides(results: Results) -> Iterator[str]:
    """Say that a preference may be one for a place, if an audit found so."""
    audits = [row for row in rows_of(results["audits"]) if row.kind == UNBALANCED]
    uneven = [row.what for row in audits if row.severity == "warning"]
    if len(uneven) == 1:
        yield f"However, {uneven[0]}."
    elif uneven:
        yield (
            f"However, in {len(uneven)} comparisons one method was mostly shown first: preferences for place "
            "and method mix."
        )


def _foot(results: Results, rows: Sequence[Row]) -> str:
    """Say what counts once, what the test is, and for whom the answer holds."""
    context, first = results.context, rows[0]
    pooled = next(
        row
        for row in rows_of(results["coverage"])
        if (row.rater_kind, row.judge) == (first.rater_kind, first.judge)
    )
    test = "exact sign-flip test" if "exact sign-flip" in first.method else "sign-flip test"
    if context.sequential:
        test = "test that holds whenever one looks"
    elif context.raters == "random" and not first.judge:
        test = "t test over raters and prompts"
    elif context.assisted_by is not None:
        test = f"prediction-powered t test, assisted by {context.assisted_by}"
    correction = f", {first.correction} for {first.family} results" if first.family > 1 else ""
    if first.rater_kind in PEOPLE_OF:
        whom = f"The result is about {plain_name(first.judge)}, and not about other raters."
    elif context.raters == "random":
        whom = "The result is about all raters of the same kind."
    else:
        whose = count_raters(pooled.raters, first.rater_kind)
        whom = f"The result is about these {whose}, not raters in general."
    sentences = [f"Each {pooled.unit} counts once (n = {pooled.units}; {test}{correction}).", whom]
    if any(_excludes_half(row) and verdict_word(row, context.alpha) == NO_EVIDENCE for row in rows):
        sentences.append("An interval can exclude 50\u00a0% without evidence: it is not corrected as p is.")
    if context.why_exploratory:
        sentences.append("These results are exploratory: see Methods.")
    return " ".join(sentences)


def _excludes_half(row: Row) -> bool:
    return row.low is not None and row.high is not None and not row.low <= 0.5 <= row.high


def is_simulated(results: Results) -> bool:
    """Return whether some verdicts are made up."""
    return any(row.rater_kind in SIMULATED for row in results.answering)
