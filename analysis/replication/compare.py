"""Compute our figures for a table of the paper, and compare them with the paper's figures.

Our figures come from metrics, verdicts, or counts of verdicts.

Each row is a figure: its key (`dataset`, `strategy`, `versus`, `metric`), the value (`ours`), the limits and
the number. `is_exact` means that our figure must equal the paper's, because both come from the same counts.
"""

import functools
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.replication.paper import MARKS, WHO, find_paper_dataset
from analysis.scores.scores import score_raters
from analysis.verdicts.checks import check_verdicts
from guard_eval.errors import StudyError
from guard_eval.estimate import divide_sums, jackknife
from guard_eval.files.opening import LARGEST_TEXT, read_bytes
from guard_eval.generation.strategies import parse
from guard_eval.metrics.scores import OVERALL
from guard_eval.records import SIMULATED
from guard_eval.reporting.escaping import NOTHING
from guard_eval.reporting.tables import Table

_SUBJECT = ["dataset", "strategy", "versus", "criterion"]
KEYS = ["dataset", "strategy", "versus", "metric"]
"""The columns that identify a figure, together with the model."""
_OURS = [*KEYS, "ours", "low", "high", "n", "is_exact"]


def convert_scores_to_figures(scores: pd.DataFrame) -> pd.DataFrame:
    """Convert a study's metric scores to our figures, with the names that the paper gives to the datasets."""
    is_shown = scores["value"].notna() & (scores["dataset"] != OVERALL)
    ours = scores[is_shown].rename(columns={"value": "ours"})
    datasets = ours["dataset"].map(find_paper_dataset)
    return ours.assign(dataset=datasets, versus="", is_exact=False)


