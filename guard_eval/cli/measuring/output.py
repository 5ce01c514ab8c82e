"""Metrics on the terminal, and in the files of a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from guard_eval.cli.console import record, say, say_table
from guard_eval.metrics.export import results_json, write_results
from guard_eval.metrics.figures.score_figures import intervals, plane
from guard_eval.metrics.figures.trace_figures import behaviour
from guard_eval.metrics.rounding import closest_to_human, figure
from guard_eval.metrics.runs import joined_signature
from guard_eval.metrics.scores import METRICS, OVERALL, Difference, Results, Score
from guard_eval.reporting.drawing import Drawing
from guard_eval.reporting.words import NO_P, p_value
from guard_eval.texts.continuations import read_traces
from guard_eval.texts.generations import HUMAN

SHOWN = ("diversity", "mauve", "coherence", "bertscore", "rep_4", "words", "tokens_per_second")
"""Metrics on the terminal; tables in files have all."""

COMPARED = ("diversity", "mauve", "coherence", "bertscore")


def show(results: Results) -> None:
    """Print a table for each dataset, then definitions, differences and warnings."""
    record("metrics", json.loads(results_json(results)))
    closest = closest_to_human(results)
    by_place = {(one.metric, one.dataset, one.strategy): one for one in results.scores}
    metrics = [name for name in SHOWN if any(one.metric == name for one in results.scores)]
    metrics = metrics or list(dict.fromkeys(one.metric for one in results.scores))
    for dataset in dict.fromkeys(one.dataset for one in results.scores):
        mine = [one for one in results.scores if one.dataset == dataset]
        say(f"\n{dataset}, {_texts(mine)}")
        say_table(
            ["strategy", *(METRICS[name].label for name in metrics)],
            [
                [
                    strategy,
                    *(
                        _cell(
                            by_place.get((name, dataset, strategy)), star=(name, dataset, strategy) in closest
                        )
                        for name in metrics
                    ),
                ]
                for strategy in dict.fromkeys(one.strategy for one in mine)
            ],
        )
    if closest:
        say("* nearest to the human references")
    _show_runs(results, metrics)
    _show_differences(results.differences)
    _show_definitions(results, metrics)


def _show_runs(results: Results, metrics: Sequence[str]) -> None:
    """Print how far a metric differs from run to run, of strategies with several texts a prompt."""
    several = [one for one in results.scores if one.run_sd is not None and one.metric in metrics]
    for dataset in dict.fromkeys(one.dataset for one in several):
        say(f"\n{dataset}: standard deviation from run to run (the intervals contain it)")
        mine = {(one.strategy, one.metric): one for one in several if one.dataset == dataset}
        say_table(
            ["strategy", "runs", *(METRICS[name].label for name in metrics)],
            [
                [
                    strategy,
                    str(max(one.runs for (name, _), one in mine.items() if name == strategy)),
                    *(
                        figure(name, one.run_sd) if (one := mine.get((strategy, name))) else ""
                        for name in metrics
                    ),
                ]
                for strategy in dict.fromkeys(strategy for strategy, _ in mine)
            ],
        )


def _texts(scores: Sequence[Score]) -> str:
    numbers = {one.n for one in scores if one.n}
    if not numbers or scores[0].dataset == OVERALL:
        return "mean over datasets, each of the same weight"
    return f"up to {max(numbers)} texts each"


def _cell(score: Score | None, *, star: bool) -> str:
    if score is None or score.value is None:
        return ""
    return f"{score.value:.{METRICS[score.metric].digits}f}{'*' if star else ' '}"


def _show_differences(differences: Sequence[Difference]) -> None:
    shown = [one for one in differences if one.metric in COMPARED and one.value is not None]
    for dataset in dict.fromkeys(one.dataset for one in shown):
        say(f"\n{dataset}: differences from {shown[0].baseline}, {shown[0].level:.0%} intervals over prompts")
        say_table(
            ["metric", "strategy", "difference", "from", "to", "p (Holm)"],
            [
                [
                    METRICS[one.metric].label,
                    one.strategy,
                    *(_number(one, value) for value in (one.value, one.low, one.high)),
                    p_value(one.p_holm) if one.p_holm is not None else NO_P if one.note else "",
                ]
                for one in shown
                if one.dataset == dataset
            ],
        )
        for note in dict.fromkeys(one.note for one in shown if one.dataset == dataset and one.note):
            say(note)


def _number(one: Difference, value: float | None) -> str:
    return "" if value is None else f"{value:.{METRICS[one.metric].digits}f}"


def _show_definitions(results: Results, metrics: Sequence[str]) -> None:
    say()
    for name in metrics:
        signatures = [one.signature for one in results.scores if one.metric == name and one.strategy != HUMAN]
        say(f"{METRICS[name].label}: {joined_signature(signatures)}")
    for one in results.scores:
        if one.counts and one.metric == metrics[0]:
            counts = ", ".join(f"{count} {what}" for what, count in one.counts.items())
            say(f"{one.dataset}, {one.strategy}: {counts}")
        if (
            one.metric in metrics
            and one.value is None
            and one.strategy != HUMAN
            and one.note != "not recorded"
        ):
            say(f"{one.dataset}, {one.strategy}, {METRICS[one.metric].label}: {one.note}")
    for warning in results.warnings:
        say(warning)


def write(results: Results, folder: Path, traces: Sequence[Path]) -> None:
    """Write every table and figure into `folder`, and print where they are.

    Raises:
        StudyError: Something cannot be written.
    """
    write_results(results, folder, dict(draw(results, traces)))
    say(f"\nmetrics: {folder / 'metrics.html'}, also as .csv .md .tex .json; figures: {folder / 'figures'}/")


def draw(results: Results, traces: Sequence[Path]) -> Iterator[tuple[str, Drawing]]:
    """Yield the figures by file name: metric against metric, intervals, and what was traced."""
    for place, dataset in enumerate(dict.fromkeys(one.dataset for one in results.scores), start=1):
        name = f"{place}-diversity-coherence"
        if drawing := plane(results, dataset=dataset, name=name):
            yield name, drawing
        for metric in COMPARED:
            name = f"{place}-{metric}"
            if drawing := intervals(results, metric, dataset=dataset, name=name):
                yield name, drawing
    for place, path in enumerate(traces, start=1):
        found = read_traces([path])
        strategy = path.name.removesuffix(".trace.jsonl")
        for kind, some in (("trace", found[:1]), ("traces", found)):
            title = f"{strategy}, {some[0].prompt_id}" if kind == "trace" and some else strategy
            if drawing := behaviour(some, name=f"{kind}-{place}", title=title):
                yield f"{kind}-{strategy}", drawing
