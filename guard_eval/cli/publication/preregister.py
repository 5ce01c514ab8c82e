"""`guard-eval preregister`: the plan of the study in words, with its hashes, before there are verdicts."""

from __future__ import annotations

import hashlib
import re
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from annotation_app.wording import of_study
from guard_eval.cli.console import StudyFolder, say, say_next
from guard_eval.cli.publication.datasheet_answers import quota
from guard_eval.errors import StudyError
from guard_eval.records import Pair
from guard_eval.reporting.escaping import Escaped, escape_markdown
from guard_eval.reporting.rendering import render
from guard_eval.reporting.words import percent, plural
from guard_eval.reporting.writing import write_whole
from guard_eval.store import Store
from guard_eval.study.folder import Study

NAME = "preregistration.md"
_HASH = re.compile(r"^\* Settings of the study \(SHA-256\): ([0-9a-f]{64})$", re.MULTILINE)
_PAIRS = re.compile(r"^\* Pairs \(SHA-256 of their sorted ids\): (.+)$", re.MULTILINE)
_LATE = re.compile(r"^\*\*Verdicts existed when this was written: (\d+)\.\*\*", re.MULTILINE)


def command(
    folder: StudyFolder,
    on: Annotated[
        str | None,
        typer.Option("--date", metavar="YYYY-MM-DD", help="The date in the text; none unless given."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help=f"The file to write; default: {NAME} in the study, which the report reads."),
    ] = None,
    after_verdicts: Annotated[
        bool,
        typer.Option(
            "--after-verdicts",
            help="Write it although there are verdicts; the text begins with their number, and is no "
            "preregistration.",
        ),
    ] = False,
) -> None:
    """Write the plan of the study down before there are verdicts.

    Markdown for a registry such as OSF or AsPredicted. The same study, pairs and date give the same bytes.
    """
    study = Study.open(folder)
    path = study.folder / NAME if output is None else output
    text = preregister(study, on=on, after_verdicts=after_verdicts)
    if path.exists() and path.read_bytes() != text.encode():
        raise StudyError(
            f"{path} exists with another text, and a plan that was written down is not replaced; move it "
            "away, or name another file with --output"
        )
    write_whole(path, text.encode())
    say(f"preregistration: {path}")
    say_next(f"guard-eval annotate {folder}")


def preregister(study: Study, *, on: str | None = None, after_verdicts: bool = False) -> str:
    """Return the study's plan as Markdown.

    Args:
        study: The study.
        on: The date written in the text, ISO 8601.
        after_verdicts: Whether a study that has verdicts is described, too; the text then says so first.

    Raises:
        StudyError: There are verdicts, or the date is none.
    """
    if on is not None:
        try:
            date.fromisoformat(on)
        except ValueError:
            raise StudyError(f"--date {on!r} is no date; write it as 2026-05-31") from None
    pairs, verdicts = _collected(study)
    if verdicts and not after_verdicts:
        raise StudyError(
            f"there are {verdicts} verdicts already, so this would not be a preregistration; to describe the "
            "plan with that number as its first sentence: guard-eval preregister STUDY --after-verdicts"
        )
    return render(
        Path(__file__).parent / "preregistration.md.j2",
        study=study,
        settings=study.settings,
        on=on,
        verdicts=verdicts,
        pairs=pairs,
        pairs_hash=pairs_hash(pairs),
        criteria=of_study(study).rubric(tuple(study.settings.annotation.criteria)),
        fixed=_fixed(study),
        test=_test(study),
    )


def pairs_hash(pairs: list[Pair]) -> str:
    """Return the SHA-256 of the pairs' ids, each of which is a hash of the methods and both texts."""
    return hashlib.sha256("\n".join(sorted(pair.id for pair in pairs)).encode()).hexdigest()


def preregistered(study: Study, pairs: list[Pair]) -> tuple[str, ...]:
    """Return what a report on `pairs` says of the study's preregistration, if there is one."""
    try:
        text = (study.folder / NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return ()
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"cannot read {study.folder / NAME}: {error}; fix it or move it away") from error
    found, late = _HASH.search(text), _LATE.search(text)
    if found is None:
        return (f"{NAME} names no hash of settings, so it cannot be compared with the study.",)
    if late is not None:
        return (f"{NAME} was written when {late[1]} verdicts existed: it is no preregistration.",)
    planned, now = _PAIRS.search(text), pairs_hash(pairs)
    if planned is not None and len(planned[1]) == len(now):
        drawn = f"the pairs {_compared(planned[1], now)}"
    else:
        drawn = "the pairs were drawn after it was written"
    return (f"Preregistration: of {NAME}, the study's settings {_compared(found[1], study.hash)}; {drawn}.",)


def _compared(planned: str, now: str) -> str:
    return "are unchanged" if planned == now else f"DIFFER ({planned[:16]} there, {now[:16]} now)"


def _collected(study: Study) -> tuple[list[Pair], int]:
    """Return the pairs that are drawn, and how many verdicts there are."""
    if study.settings.database is None and not (study.folder / "study.db").exists():
        return [], 0
    with Store.open(study.database, study_hash=study.hash) as store:
        return store.pairs(), len(store.tidy(include_surplus=True, include_excluded=True))


def _fixed(study: Study) -> Escaped:
    """Return how many judgments are collected, and when that ends."""
    asked, analysis = study.settings.annotation, study.settings.analysis
    stop = (
        "Results are looked at while verdicts come in (sequential = true), and collection may stop at any "
        "look: the "
        "tests are valid at all of them."
        if analysis.sequential
        else "Results are looked at once, when every pair has its ratings; there are no interim looks."
    )
    people = plural(asked.raters_per_pair, "rating")
    return Escaped(
        escape_markdown(f"Each pair for people gets {people}; a rater rates at most {quota(study)}. {stop}")
    )


def _test(study: Study) -> list[str]:
    """Return how the verdicts will be tested, a sentence each."""
    settings, analysis = study.settings, study.settings.analysis
    whom = "the raters who take part" if analysis.raters == "these" else "all raters like those who take part"
    names = {"holm": "Holm", "max-t": "Westfall and Young (step-down max-T)", "bh": "Benjamini and Hochberg"}
    results = len(settings.pairs.compare) * (
        len(settings.annotation.criteria) + (settings.composite is not None)
    )
    found = [
        (
            f"Estimand: the tie-split win share, (wins + ties/2) / n, by criterion, for {whom}. "
            "Raters of a pair are averaged first, and every pair weighs the same."
        ),
        (
            f"Test: two-sided, of a share of one half, with prompts as the independent units; error rate "
            f"{analysis.alpha:g}, intervals of {percent(1 - analysis.alpha, 0)}."
        ),
        (
            f"Family: {plural(results, 'result')} of people, comparisons by criteria"
            f"{' and the composite' if settings.composite else ''}; correction: {names[analysis.correction]}."
            " Each judge's results are a family of their own."
        ),
    ]
    if settings.composite:
        weights = ", ".join(f"{name} {weight:g}" for name, weight in settings.composite.items())
        found.append(
            f"Composite: the weighted mean of each rater's verdicts on a pair, with weights {weights}."
        )
    margin = analysis.equivalence_margin
    found.append(
        "Equivalence is not claimed."
        if margin is None
        else f"Equivalence: a win share within {margin:g} of one half does not matter."
    )
    if analysis.assisted_by:
        found.append(f"The verdicts of {analysis.assisted_by} on all pairs assist those of people.")
    if settings.panel:
        found.append(f"Besides, the judges are a panel by {settings.panel.rule}.")
    return found
