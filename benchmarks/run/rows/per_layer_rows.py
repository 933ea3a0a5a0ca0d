"""Per-layer thresholds in the result files: their rows beside the shared threshold's, and the paired tests against it.

All three are measured in the same way, with their thresholds as they were fitted: resamples of the scored rows give
the intervals, and a paired difference has the standard error of its influence values. The tests of one column are a
family of their own, apart from the contest between signals, which knows the shared threshold only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.part_curves import PartCurves
from exitbench.benchmarks.protocols.part_result import ResampledPoint
from exitbench.benchmarks.protocols.per_layer_points import per_layer_points
from exitbench.benchmarks.replay.tally import score_influence
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Difference, joined
from exitbench.benchmarks.results.vocabulary import PER_LAYER, SCHEDULES, Schedule
from exitbench.benchmarks.run.across_caches.average_errors import AverageErrors
from exitbench.benchmarks.run.rows.measured import with_intervals
from exitbench.benchmarks.run.rows.measured_rows import tally_rows
from exitbench.benchmarks.scoring.groups import standard_error
from exitbench.benchmarks.statistics.crossed_errors import mean_difference
from exitbench.benchmarks.statistics.delong import NAN, normal_difference
from exitbench.benchmarks.statistics.multiple_comparisons import holm
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.benchmarks.suites.questions import Questions

Pair = dict[str, Any]
"""A row of ``pairs.parquet``."""

GIVEN = "intervals for the thresholds as fitted, which resamples do not repeat"
FLATTERED = "the thresholds were fitted on the scored rows, which flatters the larger number of them"


def schedule_parameters(parameters: str, schedule: Schedule) -> str:
    """The parameters of an entry with the thresholds it was measured with.

    >>> schedule_parameters("alpha=0.1|1", "quota"), schedule_parameters("", "shared")
    ('alpha=0.1|1,thresholds=quota', 'thresholds=shared')
    """
    return ",".join(filter(None, (parameters, f"thresholds={schedule}")))


def per_layer_rows(
    blank: Row, merged: MergedParts, curves: Sequence[PartCurves], questions: Questions, weights: SampleWeights
) -> tuple[list[Row], list[Pair]]:
    """The rows of one entry at the suite's speed-ups with each kind of thresholds, and the pairs against the shared."""
    rows: list[Row] = []
    pairs: list[Pair] = []
    for point in map(at_speed_up, dict.fromkeys((questions.primary_speed_up, *questions.speed_ups))):
        values = per_layer_points(merged, curves, point, weights)
        described, chosen = merged.choices.described(point)
        here = blank._replace(operating_point=point, chosen=chosen)
        for schedule in SCHEDULES:
            value = values[schedule]
            named = here._replace(
                parameters=schedule_parameters(blank.parameters, schedule),
                reason=joined(value.reason, described, GIVEN, blank.reason),
            )
            measured = tally_rows(named, value.tally, value.resampled, merged.samples, value.status)
            rows += [number.row for number in with_intervals(measured)]
            if schedule != "shared" and value.status == values["shared"].status == "ok":
                pairs.append(pair_row(here, schedule, value, values["shared"], merged))
    return rows, pairs


def pair_row(
    blank: Row, schedule: Schedule, value: ResampledPoint, shared: ResampledPoint, merged: MergedParts
) -> Pair:
    """The task score with per-layer thresholds less that with the shared one, not adjusted yet."""
    samples = merged.samples
    assert value.exits is not None
    assert shared.exits is not None
    difference = value.score(samples.measure) - shared.score(samples.measure)
    influence = [score_influence(exits, samples.outcomes, samples.measure) for exits in (value.exits, shared.exits)]
    test = normal_difference(difference, standard_error(influence[0] - influence[1], samples.groups))
    if merged.parts[0].in_sample:
        test = Difference(difference, NAN, NAN, test.std_err, NAN, "undefined", FLATTERED)
    return {
        **{name: getattr(blank, name) for name in ("cache", "model", "task", "split", "protocol")},
        "operating_point": blank.operating_point.text,
        "layer": None,
        "decisions": PER_LAYER,
        "measure": samples.measure,
        "signal_a": blank.signal,
        "parameters_a": schedule_parameters(blank.parameters, schedule),
        "signal_b": blank.signal,
        "parameters_b": schedule_parameters(blank.parameters, "shared"),
        "n": samples.size,
        **tested_columns(test),
    }


def tested_columns(test: Difference) -> Pair:
    """The columns of a pair that a test fills; adjusted later, with all tests of the column."""
    return {
        "difference": test.value,
        "low": test.low,
        "high": test.high,
        "std_err": test.std_err,
        "p_value": test.p_value,
        "p_adjusted": NAN,
        "p_against_best": None,
        "status": test.status,
        "reason": test.reason,
    }


def adjusted_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """The pairs with Holm's adjustment over those of one cache, protocol and operating point."""
    families: dict[tuple[Any, ...], list[Pair]] = {}
    for pair in pairs:
        family = tuple(pair[name] for name in ("cache", "model", "split", "protocol", "operating_point", "measure"))
        families.setdefault(family, []).append(pair)
    return [
        {**pair, "p_adjusted": p}
        for family in families.values()
        for pair, p in zip(family, holm([pair["p_value"] for pair in family]).tolist(), strict=True)
    ]


def mean_pairs(
    columns: Mapping[str, Any], pairs: Sequence[Mapping[str, Any]], errors: AverageErrors, measure: str
) -> list[Pair]:
    """The pairs of the average over tasks, for entries that have one on every cache; tasks are independent.

    Of caches that share rows the errors are averaged, as if they agreed wholly: the largest that it can be.
    """
    caches = {cache.cache for cache in errors.caches}
    gathered: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for pair in pairs:
        if pair["decisions"] == PER_LAYER and pair["protocol"] == columns["protocol"] and pair["cache"] in caches:
            names = ("signal_a", "parameters_a", "signal_b", "parameters_b", "operating_point")
            gathered.setdefault(tuple(pair[name] for name in names), []).append(pair)
    means = []
    for of_tasks in gathered.values():
        if len(of_tasks) < len(caches):
            continue
        single = {pair["cache"]: float(pair["difference"]) for pair in of_tasks}
        difference = errors.mean(single)
        mean_error = errors.of_correlated(single, {pair["cache"]: float(pair["std_err"]) for pair in of_tasks})
        test, error = mean_difference(difference, mean_error), mean_error.std_err
        unfair = next((pair for pair in of_tasks if pair["status"] != "ok"), None)
        if unfair is not None:
            test = Difference(difference, NAN, NAN, error, NAN, unfair["status"], unfair["reason"])
        count = errors.count({pair["cache"]: int(pair["n"]) for pair in of_tasks})
        means.append({**of_tasks[0], **columns, "measure": measure, "n": count, **tested_columns(test)})
    return adjusted_pairs(means)
