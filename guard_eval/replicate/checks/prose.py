"""What the text says of the tables of automatic metrics, and of its own setting."""

from __future__ import annotations

from collections import Counter, defaultdict

from scipy.stats import rankdata

from guard_eval.replicate.checks.bold import MAIN, from_human, grouped
from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.sources import DATASETS, GUARD, figure
from guard_eval.replicate.figures import Figure, published

SUBJECT = "text and tables"
BEAM, TOP_K, TOP_P = "tab:different_beam_width", "tab:different_topk", "tab:different_topp"
METRICS = ("diversity", "mauve", "coherence")
NAMED = ("Diversity", "MAUVE", "Coherence", "BERTScore")
"""The metrics named under “Evaluation Metrics”, and in app:D."""
LISTED = ("Qwen2.5-7B", "Deepseek-7B", "Mistral-v0.3", "Llama-3", "Llama-2", "Gemma-7B")
"""The models named under “LLMs”."""
EXAMINED = ("Llama-2", "Gemma-7B", "Llama-3.1", "Mistral-v0.3", "Deepseek-7B")
"""The models that app:G says `tab:model_size_results` details."""
SETTINGS = {
    BEAM: tuple(f"beam(b={b})" for b in (3, 5, 10, 15, 20, 50)),
    TOP_K: tuple(f"top_k(k={k})" for k in (3, 5, 10, 15, 20, 50)),
    TOP_P: tuple(f"top_p(p={p})" for p in (0.6, 0.7, 0.8, 0.9, 0.95)),
}
"""The settings that the text says were tried."""


def nearest() -> dict[tuple[str, str], set[str]]:
    """Return the strategies nearest to people in the main table, by metric and dataset."""
    every = [f for f in published(MAIN) if f.strategy != "human"]
    found = {}
    for group in grouped(every, lambda f: (f.metric, f.dataset)).values():
        least = min(round(from_human(f), 6) for f in group)
        found[group[0].metric, group[0].dataset] = {
            f.strategy for f in group if round(from_human(f), 6) == least
        }
    return found


def both() -> Check:
    """Check that GUARD leads in diversity and coherence."""
    leads = {key: names for key, names in nearest().items() if key[0] in ("diversity", "coherence")}
    ours = {
        key: "with another" if len(names) > 1 else "alone" for key, names in leads.items() if GUARD in names
    }
    said = ", ".join(f"{metric} on {dataset} ({how})" for (metric, dataset), how in ours.items())
    others = ", ".join(
        f"{metric} on {dataset}: {' and '.join(sorted(names))}"
        for (metric, dataset), names in leads.items()
        if GUARD not in names
    )
    ranks = mean_ranks(("diversity", "coherence"))
    order = sorted(ranks, key=lambda name: ranks[name])
    best = ", ".join(f"{name} {ranks[name]:.1f}" for name in order[:3])
    return Check(
        name="text-both",
        subject=SUBJECT,
        where="sec:results",
        claim="“in general, GUARD outperforms all other competing strategies in both diversity and "
        "coherence”",
        found="by nearness to people, the table's measure, its mean rank over the six cells is the best "
        f"({best}); it is "
        f"first in {len(ours)} of them: {said}",
        holds=order[0] == GUARD,
        source=f"the rows of {MAIN}",
        detail=(f"Elsewhere first: {others}.",),
    )


def mean_ranks(metrics: tuple[str, ...]) -> dict[str, float]:
    """Return each strategy's mean rank by nearness to people over datasets and `metrics`; 1 is nearest."""
    ranks: dict[str, list[float]] = defaultdict(list)
    cells = [f for f in published(MAIN) if f.strategy != "human" and f.metric in metrics]
    for group in grouped(cells, lambda f: (f.metric, f.dataset)).values():
        order = rankdata([round(from_human(f), 6) for f in group])
        for each, rank in zip(group, order, strict=True):
            ranks[each.strategy].append(float(rank))
    return {name: sum(values) / len(values) for name, values in ranks.items()}


def closest() -> Check:
    """Check that GUARD is nearest to people more often than any other."""
    first = Counter(name for names in nearest().values() for name in names)
    said = ", ".join(f"{name} {times}" for name, times in first.most_common())
    return Check(
        name="text-closest",
        subject=SUBJECT,
        where="sec:results",
        claim="GUARD “achieves results closest to human references”",
        found=f"nearest to people in how many of {len(nearest())} columns, ties counted for each: {said}",
        holds=first.most_common(1)[0][0] == GUARD and first[GUARD] > first.most_common(2)[1][1],
        source=f"the rows of {MAIN}",
        detail=(
            "The marks in bold count six for GUARD and two for temperature sampling: see bold-main.",
            "No interval is given for any of these figures.",
        ),
    )


