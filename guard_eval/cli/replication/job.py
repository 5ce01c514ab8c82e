"""What `guard-eval replicate` does: lay out, run the ordinary commands, compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from guard_eval.cli.console import say, say_next
from guard_eval.cli.replication import verdicts
from guard_eval.cli.replication.output import finish
from guard_eval.cli.replication.study import ROOT, Asked, Planned, apart_of, lay_out, model_of, planned, there
from guard_eval.errors import StudyError

if TYPE_CHECKING:
    from guard_eval.cli.replication.compare import Key, Ours
    from guard_eval.cli.replication.registry import Entry
    from guard_eval.study.folder import Study

__all__ = ["Asked", "replicate"]

ROUND = 10
"""Prompts after which the next strategy has its turn, where speed is compared."""


def replicate(table: str, folder: Path | None, asked: Asked, *, dry_run: bool) -> None:
    """Make a table again, as far as this machine and the raters have come, and print it beside the paper's.

    Raises:
        StudyError: No such table, no prompts, or what one of the commands finds wrong.
    """
    from guard_eval.cli.replication.registry import find

    entry = find(table)
    if not entry.study:
        say(f"{entry.label}, {entry.title}: there is nothing to run. {entry.pointer}")
        return
    place = folder or ROOT / entry.study
    if dry_run:
        _forecast(entry, place, asked)
        return
    going_on = [] if asked.anything else there(place)
    if going_on:
        from guard_eval.study.folder import Study

        studies = [(model_of(study), study) for study in map(Study.open, going_on)]
    else:
        studies = [(one.model, lay_out(one)) for one in planned(entry, place, asked)]
    _KINDS[entry.kind](entry, place, studies)


def _forecast(entry: Entry, place: Path, asked: Asked) -> None:
    """Say what would be run; where a study is there, the commands say what is left of it."""
    from guard_eval.cli import generate
    from guard_eval.cli.replication.needs import needs
    from guard_eval.cli.replication.output import judge_cost
    from guard_eval.study.folder import Study

    say(f"{entry.label}: {entry.title}")
    found = [] if asked.anything else there(place)
    for folder in found:
        study = Study.open(folder)
        generate.run(study, dry_run=True)
        if entry.judged:
            _preview_judge(study)
    if not found:
        for one in planned(entry, place, asked):
            _say_planned(one)
    needed = needs(entry)
    memory = f", with {needed.memory_gb} GB of GPU memory" if needed.memory_gb else ""
    say(
        f"the paper's setting takes {needed.tokens:,} tokens at most, about {needed.gpu_hours:.2g} h on an "
        f"H200{memory}; {needed.download_gb} GB of models"
    )
    if entry.people:
        say(f"people: {entry.people} for each of {entry.pairs} pairs")
    if (cost := judge_cost(entry, needed)) is not None:
        say(f"judge: {needed.requests} requests, about ${cost:.2f}")
    say_next(f"guard-eval replicate {entry.name} {place}, with the same options")


def _say_planned(one: Planned) -> None:
    import tomllib

    generation = tomllib.loads(one.text)["generation"]
    texts = len(one.prompts) * len(generation["strategies"])
    counts = ", ".join(f"{n} of {name}" for name, n in Counter(p.dataset for p in one.prompts).items())
    say(
        f"would write {one.folder / 'study.toml'} ({one.model}) and {len(one.prompts)} prompts ({counts}), "
        f"and make {texts} texts of at most {texts * generation['max_new_tokens']:,} tokens"
    )


def _preview_judge(study: Study) -> None:
    from guard_eval.cli.judging.running import JudgeRunner
    from guard_eval.store import Store

    if not (study.folder / "study.db").exists() and study.settings.database is None:
        say("the judge's requests are known when there are pairs")
        return
    with Store.open(study.database, study_hash=study.hash) as store:
        runner = JudgeRunner(study, store, budget=None, calibrate=False, replay=None)
        runner.judge(study.settings.judge, dry_run=True, yes=False)


def _metrics(entry: Entry, place: Path, studies: Sequence[tuple[str, Study]]) -> None:
    from guard_eval.cli import generate, measure
    from guard_eval.cli.replication.compare import compare
    from guard_eval.cli.replication.figures import labels, published
    from guard_eval.cli.replication.ours import of_metrics

    several = len(entry.models) > 1
    ours: dict[Key, Ours] = {}
    failures = []
    for model, study in studies:
        generate.run(study)
        try:
            measure.run(study)
        except StudyError as error:  # a metric whose model is not to be had; the others are there
            failures.append(str(error))
        ours |= of_metrics(study.metrics, model=model if several else "")
    if not ours:
        raise StudyError("\n".join(failures))
    apart = apart_of(entry, studies)
    if entry.label in labels():
        blocks = compare(published(entry.label), ours, apart, several_models=several)
        finish(entry, place, blocks, apart, _not_run(entry, ours))
    else:
        say(f"\n{entry.label}: the paper prints no figures of it; ours are in {studies[0][1].metrics}/")
    if failures:
        raise StudyError("\n".join(failures))


def _speed(entry: Entry, place: Path, studies: Sequence[tuple[str, Study]]) -> None:
    from guard_eval.cli import generate
    from guard_eval.cli.replication.compare import compare
    from guard_eval.cli.replication.ours import of_speed
    from guard_eval.cli.replication.ratios import with_ratios
    from guard_eval.texts.continuations import current_texts
    from guard_eval.texts.prompts import read_prompts

    ((_, study),) = studies
    prompts = read_prompts(study.prompts_path)
    for end in range(min(ROUND, len(prompts)), len(prompts) + ROUND, ROUND):
        # In turns, so that whatever else the machine does falls on all strategies alike.
        limited = study.settings.prompts.model_copy(update={"limit": min(end, len(prompts))})
        generate.run(replace(study, settings=study.settings.model_copy(update={"prompts": limited})))
    made = {
        strategy: list(texts.values())
        for strategy, texts in current_texts(study, study.settings.generation.strategies, prompts).items()
    }
    devices = sorted({one.device for each in made.values() for one in each})
    apart = apart_of(entry, studies)
    apart = replace(
        apart, common=(*apart.common, f"made on {', '.join(devices)}, the paper's on a 4090 or an H100")
    )
    blocks = compare(with_ratios(), of_speed(made), apart)
    remark = f"one text at a time; strategies in turn after every {ROUND} prompts"
    finish(entry, place, blocks, apart, (remark,))


def _cases(entry: Entry, place: Path, studies: Sequence[tuple[str, Study]]) -> None:
    from guard_eval.cli import generate
    from guard_eval.cli.replication.texts import show_case

    ((_, study),) = studies
    generate.run(study)
    show_case(entry, place, study, apart_of(entry, studies).words)


def _trace(entry: Entry, place: Path, studies: Sequence[tuple[str, Study]]) -> None:
    from guard_eval.cli import generate
    from guard_eval.cli.replication.texts import show_trace

    ((_, study),) = studies
    generate.run(study, only=("guard",), trace=True)
    show_trace(entry, place, study, apart_of(entry, studies).words)


_KINDS = {
    "metrics": _metrics,
    "speed": _speed,
    "verdicts": verdicts.from_study,
    "cases": _cases,
    "trace": _trace,
}


def _not_run(entry: Entry, ours: dict[Key, Ours]) -> tuple[str, ...]:
    from guard_eval.cli.replication.figures import published

    datasets = {key[1] for key in ours}
    missing = dict.fromkeys(f.dataset for f in published(entry.label) if f.dataset not in datasets)
    return (f"not run: {', '.join(missing)}",) if missing else ()
