"""What is known of one configuration in one part of a protocol: values at operating points, rates, the band, and what a
choice among configurations looks at; each with its resamples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import RateTally
from exitbench.benchmarks.replay.operating_points import PointValue
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.results.operating_point import OperatingPoint


@dataclass(frozen=True, eq=False, kw_only=True)
class ResampledPoint(PointValue):
    """A value at an operating point on some test samples: ``exits`` [samples], ``resampled`` sums [resamples].

    Where another cache chose, ``exactly`` and ``exactly_resampled`` are the sums at exactly the speed-up that was asked
    for, on the test samples' own curve: signals that realise different speed-ups are compared there. Where folds have
    thresholds of their own, ``middle_threshold`` is the median of them.
    """

    exits: NDArray[np.int64] | None
    resampled: Tally
    exactly: Tally | None = None
    exactly_resampled: Tally | None = None
    middle_threshold: float = float("nan")

    @property
    def printed_threshold(self) -> float | None:
        """The threshold of all parts, else the median of the folds'; None where either would say nothing."""
        shown = self.middle_threshold if np.isnan(self.threshold) else self.threshold
        return None if np.isnan(shown) else shown


@dataclass(frozen=True, eq=False)
class Criterion:
    """What a choice among configurations looks at on the training samples, the larger the better; NaN: not there.

    A number with its resamples [resamples], or along a curve [costs] and [costs, resamples]. ``one_layer`` and
    ``one_layer_resampled``, in the same shapes, say where all training samples would exit at one layer: a fixed layer
    and not the signal, which is chosen only where there is nothing else.
    """

    value: NDArray[np.float64]
    resampled: NDArray[np.float64]
    one_layer: NDArray[np.bool_]
    one_layer_resampled: NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class PartRates:
    """Decisions at the rates' speed-up: ``every`` [layers - 1] with [layers - 1, resamples], ``reached`` likewise.

    ``elsewhere`` are both at the other speed-ups, without resamples.
    """

    every: RateTally
    every_resampled: RateTally
    reached: RateTally
    reached_resampled: RateTally
    elsewhere: dict[OperatingPoint, tuple[RateTally, RateTally]]


@dataclass(frozen=True, eq=False, kw_only=True)
class PartResult:
    """Everything about one configuration in one part.

    ``criteria`` are those of the operating points with something to choose: the training score near a speed-up (none
    where the signal never gets near it), the training speed-up within a loss. The band has sums [costs] and
    [costs, resamples] and says which costs the signal ``reaches``; ``certainty`` is [layers - 1, test samples];
    ``final`` is the last layer on the test samples.
    """

    criteria: dict[OperatingPoint, Criterion]
    band_criteria: Criterion
    points: dict[OperatingPoint, ResampledPoint]
    rates: PartRates
    band: Tally
    band_resampled: Tally
    reaches: NDArray[np.bool_]
    certainty: NDArray[np.float64]
    final: Tally
    final_resampled: Tally
