"""Replicate a table or a figure of the paper, and show the paper's figures and ours together."""

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Annotated

import pandas as pd
from cyclopts import Parameter

from analysis.replication.compare import (
    compare_figures_with_paper,
    compute_figures_of_verdicts,
    convert_scores_to_figures,
    explain_comparison_marks,
    make_comparison_tables,
    read_shares_from_counts,
)
from analysis.replication.paper import (
    SEARCH,
    PaperTable,
    find_paper_table,
    find_published_figures,
    read_paper_tables,
)
from analysis.replication.study import (
    find_paper_model,
    find_setting_differences,
    plan_replication,
    write_study,
)
from analysis.reports.notebook import read as read_verdicts
from analysis.reports.study_report import make_verdict_table
from guard_eval import progress
from guard_eval.cli.commands import load_command
from guard_eval.errors import StudyError
from guard_eval.generation.strategies import parse_grid
from guard_eval.records import SIMULATED, JsonObject, Prompt, RaterKind, record
from guard_eval.reporting.escaping import escape_markdown
from guard_eval.reporting.rendering import render_lines, render_table
from guard_eval.reporting.tables import Table
from guard_eval.reporting.writing import check_replaceable, write_atomically
from guard_eval.results import Result
from guard_eval.store import Store, unblind
from guard_eval.study import Study
from guard_eval.texts.pair import pair

ROOT = Path("replication")
"""The default folder of replications."""
_LISTED = ("name", "TeX label", "about", "model", "asks")
"""The columns of the list of tables."""
_COLLECTING = {"people": ("annotate", "--invite", "NAME"), "judge": ("judge", "--dry-run")}
"""The commands that collect the verdicts of people and of judges, as words of a command line."""


@record
class Replication(Result):
    """The replication of a table of the paper.

    Attributes:
        table: The label of the table; "" for the list of all tables.
        folder: The folder of the studies and pages; None if nothing was written.
        setting: The differences from the paper's setting. If there are differences, the figures are not
            comparable.
        figures: The paper's figures and ours (value, limits, number and state), or the list of tables.
    """

    table: str = ""
    folder: Path | None = None
    setting: tuple[str, ...] = ()
    figures: pd.DataFrame = field(default_factory=pd.DataFrame)


def replicate(
    table: str | None = None,
    folder: Path | None = None,
    /,
    *,
    prompts: Annotated[Sequence[Path], Parameter(consume_multiple=True)] = (),
    limit: int | None = None,
    verdicts: Path | None = None,
    dry_run: bool = False,
    overrides: Sequence[str] = (),
) -> Replication:
    """Make a table or a figure of the paper again, and show it beside the paper's own.

    Without a name, the command lists all of them. It writes the table's study.toml into the folder and runs
    generate, measure and pair. You can stop it at any moment and run it again. Differences from the paper's
    setting are stated above the table, because other numbers then say nothing about the paper. On a small
    machine: guard-eval replicate humaneval --limit 5 --set model.name=bundled --set
    generation.max_new_tokens=64

    The name `search` writes a study with five settings of each strategy, of which [tuning] chooses one.

    Args:
        table: A short name, or a label in the paper's TeX source.
        folder: The folder to write. Default: a folder in replication/.
        prompts: Files of prompts, or of generations with prompt and reference, or a folder of such files.
            Default: the folder prompts/.
        limit: Use only this number of prompts from each dataset, drawn by the seed.
        verdicts: For tables of people and judges: a file of verdicts or counts. Nothing else is run.
        dry_run: Show what would be run; run nothing.
        overrides: Settings in place of the paper's, each `table.key=value`.

    Raises:
        StudyError: There is no such table, there are no prompts, or a step finds something wrong.
    """
    if limit is not None and limit < 1:
        raise StudyError(f"--limit {limit}: give 1 or more prompts of each dataset")
    if table is None:
        return list_paper_tables()
    entry = find_paper_table(table)
    if verdicts is not None:
        unused = {"--prompts": prompts, "--limit": limit, "--set": overrides}
        if named := [name for name, value in unused.items() if value]:
            raise StudyError(f"{named[0]} has no effect with --verdicts. Leave one of these options out")
        return _compare_verdicts_with_paper(entry, verdicts, None if dry_run else folder)
    heading = f"{entry.label}: {entry.title}"
    if not entry.experiment:
        return Replication(table=entry.label, lines=(heading, f"There is nothing to run. {entry.here}"))
    folder = folder or ROOT / (entry.experiment if entry.asks else entry.name)
    if (folder / "study.toml").exists() and not (prompts or limit or overrides):
        study = Study.open(folder)
        planned = load_command("generate")(study, dry_run=True).lines if dry_run else ()
    else:
        tables, used = plan_replication(entry, folder, prompts, limit, overrides)
        planned = (_describe_planned_study(folder, tables, used),)
        if not dry_run:
            study = write_study(folder, tables, used)
    if dry_run:
        return Replication(table=entry.label, lines=(heading, *planned))
    return _run_paper_experiment(entry, study)


