"""Make a table or a figure of the paper again, and show it beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from pkgutil import resolve_name

import pandas as pd

from guard_eval import progress
from guard_eval.engines.generate import generate
from guard_eval.errors import StudyError
from guard_eval.metrics.command import measure
from guard_eval.records import SIMULATED
from guard_eval.replication.compare import SettingDifference, compare, legend, setting_sentence, tables_of
from guard_eval.replication.measured import from_counts, from_metrics, from_verdicts
from guard_eval.replication.paper import NEW_TOKENS, PaperTable, find_table, paper_tables, published
from guard_eval.replication.study import name_model, plan_study, setting_differences
from guard_eval.reporting.escaping import csv_text, escape_markdown
from guard_eval.reporting.tables import Table, to_markdown
from guard_eval.reporting.writing import write_whole
from guard_eval.results import Result
from guard_eval.store import Store, unblind
from guard_eval.study import Study
from guard_eval.texts.pair import pair

ROOT = Path("replication")
"""The folder of replications, unless one is named."""
VERDICTS_READER = "analysis.verdicts.tidy:read"
"""The reader of files of verdicts, loaded only when there is such a file."""


@dataclass(frozen=True, kw_only=True)
class Replication(Result):
    """A table of the paper, made again.

    Attributes:
        table: The table's label; "" for the list of all tables.
        folder: Where its studies and pages are; None if nothing was written.
        setting: The differences from the paper's setting. If there are any, figures are not comparable.
        figures: The paper's figures with ours: value, limits, number and state; or the tables.
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
        return _compare_file(entry, verdicts, None if dry_run else folder)
    heading = f"{entry.label}: {entry.title}"
    if not entry.experiment:
        return Replication(table=entry.label, lines=(heading, f"There is nothing to run. {entry.here}"))
    folder = folder or ROOT / (entry.experiment if entry.asks else entry.name)
    if (folder / "study.toml").exists() and not (prompts or limit or overrides):
        study = Study.open(folder)
        if dry_run:
            return Replication(table=entry.label, lines=(heading, *generate(study, dry_run=True).lines))
    else:
        plan = plan_study(entry, folder, prompts, limit, overrides)
        if dry_run:
            return Replication(table=entry.label, lines=(heading, plan.forecast()))
        study = plan.lay_out()
    return _collect(entry, study) if entry.asks else _measure(entry, study)


def list_tables() -> Replication:
    """Return the tables and figures of the paper, with what their experiments take."""
    rows = [
        {
            "name": table.name,
            "TeX label": table.label,
            "about": table.title,
            "model": table.models[0] if len(table.models) == 1 else f"{len(table.models)} models",
            "tokens": f"{tokens_needed(table):,}" if table.experiment else "",
            "asks": " and ".join(table.asks),
        }
        for table in paper_tables()
    ]
    shown = Table(
        columns=tuple(rows[0]),
        rows=tuple(tuple(row.values()) for row in rows),
        caption="",
        note="Tokens are the most that the texts have with the paper's models and prompts.",
        text_columns=4,
        words=frozenset({5}),
    )
    return Replication(
        tables=(shown,), figures=pd.DataFrame(rows), next=("guard-eval replicate NAME --dry-run",)
    )


def tokens_needed(table: PaperTable) -> int:
    """Return the most tokens that the texts of a table have, with the paper's prompts."""
    texts = len(table.models) * sum(table.prompts.values())
    return texts * NEW_TOKENS * len(table.tables()["generation"]["strategies"])


def _compare_file(table: PaperTable, path: Path, folder: Path | None) -> Replication:
    """Compare the verdicts in a file, or the counts of verdicts."""
    if not table.asks:
        names = ", ".join(each.name for each in paper_tables() if each.asks)
        raise StudyError(f"{table.label} is not a table of verdicts; --verdicts goes with: {names}")
    who, kind = ("people", "person") if "people" in table.asks else ("judge", "model")
    ours = from_counts(path, who=who)
    if ours is None:
        ours = from_verdicts(resolve_name(VERDICTS_READER)(path, rater_kind=kind))
    note = f"from {path.name}; nothing is known of its setting but what the file says"
    return _compare(table, folder, ours, (), [note])


