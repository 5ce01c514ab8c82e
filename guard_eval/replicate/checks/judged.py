"""GPT-4's verdicts: the printed tables against the 150 × 6 published ones, and what they can rest on."""

from __future__ import annotations

from itertools import product

from analysis.core.grim import consistent, fitting_sizes
from analysis.core.significance import binomial
from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.sources import (
    ACS,
    CRITERIA,
    DATASETS,
    GUARD,
    Counts,
    figure,
    human_counts,
    judge_counts,
    verdict_patterns,
)
from guard_eval.replicate.figures import published

SUBJECT = "LLM judge"
TABLE, BESIDE = "tab:llm_judgements", "tab:llm_with_human"
SOURCE = "counts of GPT-4's published verdicts, 150 pairs and six criteria (gpt4_verdicts.csv)"
PAIRS = 150
SMALLER = (60, 120)
"""Numbers of verdicts that fit the columns for Top-k and Top-p."""


def _is_printed(count: int, n: int, text: str) -> bool:
    return abs(100 * count / n - float(text)) <= 0.05 + 1e-9


def _row(versus: str, criterion: str) -> tuple[str, str, str]:
    """Return GUARD's wins, the other's wins and ties as printed."""

    def cell(strategy: str, other: str, what: str) -> str:
        metric = f"judge.{criterion}.{what}"
        return figure(TABLE, strategy=strategy, versus=other, metric=metric).value

    return cell(GUARD, versus, "win"), cell(versus, GUARD, "win"), cell(GUARD, versus, "tie")


def _opponents() -> tuple[str, ...]:
    return tuple(dict.fromkeys(f.versus for f in published(TABLE) if f.strategy == GUARD))


def counts() -> Check:
    """Check both tables' columns on GUARD and ACS against the verdicts."""
    wrong, cells = [], 0
    for criterion in ("overall", *CRITERIA):
        found = judge_counts(criterion)
        for count, text in zip((found.wins, found.losses, found.ties), _row(ACS, criterion), strict=True):
            cells += 1
            wrong += [] if _is_printed(count, found.n, text) else [f"{criterion} {text}"]
    for criterion, dataset in product(("coherence", "fluency"), (*DATASETS, "All")):
        found = judge_counts(criterion, dataset)
        for strategy, what, count in (
            (GUARD, "win", found.wins),
            (ACS, "win", found.losses),
            (GUARD, "tie", found.ties),
        ):
            metric = f"judge.{criterion}.{what}"
            text = figure(BESIDE, dataset=dataset, strategy=strategy, metric=metric).value
            cells += 1
            wrong += [] if _is_printed(count, found.n, text) else [f"{dataset} {criterion} {text}"]
    return Check(
        name="judge-counts",
        subject=SUBJECT,
        where=f"{TABLE}, {BESIDE}",
        claim="win shares of GUARD and ACS by GPT-4, over all datasets and per dataset",
        found=f"{cells - len(wrong)} of {cells} figures are what the published verdicts give"
        + (f"; not: {'; '.join(wrong)}" if wrong else ""),
        holds=not wrong,
        source=SOURCE,
    )


def overall() -> Check:
    """Check what the row "Overall" is."""
    off = {}
    for versus in _opponents():
        rows = [_row(versus, criterion) for criterion in CRITERIA]
        means = [sum(float(row[place]) for row in rows) / len(rows) for place in range(3)]
        shown = [float(text) for text in _row(versus, "overall")]
        off[versus] = max(abs(mean - value) for mean, value in zip(means, shown, strict=True))
    return Check(
        name="judge-overall",
        subject=SUBJECT,
        where=TABLE,
        claim="a row “Overall” for each opponent",
        found="it is the mean of the six criteria, factuality among them, to within "
        f"{max(off.values()):.2f} points for all three opponents",
        holds=max(off.values()) < 0.1,
        source=f"the rows of {TABLE}",
        detail=(
            (
                "So it is no verdict on the texts as a whole, and against ACS its 900 cells are 150 pairs "
                "judged "
                "six times."
            ),
        ),
    )


def direction() -> Check:
    """Check in how many criteria GUARD's share is the larger one."""
    ahead = {}
    for versus in _opponents():
        rows = {criterion: _row(versus, criterion) for criterion in CRITERIA}
        ahead[versus] = [c for c, (guard, other, _) in rows.items() if float(guard) > float(other)]
    sides = ", ".join(f"{len(criteria)} of 6 against {versus}" for versus, criteria in ahead.items())
    return Check(
        name="judge-direction",
        subject=SUBJECT,
        where="sec:results",
        claim="GUARD's share is the larger one in five of six criteria against all three (not in factuality)",
        found=sides,
        holds=all(set(criteria) == set(CRITERIA) - {"factuality"} for criteria in ahead.values()),
        source=f"the rows of {TABLE}",
    )


def evidence() -> Check:
    """Check whether the differences from ACS are more than chance: one verdict a pair, a sign test."""
    p_values = {c: _p(judge_counts(c)) for c in CRITERIA}
    said = ", ".join(f"{criterion} {p_value:.2f}" for criterion, p_value in p_values.items())
    least = min(p_values, key=lambda criterion: p_values[criterion])
    return Check(
        name="judge-evidence",
        subject=SUBJECT,
        where="sec:results",
        claim="by GPT-4 GUARD “outperforms all three competitors in five out of six metrics”, ACS among them",
        found=f"against ACS no criterion differs by more than chance would have it: p = {said}",
        holds=any(p <= 0.05 for c, p in p_values.items() if c != "factuality"),
        source=f"{SOURCE}; exact sign test over pairs, uncorrected",
        detail=(
            f"The smallest p is that of {least}, the criterion in which the text gives ACS “a slight edge”.",
            (
                f"Against Top-p (60 : 40) it depends on how many verdicts there were: {_top_p()}. Against "
                "Top-k "
                "(80 : 20) it "
                "does not."
            ),
        ),
    )


