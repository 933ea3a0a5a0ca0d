"""Stage three, per cache: areas over the stated range, bounds, paired tests, and which entries may be called best."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.arrays.roomy_array import full
from exitbench.benchmarks.protocols.splits import fold_numbers
from exitbench.benchmarks.replay.bounds import (
    final_layer,
    fixed_at,
    fixed_layer,
    neighbouring_layers,
    oracle,
    random_at,
)
from exitbench.benchmarks.replay.operating_points import MATCH_TOLERANCE, areas_below, mean_below
from exitbench.benchmarks.replay.tally import Tally, tally_at
from exitbench.benchmarks.results.operating_point import FINAL, NOWHERE, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import joined
from exitbench.benchmarks.run.across_caches.average_errors import SOURCES, SourceKey, Sources, row_sources
from exitbench.benchmarks.run.compared_columns import compare, smallest_difference_rows
from exitbench.benchmarks.run.contestants import Contestant
from exitbench.benchmarks.run.evaluated_configurations import cache_weights, protocol_parts
from exitbench.benchmarks.run.measurements import ComparedEntry, Measurements, question_of
from exitbench.benchmarks.run.rows.figure_rows import fixed_layer_rows, random_exit_rows
from exitbench.benchmarks.run.rows.fixed_layer_rows import fixed_area_row, fixed_within_rows
from exitbench.benchmarks.run.rows.measured import Measured, over_deals, with_intervals
from exitbench.benchmarks.run.rows.measured_rows import tally_rows
from exitbench.benchmarks.run.rows.per_layer_rows import adjusted_pairs
from exitbench.benchmarks.scoring.score_store import Samples, ScoredCache
from exitbench.benchmarks.statistics.crossed_errors import ErrorSource
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import LayerSums
from exitbench.benchmarks.statistics.resampling.resampled_curves import resampled_exits
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.benchmarks.suites.questions import Questions, layers_at

Columns = Mapping[str, Any]
"""The columns that say which cache and protocol a row is about."""


@dataclass(frozen=True, eq=False)
class ComparedCache:
    """All final rows of one cache, its pairs, the curves of its random exit policy, and where errors come from.

    ``sources`` are those of areas, bounds and DIS at the tables' layers, empty unless they were asked for.
    """

    rows: list[Row]
    pairs: list[dict[str, Any]]
    curves: pa.Table
    sources: Sources


def compare_signals(
    scored: ScoredCache, measured: Sequence[Measurements], questions: Questions, tables: Collection[str]
) -> ComparedCache:
    """Compare the entries of all signals; ``tables`` names the result files that are wanted: tests cost time."""
    rows = [row for signal in measured for row in signal.rows]
    pairs: list[dict[str, Any]] = []
    curves: list[pa.Table] = []
    sources: dict[SourceKey, ErrorSource] = {}
    samples = scored.samples("test")
    weights = cache_weights(scored, questions)
    every_row = full(samples.size, True, bool)
    layers = weights.layers("test", every_row, samples.outcomes)
    every_bound = bound_rows({**scored.key_columns, "protocol": ""}, samples, questions, weights.all("test"), layers)
    for protocol in questions.protocols:
        columns = {**scored.key_columns, "protocol": protocol}
        entries = [entry for signal in measured for entry in signal.entries(protocol)]
        areas = area_rows(columns, entries, samples, questions.area_range, layers.at(samples.depth))
        bounds = [replace(bound, row=bound.row._replace(protocol=protocol)) for bound in every_bound]
        rows += [measured_row.row for measured_row in (*areas, *bounds)]
        rows += fixed_within_rows(columns, scored, questions)
        rows.append(fixed_area_row(columns, samples, questions.area_range, layers))
        curves.append(random_exit_rows({**columns, "signal": "random", "parameters": ""}, samples))
        curves.append(fixed_layer_rows({**columns, "signal": "fixed", "parameters": ""}, samples))
        if not {"pairs", SOURCES} & set(tables):
            continue
        folds = fold_numbers(protocol_parts(scored, questions, protocol))
        contestants = [
            Contestant.of(entry, area, samples.outcomes.correct[:-1], folds, questions.ties, samples.groups)
            for entry, area in zip(entries, areas, strict=True)
        ]
        if SOURCES in tables:
            sources |= row_sources([*areas, *bounds]) | dis_sources(columns, contestants, rows, questions, samples)
        if "pairs" not in tables:
            continue
        column_rows = {(row.signal, row.parameters, question_of(row)): row for row in rows if row.protocol == protocol}
        marked, tests = compare(columns, contestants, column_rows)
        pairs += tests
        rows += smallest_difference_rows(columns, tests)
        rows = [marked.get(row.key, row) for row in rows]
    if "pairs" in tables:
        pairs += adjusted_pairs(dict(pair) for signal in measured for pair in signal.pairs)
    return ComparedCache(rows, pairs, pa.concat_tables(curves), sources)


def dis_sources(
    columns: Columns,
    contestants: Sequence[Contestant],
    rows: Sequence[Row],
    questions: Questions,
    samples: Samples,
) -> dict[SourceKey, ErrorSource]:
    """Influence values and deals behind the DIS of every entry at the layers of the tables."""
    layers = layers_at(questions.layers, samples.depth)
    scored = {
        (row.signal, row.parameters, row.layer)
        for row in rows
        if row.protocol == columns["protocol"] and row.measure == "dis" and not np.isnan(row.std_err)
    }
    sources: dict[SourceKey, ErrorSource] = {}
    for contestant in contestants:
        for layer in layers:
            if (*contestant.name, layer) in scored:
                question = (NOWHERE, layer, "", "dis")
                influence, deals = contestant.influence(layer, "dis"), contestant.deals.get(question, np.zeros(0))
                sources[columns["protocol"], *contestant.name, question] = ErrorSource(influence, deals, True)
    return sources


def area_rows(
    columns: Columns,
    entries: Sequence[ComparedEntry],
    samples: Samples,
    area_range: tuple[float, float],
    final_resampled: Tally,
) -> list[Measured]:
    """The mean score of every entry over the costs of ``area_range``: its area, over the length of the range.

    The range is the same for all, whatever the others reach. Towards full cost a curve ends in the last layer; below
    the least cost that a signal reaches its cheapest point stands in, and the area is ``unmatched``, since that point
    costs more. The value is that of the exact curve (in-sample) or of the merged curve; resamples are taken on the
    band's costs, and moved by what the coarser curve differs from the exact one; ``final_resampled`` is the last layer.
    """
    last = full(samples.size, samples.depth, np.int64)
    final = float(tally_at(last, samples.outcomes).score(samples.measure))
    final_draws = final_resampled.score(samples.measure)
    low, high = area_range
    areas = []
    for entry in entries:
        span = f"mean score over relative costs {low:.4g} to {high:.4g}"
        blank = Row(
            **columns,
            signal=entry.signal,
            parameters=entry.parameters,
            measure="area",
            n=samples.size,
            reason=joined(span, entry.reason),
        )
        if not len(entry.cost):
            reason = "the signal reaches none of the costs at which curves are read"
            areas.append(Measured(blank._replace(status="undefined", reason=joined(reason, blank.reason))))
            continue
        coarse = mean_below(entry.cost, entry.score, final, low, high)
        cost, value = entry.cost, coarse
        if entry.exact_cost is not None and entry.exact_score is not None:
            cost, value = entry.exact_cost, mean_below(entry.exact_cost, entry.exact_score, final, low, high)
        draws = areas_below(
            np.vstack([entry.cost_resampled, np.ones_like(final_draws)]),
            np.vstack([entry.score_resampled, final_draws]),
            low,
            high,
        ) / (high - low)
        row = reaching(blank._replace(value=value), float(cost.min()), low)
        further = {question_of(row): entry.area_deals} if len(entry.area_deals) else {}
        areas.append(over_deals(Measured(row, draws + (value - coarse)), further))
    return with_intervals(areas)


def reaching(row: Row, cheapest: float, low: float) -> Row:
    """The row of an area, ``unmatched`` where the cheapest point costs more than 2% beyond the range's beginning."""
    if cheapest <= low * (1 + MATCH_TOLERANCE):
        return row
    reason = f"reaches down to relative cost {cheapest:.4g} only; below, its cheapest point stands in"
    return row._replace(status="unmatched", reason=joined(reason, row.reason))


