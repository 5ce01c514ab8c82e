"""The report's account of its methods and of what it cannot say; the sentences are in questions.toml."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.analyses.judging.judge_run import mixed_forms
from analysis.reports.answer import is_simulated
from analysis.reports.columns import group_name, page_words, plain_name
from analysis.reports.results import Results, rows_of
from analysis.verdicts.reading import reading_of
from guard_eval.records import PEOPLE_OF, SIMULATED
from guard_eval.reporting.words import and_list, names_of, percent, plural, sentence

FEW_PAIRS = 30
"""Below this many pairs a result is marked as resting on few."""
COARSE_UNITS = 20
"""Below this many units the sign-flip test can take only a few p-values (docs/calibration.md)."""
KAPPA_PAIRS = 150
"""Below this many pairs the interval of κ covers less than it says (docs/calibration.md)."""
MAX_NOTES = 4
"""Notes of results that are repeated among the limits."""


def _when(condition: object, **values: object) -> dict[str, object] | None:
    """Return what a sentence is filled with if it applies."""
    return values if condition else None


def _sentences(part: str, known: Mapping[str, dict[str, object] | None]) -> list[str]:
    """Return the sentences that apply, filled in."""
    words = page_words()[part]
    return [words[name].format(**values) for name, values in known.items() if values is not None]


def methods(results: Results) -> tuple[str, ...]:
    """Return how the figures were computed, a sentence or two each."""
    context, rows = results.context, results.answering
    is_random = context.plan.raters == "random"
    family = {group_name(row): row.family for row in rows if row.family > 1}
    sizes = [f"{size} for {who}" for who, size in family.items()]
    by_pair = all(row.unit == "pair" for row in rows)
    together = any(row.units < row.pairs for row in rows)
    notes = _sentences(
        "methods",
        {
            "estimand": _when(
                True, whom="all raters of the same kind" if is_random else "the raters who took part"
            ),
            "interval": _when(
                True, level=percent(results.evidence.level, 0), tests=names_of(row.method for row in rows)
            ),
            "unit_pair": _when(by_pair),
            "unit_prompts": _when(not by_pair and together),
            "unit_prompt": _when(not by_pair and not together),
            "correction": _when(
                family,
                correction=rows[0].correction,
                sizes=and_list(sizes) if sizes else "",
                declared="declared beforehand" if context.planned is not None else "none declared beforehand",
            ),
            "random": _when(is_random),
            "showings": _when(any(row.verdicts > row.wins + row.ties + row.losses for row in rows)),
            "kinds": _when(len({(row.rater_kind, row.judge) for row in rows}) > 1),
            "several_judges": _when(len({row.judge for row in rows if row.judge}) > 1),
            "ranks": _when(results.is_ranked, correction=rows[0].correction),
            "equivalence": _when(
                context.plan.margin is not None, margin=f"{100 * (context.plan.margin or 0):g}"
            ),
            "composite": _when(context.composite is not None, composite=context.composite),
        },
    )
    for panel in results.evidence.scored.panels:
        members = and_list([plain_name(name) for name in panel.members])
        without = f", and has no score of {plural(panel.without, 'pair')} that a member lacks"
        notes.append(
            f"The {panel.name}: {members}; it counts as one rater{without if panel.without else ''}."
        )
    notes += [f"{each.title}, a criterion of the study's own: {each.definition}" for each in context.criteria]
    notes += context.declared
    reading = [f"{role}: {column} ({why})" for role, column, why in reading_of(results.evidence.frame).rows()]
    notes += [f"Read from the table: {'; '.join(reading)}."] if reading else []
    if context.why_exploratory:
        notes.append(f"Exploratory: {'; '.join(context.why_exploratory)}.")
    changed = "Exploratory: settings were changed after the first verdict of"
    notes += [f"{changed} {change}." for change in context.changed_judges]
    seed = "none is given, so it is 0" if context.seed is None else f"{context.seed}"
    return (*notes, f"Seed of drawn signs: {seed}.")


def limitations(results: Results) -> tuple[str, ...]:
    """Return what a reader must keep in mind, as far as it applies to these data."""
    context, rows = results.context, results.answering
    people = any(row.rater_kind not in {*PEOPLE_OF, *SIMULATED} for row in rows)
    unfinished, missing = context.unfinished, sum(row.count for row in rows_of(results["judge_failures"]))
    fewest, units = min(row.pairs for row in rows), min(row.units for row in rows)
    few_for_kappa = any(
        row.kappa_low is not None and row.pairs_rated_twice < KAPPA_PAIRS
        for row in rows_of(results["agreement"])
    )
    notes = _sentences(
        "limits",
        {
            "simulated": _when(is_simulated(results)),
            "fixed": _when(context.plan.raters == "fixed" and people),
            "no_evidence": _when(True),
            "unfinished": _when(unfinished, what=and_list(unfinished) if unfinished else ""),
            "looking": _when(unfinished and not context.plan.sequential),
            "few_pairs": _when(fewest < FEW_PAIRS, pairs=plural(fewest, "pair")),
            "coarse": _when(units < COARSE_UNITS, units=COARSE_UNITS),
            "kappa": _when(few_for_kappa, pairs=KAPPA_PAIRS),
            "no_position": _when(results["position"].empty),
            "models": _when(any(row.rater_kind == "model" for row in rows)),
            "failures": _when(missing, what=plural(missing, "showing")),
        },
    )
    warned = list(dict.fromkeys(row.note for row in rows if row.note))[:MAX_NOTES]
    mixed = mixed_forms(context.judging) if context.judging else ()
    return (
        *notes,
        *mixed,
        *map(sentence, warned),
        *(f"{text}." for text in reading_of(results.evidence.frame).notes),
    )
