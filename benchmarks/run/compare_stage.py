"""Stage three, per cache: areas over the common range, bounds, paired tests, and which entries may be called best."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.protocols.splits import fold_numbers
from exitbench.benchmarks.replay.bounds import final_layer, fixed_layer, oracle, random_at
from exitbench.benchmarks.replay.operating_points import area_below, areas_below
from exitbench.benchmarks.results.operating_point import FINAL, NOWHERE, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.compared_columns import Contestant, compare
from exitbench.benchmarks.run.figure_rows import random_exit_rows
from exitbench.benchmarks.run.measure_stage import cache_weights, protocol_parts
from exitbench.benchmarks.run.measured_rows import Measured, joined, tally_rows, with_intervals
from exitbench.benchmarks.run.measurements import ComparedEntry, Measurements, question_of
from exitbench.benchmarks.run.per_layer_rows import adjusted_pairs
from exitbench.benchmarks.scoring.score_store import Samples, ScoredCache
from exitbench.benchmarks.statistics.resampled_curves import SampleWeights, resampled_exits
from exitbench.benchmarks.suites.questions import Questions

Columns = Mapping[str, Any]
"""The columns that say which cache and protocol a row is about."""


@dataclass(frozen=True, eq=False)
class ComparedCache:
    """All final rows of one cache, its pairs, and the curves of its random exit policy."""

    rows: list[Row]
    pairs: list[dict[str, Any]]
    curves: pa.Table


def compare_signals(
    scored: ScoredCache, measured: Sequence[Measurements], questions: Questions, tables: Collection[str]
) -> ComparedCache:
    """Compare the entries of all signals; ``tables`` names the result files that are wanted: tests cost time."""
    rows = [row for signal in measured for row in signal.rows]
    pairs: list[dict[str, Any]] = []
    curves: list[pa.Table] = []
    samples = scored.samples("test")
    weights = cache_weights(scored, questions).all("test")
    for protocol in questions.protocols:
        columns = {**scored.key_columns, "protocol": protocol}
        entries = [entry for signal in measured for entry in signal.entries(protocol)]
        areas = area_rows(columns, entries, samples)
        rows += [area.row for area in areas]
        rows += bound_rows(columns, samples, questions, weights)
        curves.append(random_exit_rows({**columns, "signal": "random", "parameters": ""}, samples))
        if "pairs" not in tables:
            continue
        folds = fold_numbers(protocol_parts(scored, questions, protocol))
        contestants = [
            Contestant.of(entry, area, samples.outcomes.correct[:-1], folds, questions.ties)
            for entry, area in zip(entries, areas, strict=True)
        ]
        column_rows = {(row.signal, row.parameters, question_of(row)): row for row in rows if row.protocol == protocol}
        marked, tests = compare(columns, contestants, column_rows)
        pairs += tests
        rows = [marked.get(row.key, row) for row in rows]
    if "pairs" in tables:
        pairs += adjusted_pairs(dict(pair) for signal in measured for pair in signal.pairs)
    return ComparedCache(rows, pairs, pa.concat_tables(curves))


def polyline(entry: ComparedEntry) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Cost and score of an entry's curve, cost rising: the exact one in-sample, else the band's."""
    if entry.exact_cost is not None and entry.exact_score is not None:
        return entry.exact_cost, entry.exact_score
    return rising_band(entry)


def rising_band(entry: ComparedEntry) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The band's curve with rising cost; merged folds may cross by a hair where thresholds are close."""
    order = np.argsort(entry.cost, kind="stable")
    return entry.cost[order], entry.score[order]


def area_rows(columns: Columns, entries: Sequence[ComparedEntry], samples: Samples) -> list[Measured]:
    """The area of every entry over the costs that all of them reach.

    The value is that of the exact curve (in-sample) or of the merged curve; resamples are taken on the band's costs,
    and moved by what the coarser curve differs from the exact one.
    """
    blanks = [
        Row(
            **columns,
            signal=entry.signal,
            parameters=entry.parameters,
            measure="area",
            n=samples.size,
            reason=entry.reason,
        )
        for entry in entries
    ]
    curves = [polyline(entry) for entry in entries]
    usable = [curve[0] for curve, entry in zip(curves, entries, strict=True) if len(curve[0]) > 1 < len(entry.cost)]
    low = max((float(costs[0]) for costs in usable), default=1.0)
    high = min((float(costs[-1]) for costs in usable), default=0.0)
    if len(usable) < len(entries) or low >= high:
        reason = "the compared signals have no range of costs in common"
        return [Measured(blank._replace(status="undefined", reason=joined(reason, blank.reason))) for blank in blanks]
    span = f"over relative costs {low:.4f} to {high:.4f}"
    areas = []
    for blank, entry, curve in zip(blanks, entries, curves, strict=True):
        value = area_below(*curve, low, high)
        coarse = area_below(*rising_band(entry), low, high)
        draws = areas_below(entry.cost_resampled, entry.score_resampled, low, high)
        row = blank._replace(value=value, reason=joined(span, blank.reason))
        areas.append(Measured(row, draws + (value - coarse)))
    return with_intervals(areas)


def bound_rows(columns: Columns, samples: Samples, questions: Questions, weights: SampleWeights) -> list[Row]:
    """Oracle, final layer, every fixed layer, and a random exit policy at the suite's speed-ups."""
    outcomes = samples.outcomes
    rows: list[Row] = []
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
        resampled = resampled_exits(bound.exits, outcomes, weights)
        drawn = with_intervals(tally_rows(blank, bound.tally, resampled, samples))
        # The speed-up of a fixed layer has no sampling error, which is no reason to call it unreliable.
        rows += [
            (exact if bound.name != "oracle" and exact.row.measure == "speed_up" else spread).row
            for exact, spread in zip(plain, drawn, strict=True)
        ]
    for speed_up in questions.every_speed_up:
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
            rows += [measured.row for measured in tally_rows(blank, policy.tally, None, samples)]
    return rows
