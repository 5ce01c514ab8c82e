"""The first screen: the raters, the answer in plain sentences, and a line for each result."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from analysis.evidence import Evidence
from analysis.sections.answering import answering
from analysis.sections.audits import UNBALANCED, audits
from analysis.sections.equivalence import equivalence
from analysis.sections.excluded import describe_exclusions
from analysis.sections.judge_run import calibration
from analysis.sections.ranking import NO_RANK, RankingRow, rankings
from analysis.sections.rounds import describe_rounds
from analysis.sections.search import describe_search
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
from guard_eval.records import SIMULATED
from guard_eval.reporting.rendering import render_lines
from guard_eval.reporting.words import (
    KIND_PLACE,
    and_list,
    capital,
    equals,
    p_value,
    percent,
    plural,
    some_of,
    title,
)

MAX_LINES = 12
"""Lines of the first screen."""
MAX_SPELT_OUT = 6
"""Results that a sentence names before it counts the rest."""
MAX_DECLARED = 6
"""Declared results of several methods up to which they come before the ranking."""
MAX_FACTS = 4
"""The largest number of lines about raters."""
MAX_NAMED = 3
"""Methods that a sentence names before it counts the rest."""
PREFERRED = "preferred"
UNDECIDED = {
    NO_EVIDENCE: "No difference between {first} and {second} was found on {names}.",
    TOO_FEW: "Too few {unit}s favour {first} or {second} to tell them apart on {names}.",
    NO_TEST: "On {names} there is no test of {first} against {second}: {note}.",
    BALANCED: "On {names} every {unit} is balanced between {first} and {second}.",
}
"""The words for a result without evidence, or for the reason why there is no p."""
LOOKED_AT_EARLY = (
    "These results were looked at early: {what}. Whoever stops or goes on because of them finds differences "
    "too often."
)
"""The first warning if ratings are missing, unless early looks were declared."""
TEMPLATES = Path(__file__).parent / "templates"
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
        word: The deciding p with its conclusion; or the possible ranks.
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
        """Return wins and ties as text; empty for a ranked method."""
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
    """The content of the first screen.

    Attributes:
        warning: A sentence that must be read before all others; empty if there is none.
        facts: The raters, their pairs and criteria, and the excluded raters.
        answer: The answer in a sentence or two.
        more: Further remarks about the answer.
        bars: The bars of each comparison and of each ranking, as far as there is room.
        foot: The unit, the test, the correction, and the raters about whom the answer is.
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
    context = evidence.context
    results = sorted(evidence.rows(answering), key=lambda row: KIND_PLACE[row.rater_kind])
    # Of people and of each judge, the results of the family, or all of them.
    groups = [
        [row for row in rows if row.family] or rows
        for rows in group_by(results, lambda row: row.who).values()
    ]
    ranked = {(*row.who, row.criterion, row.method) for rows in rankings(evidence) for row in rows}
    is_declared = context.planned is not None and 0 < groups[0][0].family <= MAX_DECLARED
    ranks_first = evidence.is_ranked and not is_declared

    def is_told(row: WinShareRow) -> bool:
        """Return whether a comparison has a sentence. The ranking covers undeclared comparisons."""
        return not ranks_first or (*row.who, row.criterion, row.method_a) not in ranked

    answered = [row for row in groups[0] if is_told(row)]
    answers = list(_answer_comparisons(answered, evidence.plan.alpha))
    if ranks_first:
        answers.insert(0, _answer_rankings(evidence))
    people = [rows for rows in groups if not rows[0].judge] or groups
    compared = [row for rows in people for row in rows if is_told(row)]
    share_bars = [
        _share_bars(rows, evidence) for rows in group_by(compared, lambda row: row.methods).values()
    ]
    ranking_bars = [_ranking_bars(rows) for rows in rankings(evidence)]
    unfinished = and_list(context.unfinished) if context.unfinished else ""
    warnings = [context.choice.same_prompts] if context.choice else []
    if unfinished and not evidence.plan.sequential:
        warnings.append(LOOKED_AT_EARLY.format(what=unfinished))
    return FirstScreen(
        warning=" ".join(filter(None, warnings)),
        facts=_describe_raters(evidence),
        answer=" ".join(answers),
        more=" ".join(filter(None, _list_remarks(evidence, groups, answered, ranks_first=ranks_first))),
        bars=_limit_bars([*ranking_bars, *share_bars] if ranks_first else [*share_bars, *ranking_bars]),
        foot=" ".join(_describe_test(evidence, groups[0], ranks_first=ranks_first)),
    )


