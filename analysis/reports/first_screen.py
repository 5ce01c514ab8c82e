"""The first screen of a report: the raters, the answer in plain sentences, and a line for each result."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from analysis.evidence import Evidence
from analysis.reports.sentences import (
    MAX_CRITERIA,
    describe_coverage,
    describe_rater_count,
    is_answer_ranking,
    name_judge_in_sentence,
    write_sentences_from_template,
)
from analysis.sections.raters.audits import UNBALANCED, run_data_audits
from analysis.sections.raters.judge_run import CALIBRATED, score_calibration
from analysis.sections.results.answering import select_rows_for_report_answer
from analysis.sections.results.assisted import explain_missing_assistance
from analysis.sections.results.equivalence import run_equivalence_tests
from analysis.sections.results.ranking import RankingRow, group_ranking_rows, rank_methods
from analysis.sections.results.rounds import describe_rounds
from analysis.sections.results.shares import (
    BALANCED,
    NO_EVIDENCE,
    NO_TEST,
    NOT_FIXED,
    TOO_FEW,
    ShareRow,
    WinShareRow,
    choose_conclusion,
    count_pairs_and_ratings,
    describe_conclusion,
)
from analysis.sections.search import describe_search
from analysis.sections.section import (
    group_by,
    name_raters,
    remove_word_simulated,
    select_rows_for_answer,
)
from analysis.stats.proportion import find_detectable_share
from analysis.verdicts.reading import get_reading
from guard_eval.estimate import Estimate
from guard_eval.records import record
from guard_eval.reporting.words import (
    capitalise,
    count_in_words,
    find_criterion_title,
    format_p,
    format_p_in_sentence,
    format_percent,
    format_share_limits,
    join_first_parts,
)

MAX_LINES = 12
"""The largest number of lines with bars on the first screen."""
MAX_SPELT_OUT = 6
"""The largest number of results that a sentence names; the rest are counted."""
MAX_FACTS = 4
"""The largest number of lines about raters."""
MAX_NAMED = 3
"""The largest number of methods that a sentence names; the rest are counted."""
SAME_SHARE = 0.005
"""The largest difference between the shares of pairs and of ratings that is not named."""
PREFERRED = "preferred"
CONCLUSIONS = (PREFERRED, NO_EVIDENCE, TOO_FEW, NO_TEST, BALANCED)
"""The possible conclusions on a result, in the order in which the answer mentions them."""


@record
class AnswerLine:
    """A line of the first screen: a bar from 0 to 100 % with its figures.

    Attributes:
        about: The methods and the criterion, for use outside the bars.
        label: The criterion, or the ranked method.
        interval: The share of the first method, or the expected share of a ranked method, with limits.
        p: The deciding p; None if there is no test.
        conclusion: The conclusion from p, or the possible ranks.
        won: The part of the ratings that the method won; None for a ranked method.
        tied: The part of the ratings that were ties.
    """

    about: str
    label: str
    interval: Estimate
    p: float | None = None
    conclusion: str
    won: float | None = None
    tied: float = 0.0

    def __str__(self) -> str:
        """Return the line as text for the output of the command."""
        level = format_percent(self.interval.level, 0)
        limits = format_share_limits(self.interval)
        tested = self.conclusion if self.p is None else f"{format_p_in_sentence(self.p)} · {self.conclusion}"
        about = " ".join(self.about.splitlines())  # else a name could end the line and begin a false one
        return f"{about}: {format_percent(self.interval.value)} ({level} interval: {limits}), {tested}"

    @property
    def conclusion_and_p(self) -> str:
        """Return the conclusion after the deciding p, if there is a p: `p = .012 · evidence`."""
        return self.conclusion if self.p is None else f"{format_p(self.p)} · {self.conclusion}"

    @property
    def win_and_tie_shares(self) -> str:
        """Return the shares of wins and ties as text: `52 % won, 10 % tied`. Empty for a ranked method."""
        if self.won is None:
            return ""
        # Pairs with more ratings, or a composite, can have other shares of ratings than of pairs.
        differs = abs(self.won + self.tied / 2 - (self.interval.value or 0.0)) > SAME_SHARE
        of_ratings = " of ratings" if differs else ""
        return f"{format_percent(self.won, 0)}{of_ratings} won, {format_percent(self.tied, 0)} tied"


@record
class ResultBars:
    """The bars of one comparison, or of one ranking.

    Attributes:
        lines: One line for each criterion, or for each ranked method.
        heads: The headings of the lines' columns.
        sides: The methods on the left and on the right of the bars, or what the sides mean.
        is_ranking: Whether methods are ranked.
    """

    lines: tuple[AnswerLine, ...]
    heads: tuple[str, ...]
    sides: tuple[str, str] = ("loses", "wins")
    is_ranking: bool = False


@record
class FirstScreen:
    """The content of the first screen.

    Attributes:
        warning: A sentence that must be read before all others; empty if there is none.
        facts: The raters, their pairs and criteria, and the excluded raters.
        answer: The answer in a sentence or two.
        more: Further remarks about the answer.
        bars: The bars of the first comparisons and rankings, up to `MAX_LINES` lines.
        foot: The unit, the test, the correction, and the raters that the answer is about.
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


