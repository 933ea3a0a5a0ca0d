"""The Poisson bootstrap of trade-off curves, many sets of samples at once: weights on events already sorted.

Cross-fitting reads a curve for every fold's training part and every resample, with all choices repeated.
Sums over samples add up, so the curve of a training part is the curve of all samples minus that of the fold. And a
resample needs no finer list of points than its own noise: beyond :data:`ALL_POINTS` points the list is thinned evenly
in cost, with a close mesh around the speed-ups of the operating points (steps below a tenth of a standard error there).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange, elements_at, flat_true, full
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.benchmarks.statistics.resampling.weighted_sums import (
    count_quantity,
    exits_after,
    layer_quantity,
    summed_changes,
    weighted_sums,
)

ALL_POINTS = 1200
"""Up to this many operating points, every one takes part; beyond, about this many are kept."""

MESH = 96
"""Operating points kept close around each speed-up that is asked for."""

REACH = 6.0
"""Half the width of that neighbourhood, in standard errors of the mean exit layer."""


def listed_points(curve: Curve, speed_ups: Sequence[float]) -> NDArray[np.int64]:
    """The operating points of a curve that its resamples may choose from, ascending."""
    if curve.points <= ALL_POINTS:
        return np.arange(curve.points)
    cheapest, dearest = curve.cost_range
    kept = [curve.first_as_cheap(-np.linspace(-dearest, -cheapest, ALL_POINTS // 2))]
    for speed_up in speed_ups:
        centre = min(int(curve.first_as_cheap(1 / speed_up)), curve.points - 1)
        paid = curve.outcomes.paid(curve.exit_layers(centre))
        spread = float(paid.std()) / (curve.outcomes.full_cost * np.sqrt(curve.outcomes.samples))
        near = np.linspace(-REACH * spread, REACH * spread, MESH) - curve.relative_cost_at(np.array(centre))
        kept.append(curve.first_as_cheap(-near))
    ends = np.array([0, curve.points - 1])
    return np.unique(np.clip(np.concatenate([*kept, ends]), 0, curve.points - 1)).astype(np.int64)


def weighted_tally(
    curve: Curve, event_indices: NDArray[np.int64], drawn: SampleWeights, final: Tally | None = None
) -> Tally:
    """The tally of every point and resample: sums over exits are [points, resamples], totals [resamples].

    Point j has seen the first ``event_indices[j]`` events. ``final`` is the resampled tally of the drawn samples at
    full depth, which signals share; made here if it is ``None``.
    """
    outcomes = curve.outcomes
    counted = outcomes.counted
    quantities = [
        layer_quantity(curve, np.arange(1, outcomes.depth + 1)),
        *(count_quantity(curve.changes[name], truth) for name, truth in counted.items()),
    ]
    if final is None:
        final = resampled_exits(full(outcomes.samples, outcomes.depth, np.int64), outcomes, drawn)
    names = ("layers", *counted)
    # Only a signal with integer thresholds may begin its list of points with some exits already made.
    at_start = [getattr(final, name) for name in names] if event_indices[0] == 0 else []
    sums = weighted_sums(curve, event_indices, quantities, drawn, at_start)
    return Tally(
        outcomes.depth,
        final.samples,
        actual_positives=final.actual_positives,
        cost=None if outcomes.costs is None else weighted_costs(curve, event_indices, outcomes.costs, drawn),
        **dict(zip(names, sums, strict=True)),
    )


def weighted_costs(
    curve: Curve, event_indices: NDArray[np.int64], costs: NDArray[np.int64], drawn: SampleWeights
) -> NDArray[np.float64]:
    """The sums of what the drawn samples pay, [points, resamples], in float64, which holds them exactly."""
    events, start, stop = curve.events, int(event_indices[0]), int(event_indices[-1])
    positions = flat_true(elements_at(drawn.rows, events.samples[start:stop]))
    positions += start

    def changes(chosen: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        yield costs[events.earlier[chosen] - 1] - costs[events.later[chosen] - 1]

    sums = summed_changes(curve, event_indices, positions, changes, drawn)
    sums[0] += drawn.exact_times(costs[exits_after(curve, start)[drawn.samples] - 1].astype(np.float64))
    return np.asarray(np.cumsum(sums, axis=0))


def resampled_exits(
    exits: NDArray[np.int64], outcomes: Outcomes, drawn: SampleWeights, counted: NDArray[np.bool_] | None = None
) -> Tally:
    """The resampled sums for fixed exits [samples], each [resamples], float64.

    They go over the drawn samples, or those of them that are ``counted``, a mask [samples].
    """
    columns = arange(outcomes.samples)
    short = np.int16  # a layer's number fits, and many samples take less memory
    quantities: dict[str, NDArray[Any]] = {"samples": full(outcomes.samples, 1, short), "layers": exits.astype(short)}
    quantities |= {name: truth[exits - 1, columns] for name, truth in outcomes.counted.items()}
    if outcomes.actual_positive is not None:
        quantities["actual_positives"] = outcomes.actual_positive
    stacked = np.stack(list(quantities.values()))
    sums = drawn.sums(stacked if counted is None else stacked * counted).astype(np.float64)
    tally = Tally(outcomes.depth, **dict(zip(quantities, sums, strict=True)))
    if outcomes.costs is None:
        return tally
    paid = outcomes.paid(exits).astype(np.float64) * (1 if counted is None else counted)
    return dataclasses.replace(tally, cost=drawn.exact_times(paid[drawn.samples]))