def _list_remarks(
    evidence: Evidence,
    groups: Sequence[Sequence[WinShareRow]],
    answered: Sequence[WinShareRow],
    *,
    ranks_first: bool,
) -> tuple[str, ...]:
    """Return the remarks about the answer.

    Args:
        evidence: The evidence.
        groups: The results of people and of each judge.
        answered: The results of the first of these that the answer is about.
        ranks_first: Whether a ranking is the answer.
    """
    first, *others = groups
    alpha = evidence.plan.alpha
    unclear = [row for row in answered if conclude(row, alpha) == NO_EVIDENCE]
    same = [row for row in evidence.rows(equivalence) if row.who == first[0].who and row.is_equivalent]
    sides = [row for row in evidence.rows(audits) if row.kind == UNBALANCED and row.severity == "warning"]
    judges = [] if evidence.is_ranked else [rows for rows in others if rows[0].judge]
    return render_lines(
        TEMPLATES / "remarks.txt.j2",
        context=evidence.context,
        plan=evidence.plan,
        ranks_first=ranks_first,
        rounds=describe_rounds(evidence),
        ranking=_answer_rankings(evidence),
        results=first,
        criteria=len({row.criterion for row in first}),
        different=sum(row.is_significant(alpha) for row in first),
        leads=_describe_leads(unclear),
        is_significant_alone=any(row.p is not None and row.p <= alpha for row in unclear),
        detectable=_find_detectable_share(unclear, evidence),
        units=plural(max((row.units for row in unclear), default=0), first[0].unit),
        equivalent=_list_criteria(same) if same else "",
        judges=list(_answer_judges(judges, first, evidence)),
        uneven=[row.what for row in sides],
        failed=_failed_calibrations(evidence),
    )


def _limit_bars(bars: Iterable[ResultBars]) -> tuple[ResultBars, ...]:
    """Return the first bars, as many as the screen has room for."""
    blocks = []
    room = MAX_LINES
    for block in bars:
        if room > 0:
            blocks.append(replace(block, lines=block.lines[:room]))
        room -= len(block.lines)
    return tuple(blocks)


def _describe_raters(evidence: Evidence) -> tuple[str, ...]:
    """Describe the raters: a line for people, and a line for each of the first judges."""
    facts = [describe_coverage(row, evidence) for row in evidence.rows(coverage)]
    more = len(facts) - MAX_FACTS
    uncounted = [f"{more} more judges"] if more > 0 else []
    return (*facts[:MAX_FACTS], *uncounted, *reading_of(evidence.frame).left_out, *describe_search(evidence))


def describe_coverage(row: CoverageRow, evidence: Evidence) -> str:
    """Describe the pairs, ratings and criteria of people or of a judge."""
    context = evidence.context
    pairs = plural(row.pairs, "pair")
    if row.judge:
        judge = _name_judge(row.judge, bare=True)
        return f"{capital(judge) if judge.startswith('the ') else judge} judged {pairs}"
    prompts = plural(row.units, "prompt")
    of_prompts = f" ({prompts})" if row.unit == "prompt" and row.units != row.pairs else ""
    criteria = "1 criterion" if row.criteria == 1 else f"{row.criteria} criteria"
    raters = count_raters(row.raters, row.rater_kind)
    excluded = describe_exclusions(context.exclusions, row.rater_kind)
    parts = (
        f"{raters} rated {pairs} of {context.texts}{of_prompts} on {criteria}",
        plural(row.ratings, "rating"),
        " to ".join(day for day in dict.fromkeys((row.first_day, row.last_day)) if day),
        excluded or ("no rater excluded" if context.study_hash else ""),
    )
    return " · ".join(filter(None, parts))


