"""`guard-eval power`: how many items and raters a study needs, before there is one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from guard_eval.cli import commands


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
    margin: Annotated[
        float | None,
        typer.Option(
            help="Plan a claim of equivalence instead: that a win share is within this distance of one half, "
            "such as 0.05, where it is one half; --share is not used."
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
        Literal["dirichlet", "latent"],
        typer.Option(
            help="How verdicts come about (see docs/planning.md); the other one is shown beside it."
        ),
    ] = "latent",
    studies: Annotated[int, typer.Option(help="Studies to simulate.")] = 4000,
    seed: Annotated[int, typer.Option(help="Of the simulation; the same seed gives the same figures.")] = 1,
    judge_r: Annotated[
        float | None,
        typer.Option(
            help="Plan people assisted by a judge, whose verdict on a pair has this correlation with "
            "people's mean (a report states it); docs/assisted.md."
        ),
    ] = None,
    human_pairs: Annotated[
        str, typer.Option(help="With --judge-r: numbers of pairs that people rate, with commas.")
    ] = "40,80,150,300",
    judge_pairs: Annotated[
        str, typer.Option(help="With --judge-r: numbers of pairs that the judge judges, with commas.")
    ] = "1000",
    rating_price: Annotated[
        float | None, typer.Option(help="With --judge-r: what a person's rating of a pair costs.")
    ] = None,
    judgment_price: Annotated[
        float | None, typer.Option(help="With --judge-r: what a judge's verdict on a pair costs.")
    ] = None,
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
    commands.show_power(
        pilot,
        judge_r=judge_r,
        human_pairs=human_pairs,
        judge_pairs=judge_pairs,
        prices=(rating_price, judgment_price),
        share=share,
        ties=ties,
        agreement=kappa,
        criteria=criteria,
        correlation=correlation,
        alpha=alpha,
        wanted=power,
        raters=raters or ("3" if judge_r is not None else "1,2,3,4,5" if rater_sd is None else "3,5,10,20"),
        rater_sd=rater_sd,
        margin=margin,
        items=items,
        model="latent normal" if model == "latent" else "Dirichlet-multinomial",
        studies=studies,
        seed=seed,
        output=output,
        as_json=as_json,
    )
