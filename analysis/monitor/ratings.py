"""How far the raters of a running study are, and which of them should be looked at.

Nothing here says which method is ahead: people who look at that while verdicts come in, and stop when they
like what they see, find differences that are not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

from analysis.stats.agreement import RatingCounts, fleiss_kappa, raw_agreement
from analysis.stats.proportion import unit_proportion
from guard_eval.records import RaterKind
from guard_eval.store import RaterProgress, Store, notes
from guard_eval.store import pairs as store_pairs
from guard_eval.store.notes import Note
from guard_eval.store.rounds import is_playing
from guard_eval.store.slots import POOLS
from guard_eval.store.unblind import NamedRows, read_choices, read_pairs, read_presentations

READING = 71.0
"""Characters a second. People read 238 words a minute silently (Brysbaert 2019), 24 characters a second with
six of them to a word; this is three times as much."""

FAST_PAIRS = 5
"""A rater is fast who took less time than reading takes on more than half of at least so many pairs."""

RARE = 0.001
"""A favourite answer or side is flagged where chance gives it to fewer raters than this share."""

GOLD_FAILED = 2
"""A rater is flagged who failed at least so many gold answers, and half of them."""

LEVEL = 0.95
"""The confidence level of intervals."""

MEANINGS = {
    "fast": "more than half of the pairs in less time than reading at three times the usual speed takes",
    "same answer": "one answer so often as fewer than 1 in 1000 would give it at the other raters' rate",
    "gold": "failed at least two gold answers, and half of them",
    "one side": "prefers one side more than fewer than one rater in 1000 would by chance",
    "failed the check": "did not pass the comprehension check in two attempts",
}
"""The flags: why a rater should be looked at. None is a reason to exclude, which a person decides."""

LETTERS = {1: "A", 0: "tie", -1: "B"}
_CHOICE = ["presentation", "criterion"]
_NOTE = [column.name for column in fields(Note)]
_REMARK = ["when", "rater", "prompt_id", "kind", "text"]
_TYPES: dict[str, type | str] = {
    "presentation": int,
    "revision": int,
    "letter": int,
    "side_of_a": int,
    "seconds": float,
    "characters": int,
    "surplus": bool,
    "excluded": bool,
    "for_people": bool,
    "role": "category",
    "criterion": "category",
    "method_a": "category",
    "method_b": "category",
}
"""Types of columns; the others are text. Categories are looked up and grouped faster than text."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Ratings:
    """The ratings of a running study.

    Attributes:
        rater_kind: Whose they are: people's, or simulated raters' if there are no people.
        pairs: The study's pairs, those for judges alone too.
        slots: Ratings that are wanted of each.
        wanted: Ratings that are wanted in all.
        counted: Those that exist and count.
        surplus: Ratings that came too late to count.
        excluded: Ratings of excluded raters.
        filled: How many pairs have 0, 1, … `slots` ratings.
        seconds: Median seconds of active time for a pair; None if not recorded.
        criteria: By comparison and criterion: `verdicts`, `ties`, `same` (two raters of a pair who say the
            same), Fleiss' κ (`kappa`) and `first`, the share of A among verdicts that are no ties.
        raters: By rater: pace, agreement, sides, checks and `flags`.
        remarks: Comments, problems and reasons of skips that were not taken back, newest first.
        lacking: By criterion that people are asked now, how many ratings have no verdict on it.
        often_skipped: How many pairs were skipped by so many raters that no new one gets them.
    """

    rater_kind: RaterKind
    pairs: int
    slots: int
    wanted: int
    counted: int
    surplus: int
    excluded: int
    filled: tuple[int, ...]
    seconds: float | None
    criteria: pd.DataFrame
    raters: pd.DataFrame
    remarks: pd.DataFrame = field(repr=False)
    often_skipped: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """Return how many ratings are missing."""
        return sum((self.slots - number) * pairs for number, pairs in enumerate(self.filled))