def _measure(table: PaperTable, study: Study) -> Replication:
    """Make texts and measure them."""
    _show(generate(study))
    measured = measure(study)
    progress.show(replace(measured, next=()))
    if measured.failures:  # of metrics whose models are not available; the others are measured
        raise StudyError("\n".join(measured.failures))
    ours, printed = from_metrics(measured.to_frame()), published(table.label)["dataset"].unique()
    missing = [name for name in printed if name not in set(ours["dataset"])]
    others = sorted(set(ours["dataset"]) - set(printed))
    notes = [f"not run: {', '.join(missing)}"] if missing else []
    notes += (
        [f"not in the paper: {', '.join(others)}; ours are in {study.folder / 'metrics'}/"] if others else []
    )
    model, several = name_model(table, study), len(table.models) > 1
    notes += (
        [f"the paper's figures are those of {model}; name another with --set model.name"] if several else []
    )
    return _compare(table, study.folder, ours, setting_differences(table, study), notes, model)


def _collect(table: PaperTable, study: Study) -> Replication:
    """Make texts and pairs, compare the verdicts so far, and say how to collect more."""
    _show(generate(study))
    _show(pair(study))
    commands = [study.command("annotate", "--invite", "NAME")] if "people" in table.asks else []
    commands += [study.command("judge", "--dry-run")] if "judge" in table.asks else []
    repeat = f"guard-eval replicate {table.name} {study.folder}, for the table of the verdicts so far"
    with Store.open(study.database, declared=study.declared) as store:
        verdicts = pd.DataFrame([asdict(row) for row in unblind.tidy(store)])
    if verdicts.empty:
        lines = ("There are no verdicts yet.",)
        result = Replication(table=table.label, folder=study.folder, lines=lines)
    else:
        notes = ["SIMULATED raters: no person rated"] if set(verdicts["rater_kind"]) <= SIMULATED else []
        differences = setting_differences(table, study)
        result = _compare(table, study.folder, from_verdicts(verdicts), differences, notes)
    return replace(result, next=(*commands, repeat))


def _compare(  # noqa: PLR0917 (of three callers)
    table: PaperTable,
    folder: Path | None,
    ours: pd.DataFrame,
    differences: Sequence[SettingDifference],
    notes: Sequence[str],
    model: str = "",
) -> Replication:
    """Show our figures beside the paper's, and write them as Markdown and CSV if there is a folder for it."""
    figures = published(table.label)
    compared = compare(figures[figures["model"].isin(["", model])], ours, differences)
    if compared["ours"].isna().all() and table.asks:
        raise StudyError(
            f"these verdicts have nothing of {table.label} ({', '.join(compared['metric'].unique())}); does "
            "the column rater_kind say who judged?"
        )
    listed = compared.drop(columns=["number", "decimals", "half_unit", "is_exact", "shown", "cell"])
    listed = listed.astype(object).where(listed.notna(), None)
    # A spreadsheet would take the text "-0.78" for a formula.
    listed["value"] = listed["value"].where(listed["value"].isin(["yes", "no"]), compared["number"])
    head, tables = f"{table.label}: {table.title}", tables_of(compared)
    lines = [head, *filter(None, [setting_sentence(differences), *notes, legend(compared)])]
    if folder is not None:
        path = folder / f"replication-{table.name}.md"
        parts = [f"# {escape_markdown(head)}", *map(escape_markdown, lines[1:]), *map(to_markdown, tables)]
        write_whole(path, ("\n\n".join(parts) + "\n").encode(), make_folder=True)
        rows = [tuple(listed.columns), *listed.itertuples(index=False, name=None)]
        write_whole(path.with_suffix(".csv"), csv_text(rows).encode())
        lines.append(f"replication: {path}, with intervals; also as .csv")
    return Replication(
        table=table.label,
        folder=folder,
        setting=tuple(difference.words for difference in differences),
        figures=listed,
        lines=tuple(lines),
        tables=tables,
    )


def _show(result: Result) -> None:
    """Show what a step says; its next command is not ours."""
    progress.show(Result(lines=result.lines, warnings=result.warnings))
