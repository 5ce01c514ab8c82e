"""Make a table or a figure of the paper again, and show it beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pandas as pd

from guard_eval import progress
from guard_eval.engines.generate import generate
from guard_eval.errors import StudyError
from guard_eval.estimate import Estimate
from guard_eval.metrics.command import measure
from guard_eval.metrics.trace_figures import behaviour
from guard_eval.records import SIMULATED
from guard_eval.replication.compare import (
    ComparedFigure,
    Key,
    SettingDifference,
    compare,
    legend,
    setting_sentence,
    tables_of,
)
from guard_eval.replication.measured import from_counts, from_metrics, from_times, from_verdicts, is_counts
from guard_eval.replication.paper import (
    COLUMNS,
    NEW_TOKENS,
    SPEED,
    PaperTable,
    cases,
    find_table,
    labels,
    paper_tables,
    published,
)
from guard_eval.replication.studies import Studies, existing_studies, plan_studies, setting_differences
from guard_eval.reporting.drawing import write_drawing
from guard_eval.reporting.escaping import Cell, csv_text, escape_markdown
from guard_eval.reporting.tables import Table, to_markdown
from guard_eval.reporting.writing import write_whole
from guard_eval.results import Result
from guard_eval.store import Store, unblind
from guard_eval.texts.continuations import read_traces, trace_files
from guard_eval.texts.current import current_texts, find_current
from guard_eval.texts.pair import pair
from guard_eval.texts.prompts import read_prompts

ROOT = Path("replication")
"""The folder of replications, unless one is named."""
TURN = 10
"""Prompts after which the next strategy has its turn when speed is compared."""
VERDICTS_READER = "analysis.verdicts.tidy:read"
"""The reader of files of verdicts, loaded only when there is such a file."""


@dataclass(frozen=True, kw_only=True)
class Replication(Result):
    """A table of the paper, made again.

    Attributes:
        table: The table's label; "" for the list of all tables.
        folder: Where its studies and pages are; None if nothing was written.
        setting: The differences from the paper's setting. If there are any, figures are not comparable.
        figures: The paper's figures with ours: value, limits, number and state.
    """

    table: str = ""
    folder: Path | None = None
    setting: tuple[str, ...] = ()
    figures: tuple[Mapping[str, Any], ...] = ()


def replicate(
    table: str | None = None,
    folder: Path | None = None,
    /,
    *,
    prompts: Sequence[Path] = (),
    limit: int | None = None,
    verdicts: Path | None = None,
    dry_run: bool = False,
    overrides: Sequence[str] = (),
) -> Replication:
    """Make a table or a figure of the paper again, and show it beside the paper's.

    Without a name it lists all of them. The table's study.toml is written into the folder and run through
    generate, measure and pair; stop it at any moment and run it again. What differs from the paper's setting
    is stated above the table, because a difference then says nothing of the paper. On a small machine:
    guard-eval replicate humaneval --limit 5 --set model.name=bundled --set generation.max_new_tokens=64

    Args:
        table: A short name or a label of the paper's TeX.
        folder: Where to make it; by default a folder in replication/.
        prompts: Files of prompts, or of generations with prompt and reference, or a folder of them; by
            default the folder prompts/.
        limit: Only the first so many prompts of each dataset.
        verdicts: For tables of people and judges: a file of verdicts or of counts. Nothing else is run.
        dry_run: Say what would be run, and stop.
        overrides: Settings in place of the paper's, each `table.key=value`.

    Raises:
        StudyError: There is no such table, there are no prompts, or a step finds something wrong.
    """
    if table is None:
        return list_tables()
    entry = find_table(table)
    if verdicts is not None:
        unused = {"--prompts": prompts, "--limit": limit, "--set": overrides}
        if named := [name for name, value in unused.items() if value]:
            raise StudyError(f"--verdicts runs nothing, so {named[0]} has no effect; leave one of them out")
        return _from_file(entry, verdicts, None if dry_run else folder)
    heading = f"{entry.label}: {entry.title}"
    if not entry.experiment:
        return Replication(table=entry.label, lines=(heading, f"There is nothing to run. {entry.here}"))
    folder = folder or ROOT / (entry.experiment if entry.kind in {"verdicts", "cases"} else entry.name)
    changed = bool(prompts or limit or overrides)
    studies = [] if changed else existing_studies(entry, folder)
    plans = [] if studies else plan_studies(entry, folder, prompts, limit, overrides)
    if dry_run:
        lines = [heading]
        for _, study in studies:
            lines += generate(study, dry_run=True).lines
        lines += [line for plan in plans for line in plan.forecast()]
        return Replication(table=entry.label, lines=tuple(lines))
    studies = studies or [(plan.model, plan.lay_out()) for plan in plans]
    return _KINDS[entry.kind](entry, folder, studies)


def list_tables() -> Replication:
    """Return the tables and figures of the paper, with what their experiments take."""
    columns = ("name", "TeX label", "about", "model", "tokens", "asks")
    rows = [
        (
            table.name,
            table.label,
            table.title,
            table.models[0] if len(table.models) == 1 else f"{len(table.models)} models",
            f"{tokens_needed(table):,}" if table.experiment else "",
            " and ".join(table.asks),
        )
        for table in paper_tables()
    ]
    note = "Tokens are the most that the texts have with the paper's models and prompts."
    words = frozenset({5})
    shown = Table(columns=columns, rows=tuple(rows), caption="", note=note, text_columns=4, words=words)
    facts = tuple(dict(zip(columns, row, strict=True)) for row in rows)
    return Replication(tables=(shown,), figures=facts, next=("guard-eval replicate NAME --dry-run",))


def tokens_needed(table: PaperTable) -> int:
    """Return the most tokens that the texts of a table have, with the paper's prompts."""
    texts = len(table.models) * sum((table.prompts or {"": 1}).values())
    return texts * NEW_TOKENS * len(table.settings().generation.strategies)