def read_ratings(
    store: Store,
    raters: Sequence[RaterProgress],
    *,
    slots: int,
    most_skips: int,
    criteria: Sequence[str] = (),
) -> Ratings:
    """Return the ratings of a study.

    Args:
        store: The study's database.
        raters: All raters.
        slots: Ratings that are wanted of each pair.
        most_skips: A pair that so many raters skipped is given to no new rater.
        criteria: What people are asked now.
    """
    kinds = {rater.kind for rater in raters}
    kind: RaterKind = "simulated" if "simulated" in kinds and "person" not in kinds else "person"
    with store.read() as db:
        playing = is_playing(db, POOLS[kind])
    pairs = _frame(read_pairs(store, playing))
    pairs["item"] = np.arange(len(pairs))
    of_pair = pairs.set_index("pair_id")[["item", "method_a", "method_b", "characters"]]
    shown = _frame(read_presentations(store, kind)).join(of_pair, on="pair_id")
    letters = _frame(read_choices(store)).sort_values(["presentation", "criterion", "revision"])
    choices = letters.merge(shown, on="presentation")
    last = choices.drop_duplicates(_CHOICE, keep="last")
    times = choices.drop_duplicates("presentation").set_index("presentation")["seconds"]
    shown["seconds"] = shown["presentation"].map(times)
    shown["net"] = shown["presentation"].map(last.groupby("presentation")["letter"].sum())
    shown["reading"] = shown["characters"] / READING
    study = shown[shown["role"] == "study"]
    counts = ~study["surplus"] & ~study["excluded"]
    per_pair = np.bincount(study.loc[counts, "item"].astype(int), minlength=len(pairs))[pairs["for_people"]]
    counted = last[last["presentation"].isin(study.loc[counts, "presentation"])]
    rated = counted["criterion"].astype(str).value_counts()
    lacking = {name: int(counts.sum() - rated.get(name, 0)) for name in criteria}
    written = pd.DataFrame([asdict(note) for note in notes.read(store)], columns=_NOTE)
    remarks = _remarks(written[written["rater"].isin([rater.name for rater in raters if rater.kind == kind])])
    return Ratings(
        rater_kind=kind,
        pairs=len(pairs),
        slots=slots,
        wanted=len(per_pair) * slots,
        counted=int(counts.sum()),
        surplus=int(study["surplus"].sum()),
        excluded=int((study["excluded"] & ~study["surplus"]).sum()),
        filled=tuple(np.bincount(per_pair.clip(max=slots), minlength=slots + 1).tolist()),
        seconds=None if study["seconds"].isna().all() else float(study["seconds"].median()),
        criteria=_criteria(counted),
        lacking={name: count for name, count in lacking.items() if count},
        raters=_raters(
            [rater for rater in raters if rater.kind == kind],
            sums=_sums_by_rater(last[last["role"] == "study"], shown, _checks(store, last)),
            paces=shown.groupby("rater")["seconds"].median(),
            favourites=_favourite_answers(choices.drop_duplicates(_CHOICE)),
            remarks=Counter(zip(remarks["rater"], remarks["kind"], strict=True)),
            failed={rater.name for rater in raters if rater.state == "failed the check"},
        ),
        remarks=remarks.assign(
            prompt_id=remarks["pair_id"].map(pairs.set_index("pair_id")["prompt_id"]).fillna("")
        )[_REMARK],
        often_skipped=int(
            (remarks.loc[remarks["kind"] == "skip", "pair_id"].value_counts() >= most_skips).sum()
        ),
    )


def _criteria(counted: pd.DataFrame) -> pd.DataFrame:
    """Return agreement, and preference for a side, by comparison and criterion.

    The categories of agreement are the first method, a tie and the second method, so that two raters who saw
    the sides differently agree if they mean the same text.
    """
    rows = []
    for (method_a, method_b, criterion), group in counted.groupby(["method_a", "method_b", "criterion"]):
        item = pd.factorize(group["item"])[0]
        category = 1 - (group["letter"] * group["side_of_a"]).to_numpy()
        table = np.bincount(3 * item + category, minlength=3 * (item.max() + 1)).reshape(-1, 3)
        rated = RatingCounts.of(table)
        hits = (group["letter"] == 1)[group["letter"] != 0].to_numpy()
        rows.append(
            {
                "comparison": f"{method_a} / {method_b}",
                "criterion": criterion,
                "verdicts": len(group),
                "ties": 1 - len(hits) / len(group),
                "same": raw_agreement(rated),
                "kappa": fleiss_kappa(rated, level=LEVEL),
                "first": unit_proportion(hits, np.arange(len(hits)), level=LEVEL),
            }
        )
    return pd.DataFrame(rows)


