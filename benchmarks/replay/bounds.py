"""What no signal can beat, and what every signal should: bounds on the axes of a trade-off curve.

*Oracle*: exit at the first layer that is right; a sample that no layer gets right exits at layer 1. *Fixed layer*:
every sample exits at layer m; between two layers, a share of the samples exits at each, so that every cost can be met.
*Final layer*: no sample exits early. *Random*: the random exit policy, where every
internal layer exits with the same probability; its expected counts have a closed form, so they need no seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.arrays.roomy_array import empty, full
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.replay.tally import Tally, tally_at
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.errors import InputError

BISECTIONS = 200
"""Bisection steps for an exit probability: more than float64 can tell apart."""


WHOLE = 1e-9
"""Mean exit layers nearer than this to a whole number are that layer."""


@dataclass(frozen=True, eq=False)
class Bound:
    """One bound: its tally, the layer it is fixed at, and its ``exits`` [samples] where they are certain."""

    name: Literal["oracle", "random", "fixed", "final"]
    layer: int | None
    exits: NDArray[np.int64] | None
    tally: Tally


def oracle(outcomes: Outcomes) -> Bound:
    """The cheapest way to be right as often as any layer allows."""
    exits = empty(outcomes.samples, np.int64)
    for some in element_blocks(outcomes.samples):
        exits[some] = outcomes.correct[:, some].argmax(axis=0) + 1
    return Bound("oracle", None, exits, tally_at(exits, outcomes))


def fixed_layer(outcomes: Outcomes, layer: int) -> Bound:
    """Every sample exits at ``layer``, from 1 to the depth."""
    if not 1 <= layer <= outcomes.depth:
        raise InputError(f"expected a layer from 1 to {outcomes.depth}, found {layer}")
    exits = full(outcomes.samples, layer, np.int64)
    return Bound("fixed", layer, exits, tally_at(exits, outcomes))


def neighbouring_layers(depth: int, speed_up: float, costs: NDArray[np.int64] | None = None) -> tuple[int, int, float]:
    """The two fixed layers whose costs enclose a speed-up, the later first, and the share that exits at the earlier.

    ``costs`` [layers] are those of the layers, by default the layers themselves.

    >>> neighbouring_layers(12, 2.0), neighbouring_layers(12, 4.8)
    ((6, 6, 0.0), (3, 2, 0.5))
    """
    if costs is not None:
        paid = float(costs[-1] / speed_up)
        index = int(np.searchsorted(costs, paid - WHOLE * costs[-1]))
        between = index > 0 and costs[index] - paid >= WHOLE * costs[-1]
        apart = float((costs[index] - paid) / (costs[index] - costs[index - 1])) if between else 0.0
        return (index + 1, index, apart) if between else (index + 1, index + 1, 0.0)
    mean = depth / speed_up
    later = max(math.ceil(mean - WHOLE), 1)
    share = max(later - mean, 0.0)
    return (later, later, 0.0) if share < WHOLE else (later, later - 1, share)


def fixed_at(outcomes: Outcomes, speed_up: float) -> Bound | None:
    """A fixed layer at exactly this speed-up: randomised between two unless one has it; ``None`` beyond them."""
    costs = layer_costs(outcomes)
    if not 1 <= speed_up <= costs[-1] / costs[0]:
        return None
    later, earlier, share = neighbouring_layers(outcomes.depth, speed_up, outcomes.costs)
    late, early = (fixed_layer(outcomes, layer) for layer in (later, earlier))
    if not share:
        return late
    return Bound("fixed", None, None, late.tally.towards(early.tally, share))


def fixed_curve(outcomes: Outcomes, points: int = 8) -> Tally:
    """The trade-off of fixed layers from the last to the first, with ``points`` from each layer to the next."""
    positions = np.linspace(outcomes.depth, 1, points * (outcomes.depth - 1) + 1)
    layers = np.arange(1, outcomes.depth + 1)
    sums: dict[str, Any] = {
        name: np.interp(positions, layers, truth.sum(axis=1)) for name, truth in outcomes.counted.items()
    }
    if outcomes.actual_positive is not None:
        sums["actual_positives"] = np.full(positions.shape, float(outcomes.actual_positive.sum()))
    if outcomes.costs is not None:
        sums["cost"] = outcomes.samples * np.interp(positions, layers, outcomes.costs)
    return Tally(outcomes.depth, np.full(positions.shape, outcomes.samples), outcomes.samples * positions, **sums)


def final_layer(outcomes: Outcomes) -> Bound:
    """No sample exits early."""
    last = fixed_layer(outcomes, outcomes.depth)
    return Bound("final", outcomes.depth, last.exits, last.tally)


def random_tally(outcomes: Outcomes, probability: ArrayLike) -> Tally:
    """The expected tally when each internal layer exits with ``probability`` [...], independently of everything."""
    chance = np.asarray(probability, dtype=np.float64)[..., None]
    early = chance * (1 - chance) ** np.arange(outcomes.depth - 1)
    shares = np.concatenate([early, (1 - chance) ** (outcomes.depth - 1)], axis=-1)
    layers = np.arange(1, outcomes.depth + 1)
    sums: dict[str, Any] = {name: shares @ truth.sum(axis=1) for name, truth in outcomes.counted.items()}
    if outcomes.actual_positive is not None:
        sums["actual_positives"] = np.full(shares.shape[:-1], float(outcomes.actual_positive.sum()))
    if outcomes.costs is not None:
        sums["cost"] = outcomes.samples * (shares @ outcomes.costs)
    samples = np.full(shares.shape[:-1], float(outcomes.samples))
    return Tally(outcomes.depth, samples, outcomes.samples * (shares @ layers), **sums)


def random_curve(outcomes: Outcomes, points: int = 101) -> Tally:
    """The expected trade-off of random exits, [points], from never to always exiting, evenly in cost."""
    costs = layer_costs(outcomes)
    return random_tally(outcomes, exit_probability(costs, np.linspace(costs[-1], costs[0], points)))


def random_at(outcomes: Outcomes, speed_up: float) -> Bound | None:
    """The random exit policy whose mean cost gives exactly this speed-up; ``None`` where none does."""
    costs = layer_costs(outcomes)
    if not 1 <= speed_up <= costs[-1] / costs[0]:
        return None
    probability = exit_probability(costs, costs[-1] / speed_up)
    return Bound("random", None, None, random_tally(outcomes, probability))


def layer_costs(outcomes: Outcomes) -> NDArray[np.int64]:
    """What exiting at each layer costs, [layers]: the layers themselves, unless costs are given."""
    return outcomes.paid(np.arange(1, outcomes.depth + 1))


def exit_probability(costs: NDArray[np.int64], mean_cost: ArrayLike) -> NDArray[np.float64]:
    """The probability that gives this mean cost, by bisection: the mean falls as the probability grows."""
    target = np.asarray(mean_cost, dtype=np.float64)
    low, high = np.zeros_like(target), np.ones_like(target)
    steps = np.diff(costs, prepend=0)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        # The mean is the sum over m = 0..M-1 of what layer m + 1 adds, times the chance to be still there after m.
        mean = ((1 - middle[..., None]) ** np.arange(len(costs)) * steps).sum(axis=-1)
        low, high = np.where(mean > target, middle, low), np.where(mean > target, high, middle)
    return np.where(target >= costs[-1], 0.0, np.where(target <= costs[0], 1.0, (low + high) / 2))
