"""Read a study's verdicts, columns, plan, metrics, examples and exclusions for the report.

The written plan of the study is compared with its present state.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Literal

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from analysis.evidence import Context, Exclusion, JudgeUsage
from analysis.scores.scores import FEWEST_JUDGES, Planned, add_composite_results
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError, get_first_line
from guard_eval.files.opening import read_bytes, read_text
from guard_eval.metrics.scores import METRICS, Score
from guard_eval.records import (
    PEOPLE_OF,
    Contest,
    Pair,
    find_deciding_group,
    find_declared_part_of_rater,
    hash_text,
    record,
)
from guard_eval.reporting.escaping import escape_markdown
from guard_eval.reporting.rendering import render_lines
from guard_eval.reporting.words import KIND_PLACE, format_rater_kind
from guard_eval.reporting.writing import resolve_write_target
from guard_eval.rubric import CRITERIA, select_criteria
from guard_eval.servers.failures import OF_THE_SERVER
from guard_eval.store import Store, TidyRow, raters, unblind
from guard_eval.store import notes as store_notes
from guard_eval.store import pairs as store_pairs
from guard_eval.store import settings as store_settings
from guard_eval.store.judging.requests import read_question_failures
from guard_eval.store.judging.usage import read_judge_usage
from guard_eval.store.notes import Note
from guard_eval.store.showings.rounds import count_closed_rounds, read_round_scores
from guard_eval.study import Study
from guard_eval.study.settings import Settings
from guard_eval.study.tuning import FILE as CHOICE_FILE
from guard_eval.study.tuning import remove_parameters
from guard_eval.texts.columns import read_split_columns
from guard_eval.texts.pair import count_planned_and_missing_pairs, draw_planned_prompts

EXAMPLES = 3
"""The number of pairs that the report shows side by side."""
_LARGEST_SCORES = 2**26
MISSING_CHOICE = (
    f"The settings were chosen by [tuning], but {CHOICE_FILE} is missing: restore it from a backup."
)
MISSING_PANEL = "A panel was declared, but fewer than two judges have judged, so there is no panel yet."
UNRECORDED = (
    "it could not be recorded that the results were seen, so raters who are excluded from now on would count "
    "as excluded before"
)

PLAN = "plan.md"
"""The page in the study's folder that is written before the first verdict."""

HASH_MARK = "* SHA-256 of the "
"""The beginning of each line with a hash. Each description of a study has such lines."""
HASH = re.compile(rf"^{re.escape(HASH_MARK)}(.+): ([0-9a-f]{{64}})$", re.MULTILINE)
_VERDICTS = re.compile(r"^\* Verdicts when this page was written: (\d+)$", re.MULTILINE)


def make_verdict_table(rows: Sequence[TidyRow]) -> pd.DataFrame:
    """Convert verdicts to a table with one row each.

    The table is built by columns, because a dictionary for each of a million verdicts takes a minute.
    """
    names = [field.name for field in fields(TidyRow)]
    return pd.DataFrame({name: [getattr(row, name) for row in rows] for name in names})


def read_counted_verdicts(study: Study, store: Store) -> list[TidyRow]:
    """Return the verdicts of a study that count. Raise an error if no verdict counts."""
    if rows := drop_open_round_verdicts(store, unblind.read_tidy_rows(store)):
        return rows
    raise explain_missing_verdicts(study, store)


def explain_missing_verdicts(study: Study, store: Store) -> StudyError:
    """Return the error for a study without verdicts that count."""
    rows = unblind.read_tidy_rows(store, include_excluded=True)
    if rows and all(row.excluded for row in rows):
        include = study.format_command("raters include", rows[0].rater, "--reason", "REASON")
        return StudyError(
            f"all raters with verdicts in {study.folder} are excluded; include one of them: {include}"
        )
    collect = f"{study.format_command('annotate')} or {study.format_command('judge')}"
    what = "verdicts yet" if study.hand_out_plan.rounds is None else "round that is over"
    return StudyError(f"{study.folder} has no {what}. Collect verdicts with: {collect}")


def drop_open_round_verdicts(store: Store, rows: Sequence[TidyRow]) -> list[TidyRow]:
    """Remove the verdicts of the open round, if comparisons stop after a round."""
    settings_parts = [find_deciding_group(row.rater, row.rater_kind) for row in rows]
    with store.begin_read() as db:
        closed = {name: count_closed_rounds(db, name) for name in {*settings_parts}}
    return [row for row, name in zip(rows, settings_parts, strict=True) if row.prompt_round <= closed[name]]


