"""Show the state of a study for `guard-eval status`, and its raters for `guard-eval raters list`.

The state has the completed and missing steps, the raters, and the next commands.
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Literal

from analysis.monitor.ratings import MEANINGS, CriterionState, RaterState, Ratings, read_ratings
from analysis.sections.section import Cells, make_labelled_table
from guard_eval import progress
from guard_eval.errors import StudyError, format_count
from guard_eval.records import PEOPLE, Pair, Prompt, find_declared_part_of_rater, record
from guard_eval.reporting.escaping import NOTHING, join_lines
from guard_eval.reporting.rendering import render_lines
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import (
    capitalise,
    format_limits,
    format_number,
    join_first_parts,
    replace_underscores,
)
from guard_eval.results import Result
from guard_eval.store import RaterProgress, Store, manage, pairs, raters, settings
from guard_eval.store.judging.requests import count_open_questions, read_question_failures
from guard_eval.store.showings import slots
from guard_eval.store.showings.rounds import count_closed_rounds, read_stopping_rounds
from guard_eval.store.verdicts import LAST_CHANGE
from guard_eval.study import Study
from guard_eval.texts.pair import (
    count_planned_and_missing_pairs,
    draw_planned_prompts,
    explain_unplanned_pairs,
)
from guard_eval.texts.prompts import read_study_prompts
from guard_eval.texts.systems import find_texts
from guard_eval.texts.systems.matching import SystemTexts
from guard_eval.texts.systems.served_files import locate_served_file
from guard_eval.texts.tuning import TUNE, group_systems_by_prompts

State = Literal["complete", "partial", "missing", "broken"]

MARKS: dict[State, str] = {"complete": "✓", "partial": "…", "missing": "–", "broken": "✗"}
OPTIONAL = {"metrics", "people", "judges"}
"""Optional steps: metrics, people and judges. Later steps need texts and pairs, but none of these."""

WATCH_SECONDS = 10
REMARKS = 10
"""The largest number of remarks in the table. The newest remarks are shown."""


@dataclass(frozen=True)
class Step:
    """One step of a study: its state, and the commands that continue it."""

    name: str
    state: State
    text: str
    next: tuple[str, ...] = ()


@record
class Status(Result):
    """The state of a study.

    Attributes:
        study: The folder of the study.
        steps: The state of each step, in the order of the commands.
        ratings: The progress of the raters; None without pairs.
    """

    study: Path
    steps: tuple[Step, ...]
    ratings: Ratings | None = None


def status(folder: Path, /, *, watch: bool = False, overrides: Sequence[str] = ()) -> Result:
    """Show what a study has, how its raters do, and what to do next.

    Nothing is changed, loaded or sent. The command never shows which method is ahead: owners who watch the
    result, and stop when they like it, find differences that do not exist. Exit code 2 means that a part of
    the study is broken.

    Args:
        folder: The study's folder. It may be incomplete or broken.
        watch: Show the state again every ten seconds, until Ctrl-C.
        overrides: Settings for this run, such as `annotation.raters_per_pair=3`.
    """
    try:
        while watch:
            result = read_status(folder, overrides)
            progress.show_result(result, clear_screen=True)
            progress.show_notice(f"\n{folder}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC; Ctrl-C ends")
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return Result()
    return read_status(folder, overrides)


def read_status(folder: Path, overrides: Sequence[str]) -> Status:
    """Read the state of a study. A step that cannot be read is shown as broken, and raises no error."""
    try:
        study = Study.open(folder, overrides)
    except StudyError as error:
        return _make_status(folder, [Step("settings", "broken", str(error))])
    steps, texts = _read_preparation_steps(study)
    if study.has_database:
        try:
            with Store.open_study(study) as store:
                if drawn := pairs.read_pairs(store):
                    return _read_status_with_pairs(study, store, drawn, steps, texts)
        except StudyError as error:
            return _make_status(folder, [*steps, Step("database", "broken", str(error))])
    return _make_status(
        folder, [*steps, Step("pairs", "missing", "none drawn", (study.format_command("pair"),))]
    )


def _read_status_with_pairs(
    study: Study, store: Store, drawn: Sequence[Pair], steps: list[Step], texts: Mapping[str, SystemTexts]
) -> Status:
    """Return the state of a study that already has pairs."""
    everybody = raters.read_rater_progress(store)
    criteria = study.settings.annotation.criteria
    ratings = read_ratings(store, everybody, slots=study.hand_out_plan.slots, criteria=criteria)
    prompts = draw_planned_prompts(study)
    steps = [*steps, _make_pairs_step(study, prompts, drawn)]
    steps += _read_steps_after_texts(study, store, drawn, everybody, ratings)
    declared = settings.compare_with_first_verdicts(store, *study.declared)
    warnings = render_lines(
        __file__,
        "warnings.txt",
        ratings=ratings,
        unplanned=explain_unplanned_pairs(study, prompts, drawn, texts),
        changes=dict.fromkeys(chain(*(compared.changes for compared in declared))),
        redraw=study.format_command("pair", "--redraw"),
        most_skips=slots.MOST_SKIPS,
        count=format_count,
    )
    tables = tuple(_make_rating_tables(ratings, study.format_command("export", "--table", "notes")))
    return _make_status(study.folder, steps, ratings, warnings, tables)


def _make_status(
    folder: Path,
    steps: Sequence[Step],
    ratings: Ratings | None = None,
    warnings: tuple[str, ...] = (),
    tables: tuple[Table, ...] = (),
) -> Status:
    """Describe the steps in lines, and list the next commands.

    The commands of the first unfinished step come first, then those of the optional steps.
    """
    width = max(len(step.name) for step in steps)
    lines = [f"{MARKS[step.state]} {step.name:{width}}  {step.text}" for step in steps]
    is_broken = any(step.state == "broken" for step in steps)
    is_rated = ratings is not None and ratings.counted > 0
    unfinished = [] if is_broken else [step for step in steps if step.next]
    needed = [step for step in unfinished if step.name not in OPTIONAL][:1]
    choices = [step for step in unfinished if step.name in OPTIONAL]
    choices.sort(key=lambda step: is_rated and step.name == "metrics")  # who has ratings wants more of them
    if not is_broken and not unfinished:
        lines += ["", f"All is done: open {folder / 'report' / 'index.html'}"]
    if ratings is not None and is_rated:
        lines += ["", describe_rating_progress(ratings)]
    return Status(
        lines=tuple(lines),
        tables=tables if is_rated else (),
        warnings=warnings,
        next=tuple(chain.from_iterable(step.next for step in (*needed, *choices))),
        exit_code=2 if is_broken else 0,
        study=folder,
        steps=tuple(steps),
        ratings=ratings,
    )


def _describe_step_state(step: str, **values: object) -> str:
    """Describe the state of a step in the words of the template."""
    (line,) = render_lines(__file__, "steps.txt", step=step, count=format_count, **values)
    return line


def _read_preparation_steps(study: Study) -> tuple[list[Step], dict[str, SystemTexts]]:
    """Return the states of the settings, prompts, texts and metrics. Also return the texts."""
    chosen = study.settings
    served = [system.served_model.model for system in chosen.systems.values() if system.source == "server"]
    models = [*(model.name for model in study.local_models), *served]
    described = _describe_step_state("settings", settings=chosen, models=list(dict.fromkeys(models)))
    prompts: list[Prompt] = []
    try:
        prompts = read_study_prompts(study)
    except StudyError as error:
        prompts_step = Step("prompts", "broken", str(error))
    else:
        prompts_step = Step("prompts", "complete", _describe_step_state("prompts", prompts=prompts))
    texts_step, texts = _read_texts_step(study, prompts)
    metrics = _read_metrics_step(study, has_texts=texts_step.state != "missing")
    steps = [Step("settings", "complete", described), prompts_step, texts_step]
    return [*steps, *_read_tuning_steps(study, texts_step), metrics], texts


def _read_texts_step(study: Study, prompts: list[Prompt]) -> tuple[Step, dict[str, SystemTexts]]:
    """Return the state of the texts, and the texts. The state is complete if no text is missing."""
    name = "texts" if study.settings.system else "continuations"
    try:
        existing = find_texts(study, study.settings.systems, prompts)
        missing, needed = _count_missing_texts(study, existing) if prompts else (Counter[str](), 0)
    except (StudyError, OSError) as error:
        return Step(name, "broken", str(error)), {}
    total = needed - missing.total()
    state: State = "complete" if total == needed else "partial"
    # The owner must add the missing texts to a file, because no command writes them.
    is_generated = any(study.settings.systems[name].source != "file" for name in missing)
    generate = (study.format_command("generate", "--dry-run"),) if is_generated else ()
    kind = "systems" if study.settings.system else "strategies"
    text = _describe_step_state(
        "texts",
        total=total,
        needed=needed,
        missing=missing,
        kind=kind,
    )
    return Step(name, state if total else "missing", text, generate), existing


def _count_missing_texts(study: Study, existing: Mapping[str, SystemTexts]) -> tuple[Counter[str], int]:
    """Count the missing texts of each system, and all texts that the study needs."""
    missing: Counter[str] = Counter()
    needed = 0
    for names, prompts in group_systems_by_prompts(study):
        for name in names:
            runs = range(1, study.settings.count_texts_per_prompt(name) + 1)
            keys = [(prompt.id, run) for prompt in prompts for run in runs]
            needed += len(keys)
            missing.update(name for key in keys if key not in existing[name])
    return missing, needed


def _read_tuning_steps(study: Study, texts: Step) -> Iterator[Step]:
    """Yield the state of the search, if the study has the table [tuning]."""
    grids = study.settings.grids
    if grids and study.valid_tuning_choice is not None:
        chosen = [study.valid_tuning_choice.chosen[name] for name in grids]
        yield Step("tuning", "complete", f"chosen: {', '.join(chosen)}")
    elif grids:
        tune = (study.format_command(*TUNE),) if texts.state == "complete" else ()
        yield Step("tuning", "missing", "nothing is chosen", tune)


def _read_metrics_step(study: Study, *, has_texts: bool) -> Step:
    systems = study.settings.system
    files = [study.folder / system.file for system in systems if system.file is not None]
    files += [locate_served_file(study, system) for system in systems if system.source == "server"]
    texts = [*study.continuations_folder.glob("*/*.jsonl"), *files]
    is_tuned = not study.settings.grids or study.valid_tuning_choice is not None
    measure = (study.format_command("measure"),) if has_texts and is_tuned else ()
    page = study.metrics_folder / "metrics.html"
    return _make_page_step(
        "metrics",
        page,
        texts,
        missing="not measured",
        older="the newest text",
        next_commands=measure,
    )


def _make_page_step(
    name: str,
    page: Path,
    sources: Iterable[Path],
    *,
    changed_at: float = 0.0,
    missing: str,
    older: str,
    next_commands: tuple[str, ...],
) -> Step:
    """Return the state of a page, such as the report: complete if it is newer than its sources.

    `changed_at` is the time of another change, in seconds since 1970.
    """
    if not page.is_file():
        return Step(name, "missing", missing, next_commands)
    # a link's target may be missing, and a reader of the database leaves an empty log
    times = [path.stat().st_mtime for path in sources if path.exists() and path.stat().st_size]
    if max([changed_at, *times]) > page.stat().st_mtime:
        return Step(name, "partial", f"{page}, older than {older}", next_commands)
    return Step(name, "complete", str(page))


def _read_round_steps(
    study: Study,
    store: Store,
    drawn: Sequence[Pair],
    pool: str,
) -> Iterator[Step]:
    """Yield the rounds of people and of each judge, if comparisons stop after a round."""
    if study.hand_out_plan.rounds is None:
        return
    judges = {
        judge.rater_name: find_declared_part_of_rater(judge.rater_name, "model")
        for judge in study.settings.judge
    }
    couples = {(pair.method_a, pair.method_b) for pair in drawn}
    last = max(pair.round for pair in drawn)
    for who, settings_name in {PEOPLE: pool, **judges}.items():
        with store.begin_read() as db:
            done = count_closed_rounds(db, settings_name)
            playing = couples - read_stopping_rounds(db, settings_name).keys()
            unrated = slots.count_unrated_slots(db, settings_name)
        eliminated = sorted({*chain(*couples)} - {*chain(*playing)}) if playing else []
        is_over = not playing or done >= last
        text = _describe_step_state(
            "rounds",
            who=who,
            done=done,
            last=last,
            unrated=unrated,
            eliminated=eliminated,
            is_over=is_over,
        )
        state: State = "complete" if is_over else "partial"
        yield Step("rounds", state if done else "missing", text)


def _make_pairs_step(study: Study, prompts: Sequence[Prompt], drawn: Sequence[Pair]) -> Step:
    """Return the state of the pairs: partial if a comparison or prompts were added after the draw."""
    planned, missing = count_planned_and_missing_pairs(study, prompts, drawn)
    if not missing:
        return Step("pairs", "complete", format_count(len(drawn), "pair"))
    text = f"{planned - missing} of {planned} pairs"
    return Step("pairs", "partial", text, (study.format_command("pair"),))


def _read_steps_after_texts(
    study: Study,
    store: Store,
    drawn: Sequence[Pair],
    everybody: Sequence[RaterProgress],
    ratings: Ratings,
) -> Iterator[Step]:
    """Yield the states of rounds, ratings, judges and the report."""
    kinds = Counter(rater.kind for rater in everybody)
    rounds = list(_read_round_steps(study, store, drawn, slots.POOLS[ratings.rater_kind]))
    yield from rounds
    invited = kinds["person"] or kinds["simulated"]
    yield _make_people_step(study, ratings, invited)
    rated = {rater.name: rater.rated for rater in everybody}
    remaining = _count_missing_verdicts(study, store)
    with store.begin_read() as db:
        failures = Counter(judge for judge, _, _ in read_question_failures(db))
    failed = {name: min(count, failures[name]) for name, count in remaining.items()}
    if any(remaining.values()):
        text = ", ".join(
            f"{name}: {format_count(count, 'verdict')} missing"
            + (f", {failed[name]:,} after a failure" if failed[name] else "")
            for name, count in remaining.items()
        )
        yield Step("judges", "partial", text, (study.format_command("judge", "--dry-run"),))
    elif remaining:
        yield Step("judges", "complete", f"{', '.join(remaining)}: all judged")
    # No new rater gets a pair that too many raters skipped. A judge that was never asked is optional.
    closed = ratings.often_skipped * ratings.slots
    of_people = ratings.missing_ratings - closed if invited or ratings.counted else 0
    # The report counts verdicts that a judge could not give, and waits for the others.
    of_judges = sum(count - failed[name] for name, count in remaining.items() if rated.get(name))
    models = kinds["model"] or kinds["simulated_model"]
    missing = max(0, of_people) + of_judges
    is_rated = bool(ratings.counted or models)
    if rounds:  # the report is about the finished rounds
        is_rated = any(step.state != "missing" for step in rounds)
        missing = 0
    yield _read_report_step(study, store, is_rated=is_rated, missing=missing)


def _make_people_step(study: Study, ratings: Ratings, invited: int) -> Step:
    """Return the state of the ratings by people, of whom this number is invited."""
    text = _describe_step_state("people", ratings=ratings, invited=invited)
    if not ratings.missing_ratings and not ratings.lacking:
        return Step("people", "complete", text)
    if invited:
        return Step("people", "partial", text, (study.format_command("annotate"),))
    return Step("people", "missing", text, (study.format_command("raters add", "NAME"),))


def _count_missing_verdicts(study: Study, store: Store) -> dict[str, int]:
    """Return how many verdicts of each judge are missing, whether it can still be asked or not."""
    remaining = {}
    for judge in study.settings.judge:
        per_pair = judge.samples * (2 if judge.orders == "both" else 1)
        with store.begin_read() as db:
            by_couple = count_open_questions(db, judge.rater_name, per_pair=per_pair)
        remaining[judge.rater_name] = sum(
            count for couple, count in by_couple.items() if not study.settings.pairs.is_removed(*couple)
        )
    return remaining


def _read_report_step(study: Study, store: Store, *, is_rated: bool, missing: int) -> Step:
    """Return the state of the report.

    The report waits for missing ratings, because early looks find too many differences.
    """
    files = [study.folder / name for name in ("study.db", "study.db-wal")]
    page = study.report_folder / "index.html"
    if is_rated and missing and not study.settings.analysis.sequential:
        state: State = "partial" if page.is_file() else "missing"
        return Step("report", state, f"waits for {format_count(missing, 'rating')}")
    report = (study.format_command("report"),) if is_rated else ()
    with store.begin_read() as db:
        last_change = LAST_CHANGE(db).scalar()  # a database server has no file here
    return _make_page_step(
        "report",
        page,
        files,
        changed_at=last_change.timestamp() if last_change else 0.0,
        missing="not written",
        older="the database",
        next_commands=report,
    )


def describe_rating_progress(ratings: Ratings) -> str:
    """Describe the progress of the ratings in a sentence or two."""
    lines = render_lines(
        __file__, "headline.txt", ratings=ratings, count=format_count, duration=format_duration
    )
    return " ".join(lines)


def _make_rating_tables(ratings: Ratings, export_command: str) -> Iterator[Table]:
    """Yield the tables of agreement, raters and remarks. `export_command` writes all rows of a table."""
    if ratings.criteria:
        yield _make_criteria_table(ratings.criteria)
    if ratings.raters:
        yield _make_raters_table(ratings.raters)
    if ratings.remarks:
        older = len(ratings.remarks) - REMARKS
        yield Table(
            caption="Comments, problems and skipped pairs",
            columns=("when", "rater", "prompt", "kind", "text"),
            rows=tuple(tuple(map(join_lines, astuple(remark))) for remark in ratings.remarks[:REMARKS]),
            text_columns=5,
            note=f"and {older} older ones: {export_command}" if older > 0 else "",
        )


def _make_criteria_table(rows: Sequence[CriterionState]) -> Table:
    """Return a table with a row per criterion, and with the comparison if there are several comparisons."""
    labels = [{"comparison": row.comparison, "criterion": replace_underscores(row.criterion)} for row in rows]
    if len({row.comparison for row in rows}) == 1:
        labels = [{"criterion": label["criterion"]} for label in labels]
    noted: dict[str, list[str]] = {}
    for row, label in zip(rows, labels, strict=True):
        noted.setdefault(row.kappa.note, []).append(" on ".join(label.values()))
    figures = [
        {
            "verdicts": str(row.verdicts),
            "ties %": format_number(row.ties, 0, scale=100),
            "same %": format_number(row.same, 0, scale=100),
            "κ (95 %)": format_limits(row.kappa),
            "chose A, % (95 %)": format_limits(row.first, 0, scale=100),
        }
        for row in rows
    ]
    return make_labelled_table(
        labels,
        figures,
        caption="Agreement, and preference for a side",
        note="same: two raters of a pair who say the same; κ: Fleiss; A: verdicts for the text shown as A, "
        "of those that are no ties."
        + "".join(f" {join_first_parts(names, 3)}: {note}." for note, names in noted.items() if note),
    )


def _make_raters_table(raters: Sequence[RaterState]) -> Table:
    """Return the table of raters, without empty columns."""
    cells = [_make_rater_cells(rater) for rater in raters]
    heads = [name for name in cells[0] if any(line[name] not in {"", NOTHING} for line in cells)]
    raised = {flag for rater in raters for flag in rater.flags if rater.state != "excluded"}
    notes = [f"{flag}: {meaning}" for flag, meaning in MEANINGS.items() if flag in raised]
    if raised:
        notes.append("a flag is a reason to check a rater, not a reason to exclude one")
    return Table(
        caption="Raters",
        columns=tuple(heads),
        rows=tuple(tuple(line[name] for name in heads) for line in cells),
        words=frozenset(index for index, name in enumerate(heads) if name in {"state", "look at"}),
        note=". ".join(capitalise(note.rstrip(".")) for note in notes),
    )


def _make_rater_cells(rater: RaterState) -> Cells:
    return {
        "rater": join_lines(rater.rater),
        "rated": str(rater.rated),
        "time": format_duration(rater.seconds) if rater.seconds else NOTHING,
        "a pair": NOTHING if rater.pace is None else format_duration(rater.pace),
        "ties %": format_number(rater.ties, 0, scale=100),
        "same %": format_number(rater.same, 0, scale=100),
        "A %": format_number(rater.first, 0, scale=100),
        "gold failed": f"{rater.gold_failed}/{rater.gold}" if rater.gold else NOTHING,
        "changed": f"{rater.repeats_changed}/{rater.repeats}" if rater.repeats else NOTHING,
        "remarks": str(rater.remarks or ""),
        "skipped": str(rater.skipped or ""),
        "state": rater.state,
        "look at": ", ".join(list_flag_names(rater)),
    }


def list_flag_names(rater: RaterState) -> list[str]:
    """Return the names of a rater's flags, with a figure if the flag has one."""
    figures = {"same answer": rater.favourite, "like a model": rater.signs}
    return [f"{flag} ({figures[flag]})" if flag in figures else flag for flag in rater.flags]


