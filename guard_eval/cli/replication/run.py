"""What `guard-eval replicate` does: lay out the studies, run the ordinary commands, and compare."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

from analysis.reports.study_report import table_of
from analysis.verdicts.tidy import read, validate
from guard_eval import progress
from guard_eval.cli.console import say, say_next
from guard_eval.cli.replication.compare import Departures, Key, Ours, compare
from guard_eval.cli.replication.needs import needs
from guard_eval.cli.replication.ours import WHO, is_counts, of_counts, of_metrics, of_speed, of_verdicts
from guard_eval.cli.replication.output import PaperText, finish, finish_texts
from guard_eval.cli.replication.paper import ENTRIES, Entry, cases, find, labels, published, speed_with_ratios
from guard_eval.cli.replication.studies import (
    ROOT,
    ReplicationOptions,
    apart_of,
    existing,
    lay_out,
    planned,
    settings_of,
)
from guard_eval.commands import load
from guard_eval.engines.generate import generate
from guard_eval.errors import StudyError
from guard_eval.metrics.command import measure
from guard_eval.metrics.trace_figures import behaviour
from guard_eval.records import SIMULATED, RaterKind
from guard_eval.results import Result
from guard_eval.store import Store, unblind
from guard_eval.study.folder import Study
from guard_eval.texts.continuations import read_traces, trace_files
from guard_eval.texts.current import current_texts, find_current
from guard_eval.texts.pair import pair
from guard_eval.texts.prompts import read_prompts

Studies = Sequence[tuple[str, Study]]
"""Each with its model's name."""

PAPER_JUDGE = "gpt-4"
"""The paper's judge, of an unnamed snapshot."""

TURN = 10
"""Prompts after which the next strategy has its turn, where speed is compared."""
RED = "Between ⟦ and ⟧: what the paper sets in red, as a deviation from the context."
_CASES = {"CS": "contrastive(k=10, alpha=0.6)", "ACS": "acs(q=1)", "GUARD": "guard"}


def replicate(
    table: str,
    folder: Path | None = None,
    options: ReplicationOptions | None = None,
    *,
    dry_run: bool = False,
) -> None:
    """Make a table again, as far as this machine and the raters have come, and show it beside the paper's.

    Args:
        table: Its short name, or its label in the paper's TeX.
        folder: Where to make it and write it; `replication/` and its study's name if None.
        options: In place of the paper's setting.
        dry_run: Only say what would be run.

    Raises:
        StudyError: No such table, no prompts, or what one of the commands finds wrong.
    """
    entry, options = find(table), options or ReplicationOptions()
    if not entry.study:
        say(f"{entry.label}, {entry.title}: there is nothing to run. {entry.pointer}")
        return
    place = folder or ROOT / entry.study
    studies = existing(place) if options == ReplicationOptions() else []
    if dry_run:
        _forecast(entry, place, options, studies)
        return
    studies = studies or [(one.model, lay_out(one)) for one in planned(entry, place, options)]
    _KINDS[entry.kind](entry, place, studies)


def replicate_verdicts(table: str, path: Path, folder: Path | None, *, rater_kind: str | None) -> None:
    """Print a table of people or judges from a file of verdicts.

    Raises:
        StudyError: The table is not of verdicts, or the file cannot be read.
    """
    entry = find(table)
    if entry.kind != "verdicts":
        names = ", ".join(one.name for one in ENTRIES if one.kind == "verdicts")
        raise StudyError(f"{entry.label} is not a table of verdicts; --verdicts goes with: {names}")
    kind: RaterKind | None = next((known for known in get_args(RaterKind) if known == rater_kind), None)
    if rater_kind is not None and kind is None:
        raise StudyError(f"--rater-kind {rater_kind!r} is unknown; write person or model")
    if is_counts(path):
        ours = of_counts(path, who=WHO[kind or "person"])
    else:
        ours = of_verdicts(read(path, rater_kind=kind))
    remark = f"from {path.name}; nothing is known of its setting but what the file says"
    _finish_verdicts(entry, ours, Departures(), folder, (remark,))


