"""Per-layer thresholds by greedy search: the best task score at a speed-up, on samples whose answers are known.

Starting from the threshold that all layers share, and once more from exit quotas, a move lets more or fewer samples
exit at one layer and pays for it at another, so that the sum of what samples pay, by the costs of the layers, is again
the largest within the budget. Of all moves of one size the one with the highest task score is made, as long as it
raises the score; then moves become half as large, down to 1/64 of the samples. The better of the two ends is kept; if
neither beats the other, that of the shared threshold.

Nothing is drawn and no order of samples matters: samples of one score exit together, and of several moves with the
same score the first in the order of layers is made. Every start makes at most :data:`MOVES` moves of each size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.replay.exit_quotas import quota_exits
from exitbench.benchmarks.replay.operating_points import MATCH_TOLERANCE, ROUNDING, nearest_point
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.scoring.outcomes import Measure

SIZES = (4, 8, 16, 32, 64)
"""A move changes the exits of one layer by the samples over one of these."""

MOVES = 40
"""The most moves of one size."""

SLACK = 0.005
"""The share of the budget that may be left over: more would be another speed-up."""


def greedy_exits(curve: Curve, speed_up: float, measure: Measure) -> NDArray[np.int64]:
    """The layer at which each sample of ``curve`` exits after the search, [samples] from 1.

    The budget is the sum of what samples pay at the speed-up asked for, or that of the shared threshold's operating
    point where it is matched and slower; so the result never scores below it. Where no policy keeps to the budget, the
    exits are those of the shared threshold.
    """
    shared = curve.exit_layers(nearest_point(curve, speed_up))
    if not len(curve.scores.permitted):
        return shared
    budget = exit_budget(curve, speed_up, shared)
    search = GreedySearch(curve, measure, budget)
    ends = [search.climb(exits) for exits in (shared, quota_exits(curve.scores, speed_up, curve.outcomes.layer_costs))]
    reached = [end for end in ends if end is not None]
    if not reached:
        return shared
    best = reached[0]
    for end in reached[1:]:
        if end.score > best.score + ROUNDING:
            best = end
    return search.exits_of(best.cuts)


def exit_budget(curve: Curve, speed_up: float, shared: NDArray[np.int64]) -> int:
    """The largest sum of costs that counts as the speed-up; ``shared`` [samples] are the shared threshold's exits."""
    outcomes = curve.outcomes
    asked = outcomes.full_cost * outcomes.samples / speed_up
    paid = int(outcomes.paid(shared).sum())
    return paid if asked < paid <= asked * (1 + MATCH_TOLERANCE) else int(asked)


@dataclass(frozen=True, eq=False)
class Policy:
    """How many of the most certain samples of each permitted layer pass, ``cuts`` [permitted], and the score."""

    cuts: NDArray[np.int64]
    score: float


