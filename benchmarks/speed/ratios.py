"""Ratios of two ways to do a thing, inside one run: rounds take turns, medians are compared.

Times are processor seconds of this process, all threads together: on a machine that others use too, the clock on the
wall mostly tells how long one waited for a core.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """How many times longer ``slow`` takes than ``fast``; both are median processor seconds."""

    slow: float
    fast: float

    @property
    def value(self) -> float:
        return self.slow / self.fast


def seconds(work: Work) -> float:
    """The processor time one call takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


def ratio(slow: Work, fast: Work, rounds: int = 7) -> Ratio:
    """Run both in turn, ``rounds`` times after one warm-up each, so that a busy machine disturbs both alike."""
    slow()
    fast()
    pairs = [(seconds(slow), seconds(fast)) for _ in range(rounds)]
    return Ratio(statistics.median(first for first, _ in pairs), statistics.median(second for _, second in pairs))