def build_first_screen(evidence: Evidence) -> FirstScreen:
    """Return the first screen of a report."""
    # For people and for each judge: the results of the family, or all results.
    groups = [
        [row for row in rows if row.family] or rows
        for rows in group_by(
            evidence.rows(select_rows_for_report_answer), lambda row: row.rater_group
        ).values()
    ]
    first = select_rows_for_answer(list(chain(*groups)))
    answer_is_ranking = is_answer_ranking(evidence)
    # If a ranking comes first, it also covers the comparisons of the ranked methods.
    ranked = {
        (*row.rater_group, row.criterion, row.method)
        for row in evidence.rows(rank_methods)
        if answer_is_ranking
    }
    told = [row for row in chain(*groups) if (*row.rater_group, row.criterion, row.method_a) not in ranked]
    answered = select_rows_for_answer(told)
    # Without people, no judge comes before the others, and the answer has a sentence for each judge.
    by_judges = len({row.rater_group for row in first}) > 1
    # With people, rankings have sentences about judges. Without people, a single judge is the answer.
    has_judges = by_judges or not (first[0].judge or evidence.is_ranked)
    judged = _describe_judge_results(evidence, told) if has_judges else ()
    sentences = _write_answer_sentences(evidence, [] if by_judges else answered)
    compared = group_by((row for row in told if first[0].judge or not row.judge), lambda row: row.methods)
    bars = [_make_ranking_bars(rows) for rows in group_ranking_rows(evidence)]
    bars += [_make_share_bars(rows, evidence) for rows in compared.values()]
    return FirstScreen(
        warning=" ".join(write_sentences_from_template("warning", evidence)),
        facts=tuple(_describe_raters(evidence)),
        answer=" ".join([*sentences, *judged] if by_judges else sentences),
        more=" ".join(_write_answer_remarks(evidence, first, answered, [] if by_judges else judged)),
        bars=tuple(
            _select_bars_for_screen(sorted(bars, key=lambda block: block.is_ranking != answer_is_ranking))
        ),
        foot=" ".join(_describe_test_of_answer(evidence, first)),
    )


def _describe_raters(evidence: Evidence) -> Iterator[str]:
    """Describe the raters: a line for people, and a line for each of the first judges."""
    first = {"", *evidence.scored.panel_names}
    covered = sorted(evidence.rows(count_pairs_and_ratings), key=lambda row: row.judge not in first)
    for row in covered[:MAX_FACTS]:
        yield describe_coverage(row, evidence)
    if len(covered) > MAX_FACTS:
        yield count_in_words(len(covered) - MAX_FACTS, "more judge")
    yield from get_reading(evidence.frame).left_out
    yield from describe_search(evidence)


def _write_answer_sentences(evidence: Evidence, rows: Sequence[WinShareRow]) -> tuple[str, ...]:
    """Name the first method of each ranking, and the preferred method of each comparison."""
    alpha = evidence.plan.alpha
    # If comparisons stop early, only one criterion has tests; a sentence covers all other criteria.
    stopped_early = [
        row for row in rows if evidence.has_early_stopping and choose_conclusion(row, alpha) == NO_TEST
    ]
    rows = [row for row in rows if row not in stopped_early]
    comparisons = _group_rows_by_comparison(rows, alpha)
    clear = [groups for groups in comparisons if [word for word, _ in groups] != [NO_EVIDENCE]]
    unclear = [" and ".join(groups[0][1][0].methods) for groups in comparisons if groups not in clear]
    return write_sentences_from_template(
        "answer",
        evidence,
        comparisons=clear[:MAX_SPELT_OUT],
        further=len(clear) - MAX_SPELT_OUT,
        unclear=join_first_parts(unclear, MAX_NAMED, join=" or between "),
        untested=[of[0] for of in group_by(stopped_early, lambda row: row.criterion).values()],
        why_untested=NOT_FIXED,
        list_shares=_list_criteria_with_shares,
    )