def record_seen_results(store: Store) -> str:
    """Record that the results were seen. Return a warning if this failed, else an empty text."""
    try:
        store_settings.store_setting(store, store_settings.RESULTS_SEEN, "yes")
    except StudyError as error:
        # The study may be on a read-only disk, and the results can be shown all the same.
        return f"{UNRECORDED}: {error}"
    return ""


def read_table_and_context(
    study: Study, store: Store, split_columns: Sequence[str] = ()
) -> tuple[pd.DataFrame, Context]:
    """Return a study's verdicts with the declared columns and `split_columns`, and the context.

    Raises:
        StudyError: There are no verdicts, a column is unknown, or the tables of metrics cannot be read.
    """
    rows = read_counted_verdicts(study, store)
    context = make_study_context(study, store, rows)
    table = check_verdicts(make_verdict_table(rows))
    headings = [*context.by, *split_columns]
    return add_split_columns(study, table, headings, store_pairs.read_pairs(store)), context


def make_study_context(study: Study, store: Store, rows: Sequence[TidyRow]) -> Context:
    """Return the context of a study with these verdicts."""
    settings = study.settings
    pairs = store_pairs.read_pairs(store)
    criteria = chain(settings.annotation.criteria, *(judge.criteria for judge in settings.judge))
    used_criteria = select_criteria(list(dict.fromkeys(criteria)), settings.rubric)
    runs = settings.generation.runs
    raters_per_pair = settings.annotation.raters_per_pair
    with_excluded = drop_open_round_verdicts(store, _read_rows_with_excluded_raters(store))
    planned_ratings = [row for row in with_excluded if not row.surplus]
    parts_of_raters = [find_declared_part_of_rater(row.rater, row.rater_kind) for row in rows]
    judges = {(row.rater_kind, row.rater) for row in rows if row.rater_kind in PEOPLE_OF}
    kinds = Counter(kind for kind, _ in judges)
    plan = settings.analysis
    if max(kinds.values(), default=0) < FEWEST_JUDGES:
        plan = plan.model_copy(update={"panel": None})
    is_any_excluded = any(row.excluded or row.surplus for row in with_excluded)
    return Context(
        name=settings.name,
        question=settings.question,
        texts=settings.texts,
        seed=settings.seed,
        study_hash=study.hash,
        parts=store_settings.compare_with_first_verdicts(
            store, *dict.fromkeys([*study.declared, *parts_of_raters])
        ),
        criteria=tuple(criterion for criterion in used_criteria if CRITERIA.get(criterion.name) != criterion),
        reworded=tuple(store_settings.describe_reworded_criteria(store, used_criteria)),
        has_late_pairs=store_settings.read_setting(store, store_settings.PAIRS_ADDED_LATE) is not None,
        declared=(
            *(
                [f"Of up to {runs} texts a prompt by each strategy the first was compared."]
                if runs > 1
                else []
            ),
            *compare_with_written_plan(study, pairs),
            *([MISSING_CHOICE] if settings.tuning is not None and study.choice is None else []),
            *([MISSING_PANEL] if plan != settings.analysis else []),
        ),
        unfinished=()
        if study.hand_out_plan.rounds
        else (
            *_describe_missing_pairs(study, pairs),
            *_describe_missing_ratings(store, settings, pairs, planned_ratings),
        ),
        contests=_read_comparison_rounds(store, rows),
        planned=_list_declared_results(settings, rows),
        plan=plan,
        by=tuple(settings.analysis.by),
        # Each judge has a separate result, so one verdict completes its item.
        raters_per_item={
            "person": raters_per_pair,
            "simulated": raters_per_pair,
            "model": 1,
            "simulated_model": 1,
        },
        random_part=settings.pairs.human_pairs is not None,
        ties=True,
        metrics=_read_metric_scores(study.metrics_folder),
        examples=tuple(sorted(pairs, key=lambda pair: pair.id)[:EXAMPLES]),
        judging=_read_judge_usage(store),
        choice=study.choice,
        unknown_searches=_find_systems_with_unknown_search(study, rows),
        exclusions=tuple(_read_exclusions(store, with_excluded)),
        with_excluded=check_verdicts(make_verdict_table(with_excluded)) if is_any_excluded else None,
        conduct=store_notes.count_suspicious_presentations(store),
        settings=read_text(study.folder / "study.toml"),
        command=study.format_command("report"),
    )


