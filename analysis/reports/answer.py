"""The first screen: who rated what, the answer in plain sentences, and a line for each result."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.analyses.evidence import ALL
from analysis.analyses.exclusions import exclusion_words
from analysis.analyses.shares import deciding_p
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
MAX_NAMED = 3
"""Methods that a sentence names before it counts the rest."""
NO_EVIDENCE, TOO_FEW, NO_TEST, NOTHING_TO_TEST = (
    "no evidence",
    "too few prompts",
    "no test",
    "nothing to test",
)


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


def plain_name(name: str) -> str:
    """Return a simulated rater's name without the word that the page already says once.

    >>> plain_name("SIMULATED judge")
    'judge'
    """
    return re.sub(r"\bSIMULATED\s+", "", name) or name


def group_name(kind: str, judge: str = "") -> str:
    """Return who judged: people together, or one judge."""
    if judge:
        return plain_name(judge)
    return {"person": "people", "unknown": "raters of unknown kind", "model": "models"}.get(kind, "raters")


def count_raters(count: int, kind: str) -> str:
    """Return how many raters there are, as what they are known to be."""
    names = {"person": ("person", "people"), "unknown": ("rater of unknown kind", "raters of unknown kind")}
    one, many = names.get(kind, ("rater", "raters"))
    return f"{count}\u00a0{one if count == 1 else many}"


def first_screen(results: Results) -> FirstScreen:
    """Return the first screen of a report."""
    groups = _groups(results.answering)
    first = next(iter(groups.values()))
    if results.ranking.empty:
        lines, heads, sides = _share_lines(results, groups)
        answer = _shares_answer(first, results)
    else:
        lines, heads, sides = _ranking_lines(results)
        answer = _ranking_answer(results, first)
    others = [rows for who, rows in groups.items() if who[1] and rows is not first]
    if results.ranking.empty and others:
        answer = f"{answer} {_others(others, first, results)}"
    if warning := _uneven_sides(results):
        answer = f"{answer} {warning}"
    if results.context.composite is not None and results.context.composite.weights:
        answer = f"{answer} The overall result is a composite, declared as {results.context.composite}."
    if results.context.unfinished:
        answer = f"{answer} Not everything that was planned is rated: {and_list(results.context.unfinished)}."
    return FirstScreen(
        facts=_facts(results),
        answer=answer,
        lines=lines,
        heads=heads,
        left=sides[0],
        right=sides[1],
        foot=_foot(results, first),
    )


def _groups(rows: Sequence[Row]) -> dict[tuple[str, str], list[Row]]:
    """Return the rows of the family, or all, by who judged, people first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(rows, key=lambda row: KIND_PLACE[row.rater_kind]):
        groups.setdefault((row.rater_kind, row.judge), []).append(row)
    return {who: [row for row in own if row.family] or own for who, own in groups.items()}


def _facts(results: Results) -> tuple[str, ...]:
    context, facts = results.context, []
    for row in rows_of(results.coverage):
        kind = row.rater_kind
        excluded = "" if row.judge else exclusion_words(context.exclusions, kind)
        if row.judge:
            name = plain_name(row.judge)
            who = f"The {name}" if name == "judge" else name
            facts.append(f"{who} judged {plural(row.pairs, 'pair')}")
            continue
        what = f"{plural(row.pairs, 'pair')} of {context.texts}"
        prompts = (
            f" ({plural(row.units, 'prompt')})" if row.unit == "prompt" and row.units != row.pairs else ""
        )
        many = "1 criterion" if row.criteria == 1 else f"{row.criteria} criteria"
        parts = [f"{count_raters(row.raters, kind)} rated {what}{prompts} on {many}"]
        parts.append(plural(row.ratings, "rating"))
        if row.first_day:
            days = row.first_day if row.first_day == row.last_day else f"{row.first_day} to {row.last_day}"
            parts.append(days)
        if excluded:
            parts.append(excluded)
        elif context.study_hash:
            parts.append("no rater excluded")
        facts.append(" · ".join(parts))
    shown = facts[:4]
    return (*shown, f"{len(facts) - 4} more judges") if len(facts) > 4 else tuple(shown)


def differs(row: Row, alpha: float) -> bool:
    """Return whether the deciding test rejects "no difference"."""
    p = deciding_p(row)
    return p is not None and p <= alpha


def verdict_word(row: Row, alpha: float) -> str:
    """Return what the deciding p says, in a word or two."""
    p = deciding_p(row)
    if p is not None:
        if p > alpha:
            return NO_EVIDENCE
        return "strong evidence" if p <= alpha / 50 else "evidence"
    # The smallest p is 1 if at most one unit favours a method; if one does, the share is not one half.
    if row.smallest_p >= 1 and row.win_share is not None and abs(row.win_share - 0.5) < 1e-9:
        return NOTHING_TO_TEST
    return TOO_FEW if why_no_p(row.smallest_p, alpha) or "no corrected p" in row.note else NO_TEST