def _forecast(entry: Entry, place: Path, options: ReplicationOptions, studies: Studies) -> None:
    """Say what would be run; where a study exists, the commands say what is left of it."""
    say(f"{entry.label}: {entry.title}")
    for _, study in studies:
        _say(generate(study, dry_run=True))
        if entry.judged:
            _preview_judge(study)
    for one in [] if studies else planned(entry, place, options):
        generation = tomllib.loads(one.text)["generation"]
        texts = len(one.prompts) * len(generation["strategies"])
        counts = ", ".join(f"{n} of {name}" for name, n in Counter(p.dataset for p in one.prompts).items())
        say(
            f"would write {one.folder / 'study.toml'} ({one.model}) and {len(one.prompts)} prompts "
            f"({counts}), and make {texts} texts of at most {texts * generation['max_new_tokens']:,} tokens"
        )
    needed = needs(entry)
    memory = f", with {needed.memory_gb} GB of GPU memory" if needed.memory_gb else ""
    say(
        f"the paper's setting takes {needed.tokens:,} tokens at most, about {needed.gpu_hours:.2g} h on an "
        f"H200{memory}; {needed.download_gb} GB of models"
    )
    if entry.people:
        say(f"people: {entry.people} for each of {entry.pairs} pairs")
    if entry.judged:
        cost = "" if needed.judge_usd is None else f", about ${needed.judge_usd:.2f}"
        say(f"judge: {needed.requests} requests{cost}; {_judge_model(settings_of(entry).judge[0].model)}")
    say_next(f"guard-eval replicate {entry.name} {place}, with the same options")


def _say(result: Result) -> None:
    """Print what a command says; its next command is not ours."""
    for line in (*result.lines, *result.warnings):
        say(line)


def _judge_model(model: str) -> str:
    """Return a sentence about the paper's judge, which cannot be asked any more, and ours."""
    return f"the paper's judge, {PAPER_JUDGE}, cannot be asked any more: {model} is asked in its place"


def _preview_judge(study: Study) -> None:
    if not (study.folder / "study.db").exists() and study.settings.database is None:
        say("the judge's requests are known when there are pairs")
        return
    for line in load("judge")(study, dry_run=True).lines:
        say(line)


def _metrics(entry: Entry, place: Path, studies: Studies) -> None:
    several = len(entry.models) > 1
    ours: dict[Key, Ours] = {}
    failures: list[str] = []
    for model, study in studies:
        _say(generate(study))
        measured = measure(study)
        progress.show(measured)
        failures += measured.failures  # a metric whose model is not available; the others are measured
        ours |= of_metrics(study.metrics, model=model if several else "")
    if ours and entry.label in labels():
        apart, figures = apart_of(entry, studies), published(entry.label)
        datasets = {key[1] for key in ours}
        missing = dict.fromkeys(one.dataset for one in figures if one.dataset not in datasets)
        remarks = (f"not run: {', '.join(missing)}",) if missing else ()
        finish(entry, place, compare(figures, ours, apart, several_models=several), apart, remarks)
    elif ours:
        say(f"\n{entry.label}: the paper prints no figures of it; ours are in {studies[0][1].metrics}/")
    if failures:
        raise StudyError("\n".join(failures))


def _speed(entry: Entry, place: Path, studies: Studies) -> None:
    ((_, study),) = studies
    prompts = read_prompts(study.prompts_path)
    for end in range(min(TURN, len(prompts)), len(prompts) + TURN, TURN):
        # In turns, so that whatever else the machine does falls on all strategies alike.
        limited = study.settings.prompts.model_copy(update={"limit": min(end, len(prompts))})
        generate(replace(study, settings=study.settings.model_copy(update={"prompts": limited})))
    texts = current_texts(study, study.settings.generation.strategies, prompts)
    made = {strategy: list(each.values()) for strategy, each in texts.items()}
    devices = ", ".join(sorted({one.device for each in made.values() for one in each}))
    apart = apart_of(entry, studies)
    apart = replace(apart, common=(*apart.common, f"made on {devices}, the paper's on a 4090 or an H100"))
    remark = f"one text at a time; strategies in turn after every {TURN} prompts"
    finish(entry, place, compare(speed_with_ratios(), of_speed(made), apart), apart, (remark,))