def count_raters(count: int, kind: str) -> str:
    """Count the raters and name their kind."""
    names = {"person": ("person", "people"), "unknown": ("rater of unknown kind", "raters of unknown kind")}
    singular, many = names.get(kind, ("rater", "raters"))
    return f"{count}\u00a0{singular if count == 1 else many}"


def _name_judge(judge: str, *, bare: bool = False) -> str:
    """Return a judge within a sentence: `the judge gpt`, or `the panel …`; a `bare` name stays as it is."""
    name = plain_name(judge)
    if name.split(maxsplit=1)[0].casefold() in {"judge", "panel"}:
        return f"the {name}"
    return name if bare else f"the judge {name}"


def _share_bars(rows: Sequence[WinShareRow], evidence: Evidence) -> ResultBars:
    """Return a line for each criterion of one comparison, with the share of its first method."""
    first = rows[0]
    labels = [capital(title(row.criterion)) for row in rows]
    if len({row.who for row in rows}) > 1:
        labels = [f"{label} · {group_name(row)}" for label, row in zip(labels, rows, strict=True)]
    if len({row.units for row in rows}) > 1:
        labels = [f"{label} · n = {row.units}" for label, row in zip(labels, rows, strict=True)]
    lines = []
    for label, row in zip(labels, rows, strict=True):
        word = verdict_word(row, evidence.plan.alpha)
        p = "" if row.deciding_p is None else f"{p_value(row.deciding_p)} · "
        won, tied = row.wins / row.ratings, row.ties / row.ratings
        lines.append(AnswerLine(label=label, interval=row.win_share, word=f"{p}{word}", won=won, tied=tied))
    corrected = f" ({first.correction.split('–')[0]})" if any(row.family > 1 for row in rows) else ""
    level = percent(first.level, 0)
    heads = ("Criterion", f"Share of {first.method_a}, ties half", f"{level} interval", f"p{corrected}")
    return ResultBars(lines=tuple(lines), heads=heads, sides=(first.method_b, first.method_a))


def _ranking_bars(rows: Sequence[RankingRow]) -> ResultBars:
    """Return a line for each method of a ranking, the best one first."""
    lines = tuple(
        AnswerLine(
            label=f"{row.rank}. {row.method}",
            interval=row.expected_share,
            word=f"rank {row.possible_ranks}" if row.possible_best else row.possible_ranks,
        )
        for row in rows
    )
    first = rows[0]
    who = f" · {group_name(first)}" if first.judge else ""
    level = percent(first.level, 0)
    heads = (
        f"{capital(title(first.criterion))}{who}",
        "Expected share",
        f"{level} interval",
        "Ranks possible",
    )
    return ResultBars(lines=lines, heads=heads, sides=("loses", "wins"))


def _answer_comparisons(rows: Sequence[WinShareRow], alpha: float) -> Iterator[str]:
    """Say which method was preferred in each comparison. One sentence lists all without a difference."""
    comparisons = list(group_by(rows, lambda row: row.methods).values())
    unclear = [rows for rows in comparisons if {conclude(row, alpha) for row in rows} == {NO_EVIDENCE}]
    clear = [rows for rows in comparisons if rows not in unclear]
    for comparison in clear[:MAX_SPELT_OUT]:
        yield from _answer_comparison(comparison, alpha)
    if unclear:
        pairs = [" and ".join(comparison[0].methods) for comparison in unclear]
        between = some_of(pairs, MAX_NAMED, join=" or between ")
        yield f"No difference between {between} was found."
    if len(clear) > MAX_SPELT_OUT:
        yield f"The tables below show {plural(len(clear) - MAX_SPELT_OUT, 'more comparison')}."


