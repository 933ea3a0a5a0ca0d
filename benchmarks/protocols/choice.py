"""The choice among the configurations of a grid, part by part and resample by resample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.protocols.part_points import PartResult
from exitbench.benchmarks.statistics.intervals import choose_resampled


@dataclass(frozen=True, eq=False)
class Choice:
    """Which configuration each part uses, [parts], and each part in each resample, [parts, resamples]."""

    parts: NDArray[np.int64]
    resampled: NDArray[np.int64] | None

    @classmethod
    def only(cls, configuration: int, parts: int) -> Choice:
        """The same configuration everywhere: nothing was chosen."""
        return cls(np.full(parts, configuration, dtype=np.int64), None)


def choose(results: Sequence[Sequence[PartResult]], default: int) -> Choice:
    """The configuration with the highest training score at the primary speed-up, ties to ``default``.

    ``results`` are [configurations][parts]; ``default`` is the position of the default configuration. Among
    others that tie without it, the first one wins.
    """
    scores = np.array([[part.primary for part in parts] for parts in results])
    resampled = np.array([[part.primary_resampled for part in parts] for parts in results])
    return Choice(choose_resampled(scores, default), choose_resampled(resampled, default))
