"""`guard-eval judge --show` and `--view`: stored exchanges are read; nothing is sent."""

from __future__ import annotations

from pathlib import Path

from guard_eval.cli.console import say
from guard_eval.store import Store
from guard_eval.study.folder import Study
from judge import viewing
from judge.rater import rater_name


def read_exchanges(
    study: Study, *, only: str | None, show: str | None, view: Path | None, unblind: bool
) -> None:
    """Print the exchanges about a pair, or write those of all pairs as a page.

    Args:
        study: The study.
        only: Only the judge of this name, or of this model; one that study.toml names no more is one, too.
        show: A pair.
        view: A file.
        unblind: Whether to say which method wrote which text.

    Raises:
        StudyError: There is no such pair or no exchange, or the file cannot be written.
    """
    judges = study.settings.judge
    name = next((rater_name(each) for each in judges if only in (each.model, rater_name(each))), only)
    with Store.open(study.database, study_hash=study.hash) as store:
        if show is not None:
            say(viewing.show(store, judges, show, seed=study.settings.seed, only=name, unblind=unblind))
        if view is not None:
            page = viewing.view(store, judges, view, seed=study.settings.seed, only=name, unblind=unblind)
            say(
                f"{view}: {page.exchanges:,} exchanges about {page.comparisons:,} comparisons, "
                f"{page.size / 1e6:.1f} MB; open it in a browser"
            )