def _ahead(row: Row) -> tuple[str, float]:
    """Return the method with the larger share, and its share."""
    share = 0.5 if row.win_share is None else row.win_share
    return (row.method_a, share) if share >= 0.5 else (row.method_b, 1 - share)


def _share_lines(
    results: Results, groups: dict[tuple[str, str], list[Row]]
) -> tuple[tuple[AnswerLine, ...], tuple[str, ...], tuple[str, str]]:
    """Return a line for each criterion, of the method that is ahead more often."""
    people = {who: rows for who, rows in groups.items() if not who[1]} or groups
    rows = [row for own in people.values() for row in own][:MAX_LINES]
    first, several = rows[0], len(people) > 1
    votes = sum((row.win_share or 0.5) - 0.5 for row in rows)
    turn = votes < 0  # the shares shown are those of the method that is ahead over all lines
    left, right = (first.method_a, first.method_b) if turn else (first.method_b, first.method_a)
    lines = []
    for row in rows:
        share, low, high = row.win_share, row.low, row.high
        if turn and share is not None:
            share, low, high = 1 - share, None if high is None else 1 - high, None if low is None else 1 - low
        label = capital(title(row.criterion))
        label = f"{label} · {group_name(row.rater_kind, row.judge)}" if several else label
        word = verdict_word(row, results.context.alpha)
        p = deciding_p(row)
        lines.append(
            AnswerLine(
                label=label, share=share, low=low, high=high, p="" if p is None else p_value(p), word=word
            )
        )
    name = rows[0].correction.split("–")[0]
    p_head = f"p ({name})" if any(row.family > 1 for row in rows) else "p"
    interval = f"{percent(results.evidence.level, 0)} interval"
    return tuple(lines), ("Criterion", f"{right} won", interval, p_head), (left, right)


def _ranking_lines(results: Results) -> tuple[tuple[AnswerLine, ...], tuple[str, ...], tuple[str, str]]:
    """Return a line for each of the best methods of the first ranking."""
    rows = rows_of(results.ranking)
    key = (rows[0].rater_kind, rows[0].judge, rows[0].criterion, rows[0].group)
    own = [row for row in rows if (row.rater_kind, row.judge, row.criterion, row.group) == key]
    lines = tuple(
        AnswerLine(
            label=f"{row.rank}. {row.method}",
            share=row.expected_share,
            low=row.share_low,
            high=row.share_high,
            p=possible_ranks(row),
            word="",
        )
        for row in own[:MAX_LINES]
    )
    criterion, interval = capital(title(rows[0].criterion)), f"{percent(results.evidence.level, 0)} interval"
    return lines, (criterion, "Expected share", interval, "Ranks possible"), ("loses", "wins")


def possible_ranks(row: Row) -> str:
    """Return the ranks that a method may have."""
    if row.possible_best is None:
        return "not concluded"
    low, high = row.possible_best, row.possible_worst
    return f"{low}" if low == high else f"{low} to {high}"


def _shares_answer(rows: Sequence[Row], results: Results) -> str:
    """Say who was preferred, and on what no difference was found."""
    alpha, texts = results.context.alpha, []
    winners: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if differs(row, alpha):
            name, share = _ahead(row)
            other = row.method_b if name == row.method_a else row.method_a
            winners.setdefault((name, other), []).append(f"{title(row.criterion)} ({percent(share, 0)})")
    for (name, other), criteria in winners.items():
        texts.append(f"{name} was preferred to {other} on {_some(criteria)}.")
    rest = [row for row in rows if not differs(row, alpha)]
    few = [row for row in rest if verdict_word(row, alpha) == TOO_FEW]
    none = [row for row in rest if verdict_word(row, alpha) == NO_EVIDENCE]
    untested = [row for row in rest if verdict_word(row, alpha) == NO_TEST]
    level = [row for row in rest if verdict_word(row, alpha) == NOTHING_TO_TEST]
    if none:
        a, b = none[0].method_a, none[0].method_b
        others = winners or few or untested or level
        where = f" on {_some([title(row.criterion) for row in none])}" if others else ""
        texts.append(f"No difference between {a} and {b} was found{where}.")
        leads: dict[str, list[str]] = {}
        for row in none:
            name, share = _ahead(row)
            if share >= 0.505:
                leads.setdefault(name, []).append(f"{title(row.criterion)} ({percent(share, 0)})")
        if leads:
            parts = [f"{name} won more often on {_some(criteria)}" for name, criteria in leads.items()]
            texts.append(
                f"{and_list(parts)}, but results this far from 50\u00a0% are to be expected by chance."
            )
    texts.extend(_without_p(few, untested, level))
    return " ".join((*texts, *_equivalent(results, rows)))