def _answer_comparison(rows: Sequence[WinShareRow], alpha: float) -> Iterator[str]:
    """Say which method was preferred in one comparison, and on which criteria there is no difference."""
    by_word = group_by(rows, lambda row: PREFERRED if row.is_significant(alpha) else conclude(row, alpha))
    winners = group_by(by_word.get(PREFERRED, ()), lambda row: (row.leader, row.other_method))
    for (winner, loser), won in winners.items():
        yield f"{winner} was preferred to {loser} on {_list_shares(won)}."
    for word, text in UNDECIDED.items():
        if undecided := by_word.get(word):
            first = undecided[0]
            yield text.format(
                first=first.method_a,
                second=first.method_b,
                names=_list_criteria(undecided),
                unit=first.unit,
                note=first.note,
            )


def _describe_leads(rows: Sequence[WinShareRow]) -> list[str]:
    """Say which method won more often, in results without evidence of a difference."""
    clear = [row for row in rows if row.lead >= CLEAR_LEAD]
    leads = group_by(clear, lambda row: (row.leader, row.other_method))
    return [
        f"{leader} won more often than {other} on {_list_shares(led)}"
        for (leader, other), led in list(leads.items())[:MAX_NAMED]
    ]


def _find_detectable_share(rows: Sequence[WinShareRow], evidence: Evidence) -> float:
    """Return the share that every one of these results would probably have found; 1 if it is unknown."""
    plan = evidence.plan
    has_other_test = evidence.stops_early or plan.sequential or plan.assisted_by is not None
    if has_other_test or plan.raters == "random":
        return 1.0
    shares = [
        detectable_share(row.standard_error, row.units, alpha=plan.alpha / max(1, row.family))
        for row in rows
        if row.standard_error is not None
    ]
    return max(shares, default=1.0)


def _list_criteria(rows: Sequence[ShareRow] | Sequence[RankingRow]) -> str:
    return some_of([title(row.criterion) for row in rows], MAX_SPELT_OUT)


def _list_shares(rows: Sequence[ShareRow]) -> str:
    """List criteria with the share of the first method. Name that method if the other one leads."""
    parts = []
    for row in rows:
        whose = "" if row.leader == row.method_a else f"{row.method_a} "
        parts.append(f"{title(row.criterion)} ({whose}{percent(row.win_share.value, 0)})")
    return some_of(parts, MAX_SPELT_OUT)


def _answer_judges(
    groups: Sequence[Sequence[WinShareRow]], first: Sequence[WinShareRow], evidence: Evidence
) -> Iterator[str]:
    """Give the result of each judge in a sentence."""
    alpha = evidence.plan.alpha
    is_first_different = any(row.is_significant(alpha) for row in first)
    is_single = len(evidence.comparisons) == 1
    for rows in groups[:MAX_NAMED]:
        parts = [
            f"{row.leader if is_single else f'{row.leader} to {row.other_method}'} on {title(row.criterion)}"
            for row in rows
            if row.is_significant(alpha)
        ]
        also = "also " if bool(parts) == is_first_different else ""
        outcome = f"preferred {and_list(parts[:MAX_SPELT_OUT])}" if parts else "found no difference"
        yield f"{capital(_name_judge(rows[0].judge))} {also}{outcome}."
    if len(groups) > MAX_NAMED:
        yield f"The table has {len(groups) - MAX_NAMED} more judges."


def _answer_rankings(evidence: Evidence) -> str:
    """Say which method leads each ranking. One sentence lists rankings without a difference."""
    alpha = evidence.plan.alpha
    tables = rankings(evidence)
    is_mixed = len({rows[0].who for rows in tables}) > 1
    unclear = [rows for rows in tables if _is_unclear(rows[0], alpha)]
    together = unclear if len(unclear) > 1 and not is_mixed else []
    alone = [rows for rows in tables if rows not in together]
    sentences = [
        ranking_sentence(rows, alpha, who=f", judged by {group_name(rows[0])}," if is_mixed else "")
        for rows in alone[:MAX_SPELT_OUT]
    ]
    if together:
        where = _list_criteria([rows[0] for rows in together])
        sentences.append(f"On {where} {_no_evidence(max(map(len, together)))}.")
    if len(alone) > MAX_SPELT_OUT:
        sentences.append(f"{plural(len(alone) - MAX_SPELT_OUT, 'more ranking')} stand below.")
    return " ".join(sentences)