def compute_figures_of_verdicts(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Return shares of wins and ties in percent, by criterion and dataset, of people and of judges.

    A rater who saw a pair twice, such as a judge in both orders, has one answer for the pair. Intervals are
    over prompts, or over pairs if prompts are unknown. Simulated raters count only if there are no others. If
    people and judges both rated, `agree` says whether they prefer the same strategy.

    Args:
        verdicts: A validated table; methods and datasets may have the paper's names or ours.
    """
    is_simulated = verdicts["rater_kind"].isin(SIMULATED)
    table = verdicts if is_simulated.all() else verdicts[~is_simulated]
    table = table.astype(object)
    names = {
        name: table[name].map(_convert_method_to_signature) for name in ("method_a", "method_b", "verdict")
    }
    names["dataset"] = table["dataset"].map(find_paper_dataset)
    scores = score_raters(check_verdicts(table.assign(**names)))
    counts = scores.rename(columns={"method_a": "first", "method_b": "second"}).assign(
        who=scores["rater_kind"].map(WHO),
        wins=(scores["net"] > 0).astype(int),
        ties=(scores["net"] == 0).astype(int),
        losses=(scores["net"] < 0).astype(int),
    )
    shares = _compute_win_and_tie_shares(pd.concat([counts, counts.assign(criterion="overall")]))
    return pd.concat([shares.assign(is_exact=False), _compare_people_with_judges(shares)])


def _compute_win_and_tie_shares(counts: pd.DataFrame) -> pd.DataFrame:
    """Return the shares of wins, of ties, and of wins plus half the ties, in percent, for both strategies.

    Args:
        counts: The first strategy's wins, ties and losses, by kind of rater, strategies, dataset, criterion
            and unit.
    """
    swapped = {"first": "second", "second": "first", "wins": "losses", "losses": "wins"}
    both = pd.concat([counts, counts.rename(columns=swapped)])
    both = pd.concat([both.assign(dataset="All"), both]).astype({"criterion": object})
    both = both.assign(
        judged=both["wins"] + both["ties"] + both["losses"],
        win=100 * both["wins"],
        tie=100 * both["ties"],
        share=100 * both["wins"] + 50 * both["ties"],
    )
    keys = ["who", "first", "second", "dataset", "criterion"]
    figures = []
    for (who, *subject, criterion), rows in both[both["judged"] > 0].groupby(keys, sort=False):
        units = rows.groupby("unit", sort=False)[["win", "tie", "share", "judged"]].sum()
        n = int(units["judged"].sum())
        for what in ("win", "tie", "share"):
            share = jackknife(units[[what, "judged"]], divide_sums, bounds=(0.0, 100.0))
            metric = f"{who}.{criterion}.{what}"
            figures.append((who, *subject, criterion, what, metric, share.value, share.low, share.high, n))
    names = ["who", "strategy", "versus", "dataset", "criterion", "what", "metric"]
    return pd.DataFrame(figures, columns=[*names, "ours", "low", "high", "n"])


def _compare_people_with_judges(shares: pd.DataFrame) -> pd.DataFrame:
    """Return whether people and judges prefer the same strategy, if both gave verdicts."""
    leads = shares[shares["what"] == "share"].assign(lead=shares["ours"] - 50)
    people = leads[leads["who"] == "people"]
    judge = leads[leads["who"] == "judge"]
    both = people.merge(judge[[*_SUBJECT, "lead"]], on=_SUBJECT)
    same = both["lead_x"] * both["lead_y"] > 0
    metric = "both." + both["criterion"] + ".agree"
    return both.assign(
        metric=metric,
        ours=same * 1.0,
        low=None,
        high=None,
        n=None,
        is_exact=True,
    )


def read_shares_from_counts(path: Path, *, raters: str) -> pd.DataFrame | None:
    """Read exact shares in percent from a CSV file of counts. Return None if the file has no counts.

    The columns are dataset, criterion, ties, and NAME_wins for each of two strategies. Counts do not say
    which ratings belong to the same pair, so intervals cannot be computed.

    Args:
        path: The file.
        raters: `people` or `judge`.

    Raises:
        StudyError: A count is not a whole number, or there are not two strategies.
    """
    try:
        data = BytesIO(read_bytes(path, limit=LARGEST_TEXT))
        table = pd.read_csv(data, encoding="utf-8-sig")
    except (OSError, ValueError):
        return None  # the reader of verdicts reports the error
    if not {"dataset", "criterion", "ties"} <= set(table):
        return None
    wins = [name for name in map(str, table) if name.endswith("_wins")]
    numbers = table[["ties", *wins]]
    are_counts = set(numbers.dtypes) == {np.dtype(int)} and (numbers >= 0).to_numpy().all()
    if len(wins) != 2 or not are_counts:
        raise StudyError(
            f"{path} has no counts for two strategies (found: {', '.join(wins) or 'none'}). It needs the "
            "columns dataset and criterion, and whole numbers in ties and in NAME_wins for both strategies"
        )
    first, second = (_convert_method_to_signature(name.removesuffix("_wins")) for name in wins)
    counts = table.rename(columns={wins[0]: "wins", wins[1]: "losses"})
    datasets = counts["dataset"].map(find_paper_dataset)
    counts = counts.assign(
        who=raters,
        first=first,
        second=second,
        dataset=datasets,
        unit=datasets,
    )
    return _compute_win_and_tie_shares(counts).assign(low=None, high=None, is_exact=True)


@functools.cache
def _convert_method_to_signature(method: str) -> str:
    """Return the signature of a strategy, or the name of any other method.

    >>> [_convert_method_to_signature(name) for name in ("GUARD", "ACS", "Top-k", "tie")]
    ['guard', 'acs(q=1)', 'top_k(k=50)', 'tie']
    """
    try:
        return str(parse(method.lower().replace("-", "_")))
    except StudyError:
        return method


def compare_figures_with_paper(
    paper_figures: pd.DataFrame, our_figures: pd.DataFrame, differences: Sequence[str] = ()
) -> pd.DataFrame:
    """Return the paper's figures with ours, the state of each figure, and our figure as text (`cell`).

    A printed figure is rounded. The figure counts as inside our interval if any number that rounds to this
    figure is inside.

    Args:
        paper_figures: The paper's figures (`published`).
        our_figures: Our figures.
        differences: The differences from the paper's setting. If there are any, no figure is compared.
    """
    compared = paper_figures.merge(our_figures[_OURS].astype({"n": "Int64"}), how="left", on=KEYS)
    value, low, high = (compared[name].astype(float) for name in ("ours", "low", "high"))
    number = compared["number"]
    half_unit = compared["half_unit"]
    states = {
        "not run": value.isna(),
        "other setting": pd.Series(bool(differences), index=compared.index),
        # 47.5 may be printed as 47 or as 48
        "same": low.isna() & ((value - number).abs() <= half_unit * (1 + 1e-9)),
        "differs": low.isna() & compared["is_exact"].eq(other=True),
        "no interval": low.isna(),
        "above": low > number + half_unit,
        "below": high < number - half_unit,
    }
    compared["state"] = np.select(list(states.values()), list(states), default="inside")
    return compared.assign(cell=[_format_figure(figure) for _, figure in compared.iterrows()])


def _format_figure(figure: pd.Series) -> str:
    """Format one of our figures with its mark and limits, with as many decimals as the paper's figure."""
    ours = figure["ours"]
    if pd.isna(ours):
        return NOTHING
    decimals = max(figure["decimals"], 1 if "." in figure["metric"] else 2)
    text = f"{ours:.{decimals}f}"
    if figure["metric"].endswith(".agree"):
        text = "yes" if ours else "no"
    mark, _ = MARKS.get(figure["state"], ("", ""))
    limits = ""
    if not pd.isna(figure["low"]):
        limits = f"[{figure['low']:.{decimals}f}, {figure['high']:.{decimals}f}]"
    return " ".join(filter(None, (text, mark, limits)))


def make_comparison_tables(compared: pd.DataFrame) -> tuple[Table, ...]:
    """Make a table of the paper's figures and ours for each group of the paper's columns.

    Rows and columns without any of our figures are left out.
    """
    block = compared["block"].where(compared["block"] == "", compared["block"] + ", ")
    compared = compared.assign(row=block + compared["row"])
    tables = []
    nothing = (NOTHING, NOTHING)
    for group, figures in compared[compared["ours"].notna()].groupby("group", sort=False):
        columns = figures["column"].unique()
        cells = {(figure.row, figure.column): (figure.value, figure.cell) for figure in figures.itertuples()}
        rows = [
            (row, *(text for column in columns for text in cells.get((row, column), nothing)))
            for row in figures["row"].unique()
        ]
        heads = (head for column in columns for head in (f"{column}, paper", "ours"))
        caption = str(group) or "Paper and ours"
        tables.append(Table(columns=("", *heads), rows=tuple(rows), caption=caption))
    return tuple(tables)


def explain_comparison_marks(compared: pd.DataFrame) -> str:
    """Explain the marks in the table, and count the paper's figures inside our intervals."""
    tested = compared[compared["state"].isin(["inside", "above", "below"])]
    count = (
        f"{(tested['state'] == 'inside').sum()} of {len(tested)} of the paper's figures lie within our "
        "intervals"
    )
    marks = "; ".join(" ".join(MARKS[state]) for state in compared["state"].unique() if state in MARKS)
    return ". ".join(filter(None, (count if len(tested) else "", marks)))
