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

from exitbench.benchmarks.arrays.roomy_array import zeros
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


def rates_everywhere(curve: Curve, decisions: Decisions = "all") -> RateTally:
    """The decisions over all layers at every operating point, each [points].

    ``all`` is one more sort, of the raw scores; ``reached`` is running sums over the events already sorted.
    """
    check_decisions(decisions)
    return _everywhere_all(curve) if decisions == "all" else _everywhere_reached(curve)


def _everywhere_all(curve: Curve) -> RateTally:
    scores, right = curve.scores, curve.outcomes.correct[:-1]
    may_exit = right[scores.first_exit_layer - 1 :]
    certainty_thresholds = curve.thresholds * scores.sign
    side: Literal["left", "right"] = "right" if scores.strict else "left"
    exits = []
    for kind in (~may_exit, may_exit):
        ranked = scores.permitted[kind]
        ranked = ranked[ranked > -np.inf]  # a layer without a score never says exit
        ranked.sort()
        exits.append(len(ranked) - np.searchsorted(ranked, certainty_thresholds, side=side))
    rights = int(right.sum())
    return RateTally(
        exits[0],
        np.broadcast_to(right.size - rights, curve.points),
        rights - exits[1],
        np.broadcast_to(rights, curve.points),
    )


def _everywhere_reached(curve: Curve) -> RateTally:
    """A sample that exits at layer e had a decision at layers 1..min(e, M-1), and exited early once if e < M."""
    events, right = curve.events, curve.outcomes.correct
    depth, samples = right.shape
    right_decisions = zeros((depth + 1, samples), np.int16)
    np.cumsum(right[:-1], axis=0, out=right_decisions[1:-1])
    right_decisions[-1] = right_decisions[-2]
    decisions = np.minimum(np.arange(depth + 1), depth - 1).astype(np.int16)[:, None]
    exits_right = zeros((depth + 1, samples), np.int16)
    exits_right[1:-1] = right[:-1]
    exits_wrong = zeros((depth + 1, samples), np.int16)
    exits_wrong[1:-1] = ~right[:-1]

    def running(quantity: NDArray[np.int16]) -> NDArray[np.int64]:
        change = quantity[events.earlier, events.samples] - quantity[events.later, events.samples]
        sums = quantity[-1].sum(dtype=np.int64) + np.concatenate([[0], np.cumsum(change, dtype=np.int64)])
        return np.asanyarray(sums[events.ends], dtype=np.int64)

    rights = running(right_decisions)
    return RateTally(running(exits_wrong), running(decisions - right_decisions), rights - running(exits_right), rights)
