"""Fixed layers beside signals within a loss and in areas: the deepest cut that needs no signal at all.

Which layer keeps to a loss is a choice, so it is made as a signal's threshold is: on the samples that the protocol
chooses on, in every fold, and over all deals of folds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from exitbench.benchmarks.arrays.roomy_array import zeros
from exitbench.benchmarks.protocols.splits import Part
from exitbench.benchmarks.replay.bounds import fixed_curve
from exitbench.benchmarks.replay.operating_points import ROUNDING, areas_below, mean_below
from exitbench.benchmarks.replay.tally import Tally, tally_at, tally_of_layer
from exitbench.benchmarks.results.operating_point import within_loss
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.evaluated_configurations import protocol_parts
from exitbench.benchmarks.run.rows.measured import Measured, with_intervals
from exitbench.benchmarks.scoring.outcomes import Measure, Outcomes
from exitbench.benchmarks.scoring.score_store import Samples, ScoredCache
from exitbench.benchmarks.statistics.deals import mean_over_deals
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import LayerSums
from exitbench.benchmarks.suites.questions import Questions


def fixed_within_rows(columns: Mapping[str, Any], scored: ScoredCache, questions: Questions) -> list[Row]:
    """The largest speed-up of a fixed layer within each loss, and the loss that the scored rows realise with it."""
    protocol, samples = columns["protocol"], scored.samples("test")
    measure = samples.measure
    deals = questions.deals_of(learns=False) if protocol == "cross-fit" else 1
    dealt = [protocol_parts(scored, questions, protocol, deal) for deal in range(deals)]
    final = float(tally_of_layer(samples.depth, samples.outcomes).score(measure))
    scores = [[scores_of_layers(chosen_on(part, scored), measure) for part in parts] for parts in dealt]
    rows = []
    for loss in questions.losses:
        layers = [[layer_within(of_part, loss) for of_part in of_parts] for of_parts in scores]
        tallies = [
            exits_of_parts(parts, of_parts, samples.outcomes) for parts, of_parts in zip(dealt, layers, strict=True)
        ]
        used = sorted({layer for of_parts in layers for layer in of_parts})
        blank = Row(
            **columns,
            signal="fixed",
            parameters="",
            operating_point=within_loss(loss),
            measure="",
            n=samples.size,
            reason=f"every sample exits at layer {' or '.join(map(str, used))}, as chosen for the loss",
        )
        speed_up = mean_over_deals([float(tally.speed_up) for tally in tallies])
        lost = mean_over_deals([final - float(tally.score(measure)) for tally in tallies])
        rows += [
            blank._replace(measure="max_speed_up", value=speed_up),
            blank._replace(measure="realised_loss", value=lost),
        ]
    return rows


def scores_of_layers(outcomes: Outcomes, measure: Measure) -> list[float]:
    """The task score where every sample exits at a layer, of each layer."""
    return [float(tally_of_layer(layer, outcomes).score(measure)) for layer in range(1, outcomes.depth + 1)]


def layer_within(scores: Sequence[float], loss: float) -> int:
    """The last layer, coming from full depth, before the score first falls more than ``loss`` below the final one."""
    layer = len(scores)
    while layer > 1 and scores[layer - 2] >= scores[-1] - loss - ROUNDING:
        layer -= 1
    return layer


def chosen_on(part: Part, scored: ScoredCache) -> Outcomes:
    """The answers of the samples that a part chooses on."""
    return scored.samples(part.train_role).outcomes.take(part.train)


def exits_of_parts(parts: tuple[Part, ...], layers: list[int], outcomes: Outcomes) -> Tally:
    """Each part's test samples exit at its own layer."""
    exits = zeros(outcomes.samples, np.int64)
    for part, layer in zip(parts, layers, strict=True):
        exits[part.test] = layer
    return tally_at(exits, outcomes)


def fixed_area_row(
    columns: Mapping[str, Any], samples: Samples, area_range: tuple[float, float], resampled: LayerSums
) -> Row:
    """The mean score of fixed layers, randomised between neighbours, over the costs that all areas are taken over."""
    outcomes, measure, (low, high) = samples.outcomes, samples.measure, area_range
    curve = fixed_curve(outcomes)
    value = mean_below(curve.relative_cost, curve.score(measure), float(curve.score(measure)[0]), low, high)
    layers = [resampled.at(layer) for layer in range(1, samples.depth + 1)]
    costs, scores = (
        np.stack([tally.relative_cost for tally in layers]),
        np.stack([tally.score(measure) for tally in layers]),
    )
    draws = areas_below(costs, scores, low, high) / (high - low)
    # Between layers F1 is not linear: resamples are moved by what straight lines are off.
    straight = [tally_of_layer(layer, outcomes) for layer in range(1, samples.depth + 1)]
    coarse = mean_below(
        np.array([float(tally.relative_cost) for tally in straight]),
        np.array([float(tally.score(measure)) for tally in straight]),
        float(curve.score(measure)[0]),
        low,
        high,
    )
    reason = f"mean score over relative costs {low:.4g} to {high:.4g}; fixed layers, randomised between neighbours"
    row = Row(**columns, signal="fixed", parameters="", measure="area", n=samples.size, value=value, reason=reason)
    (measured,) = with_intervals([Measured(row, draws + (value - coarse))])
    return measured.row