def _no_evidence(methods: int) -> str:
    return f"there is no evidence that one of {methods} methods is better than another"


def _is_unclear(row: RankingRow, alpha: float) -> bool:
    """Return whether a ranking has no evidence that any method is better."""
    p = row.p_any_difference_adjusted
    return NO_RANK not in row.note and (p is None or p > alpha)


def ranking_sentence(rows: Sequence[RankingRow], alpha: float, *, who: str = "") -> str:
    """Name the leading method, others that may lead, and the last one; or say that no method is better."""
    first = rows[0]
    count = len(rows)
    p = first.p_any_difference_adjusted
    about = f"any difference: {equals(p)}" if p is not None else "no test of any difference"
    may_lead = [row.method for row in rows if row.possible_best == 1]
    may_be_last = [row.method for row in reversed(rows) if row.possible_worst == count]
    if NO_RANK in first.note:
        text = f"{first.method} is first of {count} methods, and no rank is sure ({about})"
    elif _is_unclear(first, alpha):
        text = f"{_no_evidence(count)} ({about})"
    elif first.possible_best is None:
        text = f"the {count} methods differ ({about}); {first.method} is first, and no rank is sure"
    elif len(may_lead) == count == len(may_be_last):
        text = f"the {count} methods differ ({about}), and no rank is sure; {first.method} is first"
    else:
        others = [name for name in may_lead if name != first.method]
        text = f"{first.method} leads, ahead of all others"
        if others:
            text = f"{first.method} leads and cannot be told apart from {some_of(others, MAX_NAMED)}"
        if len(may_lead) + len(may_be_last) <= count or len(may_be_last) == 1:
            comes = "comes" if len(may_be_last) == 1 else "may come"
            text += f"; {some_of(may_be_last, MAX_NAMED)} {comes} last"
        text += f" ({about})"
    return f"On {title(first.criterion)}{who} {text}."


def _failed_calibrations(evidence: Evidence) -> dict[str, list[str]]:
    """Describe the failed calibration checks of the judges in the report."""
    judges = {row.judge for row in evidence.rows(answering)}
    checked = [row for row in evidence.rows(calibration) if row.judge in judges]
    failed: dict[str, list[str]] = {}
    for (judge, check), rows in group_by(checked, lambda row: (row.judge, row.check)).items():
        hits = sum(row.hits for row in rows)
        items = sum(row.items for row in rows)
        is_good = 2 * hits <= items if check == "padded" else 2 * hits > items
        if items and not is_good:
            failed.setdefault(_name_judge(judge), []).append(f"{CALIBRATED[check]} {hits} of {items} checks")
    return failed


def _describe_test(evidence: Evidence, rows: Sequence[WinShareRow], *, ranks_first: bool) -> tuple[str, ...]:
    """Return the unit, the test and its correction, and the raters about whom the answer is."""
    first = rows[0]
    covered = next(row for row in evidence.rows(coverage) if row.who == first.who)
    raters = count_raters(covered.raters, covered.rater_kind)
    unclear = [row.win_share for row in rows if conclude(row, evidence.plan.alpha) == NO_EVIDENCE]
    return render_lines(
        TEMPLATES / "foot.txt.j2",
        context=evidence.context,
        plan=evidence.plan,
        first=first,
        covered=covered,
        sizes=dict.fromkeys((min(row.units for row in rows), max(row.units for row in rows))),
        test=_test_name(evidence, first),
        ranks_first=ranks_first and not evidence.stops_early,
        judge=plain_name(covered.judge),
        raters=raters if covered.raters > 1 else raters.partition("\u00a0")[2],
        excludes_half=any(map(_excludes_half, unclear)),
    )


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


def _excludes_half(share: Estimate) -> bool:
    return share.low is not None and share.high is not None and not share.low <= 0.5 <= share.high


def is_simulated(evidence: Evidence) -> bool:
    """Return whether some verdicts are simulated."""
    return any(row.rater_kind in SIMULATED for row in evidence.rows(answering))
