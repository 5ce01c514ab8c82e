"""Do sets of ranks hold, and the test of any difference? Simulated studies with known truth.

    export OPENBLAS_NUM_THREADS=1                # a process, a core
    python benchmarks/ranks.py                   # docs/calibration.md's table, some minutes on two cores

A prompt's methods differ by chance, each verdict too; a prompt has all comparisons, or some drawn at random.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from itertools import combinations

import numpy as np
from common import parser, table
from numpy.typing import NDArray

from analysis.stats.ranks import any_difference as differences
from analysis.stats.ranks import rank_sets as sets_of_ranks
from analysis.stats.ranks.any_difference import any_difference
from analysis.stats.ranks.bootstrap import tally
from analysis.stats.ranks.davidson import davidson, shares, to_matrices
from analysis.stats.ranks.rank_sets import rank_sets, share_errors, simultaneous_line

DESIGNS = (
    (4, 20, 6, 2),
    (4, 40, 6, 2),
    (5, 40, 3, 2),
    (10, 40, 10, 1),
    (10, 80, 45, 1),
    (12, 20, 12, 2),
    (16, 60, 24, 1),
    (20, 80, 36, 1),
)
"""Methods, prompts, comparisons of a prompt, raters of each."""
OF_PROMPTS, OF_VERDICTS, TIE_WITHIN, APART = 0.6, 1.2, 0.5, 0.8
SEED = 7
DRAWS, FLIPS = 4_000, 999
"""Fewer than a report's, since there are many studies."""


def study(
    rng: np.random.Generator, quality: NDArray[np.float64], prompts: int, compared: int, raters: int
) -> NDArray[np.int64]:
    """Return a column per verdict: its prompt, two methods, and 2 for the first, 1 for a tie, else 0."""
    pairs = np.array(list(combinations(range(len(quality)), 2)))
    rows = []
    for prompt in range(prompts):
        own = quality + OF_PROMPTS * rng.normal(size=len(quality))
        for first, second in pairs[rng.permutation(len(pairs))[:compared]]:
            gaps = own[first] - own[second] + OF_VERDICTS * rng.normal(size=raters)
            points = 1 + (gaps > TIE_WITHIN).astype(int) - (gaps < -TIE_WITHIN)
            rows += [(prompt, first, second, point) for point in points]
    return np.array(rows).T


def ranked(
    rows: NDArray[np.int64], quality: NDArray[np.float64], prompts: int
) -> tuple[bool, bool, float] | None:
    """Return whether all sets are right, whether a difference is found, and how many ranks a set has."""
    methods, (unit, first, second, points) = len(quality), rows
    counts = tally(np.zeros_like(unit), first, second, points, items=1, methods=methods)[0].astype(float)
    found = davidson(*to_matrices(counts, methods), [str(number) for number in range(methods)])
    if found.strengths is None:
        return None
    parameters = np.array([*found.strengths, -np.inf if found.log_nu is None else found.log_nu])
    strata = np.zeros(prompts, dtype=np.int64)
    influence = share_errors(parameters, unit, first, second, points, strata=strata)
    line = simultaneous_line(influence, freedom=prompts - 1, seed=SEED)
    sets = rank_sets(shares(parameters), influence, freedom=prompts - 1, line=line)
    nets = np.zeros((prompts, methods))
    np.add.at(nets, (unit, first), points - 1.0)
    np.add.at(nets, (unit, second), 1.0 - points)
    least = 1 + (quality > quality[:, None]).sum(axis=1)
    greatest = methods - (quality < quality[:, None]).sum(axis=1)
    right = all(low <= a and b <= high for (low, high), a, b in zip(sets, least, greatest, strict=True))
    p = any_difference(nets, seed=SEED).p_value
    return right, p is not None and p <= 0.05, float(np.mean([high - low + 1 for low, high in sets]))


def line_of(task: tuple[tuple[int, int, int, int], bool, int]) -> tuple[str, ...]:
    """Return a line of the table: of a design, with methods alike or not, and so many studies."""
    design, alike, count = task
    sets_of_ranks.DRAWS, differences.REPLICATES = DRAWS, FLIPS
    methods, prompts, compared, raters = design
    half = APART / 2 * (not alike)
    quality = np.repeat([half, -half], [methods // 2, methods - methods // 2])
    rng = np.random.default_rng([SEED, *design, alike])
    studies = (ranked(study(rng, quality, prompts, compared, raters), quality, prompts) for _ in range(count))
    right, rejected, size = np.mean([found for found in studies if found is not None], axis=0)
    several = f", {raters} raters" if raters > 1 else ""
    return (
        *(str(methods), str(prompts), f"{compared} of {methods * (methods - 1) // 2}{several}"),
        *("alike" if alike else "two groups", f"{right:.3f}", f"{rejected:.3f}", f"{size:.1f}"),
    )


def main() -> None:
    """Print the table."""
    options = parser(__doc__)
    options.add_argument("--studies", type=int, default=1000, help="simulated studies of a line")
    options.add_argument("--processes", type=int, default=2, help="at once")
    given = options.parse_args()
    count = 5 if given.quick else given.studies
    heads = ("methods", "prompts", "comparisons of a prompt", "truth", "all sets right", "any difference")
    tasks = [(design, alike, count) for design in reversed(DESIGNS) for alike in (True, False)]
    with ProcessPoolExecutor(given.processes) as pool:
        lines = sorted(pool.map(line_of, tasks), key=lambda line: [int(line[0]), int(line[1])])
    print(table((*heads, "ranks in a set"), lines))


if __name__ == "__main__":
    main()
