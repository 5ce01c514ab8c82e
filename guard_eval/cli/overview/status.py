"""`guard-eval status`: what a study has, what is missing, and what to do next."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from guard_eval.cli.console import StudyFolder, count_of, record, say, say_next
from guard_eval.cli.overview.progress import progress
from guard_eval.errors import StudyError
from guard_eval.records import Prompt
from guard_eval.store import Store, raters
from guard_eval.store import pairs as store_pairs
from guard_eval.study.folder import Study
from guard_eval.texts.current import find_texts
from guard_eval.texts.prompts import read_prompts
from judge.questions import count_left

State = Literal["complete", "partial", "missing", "broken"]

_MARKS: dict[State, str] = {"complete": "✓", "partial": "…", "missing": "–", "broken": "✗"}
_NAMED = 3


@dataclass(frozen=True)
class Part:
    """One step of a study: what there is of it, and the commands that go on from here."""

    name: str
    state: State
    text: str
    next: tuple[str, ...] = ()


def command(folder: StudyFolder) -> None:
    """See what a study has, what is missing, and what to do next.

    Nothing is changed, loaded or sent. Exit code 2 where a part of the study is broken.
    """
    parts = list(status(folder))
    width = max(len(part.name) for part in parts)
    for part in parts:
        say(f"{_MARKS[part.state]} {part.name:{width}}  {part.text}")
    # Texts and pairs are needed for what follows; scores and a kind of rater are a choice.
    broken = [part for part in parts if part.state == "broken"]
    undone = [part for part in parts if part.next]
    needed = next((part for part in undone if part.name not in _OPTIONAL), None)
    before = [part for part in undone if part.name in _OPTIONAL]
    commands = [line for part in (needed, *before) if part for line in part.next]
    record("study", str(folder))
    record("parts", [{"part": part.name, "state": part.state, "text": part.text} for part in parts])
    record("next", [] if broken else commands)
    if broken:
        raise typer.Exit(2)
    if commands:
        say_next(*commands)
    else:
        say(f"\nAll is done: open {shlex.quote(str(folder / 'report' / 'index.html'))}")


_OPTIONAL = {"metrics", "people", "judges"}


def status(folder: Path) -> Iterator[Part]:
    """Yield the parts of a study in their order; one that cannot be read says why, and the rest follow.

    Args:
        folder: The study's, which may be half made or broken.
    """
    try:
        study = Study.open(folder)
    except StudyError as error:
        yield Part("settings", "broken", str(error))
        yield from _files(folder)
        return
    name, settings = shlex.quote(str(folder)), study.settings
    yield Part(
        "settings",
        "complete",
        f"{count_of(len(settings.generation.strategies), 'strategy', 'strategies')}, model "
        f"{settings.model.name}, seed {settings.seed}",
    )
    try:
        prompts = read_prompts(study.prompts_path, limit=settings.prompts.limit)
    except StudyError as error:
        yield Part("prompts", "broken", str(error))
        prompts = []
    else:
        datasets = len({prompt.dataset for prompt in prompts})
        yield Part(
            "prompts", "complete", f"{count_of(len(prompts), 'prompt')} of {count_of(datasets, 'dataset')}"
        )
    texts = _texts(study, prompts, name)
    yield texts
    yield _metrics(study, name, texts)
    yield from _verdicts(study, name)


def _texts(study: Study, prompts: list[Prompt], name: str) -> Part:
    settings = study.settings
    wanted = {one: len(prompts) * settings.runs_of(one) for one in settings.generation.strategies}
    try:
        made = {one: len(found.texts) for one, found in find_texts(study, list(wanted), prompts).items()}
    except StudyError as error:
        return Part("continuations", "broken", str(error))
    total, all_ = sum(made.values()), sum(wanted.values())
    generate = (f"guard-eval generate {name} --dry-run",)
    if not total:
        return Part("continuations", "missing", f"0 of {all_}", generate)
    if total == all_:
        return Part("continuations", "complete", f"{total} of {all_}")
    lacking = [f"{one} lacks {wanted[one] - count}" for one, count in made.items() if count < wanted[one]]
    more = f" and {len(lacking) - _NAMED} more strategies" if len(lacking) > _NAMED else ""
    return Part(
        "continuations", "partial", f"{total} of {all_}: {', '.join(lacking[:_NAMED])}{more}", generate
    )


def _metrics(study: Study, name: str, texts: Part) -> Part:
    page = study.metrics / "metrics.html"
    measure = (f"guard-eval measure {name}",) if texts.state != "missing" else ()
    if not page.is_file():
        return Part("metrics", "missing", "not measured", measure)
    newest = max((path.stat().st_mtime for path in study.continuations.glob("*.*")), default=0.0)
    if newest > page.stat().st_mtime:
        return Part("metrics", "partial", f"{page}, older than the newest text", measure)
    return Part("metrics", "complete", str(page))


def _verdicts(study: Study, name: str) -> Iterator[Part]:
    """Yield what is in the study's database, and the report on it."""
    stored = study.folder / "study.db"
    changed = max((path.stat().st_mtime for path in study.folder.glob("study.db*")), default=0.0)
    pair = (f"guard-eval pair {name}",)
    if study.settings.database is None and not stored.exists():
        yield Part("pairs", "missing", "none drawn", pair)
        return
    try:
        with Store.open(study.database, declared=study.declared) as store:
            pairs = store_pairs.read(store)
            kinds = Counter(rater.kind for rater in raters.read(store))
            left = count_left(store, study.settings.judge, seed=study.settings.seed)
        found = progress(study)
    except StudyError as error:
        yield Part("database", "broken", str(error))
        return
    if not pairs:
        yield Part("pairs", "missing", "none drawn", pair)
        return
    yield Part("pairs", "complete", count_of(len(pairs), "pair"))
    invited = kinds["person"] or kinds["simulated"]
    invite = f"guard-eval raters {name} add NAME …"
    people = f"{found.counted} of {found.wanted} ratings, {count_of(invited, 'rater')}"
    people += " (SIMULATED)" if found.rater_kind == "simulated" else ""
    if found.counted >= found.wanted:
        yield Part("people", "complete", people)
    else:
        go_on = (f"guard-eval annotate {name}",) if invited else (invite,)
        yield Part("people", "partial" if invited else "missing", people, go_on)
    if left:
        waiting = ", ".join(f"{judge}: {count} presentations left" for judge, count in left.items())
        state: State = "partial" if any(left.values()) else "complete"
        yield Part(
            "judges",
            state,
            waiting if state == "partial" else f"{', '.join(left)}: all judged",
            (f"guard-eval judge {name} --dry-run",) if state == "partial" else (),
        )
    rated = found.counted or any(kinds[kind] for kind in ("model", "simulated_model"))
    yield _report(study, name, changed=changed, rated=bool(rated))


def _report(study: Study, name: str, *, changed: float, rated: bool) -> Part:
    page = study.report / "index.html"
    report = (f"guard-eval report {name}",) if rated else ()
    if not page.is_file():
        return Part("report", "missing", "not written", report)
    if changed > page.stat().st_mtime:
        return Part("report", "partial", f"{page}, older than the database", report)
    return Part("report", "complete", str(page))


def _files(folder: Path) -> Iterator[Part]:
    """Yield what is in a folder whose settings cannot be read: nothing of it is lost."""
    for name in ("prompts.jsonl", "continuations", "metrics", "study.db", "report"):
        path = folder / name
        if path.is_dir():
            yield Part(name, "complete", count_of(sum(1 for _ in path.iterdir()), "file"))
        elif path.exists():
            yield Part(name, "complete", f"{path.stat().st_size:,} bytes")
