"""Which counts a printed percentage can come from: the GRIM test (Brown and Heathers 2017) for shares.

A share of n verdicts moves in steps of 1/n, with ties split between the methods in steps of 1/(2n). Where
these are wider than the rounding, some printed percentages are impossible. All arithmetic is exact, and a
value that lies half-way between two printed ones may have been rounded either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

Percentage = float | str | Decimal


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """A printed percentage and the counts it can stand for.

    Attributes:
        percentage: As printed.
        possible: Whether any count gives it.
        fewest: The smallest such count, a multiple of ½ where ties are split; `None` where there is none.
        most: The largest such count.
        nearest: The percentage nearest to it that a count does give, rounded to the printed decimals.
    """

    percentage: Decimal
    possible: bool
    fewest: float | None
    most: float | None
    nearest: Decimal


@dataclass(frozen=True, kw_only=True, slots=True)
class Grim:
    """Whether a row of printed percentages can come from n verdicts.

    Attributes:
        possible: Whether every cell can, and, of a whole row, whether the counts can sum to n.
        informative: Whether the steps are wider than the rounding; where not, every percentage is possible.
        cells: One per percentage.
        sums: Whether counts of the cells can sum to n; `None` where the row was not said to be whole.
        n: Verdicts.
        decimals: Decimals printed.
        half_steps: Whether a tie counts half.
    """

    possible: bool
    informative: bool
    cells: tuple[Cell, ...]
    sums: bool | None
    n: int
    decimals: int
    half_steps: bool


def consistent(
    percentages: Sequence[Percentage],
    n: int,
    decimals: int,
    *,
    half_steps: bool = False,
    whole: bool = False,
) -> Grim:
    """Return whether `percentages`, printed to `decimals`, can be shares of `n` verdicts.

    Args:
        percentages: A row's cells, 0 to 100; texts and floats stand for what they show.
        n: The number of verdicts the row is said to rest on.
        decimals: How many decimals were printed.
        half_steps: A tie counts half for either method, so that counts are multiples of ½.
        whole: The cells are all there is (wins, ties and losses, or both tie-split shares), so that counts
            must sum to n.

    Raises:
        ValueError: `n` or `decimals` cannot be, or a percentage lies outside 0 to 100 or has more decimals.

    >>> consistent(["78.3"], 150, 1).cells[0].nearest  # 117/150 = 78.0, 118/150 = 78.67
    Decimal('78.0')
    >>> consistent(["78.3", "21.7", "0.0"], 60, 1, whole=True).possible  # 47 + 13 + 0
    True
    """
    if n < 1:
        raise ValueError(f"n is the number of verdicts, at least 1; got {n}")
    units = [_units(value, decimals) for value in percentages]
    if not units:
        raise ValueError("a row needs at least one percentage")
    steps = 2 * n if half_steps else n
    ranges = [_range(unit, steps, decimals) for unit in units]
    cells = tuple(
        _cell(unit, bounds, steps=steps, n=n, decimals=decimals)
        for unit, bounds in zip(units, ranges, strict=True)
    )
    each = all(cell.possible for cell in cells)
    sums = _sums(ranges, steps) if whole else None
    return Grim(
        possible=each and sums is not False,
        informative=steps < _full(decimals),
        cells=cells,
        sums=sums,
        n=n,
        decimals=decimals,
        half_steps=half_steps,
    )


def fitting_sizes(
    percentages: Sequence[Percentage],
    decimals: int,
    *,
    limit: int = 1000,
    half_steps: bool = False,
    whole: bool = False,
) -> tuple[int, ...]:
    """Return every n from 1 to `limit` that fits all of a row at once; arguments as in `consistent`.

    >>> fitting_sizes(["33", "67"], 0, limit=6, whole=True)
    (3, 6)
    """
    units = [_units(value, decimals) for value in percentages]
    if not units:
        raise ValueError("a row needs at least one percentage")
    fitting = []
    for n in range(1, limit + 1):
        steps = 2 * n if half_steps else n
        ranges = [_range(unit, steps, decimals) for unit in units]
        if all(low <= high for low, high in ranges) and (not whole or _sums(ranges, steps)):
            fitting.append(n)
    return tuple(fitting)


def smallest_n(
    percentages: Sequence[Percentage],
    decimals: int,
    *,
    limit: int = 1000,
    half_steps: bool = False,
    whole: bool = False,
) -> int | None:
    """Return the smallest of `fitting_sizes`; `None` where no n up to `limit` fits.

    >>> smallest_n([17.5], 1)  # 7 of 40
    40
    """
    fitting = fitting_sizes(percentages, decimals, limit=limit, half_steps=half_steps, whole=whole)
    return fitting[0] if fitting else None


def printed(count: float, n: int, decimals: int) -> tuple[Decimal, ...]:
    """Return what `count` of `n` is in percent, rounded to `decimals`: two values where it lies half-way.

    Args:
        count: Verdicts for a method, a multiple of ½ where ties are split.
        n: Verdicts in all.
        decimals: Decimals to print.

    >>> printed(347.5, 600, 2)
    (Decimal('57.92'),)
    >>> printed(1, 8, 0)  # 12.5
    (Decimal('12'), Decimal('13'))
    """
    if n < 1 or not 0 <= count <= n or 2 * count != int(2 * count):
        raise ValueError(f"a count is a multiple of ½ between 0 and n; got {count} of {n}")
    _check_decimals(decimals)
    low, high = _rounded(int(2 * count), 2 * n, decimals)
    return tuple(_decimal(unit, decimals) for unit in sorted({low, high}))


def _check_decimals(decimals: int) -> None:
    if not 0 <= decimals <= 12:
        raise ValueError(f"decimals lie between 0 and 12; got {decimals}")


def _full(decimals: int) -> int:
    """Count the units, of the last printed place, in 100 %."""
    return int(100 * 10**decimals)


def _units(value: Percentage, decimals: int) -> int:
    """Read a percentage as a whole number of units of its last printed place."""
    _check_decimals(decimals)
    try:
        exact = Decimal(str(value).strip())
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a percentage") from None
    if not exact.is_finite() or not 0 <= exact <= 100:
        raise ValueError(f"a percentage lies between 0 and 100; got {value!r}")
    unit = exact.scaleb(decimals)
    if unit != int(unit):
        raise ValueError(f"{value!r} has more than {decimals} decimal(s)")
    return int(unit)


def _range(unit: int, steps: int, decimals: int) -> tuple[int, int]:
    """Return the first and last k with |full·k/steps − unit| ≤ ½; last < first where there is none."""
    full = _full(decimals)
    first = -(-steps * (2 * unit - 1) // (2 * full))
    last = steps * (2 * unit + 1) // (2 * full)
    return max(0, first), min(steps, last)


def _cell(unit: int, bounds: tuple[int, int], *, steps: int, n: int, decimals: int) -> Cell:
    low, high = bounds
    possible = low <= high
    return Cell(
        percentage=_decimal(unit, decimals),
        possible=possible,
        fewest=low * n / steps if possible else None,
        most=high * n / steps if possible else None,
        nearest=_decimal(unit if possible else _nearest(unit, steps, decimals), decimals),
    )


def _nearest(unit: int, steps: int, decimals: int) -> int:
    full = _full(decimals)
    below = unit * steps // full
    # Compared exactly, before rounding; of two equally near the lower one.
    best = min((below, min(below + 1, steps)), key=lambda k: (abs(full * k - unit * steps), k))
    return _rounded(best, steps, decimals)[1]


def _rounded(k: int, steps: int, decimals: int) -> tuple[int, int]:
    """Return k/steps in units, its half rounded down and up."""
    doubled = 2 * _full(decimals) * k
    return -(-(doubled - steps) // (2 * steps)), (doubled + steps) // (2 * steps)


def _sums(ranges: Sequence[tuple[int, int]], steps: int) -> bool:
    """Say whether one count from each range can sum to all steps: every total in between can be reached."""
    if any(low > high for low, high in ranges):
        return False
    return sum(low for low, _ in ranges) <= steps <= sum(high for _, high in ranges)


def _decimal(unit: int, decimals: int) -> Decimal:
    return Decimal(unit).scaleb(-decimals)