class GreedySearch:
    """Moves between policies of one signal on the samples of a curve, within a budget of costs."""

    def __init__(self, curve: Curve, measure: Measure, budget: int) -> None:
        self.curve, self.measure, self.budget = curve, measure, budget
        scores = curve.scores
        self.certainty, self.first = scores.permitted, scores.first_exit_layer
        self.order = np.argsort(-self.certainty, axis=1, kind="stable")
        self.rank = np.argsort(self.order, axis=1)
        self.costs = curve.outcomes.layer_costs[self.first - 1 :]
        """What exiting costs at each permitted layer and at the last one, [permitted + 1]."""
        self.least = budget - max(SLACK * budget, int(self.costs[-1] - self.costs[0]))
        self.truths = {name: truth[self.first - 1 :].astype(np.int64) for name, truth in curve.outcomes.counted.items()}

    @cached_property
    def boundaries(self) -> NDArray[np.bool_]:
        """Whether a cut may stand after so many of a layer's samples, [permitted, samples + 1]: not between equals."""
        falling = np.take_along_axis(self.certainty, self.order, axis=1)
        none = np.ones((len(falling), 1), dtype=bool)
        everyone = falling[:, -1:] > -np.inf  # a layer without a score lets nobody pass
        return np.concatenate([none, falling[:, 1:] != falling[:, :-1], everyone], axis=1)

    def climb(self, exits: NDArray[np.int64]) -> Policy | None:
        """The last policy of the search that begins at some exits; ``None`` where it cannot begin."""
        policy = self.begin(self.cuts_of(exits))
        if policy is None:
            return None
        samples = self.curve.outcomes.samples
        for step in dict.fromkeys(max(samples // size, 1) for size in SIZES):
            for _ in range(MOVES):
                better = self.best_move(policy, step)
                if better is None:
                    break
                policy = better
        return policy

    def begin(self, cuts: NDArray[np.int64]) -> Policy | None:
        """A policy within the budget: these cuts, else the best of those that change one of them."""
        exits = self.exits_of(cuts)
        if self.least <= self.curve.outcomes.paid(exits).sum() <= self.budget:
            return Policy(cuts, self._score(exits))
        return best_of(self.balanced(cuts), float("-inf"))

    def best_move(self, policy: Policy, step: int) -> Policy | None:
        """The best move by ``step`` samples at one layer; ``None`` where none raises the score."""
        moves = (
            balanced
            for layer in range(len(self.order))
            for direction in (1, -1)
            for cuts in self._changed(policy.cuts, layer, direction * step)
            for balanced in self.balanced(cuts, without=layer)
        )
        return best_of(moves, policy.score)

    def balanced(self, cuts: NDArray[np.int64], without: int = -1) -> Iterator[Policy]:
        """For each layer but ``without``, the policy that keeps to the budget by changing the cut of that layer."""
        layers = len(self.order)
        passes = self.rank < cuts[:, None]
        there, otherwise = self._reaching(passes)
        saved = there * (self.costs[otherwise] - self.costs[:-1, None])
        exits = np.where(passes.any(axis=0), passes.argmax(axis=0), layers)
        # Without any exit at a layer, its samples go on to where they exit otherwise.
        none_exits = self.costs[exits].sum() + (saved * passes).sum(axis=1)
        totals = none_exits[:, None] - self._running(saved)
        within = (totals <= self.budget) & self.boundaries
        chosen = within.argmax(axis=1)
        rows = np.arange(layers)
        total = totals[rows, chosen]
        kept = within.any(axis=1) & (total >= self.least) & (rows != without)
        if not kept.any():
            return
        sums = {}
        for name, truth in self.truths.items():
            changed = there * (truth[:-1] - np.take_along_axis(truth, otherwise, axis=0))
            none_count = np.take_along_axis(truth, exits[None], axis=0).sum() - (changed * passes).sum(axis=1)
            sums[name] = none_count + self._running(changed)[rows, chosen]
        scores = self._scores(sums)
        for row in np.flatnonzero(kept):
            balanced = cuts.copy()
            balanced[row] = chosen[row]
            yield Policy(balanced, float(scores[row]))

    def cuts_of(self, exits: NDArray[np.int64]) -> NDArray[np.int64]:
        """The cuts [permitted] that realise some exits: as many samples as are as certain as one that exits there."""
        cuts = np.zeros(len(self.certainty), dtype=np.int64)
        for row, certainty in enumerate(self.certainty):
            exiting = certainty[exits == self.first + row]
            if len(exiting):
                cuts[row] = np.count_nonzero(certainty >= exiting.min())
        return cuts

    def exits_of(self, cuts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The exit layers [samples] of a policy."""
        passes = self.rank < cuts[:, None]
        return np.where(passes.any(axis=0), passes.argmax(axis=0) + self.first, self.curve.depth).astype(np.int64)

    def _reaching(self, passes: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Who is still there at each permitted layer, and at which one they exit if not there, as rows from 0."""
        there, otherwise = np.ones_like(passes), np.empty(passes.shape, dtype=np.int64)
        np.logical_not(np.logical_or.accumulate(passes[:-1], axis=0), out=there[1:])
        following = np.full(passes.shape[1], len(passes), dtype=np.int64)
        for row in range(len(passes) - 1, -1, -1):
            otherwise[row] = following
            following = np.where(passes[row], row, following)
        return there, otherwise

    def _changed(self, cuts: NDArray[np.int64], row: int, step: int) -> Iterator[NDArray[np.int64]]:
        """The cuts with about ``step`` more exits at one layer (fewer if negative); nothing where there are none."""
        passes = self.rank < cuts[:, None]
        there = np.logical_not(np.any(passes[:row], axis=0, keepdims=True))[0]
        reaching = np.concatenate([[0], np.cumsum(there[self.order[row]])])
        wanted = int(np.clip(reaching[cuts[row]] + step, 0, reaching[-1]))
        allowed = np.flatnonzero(self.boundaries[row])
        if step > 0:
            cut = allowed[np.searchsorted(reaching[allowed], wanted)]
        else:
            cut = allowed[np.searchsorted(reaching[allowed], wanted, side="right") - 1]
        if reaching[cut] != reaching[cuts[row]]:
            changed = cuts.copy()
            changed[row] = cut
            yield changed

    def _running(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Running sums over each layer's samples from the most certain on, [permitted, samples + 1]."""
        sums = np.zeros((values.shape[0], values.shape[1] + 1), dtype=np.int64)
        np.cumsum(np.take_along_axis(values, self.order, axis=1), axis=1, out=sums[:, 1:])
        return sums

    def _score(self, exits: NDArray[np.int64]) -> float:
        samples = np.arange(len(exits))
        sums = {name: truth[exits - self.first, samples].sum() for name, truth in self.truths.items()}
        return float(self._scores(sums))

    def _scores(self, sums: dict[str, NDArray[np.int64]]) -> NDArray[np.float64]:
        outcomes = self.curve.outcomes
        positives, like = outcomes.actual_positive, sums["correct"]
        actual = None if positives is None else np.full_like(like, positives.sum())
        samples, unread = np.full_like(like, outcomes.samples), np.zeros_like(like)  # a score needs no layers
        return Tally(self.curve.depth, samples, unread, actual_positives=actual, **sums).score(self.measure)


def best_of(policies: Iterator[Policy], score: float) -> Policy | None:
    """The first policy with the highest score above ``score``; ``None`` where there is none."""
    best = None
    for policy in policies:
        if policy.score > score + ROUNDING:
            best, score = policy, policy.score
    return best
