"""What `guard-eval power` does: a question from options and a pilot, studies simulated, the answer shown."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from analysis.planning import page
from analysis.planning.equivalence import equivalence_answer, equivalence_needs, equivalence_table
from analysis.planning.mixture import mixture_table, mixtures
from analysis.planning.pilot import PilotRow, most_demanding, pilot_rows
from analysis.planning.power import PowerPlan, plan
from analysis.planning.question import PlanningQuestion, check
from analysis.reports.study_report import study_verdicts
from analysis.verdicts.tidy import read
from guard_eval.cli.console import say, say_next, say_table
from guard_eval.errors import StudyError
from guard_eval.study.folder import Study


def power(
    question: PlanningQuestion | None = None, *, output: Path | None = None, quiet: bool = False
) -> PowerPlan:
    """Find out how many items and raters find a difference, by simulated studies.

    Args:
        question: What is to be found, and how it will be tested.
        output: Where to write the curve: .html, .svg, .png or .pdf.
        quiet: Do not say what is simulated.

    Raises:
        StudyError: The question has no answer, or the file cannot be written.
    """
    question = question or PlanningQuestion()
    check(question)
    if output is not None:
        page.check_ending(output)
    found = plan(question, progress=(lambda _: None) if quiet else (lambda line: say(f"{line} …")))
    if output is not None:
        packages = ("guard-eval", "numpy", "scipy", "matplotlib")
        facts = {"Python": platform.python_version(), **{name: version(name) for name in packages}}
        page.write(found, output, facts=facts)
    return found


def show_power(
    pilot: Path | None,
    *,
    raters: str,
    items: str | None,
    output: Path | None,
    as_json: bool,
    margin: float | None = None,
    judge_r: float | None = None,
    human_pairs: str = "",
    judge_pairs: str = "",
    prices: tuple[float | None, float | None] = (None, None),
    **options: Any,  # noqa: ANN401 (fields of PlanningQuestion)
) -> None:
    """Answer the question of the command line's options, those left out taken from a pilot or the default.

    Raises:
        StudyError: The pilot cannot be read, or as for `power`.
    """
    known = {name: value for name, value in options.items() if value is not None}
    if pilot is not None:
        row, count = _pilot(pilot, options["agreement"], quiet=as_json)
        taken = {"ties": row.ties, "criteria": count}
        if row.kappa.value is not None:
            taken["agreement"] = max(0.0, row.kappa.value)
        known = {**taken, **known}
    question = PlanningQuestion(
        raters=_numbers("--raters", raters),
        items=() if items is None else _numbers("--items", items),
        **known,
    )
    if margin is not None:
        _show_equivalence(question, margin, items, output, judge_r, as_json=as_json)
        return
    if judge_r is not None:
        if output is not None:
            raise StudyError(f"--output {output} is a curve of people alone; leave it out with --judge-r")
        pairs = _numbers("--human-pairs", human_pairs), _numbers("--judge-pairs", judge_pairs)
        _show_mixtures(question, judge_r, *pairs, prices, as_json=as_json)
        return
    found = power(question, output=output, quiet=as_json)
    if as_json:
        typer.echo(page.as_json(found))
    else:
        _show(found, output)


def _show_equivalence(
    question: PlanningQuestion,
    margin: float,
    items: str | None,
    output: Path | None,
    judge_r: float | None,
    *,
    as_json: bool,
) -> None:
    others = {"--judge-r": judge_r, "--rater-sd": question.rater_sd, "--items": items, "--output": output}
    if first := next((name for name, value in others.items() if value is not None), None):
        raise StudyError(f"--margin plans a claim of equivalence by these raters alone; leave {first} out")
    found = equivalence_needs(question, margin, progress=lambda line: None if as_json else say(f"{line} …"))
    answer = equivalence_answer(question, margin, found)
    if as_json:
        rows = [asdict(need) for need in found]
        typer.echo(json.dumps({"answer": answer, "margin": margin, "needs": rows}, indent=1))
        return
    say(f"\n{answer}")
    table = equivalence_table(question, margin, found)
    say(f"\n{table.caption}")
    say_table(table.columns, [[str(cell) for cell in row] for row in table.rows])
    say(table.note)
    say_next("guard-eval new my-study   (equivalence_margin is under [analysis] in its study.toml)")


def _show_mixtures(
    question: PlanningQuestion,
    r: float,
    human_pairs: Sequence[int],
    judge_pairs: Sequence[int],
    prices: tuple[float | None, float | None],
    *,
    as_json: bool,
) -> None:
    found = mixtures(
        question,
        r,
        human_pairs=human_pairs,
        judge_pairs=judge_pairs,
        rating_price=prices[0],
        judgment_price=prices[1],
    )
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found], indent=1))
        return
    table = mixture_table(question, r, found)
    say(f"\n{table.caption}")
    say_table(table.columns, [[str(cell) for cell in row] for row in table.rows])
    say(table.note)
    say_next("guard-eval new my-study   (human_pairs is in [pairs] of its study.toml)")


def _show(found: PowerPlan, output: Path | None) -> None:
    say(f"\n{page.answer(found)}")
    for table in page.tables(found, narrow=True):
        say(f"\n{table.caption}")
        say_table(table.columns, [[str(cell) for cell in row] for row in table.rows])
        say(table.note)
    for note in found.notes:
        say(f"note: {note}")
    if output is not None:
        say(f"\ncurve: {output}")
    say_next("guard-eval new my-study   (per_dataset and raters_per_pair are in its study.toml)")


def _numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers in a list with commas, each once and in order."""
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise StudyError(f"{option} {text!r}: give whole numbers with commas, such as 1,3,5") from None


def _pilot(source: Path, kappa: float | None, *, quiet: bool) -> tuple[PilotRow, int]:
    """Return the pilot's most demanding criterion, and how many criteria it has; show all of them."""
    rows = pilot_rows(_verdicts(source))
    chosen = most_demanding(rows, agreement=PlanningQuestion().agreement if kappa is None else kappa)
    if not quiet:
        say(f"pilot: {source}")
        say_table(
            ("Criterion", "Pairs", "Raters", "Ties", "κ", "Interval"),
            [(row.name, str(row.items), str(row.raters), f"{row.ties:.2f}", *_kappa(row)) for row in rows],
        )
        if any(row.units < row.items for row in rows):
            say("pairs of one prompt say less than pairs of different ones; the items below are of different")
        say(f"planned with: {chosen.name}, which takes the most items\n")
    return chosen, len({row.criterion for row in rows})


def _kappa(row: PilotRow) -> tuple[str, str]:
    found = row.kappa
    if found.value is None:
        return "–", found.note
    if found.low is None or found.high is None:
        return f"{found.value:.2f}", ""
    return f"{found.value:.2f}", f"{found.low:.2f} to {found.high:.2f}"


def _verdicts(source: Path) -> pd.DataFrame:
    if not source.is_dir():
        return read(source)
    return study_verdicts(Study.open(source))