def _describe_planned_study(folder: Path, tables: JsonObject, prompts: Sequence[Prompt]) -> str:
    """Describe the study that would be written, with the number of texts."""
    grids = map(parse_grid, tables["generation"]["strategies"])
    texts = len(prompts) * sum(len(grid.settings) for grid in grids)
    return (
        f"would write {folder / 'study.toml'} ({tables['model']['name']}) and {len(prompts)} prompts, "
        f"and make at most {texts} texts of at most {tables['generation']['max_new_tokens']} tokens each"
    )


def list_paper_tables() -> Replication:
    """List the tables and figures of the paper."""
    rows = []
    for table in read_paper_tables():
        model = ", ".join((*table.models[:1], *("…" for _ in table.models[1:2])))
        rows.append((table.name, table.label, table.title, model, " and ".join(table.asks)))
    return Replication(
        tables=(
            Table(
                columns=_LISTED,
                rows=tuple(rows),
                caption="",
                text_columns=len(_LISTED),
            ),
        ),
        figures=pd.DataFrame(rows, columns=_LISTED),
        next=("guard-eval replicate NAME --dry-run",),
    )


def _compare_verdicts_with_paper(table: PaperTable, path: Path, folder: Path | None) -> Replication:
    """Compare the paper's figures with a file of verdicts or of counts of verdicts."""
    if not table.asks:
        raise StudyError(
            f"{table.label} is not a table of verdicts. To list the tables, run: guard-eval replicate"
        )
    who = "people" if "people" in table.asks else "judge"
    kind: RaterKind = "person" if who == "people" else "model"
    ours = read_shares_from_counts(path, raters=who)
    if ours is None:
        ours = compute_figures_of_verdicts(read_verdicts(path, rater_kind=kind))
    note = f"from {path.name}; the setting of its experiment is unknown"
    return _show_comparison_with_paper(table, folder, ours, [], [note])


def _run_paper_experiment(table: PaperTable, study: Study) -> Replication:
    """Generate texts. Then measure them, or pair them for raters and compare the verdicts so far."""
    if table == SEARCH:
        steps = (study.format_command("generate", "--dry-run"), study.format_command("measure", "--tune"))
        return Replication(table=table.label, folder=study.folder, next=steps)
    progress.show_result(replace(load_command("generate")(study), next=()))
    model = ""
    following = []
    notes = []
    if table.asks:
        progress.show_result(replace(pair(study), next=()))
        following = [study.format_command(*_COLLECTING[who]) for who in table.asks]
        following.append(
            f"guard-eval replicate {table.name} {study.folder}, for the table of the verdicts so far"
        )
        with Store.open_study(study) as store:
            rows = unblind.read_tidy_rows(store)
        if not rows:
            lines = ("There are no verdicts yet.",)
            return Replication(table=table.label, folder=study.folder, lines=lines, next=tuple(following))
        if all(row.rater_kind in SIMULATED for row in rows):
            notes.append("All raters are SIMULATED")
        ours = compute_figures_of_verdicts(make_verdict_table(rows))
    else:
        measured = load_command("measure")(study)
        progress.show_result(replace(measured, next=()))
        if measured.failures:  # of metrics whose models are not available; the others are measured
            raise StudyError("\n".join(measured.failures))
        ours = convert_scores_to_figures(measured.to_frame())
        model = find_paper_model(table, study)
        datasets = set(ours["dataset"])
        printed = set(find_published_figures(table.label)["dataset"])
        notes += render_lines(
            __file__,
            "notes.txt",
            table=table,
            study=study,
            model=model,
            missing=printed - datasets,
            others=datasets - printed,
        )
    differences = find_setting_differences(table, study)
    result = _show_comparison_with_paper(table, study.folder, ours, differences, notes, model)
    return replace(result, next=tuple(following))


def _show_comparison_with_paper(  # noqa: PLR0917 (of three callers)
    table: PaperTable,
    folder: Path | None,
    our_figures: pd.DataFrame,
    differences: Sequence[str],
    notes: Sequence[str],
    model: str = "",
) -> Replication:
    """Show the paper's figures and ours. If there is a folder, also write them as Markdown."""
    figures = find_published_figures(table.label)
    compared = compare_figures_with_paper(
        figures[figures["model"].isin(["", model])], our_figures, differences
    )
    if compared["ours"].isna().all() and table.asks:
        raise StudyError(
            f"no verdict belongs to {table.label}: {table.title}. Check the kinds of raters in the column "
            "rater_kind"
        )
    listed = compared.drop(columns=["decimals", "half_unit", "is_exact", "cell"])
    head = f"{table.label}: {table.title}"
    tables = make_comparison_tables(compared)
    lines = [head, *notes]
    if differences:
        lines.append(f"OTHER SETTING: {'; '.join(differences)}. Differences say nothing about the paper.")
    if marks := explain_comparison_marks(compared):
        lines.append(marks)
    if folder is not None:
        path = folder / f"replication-{table.name}.md"
        parts = [f"# {escape_markdown(head)}", *map(escape_markdown, lines[1:])]
        parts += [render_table(table, ".md") for table in tables]
        check_replaceable(path, parts[0])
        write_atomically(path, ("\n\n".join(parts) + "\n").encode(), make_folder=True)
        lines.append(f"replication: {path}")
    return Replication(
        table=table.label,
        folder=folder,
        setting=tuple(differences),
        figures=listed.astype(object).where(listed.notna(), None),
        lines=tuple(lines),
        tables=tables,
    )
