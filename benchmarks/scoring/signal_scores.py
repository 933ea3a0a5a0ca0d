"""The scores of one signal on one set of samples, with the rule that reads them.

Directions differ (entropy exits below, confidence above, some strictly), so everything downstream works on
*certainty*: the score itself for ``>`` and ``>=``, its negative for ``<`` and ``<=``. Negation is exact, so
no comparison changes. A larger certainty exits earlier.

A score must be finite wherever it is defined. NaN cannot be ordered, and an infinite score cannot be
parted from its neighbour by any midpoint threshold; both are refused with signal, layer and row.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import roomy, zeros
from exitbench.errors import InputError
from exitbench.exit_rule import PASSES, Direction

Rows = NDArray[Any] | slice
"""Which samples: a mask, an index, or a slice."""


@dataclass(frozen=True, eq=False)
class SignalScores:
    """One score per internal layer and sample, ``values`` [layers - 1, samples], and when it exits.

    A sample exits at the first layer from ``first_exit_layer`` on whose score is in ``direction`` to the
    threshold, else at the last layer. Layers before ``first_scored_layer`` have no score (NaN is expected
    there), nor has a later layer whose scores are all NaN: nothing exits there. ``integers`` lists the only
    thresholds of a signal that counts; ``None`` means any real number.
    """

    values: NDArray[np.float64]
    direction: Direction
    first_exit_layer: int = 1
    first_scored_layer: int = 1
    integers: range | None = None
    signal: str = ""

    def __post_init__(self) -> None:
        if self.direction not in PASSES:
            raise InputError(
                f"signal {self.signal!r}: expected a direction of <, <=, > or >=, found {self.direction!r}"
            )
        values = roomy(np.ascontiguousarray(self.values, dtype=np.float64))
        if values.ndim != 2 or 0 in values.shape:
            raise InputError(
                f"signal {self.signal!r}: expected scores [layers - 1, samples], at least 1 x 1, found {values.shape}"
            )
        object.__setattr__(self, "values", values)
        if not 1 <= self.first_scored_layer <= self.first_exit_layer:
            raise InputError(
                f"signal {self.signal!r}: the first exit layer ({self.first_exit_layer}) needs a score, "
                f"but scores begin at layer {self.first_scored_layer}"
            )
        if self.integers is not None and len(self.integers) == 0:
            raise InputError(f"signal {self.signal!r}: no integer threshold is possible with {self.depth} layers")
        finite = np.isfinite(values[self.first_scored_layer - 1 :])
        if not finite.all():
            finite |= self.silent[self.first_scored_layer - 1 :, None]
        if not finite.all():
            layer, row = np.argwhere(~finite)[0]
            score = values[self.first_scored_layer - 1 + layer, row]
            raise InputError(
                f"signal {self.signal!r} gives the score {score} at layer {self.first_scored_layer + layer}, "
                f"row {row}; a finite number was expected"
            )

    @property
    def depth(self) -> int:
        """The number of layers M; scores exist for layers 1..M-1."""
        return int(self.values.shape[0]) + 1

    @property
    def samples(self) -> int:
        return int(self.values.shape[1])

    @property
    def strict(self) -> bool:
        return self.direction in ("<", ">")

    @property
    def sign(self) -> int:
        """+1 where a larger score is more certain, else -1."""
        return 1 if self.direction in (">", ">=") else -1

    @cached_property
    def silent(self) -> NDArray[np.bool_]:
        """Which layers have no score at all, [layers - 1]."""
        silent = np.isnan(self.values[:, 0])
        silent[silent] = np.isnan(self.values[silent]).all(axis=1)
        return silent

    @cached_property
    def certainty(self) -> NDArray[np.float64]:
        """The scores, negated where less is surer, [layers - 1, samples]; NaN where there is no score."""
        certainty = self.values if self.sign == 1 else -self.values
        if self.first_scored_layer > 1:
            certainty = certainty.copy()
            certainty[: self.first_scored_layer - 1] = np.nan
        return certainty

    @cached_property
    def permitted(self) -> NDArray[np.float64]:
        """Certainty at the layers that may exit, [layers - first_exit_layer, samples]; possibly no layer.

        At a layer without a score it is minus infinity, which passes no threshold.
        """
        certainty = self.certainty[self.first_exit_layer - 1 :]
        silent = self.silent[self.first_exit_layer - 1 :]
        return np.where(silent[:, None], -np.inf, certainty) if silent.any() else certainty

    @cached_property
    def running(self) -> NDArray[np.float64]:
        """The running maximum of certainty over the permitted layers, shaped like :attr:`permitted`.

        A sample has exited by layer m exactly when this passes the threshold at m.
        """
        maximum = self.permitted.copy()
        for row in range(1, len(maximum)):  # several times faster than one accumulate down the columns
            np.maximum(maximum[row - 1], maximum[row], out=maximum[row])
        return maximum

    def passes(self, threshold: float, rows: slice = slice(None)) -> NDArray[np.bool_]:
        """Whether each score says exit, [layers - 1, samples]; False at layers that may not exit."""
        exits = zeros(self.values[:, rows].shape, bool)
        certainty_threshold = self.sign * threshold
        permitted = exits[self.first_exit_layer - 1 :]
        (np.greater if self.strict else np.greater_equal)(self.permitted[:, rows], certainty_threshold, out=permitted)
        permitted[self.silent[self.first_exit_layer - 1 :]] = False
        return exits

    def of_some(self, rows: NDArray[np.bool_]) -> SignalScores:
        """The same signal on the samples at ``rows``, a mask: cut out only when they are read."""
        return ScoresOfSome(self, rows)

    def take(self, rows: Rows) -> SignalScores:
        """The same signal on the samples at ``rows`` only."""
        return SignalScores(
            self.values[:, rows],
            self.direction,
            self.first_exit_layer,
            self.first_scored_layer,
            self.integers,
            self.signal,
        )


class ScoresOfSome(SignalScores):
    """The scores of some samples of a signal, cut out when they are first read: often they never are."""

    whole: SignalScores
    rows: NDArray[np.bool_]

    def __init__(self, whole: SignalScores, rows: NDArray[np.bool_]) -> None:
        about = {field.name: getattr(whole, field.name) for field in fields(SignalScores) if field.name != "values"}
        self.__dict__.update(about, whole=whole, rows=rows)  # without the checks: all of them were valid

    @cached_property
    def values(self) -> NDArray[np.float64]:
        return np.asanyarray(self.whole.values[:, self.rows])

    @cached_property
    def certainty(self) -> NDArray[np.float64]:
        return np.asanyarray(self.whole.certainty[:, self.rows])

    @property
    def silent(self) -> NDArray[np.bool_]:
        return self.whole.silent

    @property
    def depth(self) -> int:
        return self.whole.depth

    @cached_property
    def samples(self) -> int:
        return int(np.count_nonzero(self.rows))