def _group_rows_by_comparison(
    rows: Sequence[WinShareRow], alpha: float
) -> list[list[tuple[str, list[WinShareRow]]]]:
    """Group results by comparison, then by conclusion. Results with a preferred method come first."""

    def get_conclusion(row: WinShareRow) -> tuple[str, str]:
        is_clear = row.is_significant(alpha)
        return (PREFERRED, row.leader) if is_clear else (choose_conclusion(row, alpha), "")

    comparisons = []
    for compared in group_by(rows, lambda row: row.methods).values():
        groups = [(word, alike) for (word, _), alike in group_by(compared, get_conclusion).items()]
        comparisons.append(sorted(groups, key=lambda group: CONCLUSIONS.index(group[0])))
    return comparisons


def _write_answer_remarks(
    evidence: Evidence,
    first: Sequence[WinShareRow],
    answered: Sequence[WinShareRow],
    judged: Sequence[str],
) -> tuple[str, ...]:
    """Return the sentences that follow the answer, such as a judge's result or the detectable share.

    Args:
        evidence: The evidence.
        first: The results of people, or of all judges.
        answered: The results that the answer is about.
        judged: The sentences on the results of judges.
    """
    alpha = evidence.plan.alpha
    # What would have been found differs between judges, so it is only given for people or a single judge.
    is_one_group = len({row.rater_group for row in answered}) == 1
    unclear = [row for row in answered if is_one_group and choose_conclusion(row, alpha) == NO_EVIDENCE]
    same = [
        row
        for row in evidence.rows(run_equivalence_tests)
        if row.rater_group in {other.rater_group for other in answered} and row.is_equivalent
    ]
    sides = [
        row for row in evidence.rows(run_data_audits) if row.kind == UNBALANCED and row.severity == "warning"
    ]
    return write_sentences_from_template(
        "remarks",
        evidence,
        rounds=describe_rounds(evidence),
        results=[row for row in first if row.p is not None or not evidence.has_early_stopping] or first,
        different=sum(row.is_significant(alpha) for row in first),
        detectable=_find_detectable_share(unclear, evidence),
        has_other_test=_has_other_test(evidence),
        unclear=unclear,
        equivalent=same,
        unassisted=explain_missing_assistance(evidence),
        judges=judged,
        uneven=sides,
        failed=_describe_failed_calibrations(evidence),
    )


def _select_bars_for_screen(bars: Iterable[ResultBars]) -> Iterator[ResultBars]:
    """Yield the bars of the first comparisons and rankings, up to `MAX_LINES` lines."""
    room = MAX_LINES
    for block in bars:
        if room > 0:
            yield replace(block, lines=block.lines[:room])
        room -= len(block.lines)


def _make_share_bars(rows: Sequence[WinShareRow], evidence: Evidence) -> ResultBars:
    """Return a line for each criterion of one comparison, with the share of the first method."""
    first = rows[0]
    has_many_raters = len({row.rater_group for row in rows}) > 1
    has_many_sizes = len({row.units for row in rows}) > 1
    lines = []
    for row in rows:
        label = [capitalise(find_criterion_title(row.criterion))]
        if has_many_raters:
            label.append(name_raters(row))
        if has_many_sizes:
            label.append(f"n = {row.units:,}")
        lines.append(
            AnswerLine(
                about=" · ".join([f"{row.method_a} against {row.method_b}", *label]),
                label=" · ".join(label),
                interval=row.win_share,
                p=row.deciding_p,
                conclusion=describe_conclusion(row, evidence.plan.alpha),
                won=row.wins / row.ratings,
                tied=row.ties / row.ratings,
            )
        )
    corrected = f" ({first.correction.split('–')[0]})" if any(row.family > 1 for row in rows) else ""
    return ResultBars(
        lines=tuple(lines),
        heads=(
            "Criterion",
            f"Share of {first.method_a}, ties half",
            f"{format_percent(first.level, 0)} interval",
            f"p{corrected}",
        ),
        sides=(first.method_b, first.method_a),
    )


