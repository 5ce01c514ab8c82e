"""`guard-eval power`: how many items and raters a study needs, before there is one."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import say, say_next, say_remarks, say_table

if TYPE_CHECKING:
    import pandas as pd

    from analysis.planning.pilot import PilotRow
    from analysis.planning.power import PowerPlan
    from guard_eval.reporting.tables import Table

TIES, AGREEMENT = 0.32, 0.41
"""Of the paper's human study: ties on coherence, and its κ."""


class ModelName(StrEnum):
    """How verdicts come about."""

    DIRICHLET = "dirichlet"
    LATENT = "latent"


def command(
    share: Annotated[
        float, typer.Option(help="The smallest win share worth finding, ties counting half.")
    ] = 0.55,
    ties: Annotated[
        float | None,
        typer.Option(help="Share of ties among the verdicts; default: the pilot's, else 0.32 (the paper's)."),
    ] = None,
    kappa: Annotated[
        float | None,
        typer.Option(help="Fleiss' κ of the raters; default: the pilot's, else 0.41 (the paper's)."),
    ] = None,
    criteria: Annotated[
        int | None,
        typer.Option(help="Criteria that Holm's correction runs over; default: the pilot's, else 1."),
    ] = None,
    correlation: Annotated[
        float, typer.Option(help="How far the criteria repeat each other, from 0 to 1.")
    ] = 0.0,
    alpha: Annotated[float, typer.Option(help="Error rate, two-sided.")] = 0.05,
    power: Annotated[float, typer.Option(help="The power wanted.")] = 0.8,
    raters: Annotated[
        str | None,
        typer.Option(
            help="Numbers of raters per item, with commas; default: 1,2,3,4,5, or 3,5,10,20 (below)."
        ),
    ] = None,
    rater_sd: Annotated[
        float | None,
        typer.Option(
            help="Plan for raters like these too, whose own win shares have this standard deviation: 0.05 is "
            "moderate, 0.1 large; a report states it under Sensitivity."
        ),
    ] = None,
    items: Annotated[
        str | None, typer.Option(help="Numbers of items to tabulate, with commas; default: around the need.")
    ] = None,
    pilot: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="STUDY|VERDICTS.csv", help="Take ties, κ and criteria from a pilot's verdicts."
        ),
    ] = None,
    model: Annotated[
        ModelName,
        typer.Option(
            help="How verdicts come about (see docs/planning.md); the other one is shown beside it."
        ),
    ] = ModelName.LATENT,
    studies: Annotated[int, typer.Option(help="Studies to simulate.")] = 4000,
    seed: Annotated[int, typer.Option(help="Of the simulation; the same seed gives the same figures.")] = 1,
    output: Annotated[
        Path | None,
        typer.Option(help="Write the curve: .html (with the tables), .svg, .png or .pdf."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print every number as JSON and nothing else.")
    ] = False,
) -> None:
    """Find out how many items and raters a study needs.

    Studies with a known difference are simulated and tested as the report tests them: exact sign-flip
    test on item means, Holm's correction over the criteria. Shown are the power of each size, the fewest
    items with the power wanted for each number of raters, what they cost in verdicts, and how many items
    the test takes that may be looked at after every item.

    Can 55 % be distinguished from 50 % where a third of the verdicts are ties, on two criteria?

        guard-eval power --share 0.55 --ties 0.32 --kappa 0.41 --criteria 2 --raters 3,5 --output power.html
    """
    from analysis.planning.question import PlanningQuestion, check

    known = None if pilot is None else _pilot(pilot, kappa, quiet=as_json)
    if known is not None:
        row, count = known
        ties = row.ties if ties is None else ties
        if kappa is None and row.kappa.value is not None:
            kappa = max(0.0, row.kappa.value)
        criteria = count if criteria is None else criteria
    question = PlanningQuestion(
        share=share,
        ties=TIES if ties is None else ties,
        agreement=AGREEMENT if kappa is None else kappa,
        criteria=1 if criteria is None else criteria,
        correlation=correlation,
        alpha=alpha,
        wanted=power,
        raters=_numbers("--raters", raters or ("1,2,3,4,5" if rater_sd is None else "3,5,10,20")),
        rater_sd=rater_sd,
        items=() if items is None else _numbers("--items", items),
        model="latent normal" if model is ModelName.LATENT else "Dirichlet-multinomial",
        studies=studies,
        seed=seed,
    )
    check(question)

    from analysis.planning import page
    from analysis.planning.power import plan

    if output is not None:
        page.check_ending(output)
    found = plan(question, progress=(lambda _: None) if as_json else (lambda line: say(f"{line} …")))
    if output is not None:
        page.write(found, output, facts=_facts())
    if as_json:
        typer.echo(page.as_json(found))
        return
    _show(found, output)


def _show(found: PowerPlan, output: Path | None) -> None:
    from analysis.planning import page

    say(f"\n{page.answer(found)}")
    for table in page.tables(found, narrow=True):
        _say_table(table)
    for note in found.notes:
        say(f"note: {note}")
    if output is not None:
        say(f"\ncurve: {output}")
    say_next("guard-eval new my-study   (per_dataset and raters_per_pair are in its study.toml)")


def _say_table(table: Table) -> None:
    say(f"\n{table.caption}")
    say_table(table.columns, [[str(cell) for cell in row] for row in table.rows])
    say(table.note)


def _numbers(option: str, text: str) -> tuple[int, ...]:
    """Return the whole numbers in a list with commas, each once and in order."""
    from guard_eval.errors import StudyError

    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        raise StudyError(f"{option} {text!r}: give whole numbers with commas, such as 1,3,5") from None


def _pilot(source: Path, kappa: float | None, *, quiet: bool) -> tuple[PilotRow, int]:
    """Return the pilot's most demanding criterion, and how many criteria it has; show all of them."""
    from analysis.planning.pilot import most_demanding, pilot_rows

    rows = pilot_rows(_verdicts(source))
    chosen = most_demanding(rows, agreement=AGREEMENT if kappa is None else kappa)
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
        return "–", found.reason
    if found.low is None or found.high is None:
        return f"{found.value:.2f}", ""
    return f"{found.value:.2f}", f"{found.low:.2f} to {found.high:.2f}"


def _verdicts(source: Path) -> pd.DataFrame:
    """Return the verdicts of a study or of a table."""
    from dataclasses import asdict

    import pandas as pd

    from analysis.verdicts.tidy import read, validate
    from guard_eval.errors import StudyError
    from guard_eval.store import Store
    from guard_eval.study.folder import Study

    if not source.is_dir():
        verdicts = read(source)
        say_remarks(verdicts)
        return verdicts
    study = Study.open(source)
    with Store.open(study.database, study_hash=study.hash) as store:
        rows = store.tidy()
    if not rows:
        raise StudyError(f"{source} has no verdicts to plan from; give --ties and --kappa instead of --from")
    return validate(pd.DataFrame([asdict(row) for row in rows]))


def _facts() -> dict[str, str]:
    import platform
    from importlib.metadata import version

    packages = ("guard-eval", "numpy", "scipy", "matplotlib")
    return {"Python": platform.python_version(), **{name: version(name) for name in packages}}
