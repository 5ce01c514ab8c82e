"""`guard-eval audit`: whether published percentages can be what they are said to be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from guard_eval.cli.console import say, say_table

if TYPE_CHECKING:
    from analysis.published import PublishedRow, PublishedTable

SIZES = 5
"""Fitting numbers of verdicts named in a line."""


def command(
    table: Annotated[
        Path, typer.Argument(metavar="TABLE.csv", help="Percentages as printed, with a header.")
    ],
    n: Annotated[str, typer.Option(help="Verdicts a row rests on, or the column that says it.")],
    columns: Annotated[
        str, typer.Option(help="Columns of percentages, with commas; default: all of numbers 0 to 100.")
    ] = "",
    decimals: Annotated[
        int | None, typer.Option(min=0, max=12, help="Decimals printed; default: as in the file.")
    ] = None,
    separate: Annotated[
        bool, typer.Option("--separate", help="A row's cells need not sum to 100 %.")
    ] = False,
    split_ties: Annotated[
        bool, typer.Option("--split-ties", help="A tie counts half for either method.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The largest n to try.")] = 1000,
) -> None:
    """Check published percentages against the number of verdicts (GRIM; Brown and Heathers 2017).

    A share of n verdicts moves in steps of 1/n: some printed percentages no count can give. Says which, the
    nearest that a count gives, and which n would fit. A finding leaves the exit code 0: what the table says
    of itself is no error of this program.
    """
    from analysis.published import read_published

    names = tuple(name.strip() for name in columns.split(",") if name.strip())
    found = read_published(
        table,
        n=n,
        columns=names,
        decimals=decimals,
        whole=not separate,
        half_steps=split_ties,
        limit=limit,
    )
    _say(found)


def _say(found: PublishedTable) -> None:
    unit = "shares, read as percentages" if found.shares else "percentages"
    say(f"{len(found.rows)} row(s) of {unit}: {', '.join(found.columns)}; {found.decimals} decimal(s)\n")
    say_table(
        ["line", "row", "printed", "n", "at that n", "n that fit"],
        [
            [
                str(row.line),
                row.name,
                " / ".join(format(cell, "f") for cell in row.printed),
                str(row.n),
                _verdict(row),
                _sizes(row.fits),
            ]
            for row in found.rows
        ],
    )
    impossible = len(found.impossible)
    say(f"\n{impossible} of {len(found.rows)} rows cannot be shares of the n stated.")
    if any(row.totals is False for row in found.rows):
        say("Where a row's cells are no parts of one whole, add --separate.")
    if len(found.rows) > 1:
        say(f"n that fit every row, up to {found.limit}: {_sizes(found.fits)}")
    if any(not row.grim.informative for row in found.rows):
        say(
            "At an n whose steps are finer than the rounding every percentage is possible: "
            "then this says nothing."
        )


def _verdict(row: PublishedRow) -> str:
    wrong = [cell for cell in row.grim.cells if not cell.possible]
    parts = [f"{cell.percentage} impossible, nearest {cell.nearest}" for cell in wrong]
    if row.totals is False:
        parts.append(f"total {row.total:f}, not 100")
    elif row.grim.sums is False and not wrong:
        parts.append("no counts that give these sum to n")
    if parts:
        return "; ".join(parts)
    return "possible" if row.grim.informative else "possible, as any would be"


def _sizes(fits: tuple[int, ...]) -> str:
    if not fits:
        return "none"
    more = f" and {len(fits) - SIZES} more" if len(fits) > SIZES else ""
    return ", ".join(str(size) for size in fits[:SIZES]) + more
