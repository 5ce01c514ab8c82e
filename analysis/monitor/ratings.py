"""Describe the progress of the raters in a running study, and flag raters whom the owner should check.

This module never shows which method is ahead. Owners who watch the result, and stop when they like it, find
differences that do not exist.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np
import pandas as pd
from scipy import special
from scipy.stats import binom

from analysis.scores.likeness import BY_TASTE, describe_signs_of_llm_use, make_judge_likeness_rows
from analysis.stats.agreement import fleiss_kappa, raw_agreement
from analysis.stats.proportion import estimate_proportion
from guard_eval.estimate import Estimate
from guard_eval.records import RaterKind, record
from guard_eval.store import RaterProgress, Store, notes, unblind
from guard_eval.store import pairs as store_pairs
from guard_eval.store.schema import Query
from guard_eval.store.showings.slots import MOST_SKIPS, POOLS

READING = 71.0
"""A reading speed in characters per second: three times the usual speed. People silently read 238 words per
minute (Brysbaert 2019), which is 24 characters per second with six characters per word."""

FAST_PAIRS = 5
"""A rater is flagged as fast only after this number of pairs, if more than half took too little time."""

RARE = 0.001
"""A favourite answer or side is flagged if its probability by chance is below this."""

GOLD_FAILED = 2
"""A rater is flagged after this number of wrong gold answers, if at least half of the answers are wrong."""

LEVEL = 0.95
"""The confidence level of intervals."""

MEANINGS = {
    "fast": "rates more than half of the pairs faster than people read at three times the usual speed",
    "same answer": "gives one answer so often that fewer than 1 in 1000 would, at the other raters' rate",
    "gold": "fails at least two gold answers, and at least half of them",
    "one side": "prefers one side so often that fewer than 1 rater in 1000 would by chance",
    "failed the check": "does not pass the comprehension check in two attempts",
    "like a model": f"agrees with a judge or uses the page as if a model answered. {BY_TASTE}",
}
"""The flags, with the meaning of each. A flag alone does not exclude a rater. A person must decide."""

LETTERS = {1: "A", 0: "tie", -1: "B"}
SIDES = {"a": 1, "b": -1}
_CHOICE = ["presentation", "criterion"]
_RATED = ["pair_id", "criterion"]
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
    **dict.fromkeys(("role", "criterion", "method_a", "method_b"), "category"),
}
"""The types of the columns that are not text. Categories are faster than text for look-ups and groups."""


@record
class CriterionState:
    """The ratings on one criterion of one comparison.

    Attributes:
        comparison: Both methods.
        criterion: The criterion.
        verdicts: The number of verdicts.
        ties: The share of ties.
        same: The share of agreeing ratings of a pair; None if no pair was rated twice.
        kappa: Fleiss' κ.
        first: The share of A among the verdicts without ties.
    """

    comparison: str
    criterion: str
    verdicts: int
    ties: float
    same: float | None
    kappa: Estimate
    first: Estimate


@record
class RaterState:
    """The progress and the habits of one rater.

    Attributes:
        rater: The rater's name.
        rated: The number of pairs that the rater rated.
        seconds: The seconds for all pairs of the rater.
        pace: The median number of seconds for a pair; None if not recorded.
        ties: The share of ties.
        same: The share of other ratings that agree; None if nobody else rated these pairs.
        first: The share of pairs on which the answers lean to A.
        gold, gold_failed: The number of answers to gold pairs, and the number of wrong answers.
        repeats, repeats_changed: The number of answers to repeated pairs, and the number of changed answers.
        favourite: The answer that is most frequent compared with chance, such as `B, 12 of 12`.
        signs: The signs that a model answered for the rater; empty if there are none.
        flags: The reasons to check the rater (`MEANINGS`).
        remarks, skipped: The number of comments and problems, and the number of skipped pairs.
        state: The state of the rater in the store.
    """

    rater: str
    rated: int
    seconds: float
    pace: float | None
    ties: float | None
    same: float | None
    first: float | None
    gold: int
    gold_failed: int
    repeats: int
    repeats_changed: int
    favourite: str
    signs: str
    flags: tuple[str, ...]
    remarks: int
    skipped: int
    state: str


@record
class Remark:
    """A comment, a problem or the reason for a skip, with its time, rater, prompt and text."""

    when: str
    rater: str
    prompt_id: str
    kind: str
    text: str


@record
class Ratings:
    """The ratings of a running study.

    Attributes:
        rater_kind: The kind of raters: people, or simulated raters if there are no people.
        pairs: The number of pairs, including pairs for judges only.
        slots: The planned number of ratings of each pair.
        planned: The planned number of ratings in all.
        counted: The number of ratings that exist and count.
        surplus: The number of ratings that came too late to count.
        excluded: The number of ratings of excluded raters.
        filled: The number of pairs with 0, 1, … `slots` ratings.
        seconds: The median active time for a pair, in seconds; None if not recorded.
        criteria: Agreement, and preference for a side, by comparison and criterion.
        raters: The state of each rater, in the order in which they were added.
        remarks: Comments, problems and reasons for skips that raters did not remove, newest first.
        lacking: For each criterion in the present settings, the number of ratings without a verdict on it.
        often_skipped: The number of pairs that no new rater gets, because many raters skipped them.
    """

    rater_kind: RaterKind
    pairs: int
    slots: int
    planned: int
    counted: int
    surplus: int
    excluded: int
    filled: tuple[int, ...]
    seconds: float | None
    criteria: tuple[CriterionState, ...]
    raters: tuple[RaterState, ...]
    remarks: tuple[Remark, ...] = field(repr=False)
    often_skipped: int = 0
    lacking: Mapping[str, int] = field(default_factory=dict)

    @property
    def missing_ratings(self) -> int:
        """Return the number of missing ratings."""
        return sum((self.slots - number) * pairs for number, pairs in enumerate(self.filled))


def read_ratings(
    store: Store,
    everybody: Sequence[RaterProgress],
    *,
    slots: int,
    criteria: Sequence[str] = (),
) -> Ratings:
    """Return the ratings of a study.

    Args:
        store: The study's database.
        everybody: All raters.
        slots: The planned number of ratings of each pair.
        criteria: The criteria in the present settings.
    """
    kinds = {rater.kind for rater in everybody}
    kind: RaterKind = "simulated" if "simulated" in kinds and "person" not in kinds else "person"
    raters = [rater for rater in everybody if rater.kind == kind]
    pairs = _read_frame(store, unblind.PAIRS, pool=POOLS[kind]).set_index("pair_id")
    choices = _read_frame(store, unblind.CHOICE_REVISIONS).sort_values([*_CHOICE, "revision"])
    presentations = _read_frame(store, unblind.PRESENTATIONS, kind=kind).join(pairs, on="pair_id")
    times = choices.drop_duplicates("presentation").set_index("presentation")["seconds"]
    presentations["seconds"] = presentations["presentation"].map(times)
    letters = choices.drop(columns="seconds")
    placed = _convert_letters_to_sides(letters, presentations)
    last = placed.drop_duplicates(_CHOICE, keep="last")
    presentations["net"] = presentations["presentation"].map(last.groupby("presentation")["letter"].sum())
    study = presentations[presentations["role"] == "study"]
    counted = study[~study["surplus"] & ~study["excluded"]]
    for_people = pairs.index[pairs["for_people"]]
    per_pair = counted["pair_id"].value_counts().reindex(for_people, fill_value=0)
    of_counted = last[last["presentation"].isin(counted["presentation"])]
    rated = of_counted["criterion"].value_counts()
    lacking = {name: len(counted) - int(rated.get(name, 0)) for name in criteria}
    remarks = _read_valid_remarks(store, {rater.name for rater in raters})
    skips = Counter(note.pair_id for note in remarks if note.kind == "skip")
    prompts = pairs["prompt_id"].to_dict()
    return Ratings(
        rater_kind=kind,
        pairs=len(pairs),
        slots=slots,
        planned=len(per_pair) * slots,
        counted=len(counted),
        surplus=int(study["surplus"].sum()),
        excluded=int((~study["surplus"] & study["excluded"]).sum()),
        filled=tuple(np.bincount(per_pair.clip(upper=slots), minlength=slots + 1).tolist()),
        seconds=_replace_nan_with_none(study["seconds"].median()),
        criteria=tuple(_make_criterion_states(of_counted)),
        lacking={name: count for name, count in lacking.items() if count},
        raters=tuple(
            _make_rater_states(
                raters,
                sums=_sum_answers_by_rater(
                    last[last["role"] == "study"], presentations, _list_check_answers(store, last)
                ),
                least_probable_answers=_find_least_probable_answers(placed.drop_duplicates(_CHOICE)),
                remark_counts=Counter((note.rater, note.kind) for note in remarks),
                model_use_signs=_describe_signs_of_model_use(store, kind, letters, last),
            ),
        ),
        remarks=tuple(
            Remark(
                when=f"{note.at:%Y-%m-%d %H:%M}",
                rater=note.rater,
                prompt_id=prompts.get(note.pair_id, ""),
                kind=note.kind,
                text=note.detail,
            )
            for note in remarks
        ),
        often_skipped=sum(count >= MOST_SKIPS for count in skips.values()),
    )


def _read_frame(store: Store, statement: Query, **values: str) -> pd.DataFrame:
    """Read the rows of a query. The columns have their types even if there are no rows."""
    columns, rows = unblind.read_named_rows(store, statement, **values)
    types = {name: _TYPES.get(name, str) for name in columns}
    return pd.DataFrame(rows, columns=columns, dtype=object).astype(types)


def _replace_nan_with_none(value: float) -> float | None:
    """Return a number, or None if the number is NaN."""
    return None if np.isnan(value) else float(value)


def _read_valid_remarks(store: Store, rater_names: set[str]) -> list[notes.Note]:
    """Return the remarks that still count, newest first.

    Only the last remark on one showing counts, unless the rater removed this remark.
    """
    last: dict[tuple[int, str], notes.Note] = {}
    for note in reversed(notes.read_notes(store)):
        is_remark = note.kind in {"comment", "problem", "skip"} and note.rater in rater_names
        if is_remark and note.presentation is not None:
            last.setdefault((note.presentation, note.kind), note)
    return [note for note in last.values() if note.detail]


def _make_criterion_states(counted_choices: pd.DataFrame) -> Iterator[CriterionState]:
    """Yield agreement, and preference for a side, by comparison and criterion.

    The categories of agreement are the first method, a tie and the second method. Two raters who saw the
    texts on different sides thus agree if they choose the same text.
    """
    keys = ["method_a", "method_b", "criterion"]
    for (method_a, method_b, criterion), group in counted_choices.groupby(keys, observed=True):
        sides = pd.crosstab(group["pair_id"], group["side"])
        counts = sides.reindex(columns=list(LETTERS), fill_value=0).to_numpy()
        hits = (group.loc[group["letter"] != 0, "letter"] == 1).to_numpy()
        yield CriterionState(
            comparison=f"{method_a} / {method_b}",
            criterion=str(criterion),
            verdicts=len(group),
            ties=1 - len(hits) / len(group),
            same=raw_agreement(counts),
            kappa=fleiss_kappa(counts, level=LEVEL),
            first=estimate_proportion(hits, np.arange(len(hits)), level=LEVEL),
        )


def _make_rater_states(
    raters: Sequence[RaterProgress],
    *,
    sums: pd.DataFrame,
    least_probable_answers: Mapping[str, tuple[str, float]],
    remark_counts: Counter[tuple[str, str]],
    model_use_signs: Mapping[str, str],
) -> Iterator[RaterState]:
    """Yield the state of each rater.

    Args:
        raters: The raters.
        sums: Sums over the choices, presentations and checks of each rater, and the median seconds for a
            pair.
        least_probable_answers: The least probable answer of each rater, and its probability by chance.
        remark_counts: The number of remarks of each rater by kind.
        model_use_signs: The signs that a model answered for a rater.
    """
    totals = sums.reindex([rater.name for rater in raters]).to_dict("index")
    for rater in raters:
        total = totals[rater.name]
        pace = _replace_nan_with_none(total.pop("pace"))
        count = {name: int(np.nan_to_num(value)) for name, value in total.items()}
        favourite, chance = least_probable_answers.get(rater.name, ("", 1.0))
        leaning, to_a = count["leaning"], count["to_a"]
        # twice the smaller tail, which is exact for a share of one half
        side_chance = 2 * special.bdtr(min(to_a, leaning - to_a), leaning, 0.5)
        flags = {
            "fast": count["timed"] >= FAST_PAIRS and 2 * count["fast"] > count["timed"],
            "same answer": chance < RARE,
            "gold": count["gold_failed"] >= max(GOLD_FAILED, count["gold"] / 2),
            "one side": leaning > 0 and side_chance < RARE,
            "failed the check": rater.state == "failed the check",
            "like a model": rater.name in model_use_signs,
        }
        yield RaterState(
            rater=rater.name,
            rated=rater.rated,
            seconds=float(np.nan_to_num(total["seconds"])),
            pace=pace,
            ties=_divide(count["ties"], count["choices"]),
            same=_divide(count["same"], count["compared"]),
            first=_divide(to_a, leaning),
            gold=count["gold"],
            gold_failed=count["gold_failed"],
            repeats=count["repeats"],
            repeats_changed=count["repeats_changed"],
            favourite=favourite,
            signs=model_use_signs.get(rater.name, ""),
            flags=tuple(flag for flag, is_raised in flags.items() if is_raised),
            remarks=remark_counts[rater.name, "comment"] + remark_counts[rater.name, "problem"],
            skipped=remark_counts[rater.name, "skip"],
            state=rater.state,
        )


def _divide(count: int, total: int) -> float | None:
    return count / total if total else None


def _convert_letters_to_sides(letters: pd.DataFrame, presentations: pd.DataFrame) -> pd.DataFrame:
    """Add the column `side` to chosen letters: 1 for the first method, −1 for the second, 0 for a tie."""
    choices = letters.merge(presentations, on="presentation")
    return choices.assign(side=choices["letter"] * choices["side_of_a"])


def _describe_signs_of_model_use(
    store: Store, rater_kind: RaterKind, letters: pd.DataFrame, last_choices: pd.DataFrame
) -> Mapping[str, str]:
    """Describe the signs that a language model may have answered for a person, by rater."""
    judge_kind: RaterKind = "simulated_model" if rater_kind == "simulated" else "model"
    presentations = _read_frame(store, unblind.PRESENTATIONS, kind=judge_kind)
    judged = _convert_letters_to_sides(letters, presentations).drop_duplicates(_CHOICE, keep="last")
    compared = make_judge_likeness_rows(
        rater_kind, _encode_choices_by_rater(last_choices), _encode_choices_by_rater(judged)
    )
    return describe_signs_of_llm_use(compared, notes.count_suspicious_presentations(store))


def _encode_choices_by_rater(choices: pd.DataFrame) -> pd.DataFrame:
    """Return each rater's choice on each pair: 0 for the second method, 1 for a tie, 2 for the first."""
    study = choices[choices["role"] == "study"].rename(columns={"pair_id": "item"})
    net = study.groupby(["rater", "criterion", "item"], observed=True)["side"].sum()
    labels: pd.DataFrame = (np.sign(net) + 1).rename("label").reset_index()
    return labels