def _frame(table: NamedRows) -> pd.DataFrame:
    """Return rows as a table, with the types of its columns even if there are none."""
    columns, rows = table
    return pd.DataFrame(rows, columns=columns, dtype=object).astype(
        {name: _TYPES.get(name, str) for name in columns}
    )


def _raters(
    raters: Sequence[RaterProgress],
    *,
    sums: pd.DataFrame,
    paces: pd.Series,
    favourites: Mapping[str, tuple[str, float]],
    remarks: Counter[tuple[str, str]],
    failed: set[str],
) -> pd.DataFrame:
    """Return a row for each rater, in the order they were added.

    The columns are `seconds` (all of them), `pace` (the median for a pair), `ties`, `same` (how often another
    rater says the same), `first` (the share of pairs on which the answers lean to A), `gold` and `repeats`
    with those that were failed or changed, the least likely `favourite` answer, `flags`, `remarks`, `skipped`
    and `state`.

    Args:
        raters: The raters.
        sums: Sums over each rater's choices, presentations and checks.
        paces: Each rater's median seconds for a pair.
        favourites: The answer that each gives too often, and how likely that is.
        remarks: How many remarks of each kind a rater has.
        failed: Who failed the comprehension check twice.
    """
    names = [rater.name for rater in raters]
    sums = sums.reindex(names, fill_value=0)
    leaning, to_a = sums["leaning"], sums["to_a"]
    # twice the smaller tail: exact for a share of one half
    side_chances = 2 * binom.cdf(np.minimum(to_a, leaning - to_a), leaning, 0.5)
    answers = [favourites.get(name, ("", 1.0)) for name in names]
    flags = pd.DataFrame(
        {
            "fast": (sums["timed"] >= FAST_PAIRS) & (2 * sums["fast"] > sums["timed"]),
            "same answer": [chance < RARE for _, chance in answers],
            "gold": (sums["gold_failed"] >= GOLD_FAILED) & (2 * sums["gold_failed"] >= sums["gold"]),
            "one side": (leaning > 0) & (side_chances < RARE),
            "failed the check": [name in failed for name in names],
        }
    )
    shares = [
        unit_proportion(np.arange(n) < times, np.arange(n), level=LEVEL)
        for n, times in zip(leaning, to_a, strict=True)
    ]
    table = pd.DataFrame(
        {
            "rater": names,
            "rated": [rater.rated for rater in raters],
            "handed_out": [rater.handed_out for rater in raters],
            "seconds": sums["seconds"],
            "pace": paces.reindex(names),
            "ties": sums["ties"] / sums["choices"],
            "same": sums["same"] / sums["compared"],
            "first": shares,
            **{name: sums[name] for name in ("gold", "gold_failed", "repeats", "repeats_changed")},
            "favourite": [answer for answer, _ in answers],
            "flags": [list(flags.columns[row]) for row in flags.to_numpy(dtype=bool)],
            "remarks": [remarks[name, "comment"] + remarks[name, "problem"] for name in names],
            "skipped": [remarks[name, "skip"] for name in names],
            "state": [rater.state for rater in raters],
        }
    )
    return table.reset_index(drop=True)


