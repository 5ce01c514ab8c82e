"""Read a table of verdicts: return the counted outcomes, or the message of the refusal."""

import pandas as pd
import pytest

import analysis
from guard_eval.errors import StudyError

AB = {"model_a": "alpha", "model_b": "beta"}


def items(count, **columns):
    """Return a table of numbered items. Lists of cells repeat; other values are in all rows."""
    table = pd.DataFrame({"item": range(count), **AB})
    for name, cells in columns.items():
        is_list = isinstance(cells, list | tuple)
        table[name] = [cells[n % len(cells)] for n in range(count)] if is_list else cells
    return table


def by_raters(table, raters="xyz"):
    """Return the rows of a table once for each rater."""
    return pd.concat([table.assign(rater=rater) for rater in raters], ignore_index=True)


def counts(table, **declared):
    """Return wins, ties, losses and the number of independent units of the table's only result."""
    [row] = analysis.shares(table, rater_kind="person", **declared).itertuples()
    return f"{row.wins}/{row.ties}/{row.losses}", row.units


def refusal(table, **declared):
    """Return the error message for a table that is refused."""
    with pytest.raises(StudyError) as error:
        analysis.read(table, **declared)
    return str(error.value)


def counts_or_offer(table, offer):
    """Return the counted outcomes, or None if the table is refused with this offer in the message."""
    try:
        return counts(table)
    except StudyError as error:
        assert offer in str(error)  # noqa: PT017 (either will do)
        return None


def write_tables(folder, **tables):
    """Write each table as a CSV file with its name. Return the paths of the files."""
    for name, table in tables.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    return [folder / f"{name}.csv" for name in tables]
