"""Premature and delayed exiting rates: the two ways a rule can be wrong about an early prediction.

A decision is one (sample, internal layer) pair: exit or continue. *Premature*: of the decisions on a wrong early
prediction, the share that exits. *Delayed*: of those on a right one, the share that continues.

``all`` applies the rule at every internal layer to the raw score, whether or not the sample is still there.
``reached`` applies it only up to the layer at which the sample exits. Either way all M - 1 internal layers count: at a
layer that may not exit yet (or has no score) the rule's answer is "continue".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError

Decisions = Literal["all", "reached"]
DECISIONS: tuple[Decisions, ...] = ("all", "reached")


@dataclass(frozen=True, eq=False)
class RateTally:
    """Counts of decisions (or sums of weights), all of one shape; both rates are read off in percent."""

    wrong_exits: NDArray[Any]
    wrong_decisions: NDArray[Any]
    right_continuations: NDArray[Any]
    right_decisions: NDArray[Any]

    @property
    def premature(self) -> NDArray[np.float64]:
        """Percent; NaN where no decision fell on a wrong prediction."""
        return _percent(self.wrong_exits, self.wrong_decisions)

    @property
    def delayed(self) -> NDArray[np.float64]:
        """Percent; NaN where no decision fell on a right prediction."""
        return _percent(self.right_continuations, self.right_decisions)

    @property
    def exit_share(self) -> NDArray[np.float64]:
        """The share of all decisions that are exits, in percent; NaN without any decision."""
        right_exits = np.asanyarray(self.right_decisions) - self.right_continuations
        return _percent(self.wrong_exits + right_exits, np.asanyarray(self.wrong_decisions) + self.right_decisions)

    def sum_layers(self) -> RateTally:
        """All layers together: the sum over the first axis."""
        return RateTally(
            self.wrong_exits.sum(axis=0),
            self.wrong_decisions.sum(axis=0),
            self.right_continuations.sum(axis=0),
            self.right_decisions.sum(axis=0),
        )

    def __add__(self, other: RateTally) -> RateTally:
        """The decisions of both sets of samples."""
        return RateTally(
            self.wrong_exits + other.wrong_exits,
            self.wrong_decisions + other.wrong_decisions,
            self.right_continuations + other.right_continuations,
            self.right_decisions + other.right_decisions,
        )


def _percent(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    size = np.asanyarray(whole).astype(np.float64, copy=False)
    return np.divide(100.0 * np.asanyarray(part), size, out=np.full_like(size, np.nan), where=size > 0)


def check_decisions(decisions: str) -> None:
    """Refuse anything but the two ways of counting decisions."""
    if decisions not in DECISIONS:
        raise InputError(f"expected decisions 'all' or 'reached', found {decisions!r}")


def rates_at_threshold(
    scores: SignalScores, outcomes: Outcomes, threshold: float, decisions: Decisions = "all"
) -> RateTally:
    """The decisions at each internal layer, [layers - 1], counted one by one."""
    check_decisions(decisions)
    counts = np.zeros((4, outcomes.depth - 1), dtype=np.int64)
    for some in element_blocks(outcomes.samples):
        right, exits = outcomes.correct[:-1, some], scores.passes(threshold, some)
        counted = np.ones_like(exits)
        if decisions == "reached":
            counted[1:] = ~np.logical_or.accumulate(exits, axis=0)[:-1]
        kinds = (exits & counted & ~right, counted & ~right, ~exits & counted & right, counted & right)
        counts += np.stack([kind.sum(axis=1) for kind in kinds])
    return RateTally(*counts)


def rates_at_points(curve: Curve, points: NDArray[np.int64], decisions: Decisions = "all") -> RateTally:
    """The decisions over all layers at some operating ``points``, which never fall; each in their shape.

    ``all`` counts the raw scores between the thresholds of these points; ``reached`` is running sums over the events.
    """
    check_decisions(decisions)
    return _all_at(curve, points) if decisions == "all" else _reached_at(curve, points)


def _all_at(curve: Curve, points: NDArray[np.int64]) -> RateTally:
    scores, right = curve.scores, curve.outcomes.correct[:-1]
    rising = -scores.sign * curve.thresholds_at(points)
    side: Literal["left", "right"] = "right" if scores.strict else "left"
    count = len(points) + 1
    first_passed = np.zeros((2, count), dtype=np.int64)
    for layer in np.flatnonzero(~scores.silent):
        if layer < scores.first_exit_layer - 1:
            continue
        for some in element_blocks(scores.samples):
            cell = np.searchsorted(rising, -scores.certainty[layer, some], side=side)
            first_passed += np.bincount(cell + count * right[layer, some], minlength=2 * count).reshape(2, count)
    wrong_exits, right_exits = np.cumsum(first_passed[:, :-1], axis=1)
    rights = int(right.sum())
    return RateTally(
        wrong_exits,
        np.broadcast_to(right.size - rights, count - 1),
        rights - right_exits,
        np.broadcast_to(rights, count - 1),
    )


def _reached_at(curve: Curve, points: NDArray[np.int64]) -> RateTally:
    """A sample that exits at layer e had a decision at layers 1..min(e, M-1), and exited early once if e < M."""
    events, depth = curve.events, curve.depth
    layers = np.arange(1, depth + 1)
    all_right = int(curve.outcomes.right_so_far[-1].sum(dtype=np.int64))
    rights = events.sums_after(events.ends[points], all_right, curve.right_decision_changes.__getitem__)
    right_exits = events.sums_after(events.ends[points], 0, curve.right_exit_changes.__getitem__)
    decided = curve.sums_of_layers(points, np.minimum(layers, depth - 1))
    exits = curve.sums_of_layers(points, (layers < depth).astype(np.int64))
    return RateTally(exits - right_exits, decided - rights, rights - right_exits, rights)