def _without_p(few: Sequence[Row], untested: Sequence[Row], level: Sequence[Row]) -> Iterator[str]:
    """Say why there is no p: too few units favour a method, no test is possible, or none favours one."""
    if few:
        names = _some([title(row.criterion) for row in few])
        yield f"Too few {few[0].unit}s favour a method to tell them apart on {names}."
    if untested:
        names = _some([title(row.criterion) for row in untested])
        yield f"On {names} there is no test: {untested[0].note}."
    if level:
        names = _some([title(row.criterion) for row in level])
        yield f"On {names} every {level[0].unit} is balanced, so there is nothing to test."


def _equivalent(results: Results, rows: Sequence[Row]) -> tuple[str, ...]:
    """Say on which criteria methods are shown to be equally good, if a margin was declared."""
    frame = results.equivalence
    if frame.empty:
        return ()
    who = (rows[0].rater_kind, rows[0].judge)
    own = [row for row in rows_of(frame) if (row.rater_kind, row.judge) == who]
    shown = [
        title(row.criterion) for row in own if row.conclusion in {"equivalent", "different but negligible"}
    ]
    margin = f"within {100 * own[0].margin:g} points of 50\u00a0%"
    if not shown:
        return (f"No share is shown to lie {margin}.",)
    return (f"On {_some(shown)} the share is shown to lie {margin}.",)


def _others(groups: Sequence[list[Row]], first: Sequence[Row], results: Results) -> str:
    """Say in a sentence what each judge found."""
    alpha, texts = results.context.alpha, []
    for rows in groups[:MAX_NAMED]:
        name = plain_name(rows[0].judge)
        who = f"The {name}" if name.split()[0].casefold() in {"judge", "panel"} else f"The judge {name}"
        found = [row for row in rows if differs(row, alpha)]
        also = "also " if bool(found) == any(differs(row, alpha) for row in first) else ""
        if not found:
            texts.append(f"{who} {also}found no difference.")
            continue
        parts = [f"{_ahead(row)[0]} on {title(row.criterion)}" for row in found[:MAX_SPELT_OUT]]
        texts.append(f"{who} {also}preferred {and_list(parts)}.")
    if len(groups) > MAX_NAMED:
        texts.append(f"The table has {len(groups) - MAX_NAMED} more judges.")
    return " ".join(texts)


def _ranking_answer(results: Results, first: Sequence[Row]) -> str:
    """Say who leads each ranking, and how many comparisons show a difference."""
    frame, alpha, texts = results.ranking, results.context.alpha, []
    groups = frame.groupby(["rater_kind", "judge", "criterion", "group"], sort=False)
    tables = [rows_of(own) for _, own in groups]
    several = len({(rows[0].rater_kind, rows[0].judge) for rows in tables}) > 1
    for rows in tables[:MAX_SPELT_OUT]:
        who = f" by {group_name(rows[0].rater_kind, rows[0].judge)}" if several else ""
        texts.append(ranking_sentence(rows, alpha, who=who))
    if len(tables) > MAX_SPELT_OUT:
        texts.append(f"{plural(len(tables) - MAX_SPELT_OUT, 'more ranking')} stand below.")
    found = [row for row in first if differs(row, alpha)]
    of = (
        f"{len(first)} comparisons" if len({row.criterion for row in first}) == 1 else f"{len(first)} results"
    )
    corrected = f" after {first[0].correction}'s correction" if first[0].family > 1 else ""
    verb = "shows" if len(found) == 1 else "show"
    texts.append(f"Of {of}, {len(found) or 'none'} {verb} a difference by itself{corrected}.")
    return " ".join(texts)


def ranking_sentence(rows: Sequence[Row], alpha: float, *, who: str = "") -> str:
    """Say who leads, who may lead as well, and who comes last; or that no method is shown to be better."""
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


def _uneven_sides(results: Results) -> str:
    """Say that a preference may be one for a place, if an audit found so."""
    found = [
        row.what
        for row in rows_of(results.audits)
        if row.kind == "unbalanced sides" and row.severity == "warning"
    ]
    if not found:
        return ""
    if len(found) == 1:
        return f"However, {found[0]}."
    return (
        f"However, in {len(found)} comparisons one method was mostly shown first: preferences for place and "
        "method mix."
    )


def _foot(results: Results, rows: Sequence[Row]) -> str:
    """Say what counts once, what the test is, and for whom the answer holds."""
    context, first = results.context, rows[0]
    own = next(
        row
        for row in rows_of(results.coverage)
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
        whom = (
            f"The result is about these {count_raters(own.raters, first.rater_kind)}, not raters in general."
        )
    exploratory = " These results are exploratory: see Methods." if context.why_exploratory else ""
    return f"Each {own.unit} counts once (n = {own.units}; {test}{correction}). {whom}{exploratory}"


def is_simulated(results: Results) -> bool:
    """Return whether some verdicts are made up."""
    return any(row.rater_kind in SIMULATED for row in results.answering)


def by_dataset(results: Results) -> bool:
    """Return whether the shares have rows for each dataset."""
    return bool((results.shares["dataset"] != ALL).any())