def _sum_answers_by_rater(
    study_choices: pd.DataFrame, showings: pd.DataFrame, checks: pd.DataFrame
) -> pd.DataFrame:
    """Sum the choices, presentations and checks of each rater, and add the rater's pace."""
    same = study_choices.groupby([*_RATED, "side"], observed=True)["rater"].transform("size")
    rated = study_choices.groupby(_RATED, observed=True)["rater"].transform("size")
    choices = {
        "choices": study_choices["rater"].notna(),
        "ties": study_choices["letter"] == 0,
        "same": same - 1,
        "compared": rated - 1,
    }
    seconds = showings["seconds"]
    net = showings["net"].fillna(0)
    timed = seconds.notna() & showings["characters"].notna()
    leaning = (showings["role"] == "study") & (net != 0)
    presentations = {
        "seconds": seconds,
        "timed": timed,
        "fast": timed & (seconds < showings["characters"] / READING),
        "leaning": leaning,
        "to_a": leaning & (net > 0),
    }
    is_gold = checks["role"] == "gold"
    is_wrong = checks["side"] != checks["expected"]
    answers = {
        "gold": is_gold,
        "gold_failed": is_gold & is_wrong,
        "repeats": ~is_gold,
        "repeats_changed": ~is_gold & is_wrong,
    }
    parts = ((study_choices, choices), (showings, presentations), (checks, answers))
    sums = [pd.DataFrame(columns).groupby(rows["rater"]).sum() for rows, columns in parts]
    pace = showings.groupby("rater")["seconds"].median().rename("pace")
    table: pd.DataFrame = pd.concat([*sums, pace], axis=1)
    return table


