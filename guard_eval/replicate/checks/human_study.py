"""The human study's printed figures against its own counts."""

from __future__ import annotations

from analysis.core.grim import printed
from analysis.core.significance import binomial
from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.sources import (
    ACS,
    DATASETS,
    GUARD,
    KAPPA,
    PER_DATASET,
    RATERS,
    Counts,
    figure,
    figures,
    human_counts,
)

SUBJECT = "human study"
TABLE = "tab:humaneval_resultglacs"
SOURCE = "counts of 200 ratings per dataset, from the shares in tab:llm_with_human (steps of 0.5 %)"
STATED_PAIRS = 600
PRINTED_P = {"coherence": "2.875e-06", "fluency": "0.01819"}


def p_values() -> Check:
    """Check the two p-values in the table's caption."""
    parts, holds = [], True
    for criterion, text in PRINTED_P.items():
        counts = human_counts(criterion)
        p_value = binomial(counts.wins, counts.losses).p_value
        assert p_value is not None
        holds &= f"{p_value:.4g}" == f"{float(text):.4g}"
        parts.append(
            f"{criterion}: {counts.wins} wins, {counts.losses} losses, {counts.ties} ties, p = {p_value:.7g}"
        )
    return Check(
        name="human-p-values",
        subject=SUBJECT,
        where=TABLE,
        claim="P-values for the exact binomial test: 2.875e-06 (coherence), 0.01819 (fluency)",
        found=f"two-sided binomial on the non-tied ratings; {'; '.join(parts)}",
        holds=holds,
        source=SOURCE,
        detail=("Whether that is the test to make is another question: see human-test-level.",),
    )


def shares() -> Check:
    """Check the tie-split shares of the three datasets."""
    wrong, cells = [], 0
    for criterion in PRINTED_P:
        for dataset in DATASETS:
            for strategy, count in _halves(human_counts(criterion, dataset)).items():
                shown = figure(TABLE, dataset=dataset, strategy=strategy, metric=f"people.{criterion}.share")
                cells += 1
                if float(shown.value) != 100 * count / PER_DATASET:
                    wrong.append(f"{dataset} {criterion} {strategy}: {shown.value}")
    return Check(
        name="human-shares",
        subject=SUBJECT,
        where=TABLE,
        claim="shares per dataset, a tie counting half for either (app:E)",
        found=f"{cells - len(wrong)} of {cells} shares are exactly what the counts give{_list(wrong)}",
        holds=not wrong,
        source=SOURCE,
    )


def _halves(counts: Counts) -> dict[str, float]:
    return {GUARD: counts.wins + counts.ties / 2, ACS: counts.losses + counts.ties / 2}


def percentages() -> Check:
    """Check the whole percentages of the appendix."""
    table, wrong, cells, totals = "tab:human_evaluation_double_exp", [], 0, []
    for criterion in PRINTED_P:
        for dataset in (*DATASETS, "All"):
            counts = human_counts(criterion, dataset)
            sought = {(GUARD, "win"): counts.wins, (GUARD, "tie"): counts.ties, (ACS, "win"): counts.losses}
            total = 0
            for (strategy, what), count in sought.items():
                shown = figure(table, dataset=dataset, strategy=strategy, metric=f"people.{criterion}.{what}")
                cells += 1
                total += int(shown.value)
                if int(shown.value) not in [int(value) for value in printed(count, counts.n, 0)]:
                    wrong.append(f"{dataset} {criterion}: {shown.value}")
            if total != 100:
                totals.append(f"{dataset} {criterion} {total}")
    return Check(
        name="human-percentages",
        subject=SUBJECT,
        where=table,
        claim="whole percentages of wins, ties and losses",
        found=f"{cells - len(wrong)} of {cells} are the counts' percentages, rounded{_list(wrong)}",
        holds=not wrong,
        source=SOURCE,
        detail=(f"Rounded to whole percents, {len(totals)} of 8 rows sum to 101: {'; '.join(totals)}.",),
    )


def direction() -> Check:
    """Check which cells favour GUARD."""
    cells = {(c, d): human_counts(c, d).share for c in PRINTED_P for d in DATASETS}
    against = [f"{criterion} on {dataset}" for (criterion, dataset), share in cells.items() if share <= 50]
    leads = ", ".join(
        f"{criterion} on {dataset} {share:.2f} %" for (criterion, dataset), share in cells.items()
    )
    return Check(
        name="human-direction",
        subject=SUBJECT,
        where="sec:results",
        claim="GUARD is preferred in both criteria, “with the sole exception of fluency on the BookCorpus "
        "dataset”",
        found=f"GUARD's shares: {leads}",
        holds=against == ["fluency on BookCorpus"],
        source=SOURCE,
    )


def all_row() -> Check:
    """Check the row over all datasets."""
    parts, holds = [], True
    for criterion in PRINTED_P:
        counts = human_counts(criterion)
        shown = figure(TABLE, dataset="All", strategy=GUARD, metric=f"people.{criterion}.share").value
        so = [f"{value:f}" for value in printed(counts.wins + counts.ties / 2, counts.n, 2)]
        holds &= shown in so
        parts.append(f"{criterion} {shown} printed, {' or '.join(so)} by the counts")
    return Check(
        name="human-all-row",
        subject=SUBJECT,
        where=TABLE,
        claim="over all datasets 58.00 % (coherence) and 53.00 % (fluency) for GUARD",
        found="; ".join(parts),
        holds=holds,
        source=SOURCE,
        detail=(
            "The row was rounded to whole percents and then printed with two decimals, as no other row is.",
        ),
    )


def swap() -> Check:
    """Check the leads named in the text."""
    leads = {criterion: human_counts(criterion).lead for criterion in PRINTED_P}
    return Check(
        name="human-swap",
        subject=SUBJECT,
        where="sec:results",
        claim="GUARD outperforms ACS by “approximately 6% in semantic coherence and 16% in fluency”",
        found=f"lead in coherence {leads['coherence']:.1f}, in fluency {leads['fluency']:.1f} percentage "
        "points: "
        "the two are exchanged",
        holds=round(leads["coherence"]) == 6 and round(leads["fluency"]) == 16,
        source=SOURCE,
    )


def pairs() -> Check:
    """Check the number of pairs against the counts and κ."""
    ratings = human_counts("coherence").n
    stated = figures("tab:llm_with_human", metric="people.coherence.win", dataset="All")[0].row
    return Check(
        name="human-pairs",
        subject=SUBJECT,
        where="sec:exp_setup",
        claim="four evaluators “evaluated 600 pairs of competing text continuations”",
        found=f"the p-values and shares rest on {ratings} ratings per criterion; with {RATERS} raters that "
        "is "
        f"{ratings // RATERS} pairs, as the row “{stated}” says",
        holds=ratings == STATED_PAIRS * RATERS,
        source=f"{SOURCE}; p-values in the caption of {TABLE}",
        detail=(
            (
                "600 pairs seen by all four would be 2400 ratings; 600 pairs seen by one each would leave no "
                "Fleiss' κ, "
                f"and one of {KAPPA} is reported."
            ),
            f"{TABLE} gives n = 200 per dataset (ratings), tab:llm_with_human n = 50 (pairs).",
        ),
    )


def _list(wrong: list[str]) -> str:
    return f"; not: {'; '.join(wrong)}" if wrong else ""
