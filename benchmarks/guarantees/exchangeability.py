"""A test of drift that may be asked after every row: a conformal test martingale, a bet against exchangeability.

If live rows are drawn as the calibration rows were, each row's rank among all rows so far is uniform and independent of
those before it, whatever the distribution. A gambler who starts with 1 and bets on these ranks is then not expected to
win, and by Ville's inequality reaches ``1 / level`` with probability ``level`` at most, ever; so the test may be looked
at as often as one likes. Two gamblers share the stake: the simple jumper (Vovk and others) bets that ranks are high, or
low, and may change its mind; the other learns a histogram of ranks, with Krichevsky and Trofimov's estimator.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from exitbench.benchmarks.statistics.hashed_randomness import hash64

TIE_STREAM = 0x74696573
BINS = 10
JUMP = 0.01
"""The share of its wealth that the jumper spreads evenly over its three opinions before every row."""

Position = tuple[float, ...]
"""Where a row stands: any values that can be ordered."""


@dataclass
class DriftTest:
    """The wealth of a gambler against ``calibration``, whose positions are known from the start.

    ``wealth`` is what it has after the rows so far, ``largest`` the most it ever had, and ``alarm`` the row (from 1) at
    which it first reached one over the level.
    """

    calibration: Sequence[Position]
    level: float
    seed: int = 0
    rows: int = 0
    largest: float = 1.0
    alarm: int | None = None
    _sorted: list[Position] = field(default_factory=list, repr=False)
    _jumper: dict[int, float] = field(default_factory=lambda: dict.fromkeys((-1, 0, 1), 1 / 3), repr=False)
    _histogram: float = 1.0
    _counts: list[float] = field(default_factory=lambda: [0.5] * BINS, repr=False)

    def __post_init__(self) -> None:
        self._sorted = sorted(self.calibration)

    @property
    def wealth(self) -> float:
        return (sum(self._jumper.values()) + self._histogram) / 2

    def take(self, positions: Iterable[Position]) -> None:
        """Bet on some more live rows, in their order."""
        for position in positions:
            self._bet(self._rank(position))
            self.rows += 1
            self.largest = max(self.largest, self.wealth)
            if self.alarm is None and self.largest >= 1 / self.level:
                self.alarm = self.rows

    def _rank(self, position: Position) -> float:
        """The share of all rows so far, this one included, that stand below it; those level with it at random."""
        low = bisect.bisect_left(self._sorted, position)
        self._sorted.insert(low, position)
        level = bisect.bisect_right(self._sorted, position, lo=low) - low
        word = int(hash64(self.seed, np.array([self.rows]), TIE_STREAM)[0])
        return (low + level * (word + 0.5) / 2**64) / len(self._sorted)

    def _bet(self, rank: float) -> None:
        whole = sum(self._jumper.values())
        for opinion, part in self._jumper.items():
            stake = (1 - JUMP) * part + JUMP * whole / 3
            self._jumper[opinion] = stake * (1 + opinion * (rank - 0.5))
        column = min(int(rank * BINS), BINS - 1)
        self._histogram *= BINS * self._counts[column] / sum(self._counts)
        self._counts[column] += 1
