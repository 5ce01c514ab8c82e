"""What a table of verdicts is read as: its counted outcomes, or the message of the refusal."""

import pytest

import analysis
from guard_eval.errors import StudyError

AB = {"model_a": "alpha", "model_b": "beta"}


def counts(table, **declared):
    """Return wins, ties and losses of the table's one result, and its number of independent units."""
    [row] = analysis.shares(table, rater_kind="person", **declared).itertuples()
    return f"{row.wins}/{row.ties}/{row.losses}", row.units


def refusal(table, **declared):
    """Return the message of the error with which a table is refused."""
    with pytest.raises(StudyError) as error:
        analysis.read(table, **declared)
    return str(error.value)
