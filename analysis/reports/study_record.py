"""Write the record of a study beside its table of verdicts, and read it for a report of the table.

The record has the plan of the study and all facts that change or weaken its answer. So the report of a
published or exported table says what the report of the study says.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from analysis.evidence import Context, StudyFacts
from analysis.reports.declared import TableSettings, check_table_settings
from analysis.scores.scores import convert_methods_to_signs
from analysis.verdicts.reading import add_reading_notes
from guard_eval.errors import StudyError, get_first_line
from guard_eval.files.opening import read_bytes
from guard_eval.files.rows import MOST_BYTES
from guard_eval.records import PEOPLE, PEOPLE_OF, SPLITTING, Contest, Couple, DeclaredPart, RoundPlan, record
from guard_eval.reporting.data import to_json
from guard_eval.reporting.escaping import Cell, join_lines
from guard_eval.rubric import COMPOSITE
from guard_eval.study import Study
from guard_eval.study.test_plan import SplitPlan

PLANNED_KEYS = (*SplitPlan.model_fields, "family")
"""The keys of report.toml that a study declares before its first verdict."""


@record
class RoundRecord:
    """The rounds of people or of one judge. The scores follow from the table of verdicts (see `Contest`)."""

    rater_kind: str
    judge: str
    plan: RoundPlan
    sizes: tuple[int, ...]
    couples: tuple[Couple, ...]
    done: int
    stopped: tuple[tuple[str, str, int], ...]


@record
class StudyRecord:
    """The plan of a study and the facts that change or weaken its answer.

    Attributes:
        table: The SHA-256 of the table of verdicts.
        settings: The plan of the study, as keys of report.toml.
        facts: The facts.
        rounds: The rounds of people and of each judge, if comparisons stop early.
    """

    table: str
    settings: dict[str, Any]
    facts: StudyFacts
    rounds: tuple[RoundRecord, ...] = ()


def get_record_path(table: Path) -> Path:
    """Return the path of the record of a table: `verdicts.study.json` beside `verdicts.csv`."""
    return table.with_name(f"{remove_file_extensions(table)}.study.json")


def remove_file_extensions(table: Path) -> str:
    """Return a table's file name without its extensions."""
    return table.name.removesuffix(".gz").rsplit(".", 1)[0] or table.name


def make_table_settings(study: Study, context: Context, verdicts: pd.DataFrame) -> dict[str, object]:
    """Return the plan of a study for a table of its verdicts, as keys of report.toml."""
    settings = study.settings
    judged = {*verdicts[["method_a", "method_b", "criterion"]].itertuples(index=False, name=None)}
    planned = [result for result in context.planned or () if result in judged and result[2] != COMPOSITE]
    values = {
        "title": join_lines(settings.name),
        "question": join_lines(settings.question),
        "texts": join_lines(settings.texts),
        "family": [f"{a} against {b}: {criterion}" for a, b, criterion in planned] or None,
        "seed": settings.seed,
        **settings.analysis.model_dump(),
        "random_part": context.random_part,
        "ties": True,
    }
    return {name: value for name, value in values.items() if value is not None}


def list_added_split_columns(
    verdicts: pd.DataFrame, split_columns: Sequence[str]
) -> dict[str, dict[str, Cell]]:
    """Return the columns that `add_split_columns` added: the value of each pair, by heading."""
    of_pairs = verdicts.drop_duplicates("pair_id")
    ids = of_pairs["pair_id"].astype(str)
    added = [name for name in split_columns if name not in SPLITTING]
    return {name: dict(zip(ids, of_pairs[name].tolist(), strict=True)) for name in added}


def encode_study_record(context: Context, settings: Mapping[str, object], table: bytes) -> bytes:
    """Return the record of a study for a table with these bytes, as JSON."""
    rounds = [
        RoundRecord(
            rater_kind=kind,
            judge=judge,
            plan=contest.plan,
            sizes=contest.sizes,
            couples=contest.couples,
            done=contest.done,
            stopped=tuple((a, b, number) for (a, b), number in contest.stopped.items()),
        )
        for (kind, judge), contest in context.contests.items()
    ]
    facts = {field.name: getattr(context, field.name) for field in fields(StudyFacts)}
    if context.choice is not None:
        facts["choice"] = context.choice.model_dump()
    table_hash = hashlib.sha256(table).hexdigest()
    return to_json({"table": table_hash, "settings": settings, "facts": facts, "rounds": rounds}).encode()


def put_recorded_table_first(tables: Sequence[Path]) -> list[Path]:
    """Return the tables, those with a record first: its facts weaken the answer in any order."""
    return sorted(tables, key=lambda table: not get_record_path(table).exists())