def _make_ranking_bars(rows: Sequence[RankingRow]) -> ResultBars:
    """Return a line for each method of a ranking, the best one first."""
    first = rows[0]
    who = f" · {name_raters(first)}" if first.judge else ""
    ranked = f"{capitalise(find_criterion_title(first.criterion))}{who}"
    lines = tuple(
        AnswerLine(
            about=f"{row.method} · {ranked} · expected share",
            label=f"{row.rank}. {row.method}",
            interval=row.expected_share,
            conclusion=f"rank {row.possible_ranks}" if row.possible_best else row.possible_ranks,
        )
        for row in rows
    )
    return ResultBars(
        lines=lines,
        heads=(
            ranked,
            "Expected share",
            f"{format_percent(first.level, 0)} interval",
            "Ranks possible",
        ),
        is_ranking=True,
    )


def _has_other_test(evidence: Evidence) -> bool:
    """Return whether the plan declares another test than the sign-flip test."""
    plan = evidence.plan
    has_own_test = evidence.has_early_stopping or plan.sequential or plan.assisted_by is not None
    return has_own_test or plan.raters == "random"


def _find_detectable_share(rows: Sequence[WinShareRow], evidence: Evidence) -> float:
    """Return the smallest share that the tests of all given results would probably detect; 1 if unknown."""
    plan = evidence.plan
    if _has_other_test(evidence):
        return 1.0
    shares = [
        find_detectable_share(row.standard_error, row.units, alpha=plan.alpha / max(1, row.family))
        for row in rows
        if row.standard_error is not None
    ]
    return max(shares, default=1.0)


def _list_criteria_with_shares(rows: Sequence[ShareRow]) -> str:
    """List each criterion with the share of `method_a`, which is named if it does not lead."""
    parts = []
    for row in rows:
        whose = "" if row.leader == row.method_a else f"{row.method_a} "
        parts.append(
            f"{find_criterion_title(row.criterion)} ({whose}{format_percent(row.win_share.value, 0)})"
        )
    return join_first_parts(parts, MAX_CRITERIA)


def _describe_judge_results(evidence: Evidence, rows: Iterable[WinShareRow]) -> tuple[str, ...]:
    """Describe the results of the first judges in the words of the answer, and count the other judges."""
    judges = list(group_by((row for row in rows if row.judge), lambda row: row.rater_group).values())
    panels = evidence.scored.panel_names
    judges.sort(key=lambda rows: rows[0].judge not in panels)  # a panel was declared, so it comes first
    return write_sentences_from_template(
        "judges",
        evidence,
        judges=[
            list(chain(*_group_rows_by_comparison(rows, evidence.plan.alpha))) for rows in judges[:MAX_NAMED]
        ],
        further=len(judges) - MAX_NAMED,
        limit=MAX_SPELT_OUT,
        name_judge=name_judge_in_sentence,
        list_shares=_list_criteria_with_shares,
    )


def _describe_failed_calibrations(evidence: Evidence) -> dict[str, list[str]]:
    """Describe the failed calibration checks of the judges in the report."""
    judges = {row.judge for row in evidence.rows(select_rows_for_report_answer)}
    checked = [row for row in evidence.rows(score_calibration) if row.judge in judges]
    failed: dict[str, list[str]] = {}
    for (judge, check), rows in group_by(checked, lambda row: (row.judge, row.check)).items():
        hits = sum(row.hits for row in rows)
        items = sum(row.items for row in rows)
        is_good = 2 * hits <= items if check == "padded" else 2 * hits > items
        if items and not is_good:
            failed.setdefault(name_judge_in_sentence(judge), []).append(
                f"{CALIBRATED[check]} {hits} of {items} checks"
            )
    return failed


def _describe_test_of_answer(evidence: Evidence, rows: Sequence[WinShareRow]) -> tuple[str, ...]:
    """Describe the unit, the test, the correction, and the raters that the answer is about."""
    covered = next(
        row for row in evidence.rows(count_pairs_and_ratings) if row.rater_group == rows[0].rater_group
    )
    shares = [row.win_share for row in rows if choose_conclusion(row, evidence.plan.alpha) == NO_EVIDENCE]
    return write_sentences_from_template(
        "foot",
        evidence,
        first=rows[0],
        covered=covered,
        results=rows,
        has_ranks=is_answer_ranking(evidence)
        and not (evidence.has_early_stopping or evidence.plan.sequential),
        judge=remove_word_simulated(covered.judge),
        raters=describe_rater_count(covered.raters, covered.rater_kind),
        excludes_half=any(
            share.low is not None and share.high is not None and not share.low <= 0.5 <= share.high
            for share in shares
        ),
    )