def five_metrics() -> Check:
    """Count the metrics."""
    return Check(
        name="text-five-metrics",
        subject=SUBJECT,
        where="sec:exp_setup",
        claim="“the following five commonly used metrics”",
        found=f"{len(NAMED)} are named there and in app:D: {', '.join(NAMED)}; the tables have the same "
        f"{len({f.metric for f in published(MAIN)})}",
        holds=len(NAMED) == 5,
        source="the paragraph “Evaluation Metrics”, app:D and the main table",
    )


def models() -> Check:
    """Check that the models named for a table are in it."""
    rows = {f.model for f in published("tab:model_size_results")}
    missing = [name for name in EXAMINED if name not in rows]
    return Check(
        name="text-models",
        subject=SUBJECT,
        where="app:G, tab:model_size_results",
        claim=f"the table details {', '.join(EXAMINED)}",
        found=f"{', '.join(missing)} is not in it (it is in the table of BERTScores)",
        holds=not missing,
        source="app:G and the rows of tab:model_size_results",
        detail=(
            (
                f"The six models listed in the text ({', '.join(LISTED)}) have Llama-3 where the appendix "
                "has "
                "Llama-3.1; "
                "GPT2-XL, of two tables, is in neither list."
            ),
            (
                "The caption speaks of “models of varying size”; all rows are models of 7 to 8 billion "
                "parameters."
            ),
        ),
    )


def settings() -> Check:
    """Check that the settings the text names are in the tables."""
    tables = {
        label: tuple(
            dict.fromkeys(f.row.replace("$", "") for f in published(label) if not f.row.startswith("GUARD"))
        )
        for label in SETTINGS
    }
    holds = all(len(rows) == len(SETTINGS[label]) for label, rows in tables.items())
    values = {label: [_value(row) for row in rows] for label, rows in tables.items()}
    holds &= values == {
        label: [_value(name.strip("()").replace("(", " ")) for name in names]
        for label, names in SETTINGS.items()
    }
    return Check(
        name="text-settings",
        subject=SUBJECT,
        where="sec:exp_setup, app:G",
        claim="B, k ∈ {3, 5, 10, 15, 20, 50} and p ∈ {0.60, 0.70, 0.80, 0.90, 0.95} were tried",
        found=f"the tables have {', '.join(str(len(rows)) for rows in tables.values())} rows, with these "
        "values",
        holds=holds,
        source="the rows of the three tables",
    )


def _value(text: str) -> float:
    return float(text.rpartition("=")[2].strip(" )"))


def _column(label: str, metric: str, dataset: str) -> list[Figure]:
    return [
        f for f in published(label) if f.metric == metric and f.dataset == dataset and f.strategy != GUARD
    ]


def _distance(each: Figure) -> float:
    """Return how far a value is from people's; of MAUVE, from 100."""
    return abs(each.number - figure(MAIN, dataset=each.dataset, metric=each.metric, strategy="human").number)


def beam() -> Check:
    """Check the width chosen for beam search."""
    wins = 0
    for metric in METRICS:
        for dataset in DATASETS:
            column = {_value(f.row): _distance(f) for f in _column(BEAM, metric, dataset)}
            wins += min(column, key=lambda b: column[b]) == 3
    return Check(
        name="baseline-beam",
        subject=SUBJECT,
        where=f"{MAIN}, {BEAM}",
        claim="“Hyperparameters for competing strategies chosen based on experimental evaluation”: beam "
        "search with B = 5",
        found=f"B = 3 is nearest to people of all six widths in {wins} of 9 columns, B = 5 in none",
        holds=wins < 5,
        source=f"the rows of {BEAM}, people's figures of {MAIN}",
        detail=("It changes nothing in the order: beam search is far behind at any width.",),
    )


def sampling() -> Check:
    """Check the settings chosen for top-k and top-p."""
    said, holds = [], True
    for label, chosen in ((TOP_K, 50.0), (TOP_P, 0.95)):
        for metric in METRICS:
            first = 0
            for dataset in DATASETS:
                column = {_value(f.row): _distance(f) for f in _column(label, metric, dataset)}
                first += min(column, key=lambda value: column[value]) == chosen
            said.append(f"{label.removeprefix('tab:different_')} {metric} {first} of 3")
            holds &= first >= 2 or metric == "mauve"
    return Check(
        name="baseline-sampling",
        subject=SUBJECT,
        where=f"{MAIN}, {TOP_K}, {TOP_P}",
        claim="top-k with k = 50 and top-p with p = 0.95 were chosen on experimental evaluation",
        found=f"columns in which the chosen value is nearest to people: {', '.join(said)}",
        holds=holds,
        source=f"the rows of {TOP_K} and {TOP_P}, people's figures of {MAIN}",
        detail=("Both chosen values are the largest that were tried; larger ones might do better still.",),
    )
