"""Data for checking claims: the paper's tables, counts of verdicts, and texts that are not shipped."""

import csv
import functools
import json
from collections import Counter
from dataclasses import astuple, dataclass
from pathlib import Path

import pytest

from analysis.replication.paper import FOLDER, find_published_figures
from analysis.stats.proportion import run_pooled_binomial_test

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
DATA = ROOT.parent / "shared" / "data"
"""Published texts, beside the repository: their licences do not let them be copied into it."""

FIGURE_LABELS = [f"tab:{path.stem}" for path in sorted(FOLDER.glob("*.csv"))]
MAIN = "tab:ablation_resultglacs"
DATASETS = ("Wikitext", "Wikinews", "BookCorpus")
GUARD, ACS = "guard", "acs(q=1)"
CRITERIA = (
    "fluency", "coherence", "factuality", "informativeness", "interestingness", "story_development",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Verdicts on GUARD against ACS: wins for GUARD, ties, and losses."""

    wins: int
    ties: int
    losses: int

    @property
    def n(self):
        """Return the number of verdicts."""
        return self.wins + self.ties + self.losses

    @property
    def share(self):
        """Return GUARD's tie-split win share in percent (`app:E`)."""
        return 100 * (self.wins + self.ties / 2) / self.n

    @property
    def lead(self):
        """Return wins less losses in percent of all verdicts."""
        return 100 * (self.wins - self.losses) / self.n

    @property
    def p_value(self):
        """Return the exact binomial test's p-value, ties left out."""
        p_value = run_pooled_binomial_test(self.wins, self.losses).p
        assert p_value is not None
        return p_value


def find_figures(label, **keys):
    """Return the figures of a table whose fields equal `keys`, in printed order."""
    rows = find_published_figures(label).itertuples(index=False, name="Figure")
    return [row for row in rows if all(getattr(row, key) == keys[key] for key in keys)]


def find_figure(label, **keys):
    """Return the only figure of a table whose fields equal `keys`."""
    (result,) = find_figures(label, **keys)
    return result


def measure_distance_from_people(verdict):
    """Return the distance of a figure from people's figure in the main table; for MAUVE, from 100."""
    human = find_figure(MAIN, dataset=verdict.dataset, metric=verdict.metric, strategy="human")
    return round(abs(verdict.number - human.number), 6)


@functools.cache
def read_human_counts(criterion, dataset="All"):
    """Return the human study's counts on a criterion, of one dataset or all."""
    rows = [
        (int(row["guard_wins"]), int(row["ties"]), int(row["acs_wins"]))
        for row in _find_golden_file("guard_human_counts_from_paper.csv")
        if row["criterion"] == criterion and dataset.lower().startswith(("all", row["dataset"]))
    ]
    wins, ties, losses = map(sum, zip(*rows, strict=True))
    return Counts(wins=wins, ties=ties, losses=losses)


@functools.cache
def count_verdict_patterns():
    """Count the published patterns of GPT-4's six verdicts over the 150 pairs.

    Returns:
        Dataset; +1 (GUARD), 0 (tie) or −1 (ACS) per criterion of `CRITERIA`; number of pairs.
    """
    return tuple(
        (row["dataset"], tuple(int(row[name]) for name in CRITERIA), int(row["pairs"]))
        for row in _find_golden_file("gpt4_verdicts.csv")
    )


def count_judge_verdicts(criterion, dataset="All"):
    """Return the counts of GPT-4's verdicts on one criterion, or on all six together ("overall")."""
    result = Counter()
    for name, verdicts, pairs in count_verdict_patterns():
        if dataset in {"All", name}:
            for its_criterion, verdict in zip(CRITERIA, verdicts, strict=True):
                result[verdict] += pairs * (criterion in {"overall", its_criterion})
    return Counts(wins=result[1], ties=result[0], losses=result[-1])


def name_counts(counts):
    """Return counts by their names in a table: (strategy, "win" or "tie")."""
    return dict(zip([(GUARD, "win"), (GUARD, "tie"), (ACS, "win")], astuple(counts), strict=True))


def read_published_lines(path, what):
    """Return the lines of a JSONL file of published texts. Skip the test if the file is not here."""
    file = DATA / path
    if not file.is_file():
        pytest.skip(f"{file} is not here; it holds {what}, which may not be copied into this repository")
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _find_golden_file(name):
    with (GOLDEN / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