def bound_rows(
    columns: Columns, samples: Samples, questions: Questions, weights: SampleWeights, layers: LayerSums
) -> list[Measured]:
    """Oracle, final layer, every fixed layer, and fixed layers and random exits at exactly the suite's speed-ups.

    ``layers`` are the resampled sums of every layer, made with the ``weights``.
    """
    outcomes = samples.outcomes
    rows: list[Measured] = []
    bounds = [
        oracle(outcomes),
        final_layer(outcomes),
        *(fixed_layer(outcomes, layer) for layer in range(1, outcomes.depth + 1)),
    ]
    for bound in bounds:
        point = FINAL if bound.name == "final" else NOWHERE
        layer = bound.layer if bound.name == "fixed" else None
        blank = Row(**columns, signal=bound.name, parameters="", operating_point=point, layer=layer, measure="")
        assert bound.exits is not None
        plain = tally_rows(blank, bound.tally, None, samples)
        resampled = resampled_exits(bound.exits, outcomes, weights) if bound.layer is None else layers.at(bound.layer)
        drawn = with_intervals(tally_rows(blank, bound.tally, resampled, samples))
        # The speed-up of a fixed layer has no sampling error, which is no reason to call it unreliable.
        rows += [
            exact if bound.name != "oracle" and exact.row.measure == "speed_up" else spread
            for exact, spread in zip(plain, drawn, strict=True)
        ]
    for speed_up in questions.every_speed_up:
        rows += fixed_at_rows(columns, samples, speed_up, layers)
        policy = random_at(outcomes, speed_up)
        if policy is not None:
            blank = Row(
                **columns,
                signal="random",
                parameters="",
                operating_point=at_speed_up(speed_up),
                measure="",
                reason="the expected value of exiting at random",
            )
            rows += tally_rows(blank, policy.tally, None, samples)
    return rows


def fixed_at_rows(columns: Columns, samples: Samples, speed_up: float, layers: LayerSums) -> list[Measured]:
    """A fixed layer at exactly a speed-up, which every signal near it should beat; nothing beyond the layers."""
    outcomes = samples.outcomes
    bound = fixed_at(outcomes, speed_up)
    if bound is None:
        return []
    later, earlier, share = neighbouring_layers(outcomes.depth, speed_up, outcomes.costs)
    late, early = layers.at(later), layers.at(earlier)
    how = (
        f"the expected value when a share of {share:.2f} exits at layer {earlier} and the others at layer {later}"
        if share
        else f"every sample exits at layer {later}"
    )
    point = at_speed_up(speed_up)
    blank = Row(**columns, signal="fixed", parameters="", operating_point=point, measure="", reason=how)
    measured = tally_rows(blank, bound.tally, late.towards(early, share), samples)
    # Its cost is fixed, so the speed-up has no sampling error.
    without_error = [Measured(number.row) if number.row.measure == "speed_up" else number for number in measured]
    return with_intervals(without_error)
