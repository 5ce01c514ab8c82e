"""What checks compute from: the paper's tables, counts of verdicts, and texts that cannot be shipped."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from guard_eval.replicate.checks.records import NotHereError
from guard_eval.replicate.figures import Figure, labels, published

DATA = Path(__file__).parents[4] / "shared" / "data"
"""Published texts, beside the repository: their licences do not let them be copied into it."""

DATASETS = ("Wikitext", "Wikinews", "BookCorpus")
GUARD, ACS = "guard", "acs(q=1)"
AUTOMATIC = ("diversity", "mauve", "coherence", "bertscore")
CRITERIA = (
    "fluency", "coherence", "factuality", "informativeness", "interestingness", "story_development",
)  # fmt: skip
PER_DATASET = 200
"""Ratings per dataset and criterion of the human study (`tab:humaneval_resultglacs`)."""
RATERS, KAPPA = 4, 0.41
"""Of the human study (`app:E`)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts:
    """Verdicts on GUARD against ACS.

    Attributes:
        wins: For GUARD.
        ties: For neither.
        losses: For ACS.
    """

    wins: int
    ties: int
    losses: int

    @property
    def n(self) -> int:
        """Return the number of verdicts."""
        return self.wins + self.ties + self.losses

    @property
    def share(self) -> float:
        """Return GUARD's tie-split win share in percent (`app:E`)."""
        return 100 * (self.wins + self.ties / 2) / self.n

    @property
    def lead(self) -> float:
        """Return wins less losses in percent of all verdicts."""
        return 100 * (self.wins - self.losses) / self.n

    def __add__(self, other: Counts) -> Counts:
        """Return the counts of both."""
        return Counts(
            wins=self.wins + other.wins, ties=self.ties + other.ties, losses=self.losses + other.losses
        )


def figure(label: str, **keys: str) -> Figure:
    """Return the one figure of a table whose fields are `keys`."""
    (found,) = figures(label, **keys)
    return found


def figures(label: str, **keys: str) -> tuple[Figure, ...]:
    """Return the figures of a table whose fields are `keys`, in print order."""
    return tuple(
        f for f in published(label) if all(getattr(f, name) == value for name, value in keys.items())
    )


def automatic() -> tuple[Figure, ...]:
    """Return every figure of an automatic metric, of all tables."""
    return tuple(f for label in labels() for f in published(label) if f.metric in AUTOMATIC)


def human_counts(criterion: str, dataset: str = "All") -> Counts:
    """Return the human study's counts, from the shares of `tab:llm_with_human`: 0.5 % is a rating of 200."""
    if dataset == "All":
        first, second, third = (human_counts(criterion, name) for name in DATASETS)
        return first + second + third

    def count(strategy: str, what: str) -> int:
        printed = figure(
            "tab:llm_with_human", dataset=dataset, strategy=strategy, metric=f"people.{criterion}.{what}"
        )
        return round(printed.number * PER_DATASET / 100)

    return Counts(wins=count(GUARD, "win"), ties=count(GUARD, "tie"), losses=count(ACS, "win"))


def verdict_patterns() -> tuple[tuple[str, tuple[int, ...], int], ...]:
    """Return how many of the 150 pairs got which six verdicts of GPT-4, as the authors published them.

    Returns:
        Dataset; +1 (GUARD), 0 (tie) or −1 (ACS) per criterion of `CRITERIA`; number of pairs.
    """
    path = Path(__file__).parent / "gpt4_verdicts.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        return tuple(
            (row["dataset"], tuple(int(row[name]) for name in CRITERIA), int(row["pairs"]))
            for row in csv.DictReader(stream)
        )


def judge_counts(criterion: str, dataset: str = "All") -> Counts:
    """Return the published verdicts' counts on one criterion, or on all six together ("overall")."""
    found: Counter[int] = Counter()
    for name, verdicts, pairs in verdict_patterns():
        if dataset in ("All", name):
            for place, verdict in enumerate(verdicts):
                if criterion in ("overall", CRITERIA[place]):
                    found[verdict] += pairs
    return Counts(wins=found[1], ties=found[0], losses=found[-1])


def published_lines(path: str, what: str) -> list[dict[str, str]]:
    """Return the lines of a JSONL file of published texts.

    Raises:
        NotHereError: It is not beside the repository.
    """
    file = DATA / path
    if not file.is_file():
        raise NotHereError(
            f"{file} is not here; it holds {what}, which may not be copied into this repository"
        )
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