def _p(found: Counts) -> float:
    p_value = binomial(found.wins, found.losses).p_value
    assert p_value is not None
    return p_value


def _top_p() -> str:
    return ", ".join(
        f"n = {n} gives p = {binomial(n * 60 // 100, n * 40 // 100).p_value:.2g}" for n in (*SMALLER, PAIRS)
    )


def criteria() -> Check:
    """Check whether the six criteria are six measurements."""
    place = CRITERIA.index("factuality")
    same = sum(
        pairs
        for _, verdicts, pairs in verdict_patterns()
        if len({*verdicts[:place], *verdicts[place + 1 :]}) == 1
    )
    against = sum(
        pairs
        for _, verdicts, pairs in verdict_patterns()
        if verdicts[place] == -1 and verdicts[CRITERIA.index("coherence")] == 1
    )
    behind = judge_counts("factuality").losses
    return Check(
        name="judge-criteria",
        subject=SUBJECT,
        where="sec:exp_setup",
        claim="six core metrics are measured",
        found=f"on {same} of {PAIRS} pairs the five besides factuality carry one and the same verdict: "
        "they are close to one measurement reported five times",
        holds=same < PAIRS / 2,
        source=SOURCE,
        detail=(
            (
                f"Factuality goes the other way: of the {behind} pairs on which ACS wins it, GUARD wins "
                f"coherence on {against}."
            ),
        ),
    )


def grim() -> Check:
    """Check which rows can be shares of 150 verdicts (GRIM)."""
    impossible, common = [], {}
    for versus in _opponents():
        sizes = set(range(1, PAIRS + 1))
        for criterion in CRITERIA:
            row = _row(versus, criterion)
            sizes &= set(fitting_sizes(row, 1, limit=PAIRS, whole=True))
            impossible += [
                f"{versus}, {criterion}: {cell.percentage} (nearest {cell.nearest})"
                for cell in consistent(row, PAIRS, 1, whole=True).cells
                if not cell.possible
            ]
        common[versus] = sizes
    fits = "; ".join(
        f"{versus}: {', '.join(map(str, sorted(sizes))) or 'none'}" for versus, sizes in common.items()
    )
    sixty = all(
        consistent(_row(versus, "overall"), 6 * n, 1, whole=True).possible
        for versus in _opponents()[1:]
        for n in SMALLER
    )
    return Check(
        name="judge-grim",
        subject=SUBJECT,
        where=TABLE,
        claim="“for n = 150 continuations”",
        found=f"impossible as shares of 150: {'; '.join(impossible)}",
        holds=not impossible,
        source=f"GRIM (Brown and Heathers 2017) over the criteria's rows of {TABLE}",
        detail=(
            f"Numbers up to 150 that fit all six rows: {fits}.",
            (
                f"The rows “Overall” {'fit' if sixty else 'do not fit'} six times 60 or 120 pooled. "
                "The authors' README speaks of 120 comparisons."
            ),
            "Ties are 24 % and more against ACS, and none in five criteria against Top-k and Top-p.",
        ),
    )


def beside() -> Check:
    """Check the column "Agree?"."""
    wrong = []
    for criterion, dataset in product(("coherence", "fluency"), (*DATASETS, "All")):
        people, judge = human_counts(criterion, dataset), judge_counts(criterion, dataset)
        same = (people.wins > people.losses) == (judge.wins > judge.losses) and judge.wins != judge.losses
        shown = figure(BESIDE, dataset=dataset, metric=f"both.{criterion}.agree").value
        wrong += [] if same == (shown == "yes") else [f"{dataset} {criterion}"]
    return Check(
        name="judge-beside-people",
        subject=SUBJECT,
        where=BESIDE,
        claim="“Agree?”: 6 ticks and 2 crosses",
        found="all 8 follow from the counts, if to agree is that both have the same one method ahead"
        if not wrong
        else f"do not follow: {'; '.join(wrong)}",
        holds=not wrong,
        source=SOURCE + " and the human study's counts",
        detail=(
            (
                "“Strong agreement” rests on totals. Agreement pair by pair cannot be had: the ratings are "
                "not "
                "published."
            ),
        ),
    )


def coherence_lead() -> Check:
    """Check that people prefer GUARD's coherence more than the judge does."""
    leads = {
        dataset: (human_counts("coherence", dataset).lead, judge_counts("coherence", dataset).lead)
        for dataset in (*DATASETS, "All")
    }
    others = [name for name, (people, judge) in leads.items() if people <= judge]
    said = "; ".join(f"{name} {people:.1f} and {judge:.1f}" for name, (people, judge) in leads.items())
    return Check(
        name="judge-coherence-lead",
        subject=SUBJECT,
        where="sec:results",
        claim="“human evaluators indicate an even stronger preference for GUARD's coherence compared to "
        "LLM-judges”",
        found=f"leads of people and of GPT-4, in points: {said}",
        holds=leads["All"][0] > leads["All"][1],
        source=SOURCE + " and the human study's counts",
        detail=(f"Over all datasets it is so; it is not on {' and '.join(others)}.",),
    )
