"""Do the interval and the test of diversity hold? Samples of a file of texts with references, as Markdown.

python evidence/metrics.py texts.jsonl --studies 1500

The file's texts and references are two strategies. Exchanging the two at random, prompt by prompt, makes a
difference of zero; the diversity of all texts is the truth that intervals of samples should cover.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from guard_eval.estimate import Floats, jackknife
from guard_eval.metrics.inference import contributions
from guard_eval.metrics.ngrams import diversity_of_sums, ngram_counts
from guard_eval.sign_flip import sign_flip


def rates(texts: Floats, references: Floats, prompts: int, studies: int, seed: int) -> tuple[float, float]:
    """Return the error of the test of no difference, and the coverage of the interval of diversity.

    Args:
        texts: The texts' counts of n-grams, `[texts, 6]`.
        references: Those of the references.
        prompts: How many are drawn for each study.
        studies: How many studies are simulated.
        seed: The seed.
    """
    rng = np.random.default_rng(seed)
    truth = float(diversity_of_sums(texts.sum(axis=0)))
    errors = covered = 0
    for _ in range(studies):
        drawn = rng.choice(len(texts), prompts, replace=False)
        exchanged = rng.integers(0, 2, prompts)[:, None] == 1
        pair = (
            np.where(exchanged, references[drawn], texts[drawn]),
            np.where(exchanged, texts[drawn], references[drawn]),
        )
        gain = contributions(pair[0], diversity_of_sums) - contributions(pair[1], diversity_of_sums)
        errors += (sign_flip(gain).p or 1.0) <= 0.05
        interval = jackknife(texts[rng.choice(len(texts), prompts)], diversity_of_sums)
        covered += (interval.low or 0.0) <= truth <= (interval.high or 0.0)
    return errors / studies, covered / studies


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help="JSONL with `text` and `reference`")
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.file.read_bytes().splitlines()]
    texts, references = (ngram_counts([row[name] for row in rows]) for name in ("text", "reference"))
    print("| prompts | error at .05 | coverage of 95 % intervals |\n| ---: | ---: | ---: |")
    for prompts in (12, 24, 60, 200):
        error, coverage = rates(texts, references, prompts, options.studies, options.seed)
        print(f"| {prompts} | {error:.3f} | {coverage:.3f} |", flush=True)


if __name__ == "__main__":
    main()
