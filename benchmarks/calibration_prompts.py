"""Do tests and intervals hold where several pairs are of one prompt? Simulated, by pair and by prompt.

python benchmarks/calibration_prompts.py            # about two minutes; the tables of docs/calibration.md

Three raters judge each pair: −1, 0 or 1 by a latent advantage, cut so that about a third are ties. Of the
advantage's variance a share `ALIKE` is the prompt's own, the same for all of its pairs. No method is better.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray

from analysis.stats.intervals import item_mean
from analysis.stats.ranking_bootstrap import bootstrap, tally
from analysis.stats.significance import sign_flip

ALIKE, CUT, RATERS, ALPHA = 0.8, 0.6, 3, 0.05
DESIGNS = {"30 × 5": [5] * 30, "50 × 3": [3] * 50, "80 × 2": [2] * 80, "40 × 1 to 7": [1, 2, 3, 5, 7] * 8}
METHODS, PROMPTS = 4, 60


def verdicts(advantage: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Return what each rater says of each pair, [pairs, RATERS]."""
    seen = advantage[:, None] + rng.normal(size=(len(advantage), RATERS))
    return (np.sign(seen) * (np.abs(seen) > CUT)).astype(np.int64)


def one_comparison(sizes: list[int], studies: int, rng: np.random.Generator) -> list[float]:
    """Return error rates of the sign-flip test and coverage of the t interval: by pair, by prompt."""
    prompt = np.repeat(np.arange(len(sizes)), sizes)
    found = np.zeros(4)
    for _ in range(studies):
        shared, own = rng.normal(size=len(sizes))[prompt], rng.normal(size=len(prompt))
        net = verdicts(np.sqrt(ALIKE) * shared + np.sqrt(1 - ALIKE) * own, rng).sum(axis=1)
        sums = np.bincount(prompt, weights=net).astype(np.int64)
        for place, scores in enumerate((net, sums)):
            p_value = sign_flip(scores, np.full(len(scores), RATERS)).p_value
            found[place] += p_value is not None and p_value <= ALPHA
        for place, clusters in enumerate((None, prompt), start=2):
            limits = item_mean(0.5 + net / (2 * RATERS), ["d"] * len(net), clusters=clusters)
            found[place] += (limits.low or 0) <= 0.5 <= (limits.high or 1)
    return list(found / studies)


def ranking(studies: int, rng: np.random.Generator) -> list[float]:
    """Return coverage of strengths' intervals: all methods alike, each compared with each on each prompt."""
    first, second = np.triu_indices(METHODS, 1)
    prompt, pair = np.divmod(np.arange(PROMPTS * len(first)), len(first))
    found = np.zeros(2)
    for _ in range(studies):
        quality = np.sqrt(ALIKE) * rng.normal(size=(PROMPTS, METHODS))
        advantage = quality[prompt, first[pair]] - quality[prompt, second[pair]]
        said = verdicts(advantage + np.sqrt(1 - ALIKE) * rng.normal(size=len(pair)), rng)
        for place, unit in enumerate((np.arange(len(pair)), prompt)):
            counts = tally(
                np.repeat(unit, RATERS),
                np.repeat(first[pair], RATERS),
                np.repeat(second[pair], RATERS),
                1 + said.ravel(),
                items=int(unit.max()) + 1,
                methods=METHODS,
            )
            drawn = bootstrap(counts, [f"m{one}" for one in range(METHODS)], replicates=400, seed=1)
            found[place] += np.mean([(one.low or -9) <= 0 <= (one.high or 9) for one in drawn.strengths])
    return list(found / studies)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--studies", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=20261122)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    print("| prompts × pairs | sign-flip by pair | by prompt | t by pair | by prompt |")
    print("| --- | --- | --- | --- | --- |")
    for name, sizes in DESIGNS.items():
        rates = one_comparison(sizes, options.studies, rng)
        print(f"| {name} | {' | '.join(f'{rate:.3f}'.removeprefix('0') for rate in rates)} |", flush=True)
    rates = ranking(options.studies // 10, rng)
    print(f"\nStrengths' intervals cover {rates[0]:.3f} by pair and {rates[1]:.3f} by prompt.")


if __name__ == "__main__":
    main()