def format_duration(seconds: float) -> str:
    """Format a duration as text.

    >>> format_duration(42.4), format_duration(150), format_duration(7800)
    ('42 s', '2.5 min', '2 h 10 min')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 59.5:
        return f"{minutes:.1f} min" if minutes < 9.95 else f"{minutes:.0f} min"
    hours, minutes_over = divmod(round(minutes), 60)
    return f"{hours} h {minutes_over} min" if minutes_over and hours < 100 else f"{hours} h"


@record
class ListedRaters(manage.Raters):
    """All raters of a study, and the flags of each rater by name, with figures."""

    flags: Mapping[str, str]


def list_raters(study: Study, /) -> ListedRaters:
    """List the raters with their source, progress and state.

    `guard-eval status` shows how long they take and how they rate.

    Args:
        study: The study's folder.
    """
    with Store.open_study(study) as store:
        listed = manage.tabulate_raters(store)
        ratings = read_ratings(store, listed.raters, slots=study.hand_out_plan.slots)
    flags = {rater.rater: ", ".join(list_flag_names(rater)) for rater in ratings.raters if rater.flags}
    table = Table(
        caption="Raters to look at",
        columns=("rater", "look at"),
        rows=tuple((join_lines(name), words) for name, words in flags.items()),
        text_columns=2,
        note="A flag is a reason to check a rater, not a reason to exclude one.",
    )
    tables = (*listed.tables, table) if flags else listed.tables
    return ListedRaters(raters=listed.raters, tables=tables, flags=flags)
