"""`guard-eval judge`: language models as raters."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import StudyFolder, progress, say, say_next

if TYPE_CHECKING:
    from guard_eval.settings import Judge
    from guard_eval.store import Store
    from guard_eval.study import Study
    from judge.ledger import Ledger
    from judge.preview import DryRun

LEASE = timedelta(minutes=10)
"""How long a presentation is one run's: longer than any single answer takes, its retries included."""


def command(
    folder: StudyFolder,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be sent and what it would cost; send nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before spending.")] = False,
    only: Annotated[str | None, typer.Option(help="Only the judge of this model.")] = None,
) -> None:
    """Have language models compare the pairs.

    What is answered already is never paid for again.

    The key is read from OPENAI_API_KEY and goes nowhere else; OPENAI_BASE_URL names another server.
    """
    from guard_eval.store import Store
    from guard_eval.study import Study

    study = Study.open(folder)
    judges = _judges(study, only)
    with Store.open(study.database, study_hash=study.hash) as store:
        for judge in judges:
            preview = _preview(store, study, judge)
            if not preview.example:
                say("nothing is left to ask")
            elif dry_run:
                say(f"\n{preview.example}")
            elif _agreed(yes=yes):
                _show(_run(store, study, judge), judge)
    say_next(f"guard-eval judge {folder}" if dry_run else f"guard-eval report {folder}")


def _judges(study: Study, only: str | None) -> list[Judge]:
    from guard_eval.errors import StudyError

    judges = [judge for judge in study.settings.judge if only in (None, judge.model)]
    if judges:
        return judges
    known = ", ".join(judge.model for judge in study.settings.judge)
    if only and known:
        raise StudyError(f"the study has no judge {only!r}; it has: {known}")
    raise StudyError(f'{study.folder} has no judge; add to its study.toml: [[judge]] with model = "…"')


def _preview(store: Store, study: Study, judge: Judge) -> DryRun:
    from guard_eval.errors import StudyError
    from judge.orders import judge_plan
    from judge.preview import dry_run

    if not store.pairs():
        raise StudyError(f"{study.folder} has no pairs yet; run: guard-eval pair {study.folder}")
    seed = study.settings.seed
    waiting = store.waiting(judge.model, judge_plan(judge, seed=seed, lease=LEASE))
    preview = dry_run(judge, waiting, seed=seed, answered=store.answers())
    for line in preview.summary:
        say(line)
    return preview


def _agreed(*, yes: bool) -> bool:
    from guard_eval.errors import StudyError

    if yes:
        return True
    if not sys.stdin.isatty():
        raise StudyError("nobody is here to be asked whether to spend this; add --yes")
    return typer.confirm("Send these requests?")


def _run(store: Store, study: Study, judge: Judge) -> Ledger:
    from judge.run import Progress, run_judge

    with progress("judgments") as bar:
        task = bar.add_task(judge.model, total=None, note="")

        def show(now: Progress) -> None:
            note = f"{now.failed} failed" if now.failed else ""
            if now.cost_usd is not None:
                note = f"{note} ${now.cost_usd:.2f}".strip()
            bar.update(task, total=now.total, completed=now.verdicts + now.failed, note=note)
            if now.notice:
                bar.console.print(now.notice)

        return run_judge(store, judge, seed=study.settings.seed, lease=LEASE, on_progress=show)


def _show(ledger: Ledger, judge: Judge) -> None:
    say(
        f"{judge.model}: {ledger.verdicts} pairs judged, {ledger.requests} requests sent "
        f"({ledger.retries} of them again), {ledger.reused} answers from the journal"
    )
    cost = "" if ledger.cost_usd is None else f", ${ledger.cost_usd:.4f}"
    say(f"tokens: {ledger.input_tokens:,} in, {ledger.output_tokens:,} out{cost}")
    for kind, count in sorted(ledger.failures.items()):
        say(f"failed: {count} × {kind}; counted in the report, and asked again when the command is run again")
    if ledger.unmetered:
        say(f"{ledger.unmetered} answers came without token counts; they are missing from tokens and cost")