def _verdicts(entry: Entry, place: Path, studies: Studies) -> None:
    """Make texts and pairs, print the table of the verdicts so far, and say how to collect more."""
    ((_, study),) = studies
    _say(generate(study))
    _say(pair(study))
    with Store.open(study.database, declared=study.declared) as store:
        rows = unblind.tidy(store)
    if rows:
        frame = validate(table_of(rows))
        simulated = set(frame["rater_kind"]) <= SIMULATED
        remarks = ("SIMULATED raters: no person rated",) if simulated else ()
        _finish_verdicts(entry, of_verdicts(frame), apart_of(entry, studies), place, remarks)
    else:
        say("\nThere are no verdicts yet.")
    commands = []
    if entry.people:
        commands = [
            f"guard-eval raters {study.folder} add NAME NAME NAME NAME",
            f"guard-eval annotate {study.folder}",
        ]
    if entry.judged:
        say(f"{_judge_model(study.settings.judge[0].model)}.")
        commands += [f"guard-eval judge {study.folder} --dry-run", f"guard-eval judge {study.folder}"]
    say_next(*commands, f"guard-eval replicate {entry.name} {place}, for the table of the verdicts so far")


def _finish_verdicts(
    entry: Entry,
    found: Mapping[Key, Ours],
    apart: Departures,
    folder: Path | None,
    remarks: tuple[str, ...],
) -> None:
    figures = published(entry.label)
    metrics = dict.fromkeys(figure.metric for figure in figures)
    blocks = compare(figures, {key: one for key, one in found.items() if key[4] in metrics}, apart)
    if not blocks:
        raise StudyError(
            f"these verdicts have nothing of {entry.label}: it is about {', '.join(metrics)}; who judged? "
            "see --rater-kind"
        )
    finish(entry, folder, blocks, apart, remarks)


def _cases(entry: Entry, place: Path, studies: Studies) -> None:
    ((_, study),) = studies
    _say(generate(study))
    paper = cases()[entry.label]
    ours = _texts(study, entry.label.removeprefix("tab:"), tuple(_CASES.values()))
    rows: list[PaperText] = [(name, paper[name], None) for name in ("Prompt", "Reference")]
    rows += [(name, paper[name], ours.get(strategy, "")) for name, strategy in _CASES.items()]
    red = RED if any("⟦" in text for text in paper.values()) else ""
    finish_texts(entry, place, rows, [apart_of(entry, studies).sentence("the paper's texts"), red])


def _trace(entry: Entry, place: Path, studies: Studies) -> None:
    """Draw what GUARD adapted, and show the paper's text and ours.

    Raises:
        StudyError: The text was made without its trace.
    """
    ((_, study),) = studies
    _say(generate(study, strategy=("guard",), trace=True))
    found = find_current(study, ["guard"], read_prompts(study.prompts_path))["guard"]
    traces = read_traces(trace_files(found.folder, "guard")) if found.folder else []
    if not traces:
        raise StudyError(
            f"the text in {study.continuations} has no trace; name another FOLDER to make it with one"
        )
    paper, own = cases()[entry.label], _texts(study, "figure", ("guard",)).get("guard", "")
    drawing = behaviour(traces[-1:], name=entry.name, title="GUARD on the figure's prompt")
    assert drawing is not None  # GUARD records all that is drawn
    rows: list[PaperText] = [("Prompt", paper["Prompt"], None), ("GUARD", paper["GUARD"], own)]
    apart = apart_of(entry, studies).sentence("the paper's texts")
    finish_texts(entry, place, rows, [apart], figure=drawing)


def _texts(study: Study, prompt_id: str, strategies: Sequence[str]) -> dict[str, str]:
    made = current_texts(study, strategies, read_prompts(study.prompts_path))
    return {name: texts[prompt_id].text.strip() for name, texts in made.items() if prompt_id in texts}


_KINDS = {"metrics": _metrics, "speed": _speed, "verdicts": _verdicts, "cases": _cases, "trace": _trace}