def _sums_by_rater(study: pd.DataFrame, shown: pd.DataFrame, checks: pd.DataFrame) -> pd.DataFrame:
    """Return sums over each rater's choices on the study's pairs, presentations and checks."""
    item = study.groupby(["item", "criterion"], sort=False).ngroup().to_numpy()
    verdict = 3 * item + 1 + (study["letter"] * study["side_of_a"]).to_numpy()
    choices = pd.DataFrame(
        {
            "choices": 1,
            "ties": study["letter"] == 0,
            "same": np.bincount(verdict)[verdict] - 1,
            "compared": np.bincount(item)[item] - 1,
        },
        index=study.index,
    )
    timed, net = shown["seconds"].notna() & shown["reading"].notna(), shown["net"]
    leaning = (shown["role"] == "study") & (net != 0)
    presentations = pd.DataFrame(
        {
            "seconds": shown["seconds"],
            "timed": timed,
            "fast": timed & (shown["seconds"] < shown["reading"]),
            "leaning": leaning,
            "to_a": leaning & (net > 0),
        }
    )
    gold, wrong = checks["role"] == "gold", ~checks["passed"]
    checked = {
        "gold": gold,
        "gold_failed": gold & wrong,
        "repeats": ~gold,
        "repeats_changed": ~gold & wrong,
    }
    parts = ((choices, study), (presentations, shown), (pd.DataFrame(checked), checks))
    sums = pd.concat([values.groupby(rows["rater"]).sum() for values, rows in parts], axis=1).fillna(0)
    return sums.astype({name: int for name in sums if name != "seconds"})


def _favourite_answers(first: pd.DataFrame) -> dict[str, tuple[str, float]]:
    """Return the answer that each rater gives too often, such as `B, 12 of 12`, and how likely that is.

    The chance is that of a rater who presses like the others (binomial), times the answers and criteria that
    could have been it (Bonferroni).

    Args:
        first: The letters that raters pressed first.
    """
    counts = first.pivot_table(index=["criterion", "rater"], columns="letter", aggfunc="size", fill_value=0)
    counts = counts.reindex(columns=list(LETTERS), fill_value=0)
    others = counts.groupby("criterion").transform("sum") - counts
    # as if each answer had been given once more, for three may be all there are
    shares = (others + 1).div(others.sum(axis=1) + len(LETTERS), axis=0)
    n = counts.sum(axis=1)
    tries = len(LETTERS) * n.groupby("rater").transform("size").to_numpy()
    tails = np.asarray(binom.sf(counts - 1, n.to_numpy()[:, None], shares))
    rows, rarest = np.arange(len(counts)), tails.argmin(axis=1)
    best = counts.index.to_frame(index=False).assign(
        chance=np.minimum(1.0, tries * tails[rows, rarest]),
        letter=np.array(list(LETTERS.values()))[rarest],
        times=counts.to_numpy()[rows, rarest],
        n=n.to_numpy(),
    )
    answers: list[Any] = list(best.sort_values("chance", kind="stable").drop_duplicates("rater").itertuples())
    return {row.rater: (f"{row.letter}, {row.times} of {row.n}", row.chance) for row in answers}


def _checks(store: Store, last: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each answer to a gold pair or a repeat: `rater`, `role` and whether it `passed`."""
    side = last.assign(side=last["letter"] * last["side_of_a"])
    answers = {entry.pair.id: entry.expected for entry in store_pairs.read_gold(store)}
    gold = side[side["role"] == "gold"]
    expected = [
        {"a": 1, "b": -1}.get(answers.get(pair_id, {}).get(criterion, ""))
        for pair_id, criterion in zip(gold["pair_id"], gold["criterion"], strict=True)
    ]
    gold = gold.assign(expected=pd.Series(expected, index=gold.index, dtype=float)).dropna(subset="expected")
    keys = ["rater", "pair_id", "criterion"]
    repeats = side[side["role"] == "repeat"].merge(
        side.loc[side["role"] == "study", [*keys, "side"]].rename(columns={"side": "expected"}), on=keys
    )
    checks = pd.concat([gold, repeats])
    return checks.assign(passed=(checks["side"] == checks["expected"]).astype(bool))


def _remarks(written: pd.DataFrame) -> pd.DataFrame:
    """Return the remarks that stand, newest first.

    Of the remarks on one showing the last stands, unless it was taken back.
    """
    about = written["kind"].isin(["comment", "problem", "skip"]) & written["presentation"].notna()
    last = written[about].drop_duplicates(["presentation", "kind"], keep="last")
    standing = last[last["detail"] != ""].iloc[::-1].rename(columns={"detail": "text"})
    return standing.assign(when=[f"{at:%Y-%m-%d %H:%M}" for at in standing["at"]])
