"""Find the rater of each verdict, and the verdicts of repeated showings of a pair."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import pandas as pd

from analysis.verdicts.layout import Mask, name_lines
from analysis.verdicts.table import HEADINGS, UNKNOWN_RATER, Table, plain_heading
from analysis.verdicts.words import is_model_name
from guard_eval.errors import StudyError


def use_judges(table: Table) -> None:
    """Set the kind of raters to models if the heading means judges and all names are names of models."""
    heading = table.heading("rater")
    is_said = table.has("rater_kind") or table.declared.rater_kind is not None
    if is_said or not plain_heading(heading).startswith("judge"):
        return
    if all(map(is_model_name, table.values("rater"))):
        table.use("rater_kind", (heading,), "judges with names of models", rater_kind="model")


def settle_raters(table: Table) -> None:
    """Find the rater of each verdict, and the verdicts of repeated showings of a pair.

    Raises:
        StudyError: A pair has several verdicts, and nothing says whose they are.
    """
    keys = ["pair_id", "criterion"]
    if table.has("rater"):
        if not table.has("presentation"):
            _use_showings(table, [*keys, "rater"])
    elif "rater" in table.declared.columns:
        codes = pd.Series(table.pair_codes(*keys))
        raters = [f"{UNKNOWN_RATER} {number + 1}" for number in codes.groupby(codes).cumcount()]
        why = "declared: each verdict on a pair is by another, unnamed rater"
        table.use("rater", (), why, rater=raters)
    else:
        _use_showings(table, keys)
        why = f"the table has none: all verdicts are by {UNKNOWN_RATER!r}"
        table.use("rater", (), why, rater=UNKNOWN_RATER)


def _is_repeated(table: Table, *names: str) -> Mask:
    """Return the rows that share their methods and the cells of some columns with another row."""
    return pd.Series(table.pair_codes(*names)).duplicated(keep=False).to_numpy()


def _use_showings(table: Table, keys: Sequence[str]) -> None:
    """Use repeated verdicts as showings of a pair, if a column or the order of methods tells them apart.

    Raises:
        StudyError: Nothing does.
    """

    def is_parting(*names: str) -> bool:
        return not _is_repeated(table, *keys, *names).any()

    # Ids that repeat in several datasets are refused later.
    if is_parting() or (table.has("dataset") and is_parting("dataset")):
        return
    if named := list(filter(is_parting, table.named("presentation"))):
        why = "it tells apart the showings of a pair"
        table.use("presentation", named[:1], why, presentation=table.frame[named[0]])
    elif is_parting("method_a"):
        first = table.cells("method_a") + " first"
        table.use("presentation", (), "a rater judged both orders of the methods", presentation=first)
    else:
        raise StudyError(_repetition_problem(table, keys, list(filter(is_parting, table.free))))


def _repetition_problem(table: Table, keys: Sequence[str], parting: Sequence[str]) -> str:
    """Return how to declare why a pair has several verdicts.

    Args:
        table: The table.
        keys: The columns in which verdicts are the same.
        parting: Columns that distinguish all of them.
    """
    repeated = _is_repeated(table, *keys)
    who = "pairs have several verdicts, and no column is known to name the rater"
    roles = ["rater"]
    if table.has("rater"):
        rater, pair = table.frame[["rater", "pair_id"]].iloc[int(repeated.argmax())]
        who = f"rater {rater!r} judged pair {pair!r} more than once"
        roles = ["criterion", "presentation"]
    offers = []
    for name in parting:
        if 1 < table.count(name) < len(table.frame):
            is_turn = plain_heading(name) in HEADINGS["turns"]
            settings = [f"columns.{role}={name}" for role in (["criterion"] if is_turn else roles)]
            offers += [f"--set {shlex.quote(setting)}" for setting in settings]
    if not table.has("rater"):
        offers.append("--set columns.rater= if the raters were not recorded")
    remedy = f"say what tells them apart: {' or '.join(offers)}" if offers else "keep the current verdict"
    return f"{who} ({name_lines(repeated, table.frame.index)}); {remedy}"