def _make_metrics(table: PaperTable, folder: Path, studies: Studies) -> Replication:
    several = len(table.models) > 1
    ours: dict[Key, Estimate] = {}
    failures: list[str] = []
    for model, study in studies:
        _show(generate(study))
        measured = measure(study)
        progress.show(replace(measured, next=()))
        failures += measured.failures  # a metric whose model is not available; the others are measured
        ours |= from_metrics(measured.scores, model=model if several else "")
    if failures:
        raise StudyError("\n".join(failures))
    if table.label not in labels():
        line = f"{table.label}: the paper prints no figures of it; ours are in {studies[0][1].metrics}/"
        return Replication(table=table.label, folder=folder, lines=(line,))
    figures, differences = published(table.label), setting_differences(table, studies)
    compared = compare(figures, ours, differences, several_models=several)
    datasets = {key[1] for key in ours}
    missing = dict.fromkeys(each.dataset for each in figures if each.dataset not in datasets)
    others = sorted(datasets - {each.dataset for each in figures})
    notes = [f"not run: {', '.join(missing)}"] if missing else []
    if others:
        notes.append(f"not in the paper: {', '.join(others)}; ours are in {studies[0][1].metrics}/")
    return _compared(table, folder, compared, differences, notes)


def _make_speed(table: PaperTable, folder: Path, studies: Studies) -> Replication:
    ((_, study),) = studies
    prompts = read_prompts(study.prompts_path)
    for end in range(min(TURN, len(prompts)), len(prompts) + TURN, TURN):
        # In turns, so that whatever else the machine does affects all strategies alike.
        limited = study.settings.prompts.model_copy(update={"limit": min(end, len(prompts))})
        generate(replace(study, settings=study.settings.model_copy(update={"prompts": limited})))
    current = current_texts(study, study.settings.generation.strategies, prompts)
    texts = {strategy: list(each.values()) for strategy, each in current.items()}
    devices = ", ".join(sorted({text.device for each in texts.values() for text in each}))
    differences = [
        *setting_differences(table, studies),
        SettingDifference(words=f"made on {devices}, the paper's on a 4090 or an H100"),
    ]
    compared = compare(published(SPEED), from_times(texts), differences)
    note = f"one text at a time; strategies in turn after every {TURN} prompts"
    return _compared(table, folder, compared, differences, [note])


def _make_verdicts(table: PaperTable, folder: Path, studies: Studies) -> Replication:
    """Make texts and pairs, compare the verdicts so far, and say how to collect more."""
    ((_, study),) = studies
    _show(generate(study))
    _show(pair(study))
    following = [study.command("annotate", "--invite", "NAME")] if "people" in table.asks else []
    if "judge" in table.asks:
        following.append(study.command("judge", "--dry-run"))
    following.append(f"guard-eval replicate {table.name} {folder}, for the table of the verdicts so far")
    with Store.open(study.database, declared=study.declared) as store:
        frame = pd.DataFrame([asdict(row) for row in unblind.tidy(store)])
    if frame.empty:
        line = "There are no verdicts yet."
        return Replication(table=table.label, folder=folder, lines=(line,), next=tuple(following))
    simulated = set(frame["rater_kind"]) <= SIMULATED
    notes = ["SIMULATED raters: no person rated"] if simulated else []
    result = _of_verdicts(table, folder, from_verdicts(frame), setting_differences(table, studies), notes)
    return replace(result, next=tuple(following))


def _from_file(table: PaperTable, path: Path, folder: Path | None) -> Replication:
    if table.kind != "verdicts":
        names = ", ".join(each.name for each in paper_tables() if each.kind == "verdicts")
        raise StudyError(f"{table.label} is not a table of verdicts; --verdicts goes with: {names}")
    people = "people" in table.asks  # who judged, where the file does not say it
    if is_counts(path):
        ours = from_counts(path, who="people" if people else "judge")
    else:
        frame = resolve_name(VERDICTS_READER)(path, rater_kind="person" if people else "model")
        ours = from_verdicts(frame)
    note = f"from {path.name}; nothing is known of its setting but what the file says"
    return _of_verdicts(table, folder, ours, (), [note])