def _read_judge_usage(store: Store) -> JudgeUsage:
    try:
        return TypeAdapter(JudgeUsage).validate_python(read_judge_usage(store))
    except ValidationError as error:
        raise StudyError(
            f"the database {store.name} is damaged: {get_first_line(error)}; restore it from a copy"
        ) from error


def compare_with_written_plan(study: Study, pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Compare the study with its written plan, and return sentences. Without a plan, return none."""
    path = study.folder / PLAN
    if not path.exists():
        return ()
    resolve_write_target(path)
    text = read_text(path)
    planned = dict(HASH.findall(text))
    verdicts = _VERDICTS.search(text)
    return render_lines(
        __file__,
        "written_plan.txt",
        file=PLAN,
        planned=planned,
        verdicts=verdicts and verdicts[1],
        current=hash_plan_parts(study, pairs),
    )


def hash_plan_parts(study: Study, pairs: Sequence[Pair]) -> dict[str, str]:
    """Return the hash of each part of the settings and the hash of the pairs, by their names on the page.

    The hash of the pairs is made from the sorted ids of the pairs. An id is a hash of the methods and both
    texts.
    """
    declared = study.declared.items()
    hashes = {f"settings of {escape_markdown(name)}": hash_text(text) for name, text in declared}
    if pairs:
        hashes["pairs"] = hash_text("\n".join(sorted(pair.id for pair in pairs)))
    return hashes


def _read_comparison_rounds(store: Store, rows: Sequence[TidyRow]) -> dict[tuple[str, str], Contest]:
    """Return the rounds of people and of each judge, if comparisons stop after a round."""
    raters = {
        (row.rater_kind, row.rater if row.rater_kind in PEOPLE_OF else "") for row in rows if row.prompt_round
    }
    with store.begin_read() as db:
        return {
            (kind, judge): read_round_scores(db, find_deciding_group(judge, kind))
            for kind, judge in sorted(raters, key=lambda who: (KIND_PLACE[who[0]], who))
        }


def _find_systems_with_unknown_search(study: Study, rows: Sequence[TidyRow]) -> tuple[str, ...]:
    """Return the systems of which it is unknown how their setting was chosen.

    These are systems from files whose strategy has only one setting in the study, and all rated settings if
    [tuning] chose them and the file with the choice is missing.
    """
    settings = study.settings
    if settings.tuning is not None and study.choice is None:
        rated = sorted({method for row in rows for method in (row.method_a, row.method_b)})
        return tuple(name for name in rated if name != remove_parameters(name))
    files = [system.name for system in settings.system if system.source == "file"]
    counts = Counter(map(remove_parameters, files))
    return tuple(
        name for name in files if name != remove_parameters(name) and counts[remove_parameters(name)] == 1
    )


def _read_rows_with_excluded_raters(store: Store) -> list[TidyRow]:
    """Return the verdicts that count, and all verdicts of raters who are or were excluded.

    If a rater is included again, verdicts that other raters replaced are surplus.
    """
    decided = {note.rater for note in store_notes.read_notes(store, kind="exclude")}
    rows = unblind.read_tidy_rows(store, include_surplus=True, include_excluded=True)
    return [row for row in rows if not row.surplus or row.rater in decided]


def _read_exclusions(store: Store, rows: Sequence[TidyRow]) -> Iterator[Exclusion]:
    """Yield the excluded raters, each with the latest reason. `rows` include their verdicts.

    A rater who was included again is listed if other raters have replaced verdicts meanwhile.
    """
    excluded_verdicts = Counter(row.rater for row in rows if row.excluded or row.surplus)
    decisions: dict[str, list[Note]] = {}  # the last exclusion and what came after it
    for note in store_notes.read_notes(store):
        if note.kind == "exclude":
            decisions[note.rater] = [note]
        elif note.kind == "include" and note.rater in decisions:
            decisions[note.rater].append(note)
    for rater in raters.read_rater_progress(store):
        if rater.name in decisions and (rater.state == "excluded" or excluded_verdicts[rater.name]):
            excluded, *included = decisions[rater.name]
            yield Exclusion(
                rater=rater.name,
                rater_kind=rater.kind,
                reason=json.loads(excluded.detail)["reason"],
                at=excluded.at.isoformat(),
                results=_find_time_of_decision(excluded),
                verdicts=excluded_verdicts[rater.name],
                included=_find_time_of_decision(included[0]) if included else "",
            )


def _find_time_of_decision(decision: Note) -> Literal["before", "after"]:
    """Return whether a decision about a rater came before or after the results were first seen."""
    return "after" if json.loads(decision.detail)["results_seen"] else "before"


def _describe_missing_pairs(study: Study, pairs: Sequence[Pair]) -> Iterator[str]:
    """Say how many planned pairs were drawn, if a comparison or prompts were added after the draw."""
    planned, missing = count_planned_and_missing_pairs(study, draw_planned_prompts(study), pairs)
    if missing:
        yield f"{planned - missing} of {planned} planned pairs were drawn"


def _describe_missing_ratings(
    store: Store, settings: Settings, pairs: Sequence[Pair], rows: Sequence[TidyRow]
) -> Iterator[str]:
    """Say how many of the planned ratings people and each judge have given, if some are missing.

    Ratings of excluded raters, and pairs whose failure is final, such as a refusal, do not count as missing,
    because the report names them elsewhere. Further ratings of a pair replace no rating of another pair.
    """
    with store.begin_read() as db:
        failures = read_question_failures(db)
    refused = {(judge, pair) for (judge, pair, _), (kind, _) in failures.items() if kind not in OF_THE_SERVER}
    raters_per_pair = settings.annotation.raters_per_pair
    ratings = sum(pair.for_people for pair in pairs) * raters_per_pair
    rated: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for row in rows:
        judge = row.rater if row.rater_kind in PEOPLE_OF else ""
        rated.setdefault((row.rater_kind, judge), set()).add((row.pair_id, row.rater))
    for (kind, judge), counts in sorted(rated.items()):
        final = {(pair, name) for name, pair in refused if name == judge} - counts
        planned = len(pairs) - len(final) if judge else ratings
        of_pairs = Counter(pair for pair, _ in counts)
        counted = sum(min(number, raters_per_pair) for number in of_pairs.values())
        if counted < planned:
            yield f"{format_rater_kind(kind, judge)} gave {counted} of {planned} ratings"


def _list_declared_results(settings: Settings, rows: Sequence[TidyRow]) -> Planned:
    """Return the results that study.toml declares for the kinds of raters that have rated.

    People and judges may rate different criteria. The p-values of people and of each judge are corrected
    separately. A comparison or criterion that study.toml no longer has stays in the family if it was rated,
    so that no change after the verdicts makes the correction smaller.
    """
    kinds = {row.rater_kind for row in rows}
    names: list[str] = []
    if kinds - {"model"}:
        names += settings.annotation.criteria
    if "model" in kinds:
        names += chain.from_iterable(judge.criteria for judge in settings.judge)
    names += sorted({row.criterion for row in rows})
    rated = sorted({(row.method_a, row.method_b) for row in rows})
    couples = dict.fromkeys([*((a, b) for a, b in settings.pairs.compare), *rated])
    cells = tuple((a, b, criterion) for a, b in couples for criterion in dict.fromkeys(names))
    return cells if settings.analysis.composite is None else add_composite_results(cells)


@record
class _MetricsFile:
    """The part of metrics.json that the report shows."""

    scores: tuple[Score, ...]


def _read_metric_scores(folder: Path) -> tuple[Score, ...]:
    """Return the scores of metrics. There are none if nothing was measured."""
    path = folder / "metrics.json"
    if not path.exists():
        return ()
    resolve_write_target(path)
    try:
        measured = TypeAdapter(_MetricsFile).validate_json(read_bytes(path, limit=_LARGEST_SCORES))
    except ValidationError as error:
        raise StudyError(
            f"cannot read {path}: {get_first_line(error)}; run: guard-eval measure STUDY"
        ) from error
    return tuple(score for score in measured.scores if score.metric in METRICS)


def add_split_columns(
    study: Study, table: pd.DataFrame, headings: Sequence[str], pairs: Sequence[Pair]
) -> pd.DataFrame:
    """Add columns of the prompts or of the traces to the verdicts.

    Raises:
        StudyError: A column is unknown and cannot split results, or the prompts or traces cannot be read.
    """
    for name, (key, values) in read_split_columns(study, headings, pairs).items():
        table = table.assign(**{name: table[key].astype(object).map(values)})
    return table
