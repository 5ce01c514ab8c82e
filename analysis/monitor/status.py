"""`guard-eval status`: what a study has, what is missing, how its raters are doing, and what to do next."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from analysis.monitor.ratings import MEANINGS, Ratings, read_ratings
from guard_eval import progress
from guard_eval.errors import StudyError
from guard_eval.estimate import join_notes
from guard_eval.records import PEOPLE, Pair, Prompt, settings_part
from guard_eval.reporting.escaping import NOTHING, one_line
from guard_eval.reporting.tables import Table
from guard_eval.reporting.words import and_list, number_limits, spaced
from guard_eval.results import Result
from guard_eval.store import RaterProgress, Store, pairs, raters, settings, slots
from guard_eval.store.rounds import read_playing, read_stopped
from guard_eval.store.slots import MOST_SKIPS, POOLS
from guard_eval.study import Study
from guard_eval.study.declared import compare_declared
from guard_eval.texts.matching import SystemTexts
from guard_eval.texts.prompts import read_prompts
from guard_eval.texts.served_files import served_path
from guard_eval.texts.systems import find_texts

State = Literal["complete", "partial", "missing", "broken"]

MARKS: dict[State, str] = {"complete": "✓", "partial": "…", "missing": "–", "broken": "✗"}
OPTIONAL = {"metrics", "people", "judges"}
"""Texts and pairs are needed for what follows; scores and a kind of rater are a choice."""

WATCH_SECONDS = 10
REMARKS = 10
"""So many of the newest remarks are shown."""
RATERS = 30
"""If a study has more raters, the table has the flagged ones only."""
_NAMED = 3


@dataclass(frozen=True, kw_only=True)
class Part:
    """One step of a study: what there is of it, and the commands that continue from here."""

    part: str
    state: State
    text: str
    next: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Status(Result):
    """The state of a study.

    Attributes:
        study: Its folder.
        parts: What there is, in the order of the commands.
        ratings: How the raters are doing; None without pairs.
    """

    study: Path
    parts: tuple[Part, ...]
    ratings: Ratings | None = field(default=None)


def status(folder: Path, /, *, watch: bool = False, overrides: Sequence[str] = ()) -> Result:
    """See what a study has, how its raters do, and what to do next.

    Nothing is changed, loaded or sent. Which method is ahead is not shown: looking at that while verdicts
    come in, and stopping when it pleases, finds differences that are not there. Exit code 2 if a part of the
    study is broken.

    Args:
        folder: The study's folder, which may be half made or broken.
        watch: Show it every ten seconds, until Ctrl-C.
        overrides: Settings for this run, such as `annotation.raters_per_pair=3`.
    """
    try:
        while watch:
            result = read_status(folder, overrides)
            progress.show(result, clear=True)
            progress.notice(f"\n{folder}, {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC; Ctrl-C ends")
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return Result()
    return read_status(folder, overrides)


def read_status(folder: Path, overrides: Sequence[str]) -> Status:
    """Return the state of a study, broken parts too."""
    try:
        study = Study.open(folder, overrides)
    except StudyError as error:
        broken = Part(part="settings", state="broken", text=str(error))
        return _status(folder, (broken,), None)
    parts, texts = _texts_and_metrics(study)
    ratings = None
    try:
        if study.settings.database is not None or (folder / "study.db").exists():
            with Store.open(study.database, declared=study.declared) as store:
                everybody = raters.read(store)
                ratings = read_ratings(
                    store,
                    everybody,
                    slots=study.plan.slots,
                    most_skips=MOST_SKIPS,
                    criteria=study.settings.annotation.criteria,
                )
                changes = compare_declared(study.declared, {PEOPLE: settings.declared(store, PEOPLE)})
                drawn = pairs.read(store)
                replaced = _describe_replaced(study, drawn, texts)
                rounds = _read_rounds(study, store, drawn, POOLS[ratings.rater_kind])
                remaining = _count_remaining(study, store, everybody)
    except StudyError as error:
        return _status(folder, (*parts, Part(part="database", state="broken", text=str(error))), None)
    if ratings is None or not ratings.pairs:
        draw = Part(part="pairs", state="missing", text="none drawn", next=(study.command("pair"),))
        return _status(folder, (*parts, draw), None)
    parts += _verdicts(study, everybody, ratings, remaining, rounds)
    export = study.command("export", "--table", "notes")
    warnings = [*replaced, *_warnings(ratings, changes[0].changes)]
    return _status(folder, parts, ratings, warnings=warnings, export=export)


def _status(
    folder: Path,
    parts: Sequence[Part],
    ratings: Ratings | None,
    *,
    warnings: Sequence[str] = (),
    export: str = "",
) -> Status:
    width = max(len(part.part) for part in parts)
    lines = [f"{MARKS[part.state]} {part.part:{width}}  {part.text}" for part in parts]
    broken = any(part.state == "broken" for part in parts)
    needed = [part for part in parts if part.next and part.part not in OPTIONAL][:1]
    choices = [part for part in parts if part.next and part.part in OPTIONAL]
    following = [] if broken else [command for part in (*needed, *choices) for command in part.next]
    if not broken and not following:
        lines += ["", f"All is done: open {folder / 'report' / 'index.html'}"]
    if rated := ratings if ratings is not None and ratings.counted else None:
        lines += ["", headline(rated)]
    return Status(
        lines=tuple(lines),
        tables=tuple(_tables(rated, export)) if rated else (),
        warnings=tuple(warnings),
        next=tuple(following),
        exit_code=2 if broken else 0,
        study=folder,
        parts=tuple(parts),
        ratings=ratings,
    )


def _texts_and_metrics(study: Study) -> tuple[list[Part], dict[str, SystemTexts]]:
    """Return the states of settings, prompts, texts and metrics, and the texts."""
    chosen, prompts = study.settings, []
    parts = [Part(part="settings", state="complete", text=f"{_systems(study)}, seed {chosen.seed}")]
    try:
        prompts = read_prompts(study.prompts_path, limit=chosen.prompts.limit)
    except StudyError as error:
        parts.append(Part(part="prompts", state="broken", text=str(error)))
    else:
        datasets = _count(len({prompt.dataset for prompt in prompts}), "dataset")
        text = f"{_count(len(prompts), 'prompt')} of {datasets}"
        parts.append(Part(part="prompts", state="complete", text=text))
    state, texts = _texts(study, prompts)
    return [*parts, state, _metrics(study, has_texts=state.state != "missing")], texts


def _describe_replaced(study: Study, drawn: Sequence[Pair], texts: Mapping[str, SystemTexts]) -> list[str]:
    """Return a warning if systems have other texts now than their pairs."""
    names: Counter[str] = Counter()
    replaced = 0
    for pair in drawn:
        shown = {pair.method_a: pair.continuation_a, pair.method_b: pair.continuation_b}
        current = {name: texts.get(name, {}).get((pair.prompt_id, 1)) for name in shown}
        changed = [name for name, text in current.items() if text is not None and text.id != shown[name]]
        names.update(changed)
        replaced += bool(changed)
    if not replaced:
        return []
    return [
        (
            f"{replaced} of {_count(len(drawn), 'pair')} hold other texts by {', '.join(sorted(names))} than "
            "the study has now. Raters see the texts of the pairs. Take the change back, or draw the pairs "
            f"again as long as there are no verdicts: {study.command('pair', '--redraw')}"
        )
    ]


def _systems(study: Study) -> str:
    """Return how many systems there are, and who writes their texts."""
    chosen = study.settings
    if not chosen.system:
        strategies = len(chosen.generation.strategies)
        return f"{strategies} {'strategy' if strategies == 1 else 'strategies'}, model {chosen.model.name}"
    systems = list(chosen.systems.values())
    served = [system.served.model for system in systems if system.source == "server"]
    models = [*(part.settings.model.name for part in study.by_model()), *served]
    text = _count(len(systems), "system")
    if models := list(dict.fromkeys(models)):
        text += f", {'model' if len(models) == 1 else 'models'} {', '.join(models)}"
    files = sum(system.source == "file" for system in systems)
    return f"{text}, {files} in files" if files else text


def _texts(study: Study, prompts: list[Prompt]) -> tuple[Part, dict[str, SystemTexts]]:
    """Return the state of the texts, and the texts."""
    runs = {name: study.settings.runs_of(name) for name in study.settings.systems}
    part = "texts" if study.settings.system else "continuations"
    try:
        everything = prompts if study.settings.prompts.limit is None else None
        existing = find_texts(study, list(runs), prompts, all_prompts=everything)
    except (StudyError, OSError) as error:
        return Part(part=part, state="broken", text=str(error)), {}
    return _count_texts(study, part, existing, runs, len(prompts)), existing


def _count_texts(
    study: Study, part: str, existing: Mapping[str, SystemTexts], runs: Mapping[str, int], prompts: int
) -> Part:
    """Return whether each system has as many texts as are needed."""
    counts = {name: sum(run <= runs[name] for _, run in texts) for name, texts in existing.items()}
    total, wanted = sum(counts.values()), prompts * sum(runs.values())
    text = f"{total} of {wanted}"
    if total == wanted and total:
        return Part(part=part, state="complete", text=text)
    lacking = {name: missing for name, n in runs.items() if (missing := n * prompts - counts[name])}
    # What is missing in a file is written by whoever wrote the others.
    is_generated = any(study.settings.systems[name].source != "file" for name in lacking)
    generate = (study.command("generate", "--dry-run"),) if is_generated else ()
    if not total:
        return Part(part=part, state="missing", text=text, next=generate)
    named = [f"{name} lacks {missing}" for name, missing in lacking.items()]
    kind = "systems" if study.settings.system else "strategies"
    more = f" and {len(named) - _NAMED} more {kind}" if len(named) > _NAMED else ""
    text = f"{text}: {', '.join(named[:_NAMED])}{more}"
    return Part(part=part, state="partial", text=text, next=generate)


def _metrics(study: Study, *, has_texts: bool) -> Part:
    systems = study.settings.system
    files = [study.folder / system.file for system in systems if system.file is not None]
    files += [served_path(study, system) for system in systems if system.source == "server"]
    texts = [*study.continuations.glob("*/*.jsonl"), *(path for path in files if path.exists())]
    measure = (study.command("measure"),) if has_texts else ()
    page = study.metrics / "metrics.html"
    return _page("metrics", page, texts, missing="not measured", older="the newest text", then=measure)


def _page(
    part: str, page: Path, sources: Iterable[Path], *, missing: str, older: str, then: tuple[str, ...]
) -> Part:
    """Return whether a page is there, and newer than what it is made from."""
    if not page.is_file():
        return Part(part=part, state="missing", text=missing, next=then)
    if max((path.stat().st_mtime for path in sources), default=0.0) > page.stat().st_mtime:
        return Part(part=part, state="partial", text=f"{page}, older than {older}", next=then)
    return Part(part=part, state="complete", text=str(page))


def _read_rounds(study: Study, store: Store, drawn: Sequence[Pair], pool: str) -> list[Part]:
    """Return how far people and each judge are, if comparisons stop after a round."""
    if study.plan.rounds is None:
        return []
    judges = {each.rater_name: settings_part(each.rater_name, "model") for each in study.settings.judge}
    couples = {(pair.method_a, pair.method_b) for pair in drawn}
    last = max((pair.round for pair in drawn), default=0)
    parts = []
    for who, part in {PEOPLE: pool, **judges}.items():
        with store.read() as db:
            done, stopped = read_stopped(db, part)
            unrated = slots.count_unrated(db, part)
        playing = couples - stopped.keys()
        left = {*chain(*couples)} - {*chain(*playing)}
        is_over = not playing or done == last
        texts = (
            f"{who}: over after {done} of {last} rounds" if is_over else f"{who}: round {done + 1} of {last}",
            f"{and_list(sorted(left))} left" if playing and left else "",
            f"{_count(unrated, 'rating')} to go in this round" if unrated else "",
        )
        state: State = "complete" if is_over else "partial"
        parts.append(Part(part="rounds", state=state if done else "missing", text=join_notes(*texts)))
    return parts


def _verdicts(
    study: Study,
    everybody: Sequence[RaterProgress],
    ratings: Ratings,
    remaining: Mapping[str, int],
    rounds: Sequence[Part],
) -> Iterator[Part]:
    """Yield the pairs, who rates them, and the report."""
    kinds = Counter(rater.kind for rater in everybody)
    yield Part(part="pairs", state="complete", text=_count(ratings.pairs, "pair"))
    yield from rounds
    invited = kinds["person"] or kinds["simulated"]
    text = f"{ratings.counted} of {ratings.wanted} ratings, {_count(invited, 'rater')}"
    text += " (SIMULATED)" if ratings.rater_kind == "simulated" else ""
    text += "".join(f", {count} without {spaced(name)}" for name, count in ratings.lacking.items())
    if ratings.counted >= ratings.wanted and not ratings.lacking:
        yield Part(part="people", state="complete", text=text)
    elif invited:
        yield Part(part="people", state="partial", text=text, next=(study.command("annotate"),))
    else:
        invite = study.command("raters add", "NAME")
        yield Part(part="people", state="missing", text=text, next=(invite,))
    rated = {rater.name: rater.rated for rater in everybody}
    if study.settings.judge:
        yield _judges(study, remaining)
    # who was skipped by too many is given to nobody new, and a judge that was never asked is a choice
    closed = ratings.often_skipped * ratings.slots
    of_people = ratings.missing - closed if invited or ratings.counted else 0
    of_judges = sum(count for name, count in remaining.items() if rated.get(name))
    models = kinds["model"] or kinds["simulated_model"]
    missing = max(0, of_people) + of_judges
    if rounds:  # a report is on the rounds that are over
        yield _report(study, rated=any(part.state != "missing" for part in rounds), missing=0)
    else:
        yield _report(study, rated=bool(ratings.counted or models), missing=missing)


def _count_remaining(study: Study, store: Store, everybody: Sequence[RaterProgress]) -> dict[str, int]:
    """Return how many presentations each judge of the study has not judged yet, at most."""
    rated = {rater.name: rater.rated for rater in everybody}
    remaining = {}
    for judge in study.settings.judge:
        orders = 2 if judge.orders == "both" else 1
        name = judge.rater_name
        with store.read() as db:
            pairs = sum(count for _, count in read_playing(db, settings_part(name, "model")))
        remaining[name] = max(0, pairs * orders * judge.samples - rated.get(name, 0))
    return remaining


def _judges(study: Study, remaining: Mapping[str, int]) -> Part:
    if not any(remaining.values()):
        return Part(part="judges", state="complete", text=f"{', '.join(remaining)}: all judged")
    text = ", ".join(f"{name}: {count} presentations left" for name, count in remaining.items())
    return Part(part="judges", state="partial", text=text, next=(study.command("judge", "--dry-run"),))


def _report(study: Study, *, rated: bool, missing: int) -> Part:
    """Return the state of the report, which waits for missing ratings: an early look finds too much."""
    files = (study.folder / name for name in ("study.db", "study.db-wal"))
    written = [path for path in files if path.exists() and path.stat().st_size]  # an empty log is a reader's
    page = study.report / "index.html"
    if rated and missing and not study.settings.analysis.sequential:
        text = f"waits for {_count(missing, 'rating')}"
        return Part(part="report", state="partial" if page.is_file() else "missing", text=text)
    report = (study.command("report"),) if rated else ()
    return _page("report", page, written, missing="not written", older="the database", then=report)


def headline(ratings: Ratings) -> str:
    """Return how far the ratings are, in a sentence or two."""
    simulated = ratings.rater_kind == "simulated"
    who = ("SIMULATED rater", "SIMULATED raters") if simulated else ("person", "people")
    for_people = sum(ratings.filled)
    pairs = _count(ratings.pairs, "pair")
    done = ratings.counted / max(1, ratings.wanted)
    text = (
        f"{ratings.counted} of {ratings.wanted} ratings ({100 * done:.0f} %): "
        f"{pairs if for_people == ratings.pairs else f'{for_people} of {pairs}'}, "
        f"{ratings.slots} {who[ratings.slots > 1]} each."
    )
    if ratings.missing and ratings.seconds is not None:
        remaining = duration(ratings.missing * ratings.seconds)
        return (
            f"{text} {ratings.missing} to go: about {remaining} of rating in all, at "
            f"{duration(ratings.seconds)} a pair."
        )
    return f"{text} {ratings.missing} to go." if ratings.missing else text


def _warnings(ratings: Ratings, changes: Sequence[str]) -> Iterator[str]:
    if changes:
        yield (
            f"settings changed after the first verdict: {'; '.join(changes)}. The report will call the "
            "results exploratory. Take the change back, or begin a new study for it."
        )
    for name, count in ratings.lacking.items():
        yield (
            f"{_count(count, 'rating')} without a verdict on {spaced(name)}, which was added later: their "
            "raters can go back and answer. Or take the criterion out, or begin a new study for it."
        )
    if ratings.excluded:
        yield f"{_count(ratings.excluded, 'rating')} of excluded raters: kept, not counted"
    if ratings.surplus:
        came = f"{_count(ratings.surplus, 'rating')} came after another rater had taken the pair"
        yield f"{came}: kept, not counted"
    if ratings.often_skipped:
        yield (
            f"{_count(ratings.often_skipped, 'pair')} skipped by {MOST_SKIPS} raters or more: no new rater "
            "gets them. Excluding raters who skip without a reason gives them out again."
        )


def _tables(ratings: Ratings, export: str) -> Iterator[Table]:
    """Yield agreement, raters and remarks, as far as there are any; the command `export` writes them all."""
    if len(ratings.criteria):
        yield _criteria_table(ratings.criteria)
    if len(ratings.raters):
        yield _raters_table(ratings.raters)
    if len(ratings.remarks):
        older = len(ratings.remarks) - REMARKS
        yield Table(
            caption="Comments, problems and skipped pairs",
            columns=("when", "rater", "prompt", "kind", "text"),
            rows=tuple(tuple(map(one_line, row)) for row in ratings.remarks[:REMARKS].to_numpy().tolist()),
            text_columns=5,
            note=f"and {older} older ones: {export}" if older > 0 else "",
        )


def _criteria_table(criteria: pd.DataFrame) -> Table:
    several = len(set(criteria["comparison"])) > 1
    heads = ("criterion", "verdicts", "ties %", "same %", "κ (95 %)", "A % (95 %)")
    lines: list[Any] = list(criteria.itertuples())
    notes = {row.kappa.note: spaced(row.criterion) for row in lines if row.kappa.note}
    return Table(
        caption="Agreement, and preference for a side",
        columns=("comparison", *heads) if several else heads,
        rows=tuple(
            (
                *((row.comparison,) if several else ()),
                *(spaced(row.criterion), str(row.verdicts), _share(row.ties), _share(row.same)),
                *(number_limits(row.kappa), number_limits(row.first, 0, scale=100)),
            )
            for row in lines
        ),
        text_columns=2 if several else 1,
        note="same: two raters of a pair who say the same; κ: Fleiss; A: verdicts for the text shown as A, "
        "of those that are no ties." + "".join(f" {name}: {note}." for note, name in notes.items()),
    )


def _raters_table(frame: pd.DataFrame) -> Table:
    """Return the raters: all, or of many the flagged ones. Excluded raters leave nothing to decide."""
    flagged = frame[(frame["flags"].str.len() > 0) & (frame["state"] != "excluded")]
    shown = frame if len(frame) <= RATERS else flagged
    columns: dict[str, Callable[[Any], str]] = {
        "rater": lambda row: one_line(row.rater),
        "rated": lambda row: str(row.rated),
        "time": lambda row: duration(row.seconds) if row.seconds else NOTHING,
        "a pair": lambda row: NOTHING if pd.isna(row.pace) else duration(row.pace),
        "ties %": lambda row: _share(row.ties),
        "same %": lambda row: _share(row.same),
        "A %": lambda row: _share(row.first.value),
        "gold failed": lambda row: f"{row.gold_failed}/{row.gold}" if row.gold else NOTHING,
        "changed": lambda row: f"{row.repeats_changed}/{row.repeats}" if row.repeats else NOTHING,
        "remarks": lambda row: str(row.remarks or ""),
        "skipped": lambda row: str(row.skipped or ""),
        "state": lambda row: row.state,
        "look at": lambda row: ", ".join(_name_flags(row.flags, row.favourite)),
    }
    cells = {name: [make(row) for row in shown.itertuples()] for name, make in columns.items()}
    kept = [name for name, column in cells.items() if set(column) - {"", NOTHING} or name == "rater"]
    raised = {flag for flags in flagged["flags"] for flag in flags}
    notes = [f"{flag}: {meaning}" for flag, meaning in MEANINGS.items() if flag in raised]
    if len(shown) < len(frame):
        notes.insert(0, f"{len(frame) - len(shown)} of {len(frame)} raters have no flag and are not shown")
    notes += ["a flag is a reason to look, none to exclude"] if raised else []
    return Table(
        caption="Raters",
        columns=tuple(kept),
        rows=tuple(zip(*(cells[name] for name in kept), strict=True)),
        words=frozenset(index for index, name in enumerate(kept) if name in {"state", "look at"}),
        note=". ".join(f"{note[0].upper()}{note[1:]}" for note in notes),
    )


def _name_flags(flags: Sequence[str], favourite: str) -> list[str]:
    return [f"same answer ({favourite})" if flag == "same answer" else flag for flag in flags]


def _count(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _share(share: float | None) -> str:
    return NOTHING if share is None or pd.isna(share) else f"{100 * share:.0f}"


def duration(seconds: float) -> str:
    """Return a duration in words.

    >>> duration(42.4), duration(150), duration(7800)
    ('42 s', '2.5 min', '2 h 10 min')
    """
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 59.5:
        return f"{minutes:.1f} min" if minutes < 9.95 else f"{minutes:.0f} min"
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest} min" if rest and hours < 100 else f"{hours} h"