def _of_verdicts(
    table: PaperTable,
    folder: Path | None,
    ours: Mapping[Key, Estimate],
    differences: Sequence[SettingDifference],
    notes: Sequence[str],
) -> Replication:
    compared = compare(published(table.label), ours, differences)
    if not any(each.ours for each in compared):
        metrics = dict.fromkeys(each.figure.metric for each in compared)
        raise StudyError(
            f"these verdicts have nothing of {table.label}, which is about {', '.join(metrics)}; does the "
            "column rater_kind say who judged (person or model)?"
        )
    return _compared(table, folder, compared, differences, notes)


def _make_texts(table: PaperTable, folder: Path, studies: Studies) -> Replication:
    """Show the paper's texts beside ours; for the figure of entropies also draw what GUARD adapted."""
    ((_, study),) = studies
    trace = table.kind == "trace"
    _show(generate(study, strategy=("guard",) if trace else (), trace=trace))
    prompts = read_prompts(study.prompts_path)
    paper, shown = cases()[table.label], "figure" if trace else table.name
    texts = current_texts(study, study.settings.generation.strategies, prompts)
    ours = {name: by_prompt[shown].text.strip() for name, by_prompt in texts.items() if shown in by_prompt}
    strategies = {"CS": "contrastive(k=10, alpha=0.6)", "ACS": "acs(q=1)", "GUARD": "guard"}
    rows = [(name, text, ours.get(strategies.get(name, ""), "")) for name, text in paper.items()]
    differences, notes = setting_differences(table, studies), []
    if any("⟦" in text for text in paper.values()):
        notes.append("Between ⟦ and ⟧: what the paper sets in red, as a deviation from the context.")
    if trace:
        guard = find_current(study, ["guard"], prompts)["guard"]
        traces = read_traces(trace_files(guard.folder, "guard")) if guard.folder else []
        title = "GUARD on the figure's prompt"
        drawing = behaviour(traces[-1], name=table.name, title=title) if traces else None
        if drawing is None:
            raise StudyError(
                f"the text in {study.continuations} has no trace; name another FOLDER to make it with one"
            )
        path = write_drawing(drawing, folder / f"replication-{table.name}")
        notes.append(f"figure: {path}; the paper's data are not published, so the two can only be looked at")
    lines = (*filter(None, [setting_sentence(differences, "the paper's texts"), *notes]),)
    columns = ("", "paper", "ours")
    tables = (Table(columns=columns, rows=tuple(rows), caption="Paper and ours", text_columns=3),)
    csv = [dict(zip(("text", "paper", "ours"), row, strict=True)) for row in rows]
    return _finished(table, folder, differences, lines, tables, csv)


_KINDS = {
    "metrics": _make_metrics,
    "speed": _make_speed,
    "verdicts": _make_verdicts,
    "cases": _make_texts,
    "trace": _make_texts,
}


def _show(result: Result) -> None:
    """Show what a step says; its next command is not ours."""
    progress.show(Result(lines=result.lines, warnings=result.warnings))


def _compared(
    table: PaperTable,
    folder: Path | None,
    compared: Sequence[ComparedFigure],
    differences: Sequence[SettingDifference],
    notes: Sequence[str],
) -> Replication:
    """Return the figures beside the paper's."""
    rows = []
    for each in compared:
        printed: dict[str, Cell] = {name: getattr(each.figure, name) for name in COLUMNS}
        if each.figure.value not in {"yes", "no"}:
            printed["value"] = each.figure.number  # a spreadsheet would take the text "-0.78" for a formula
        ours = each.ours or Estimate()
        measured: dict[str, Cell] = {
            "ours": ours.value,
            "low": ours.low,
            "high": ours.high,
            "n": ours.n,
            "state": each.state,
        }
        rows.append(printed | measured)
    lines = filter(None, [setting_sentence(differences), *notes, legend(compared)])
    return _finished(table, folder, differences, (*lines,), tables_of(compared), rows)


def _finished(  # noqa: PLR0917 (of two callers)
    table: PaperTable,
    folder: Path | None,
    differences: Sequence[SettingDifference],
    lines: tuple[str, ...],
    tables: tuple[Table, ...],
    rows: Sequence[Mapping[str, Cell]],
) -> Replication:
    """Return the result, after it is written as Markdown and CSV if there is a folder for it."""
    head = f"{table.label}: {table.title}"
    written: tuple[str, ...] = ()
    if folder is not None:
        path = folder / f"replication-{table.name}.md"
        parts = [f"# {escape_markdown(head)}", *map(escape_markdown, lines), *map(to_markdown, tables)]
        write_whole(path, ("\n\n".join(parts) + "\n").encode(), make_folder=True)
        cells = (tuple(row.values()) for row in rows)
        write_whole(path.with_suffix(".csv"), csv_text([tuple(rows[0]), *cells]).encode())
        written = (f"replication: {path}, with intervals; also as .csv",)
    return Replication(
        table=table.label,
        folder=folder,
        setting=tuple(each.words for each in differences),
        figures=tuple(rows),
        lines=(head, *lines, *written),
        tables=tables,
    )