def _find_least_probable_answers(first_choices: pd.DataFrame) -> dict[str, tuple[str, float]]:
    """Find the least probable answer of each rater, such as `B, 12 of 12`, and its probability by chance.

    The probability is for a rater who answers like the others (binomial), times the number of answers and
    criteria (Bonferroni).

    Args:
        first_choices: The first letters that raters pressed.
    """
    counts = first_choices.pivot_table(
        index=["criterion", "rater"], columns="letter", aggfunc="size", fill_value=0, observed=True
    ).reindex(columns=list(LETTERS), fill_value=0)
    others = counts.groupby("criterion", observed=True).transform("sum") - counts
    # Each answer gets one extra count, because the other raters may have only a few answers.
    shares = (others + 1).div(others.sum(axis=1) + len(LETTERS), axis=0)
    n = counts.sum(axis=1)
    tries = len(LETTERS) * n.groupby("rater").transform("size").to_numpy()
    tails = np.asarray(binom.sf(counts - 1, n.to_numpy()[:, None], shares))
    chances = np.minimum(1.0, tries * tails.min(axis=1, initial=1.0))
    answers: dict[str, tuple[str, float]] = {}
    for at in np.argsort(chances, kind="stable"):
        column = int(tails[at].argmin())
        answer = f"{list(LETTERS.values())[column]}, {counts.iloc[at, column]} of {n.iloc[at]}"
        answers.setdefault(counts.index[at][1], (answer, float(chances[at])))
    return answers


def _list_check_answers(store: Store, last_choices: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each answer to a gold pair or a repeat, with the given and the `expected` side."""
    rater_keys = ["rater", *_RATED]
    gold = [
        (entry.pair.id, criterion, SIDES[side])
        for entry in store_pairs.read_gold_pairs(store)
        for criterion, side in entry.expected.items()
    ]
    first = last_choices.loc[last_choices["role"] == "study", [*rater_keys, "side"]].rename(
        columns={"side": "expected"}
    )
    expected = {
        "gold": (pd.DataFrame(gold, columns=[*_RATED, "expected"]), _RATED),
        "repeat": (first, rater_keys),
    }
    checks = [
        last_choices[last_choices["role"] == role].merge(table, on=keys)
        for role, (table, keys) in expected.items()
    ]
    return pd.concat(checks)
