"""Power: how large a true difference must be for a paired test to show it, and what it takes to show a given one."""

from __future__ import annotations

import math

from scipy.special import ndtri

from exitbench.benchmarks.results.vocabulary import SIGNIFICANCE

POWER = 0.8
"""The chance of claiming a true difference that is asked for."""


def claimable(std_err: float, tests: int = 1) -> float:
    """The smallest true difference that is claimed four times in five, as the largest of ``tests`` comparisons.

    Holm's method holds the smallest p-value of a column against ``SIGNIFICANCE / tests``; NaN without a standard error.

    >>> round(claimable(1.0), 2), round(claimable(1.0, tests=28), 2)
    (2.8, 3.97)
    """
    if not std_err > 0 or tests < 1:
        return math.nan
    return float(ndtri(1 - SIGNIFICANCE / (2 * tests)) + ndtri(POWER)) * std_err


def rows_needed(rows: int, smallest: float, difference: float, *, not_from_rows: float = 0.0) -> int | None:
    """How many rows show ``difference`` where ``rows`` of them show no less than ``smallest``.

    Errors from rows shrink with the root of their number; ``not_from_rows`` is the part of ``smallest`` that does not
    shrink (what networks add). ``None`` where that part alone is too large: then no number of rows is enough.

    >>> rows_needed(1000, 2.0, 1.0), rows_needed(1000, 2.0, 1.0, not_from_rows=1.0)
    (4000, None)
    """
    left = difference**2 - not_from_rows * not_from_rows
    if left <= 0:
        return None
    return finite_ceiling(rows * max(smallest * smallest - not_from_rows * not_from_rows, 0.0) / left)


def networks_needed(from_rows: float, spread: float, difference: float) -> int | None:
    """How many networks (seeds) for each task show ``difference``.

    ``from_rows`` is the smallest difference that the rows alone could show, ``spread`` what the spread between networks
    adds to it with one network each; it shrinks with the root of their number. ``None`` where the rows alone are too
    few: then no number of networks is enough.

    >>> networks_needed(0.6, 1.6, 1.0), networks_needed(1.2, 1.6, 1.0)
    (4, None)
    """
    left = difference**2 - from_rows * from_rows
    if left <= 0:
        return None
    needed = finite_ceiling(spread * spread / left)
    return None if needed is None else max(needed, 1)


def finite_ceiling(number: float) -> int | None:
    """The next whole number, a rounding error apart; ``None`` beyond all of them, as for a tiny difference.

    >>> finite_ceiling(2.0000000001), finite_ceiling(2.1), finite_ceiling(math.inf)
    (2, 3, None)
    """
    return math.ceil(round(number, 6)) if math.isfinite(number) else None