def read_study_record(table: Path) -> StudyRecord | None:
    """Read the record beside a table. Return None if there is none.

    Raises:
        StudyError: The file is not a record.
    """
    path = get_record_path(table)
    if not path.exists():
        return None
    try:
        recorded = TypeAdapter(StudyRecord).validate_json(read_bytes(path, limit=MOST_BYTES))
    except ValidationError as error:
        raise StudyError(
            f"{path} is not the record of a study: {get_first_line(error)}. Write it again with guard-eval "
            "publish or export, or remove it"
        ) from None
    check_table_settings(path, recorded.settings)
    return recorded


def add_study_facts(
    verdicts: pd.DataFrame,
    context: Context,
    recorded: StudyRecord,
    settings: TableSettings,
    paths: Sequence[Path],
) -> tuple[pd.DataFrame, Context]:
    """Add the facts of a study to the context of its table, and remove verdicts of unfinished rounds.

    Args:
        verdicts: The validated verdicts of all tables.
        context: The context without the facts.
        recorded: The record beside the first table.
        settings: The settings of the report, which may differ from the record.
        paths: The tables.
    """
    facts = recorded.facts
    context = replace(
        context,
        **{field.name: getattr(facts, field.name) for field in fields(StudyFacts)}
        | {
            "declared": (*facts.declared, *context.declared),
            "parts": _add_changed_plan_keys(
                facts.parts, check_table_settings("the record", recorded.settings), settings
            ),
        },
    )
    if recorded.rounds:
        if len(paths) > 1 or "prompt_round" not in verdicts:
            raise StudyError(
                f"the study of {paths[0]} has rounds. Report its table alone, with the column prompt_round"
            )
        rated = zip(verdicts["rater_kind"], verdicts["rater"], strict=True)
        judges = [(kind, rater if kind in PEOPLE_OF else "") for kind, rater in rated]
        done = {(rounds.rater_kind, rounds.judge): rounds.done for rounds in recorded.rounds}
        finished = [done.get(who, 0) for who in judges]
        verdicts = verdicts[verdicts["prompt_round"].to_numpy() <= finished]
        contests = {
            (rounds.rater_kind, rounds.judge): _restore_contest(rounds, verdicts)
            for rounds in recorded.rounds
        }
        context = replace(context, contests=contests)
    name = get_record_path(paths[0]).name
    notes = []
    if hashlib.sha256(read_bytes(paths[0], limit=MOST_BYTES)).hexdigest() != recorded.table:
        notes.append(f"{paths[0].name} was changed after {name} was written")
    if len(paths) > 1:
        notes.append(f"{name} describes only the study of {paths[0].name}, and not the other tables")
    if notes:
        verdicts = verdicts.copy()
        add_reading_notes(verdicts, *notes)
    return verdicts, context


def _add_changed_plan_keys(
    parts: Sequence[DeclaredPart], before: TableSettings, settings: TableSettings
) -> tuple[DeclaredPart, ...]:
    """Add the keys of the plan that report.toml or `--set` changed to the changes of people's settings."""
    changed = [
        f"{key} from {getattr(before, key)} to {getattr(settings, key)}"
        for key in PLANNED_KEYS
        if getattr(before, key) != getattr(settings, key)
    ]
    return tuple(
        replace(declared, changes=(*declared.changes, *changed)) if declared.name == PEOPLE else declared
        for declared in parts
    )


def _restore_contest(rounds: RoundRecord, verdicts: pd.DataFrame) -> Contest:
    """Compute the scores of all prompts from the table. A couple has a score if all its ratings are in."""
    is_theirs = (verdicts["criterion"] == rounds.plan.criterion) & (
        verdicts["rater_kind"] == rounds.rater_kind
    )
    if rounds.judge:
        is_theirs &= verdicts["rater"] == rounds.judge
    rated = verdicts[is_theirs].astype(object)
    rated = rated.assign(score=convert_methods_to_signs(rated, "verdict"))
    keys = ["prompt_round", "dataset", "prompt_id", "method_a", "method_b"]
    couples = rated.groupby(keys)["score"].agg(["mean", "size"])
    prompts: dict[tuple[object, ...], tuple[int, dict[Couple, float]]] = {}
    for (number, dataset, prompt, a, b), mean, size in couples.itertuples(name=None):
        _, leads = prompts.setdefault((number, dataset, prompt), (int(number), {}))
        if size >= rounds.plan.showings:
            leads[a, b] = float(mean)
    return Contest(
        plan=rounds.plan,
        sizes=rounds.sizes,
        couples=rounds.couples,
        done=rounds.done,
        stopped={(a, b): number for a, b, number in rounds.stopped},
        prompts=list(prompts.values()),
    )
