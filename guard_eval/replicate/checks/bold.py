"""Bold figures against the rule that their table states."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable

from guard_eval.replicate.checks.records import Check
from guard_eval.replicate.checks.sources import figure, figures
from guard_eval.replicate.figures import Figure, published

SUBJECT = "bold figures"
MAIN = "tab:ablation_resultglacs"
MODELS, BERT = "tab:model_size_results", "tab:model_size_bertscore_results"
JUDGE = "tab:llm_judgements"
HUMAN = "human"


def grouped(every: Iterable[Figure], key: Callable[[Figure], Hashable]) -> dict[Hashable, list[Figure]]:
    """Return figures by what they are compared within."""
    found: dict[Hashable, list[Figure]] = defaultdict(list)
    for each in every:
        found[key(each)].append(each)
    return found


def against(groups: Iterable[list[Figure]], distance: Callable[[Figure], float]) -> tuple[list[str], int]:
    """Return what is wrongly bold or not, in words, and the number of groups.

    Args:
        groups: Figures that compete.
        distance: What the rule makes least.
    """
    wrong, number = [], 0
    for group in groups:
        number += 1
        least = min(round(distance(each), 6) for each in group)
        best = [each for each in group if round(distance(each), 6) == least]
        bold = [each for each in group if each.mark == "bold"]
        if {id(each) for each in best} != {id(each) for each in bold}:
            sought = " and ".join(f"{each.value} ({each.strategy})" for each in best)
            has = " and ".join(f"{each.value} ({each.strategy})" for each in bold) or "nothing"
            where = ", ".join(word for word in (group[0].model, group[0].metric, group[0].dataset) if word)
            wrong.append(f"{where}: {has}, where {sought} should be")
    return wrong, number


def from_human(each: Figure) -> float:
    """Return how far a figure of the main table lies from people's."""
    return abs(each.number - figure(MAIN, dataset=each.dataset, metric=each.metric, strategy=HUMAN).number)


def main() -> Check:
    """Check the main table: closest to people."""
    every = [each for each in published(MAIN) if each.strategy != HUMAN]
    wrong, number = against(grouped(every, lambda f: (f.dataset, f.metric)).values(), from_human)
    return Check(
        name="bold-main",
        subject=SUBJECT,
        where=MAIN,
        claim="“Scores closest to human highlighted in bold”",
        found=f"{number - len(wrong)} of {number} columns follow the rule; bold is {'; '.join(wrong)}",
        holds=not wrong,
        source=f"the rows of {MAIN}",
    )


def models() -> Check:
    """Check the table of models: best, and what that means."""
    every = published(MODELS)
    scored = [each for each in every if each.metric != "coherence"]
    wrong, _ = against(
        grouped(scored, lambda f: (f.model, f.dataset, f.metric)).values(), lambda f: -f.number
    )
    diverse = grouped([f for f in scored if f.metric == "diversity"], lambda f: (f.model, f.dataset))
    other, number = against(diverse.values(), from_human)
    bold = sum(each.mark == "bold" for each in every if each.metric == "coherence")
    return Check(
        name="bold-models",
        subject=SUBJECT,
        where=MODELS,
        claim="“Best results in bold”",
        found=f"in diversity and MAUVE bold is the highest value ({len(wrong)} exceptions), in coherence "
        f"{bold} of "
        f"{sum(each.metric == 'coherence' for each in every) // 3} rows have any; by the main table's rule, "
        "closest to "
        f"people, {len(other)} of {number} bold figures of diversity would be others",
        holds=not wrong and not other and bold > 0,
        source=f"the rows of {MODELS}, people's figures of {MAIN}",
        detail=(f"Under that rule: {'; '.join(other)}.",),
    )


def bertscores() -> Check:
    """Check the table of BERTScores: the highest."""
    groups = grouped(published(BERT), lambda f: (f.model, f.dataset)).values()
    wrong, number = against(groups, lambda f: -f.number)
    return Check(
        name="bold-bertscore",
        subject=SUBJECT,
        where=BERT,
        claim="“Best results in bold”",
        found=f"{number - len(wrong)} of {number} rows follow it; bold is {'; '.join(wrong)}",
        holds=not wrong,
        source=f"the rows of {BERT}",
        detail=("Corrected, ACS and GUARD each gain a row and CS loses two.",),
    )


def judge() -> Check:
    """Check the judge's table: the largest of the three shares, ties among them or not."""
    groups = list(grouped(figures(JUDGE), lambda f: (f.row, f.group)).values())
    with_ties, number = against(groups, lambda f: -f.number)
    methods = [[each for each in group if not each.metric.endswith("tie")] for group in groups]
    without, _ = against(methods, lambda f: -f.number)
    tied = [group for group in groups if any(f.mark == "bold" and f.metric.endswith("tie") for f in group)]
    return Check(
        name="bold-judge",
        subject=SUBJECT,
        where=JUDGE,
        claim="“Best results are highlighted in bold”",
        found=f"if a tie can be the best result, {len(with_ties)} of {number} places break the rule; if only "
        "a method "
        f"can, {len(without)} do: a tie of 100 % is bold against Top-k and Top-p, one of 86.0 or 35.1 "
        "against ACS "
        "is not",
        holds=not with_ties or not without,
        source=f"the rows of {JUDGE}",
        detail=(f"A tie is bold in {len(tied)} places.",),
    )
