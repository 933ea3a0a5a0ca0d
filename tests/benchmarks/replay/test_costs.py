"""Costs that are not proportional to the layer: every sum against a literal loop, and no costs against costs m/M."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.benchmarks.replay.bounds import (
    final_layer,
    fixed_at,
    fixed_curve,
    fixed_layer,
    oracle,
    random_at,
    random_curve,
    random_tally,
)
from exitbench.benchmarks.replay.operating_points import matched, randomised
from exitbench.benchmarks.replay.tally import tally_at
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import FULL_COST, Outcomes, cost_units
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.hashed_randomness import poisson_weights
from exitbench.benchmarks.statistics.resampling.resampled_curves import resampled_exits, weighted_tally
from exitbench.benchmarks.statistics.resampling.resampled_points import nearest_listed_points
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.errors import InputError

COSTS = [3.0, 3.5, 9.0, 9.0, 20.0]
DEPTH = len(COSTS)


def example(seed: int, samples: int = 60, costs: list[float] | None = COSTS) -> tuple[SignalScores, Outcomes]:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 25, (DEPTH - 1, samples)).astype(float)
    predictions, labels = rng.integers(0, 2, (DEPTH, samples)), rng.integers(0, 2, samples)
    return SignalScores(values, ">="), Outcomes.of(predictions, labels, 1, costs)


def literal_exits(scores: SignalScores, threshold: float) -> list[int]:
    exits = []
    for sample in range(scores.samples):
        passed = [layer for layer in range(1, scores.depth) if scores.values[layer - 1, sample] >= threshold]
        exits.append(passed[0] if passed else scores.depth)
    return exits


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_the_speed_up_at_every_point_is_that_of_a_literal_loop(seed: int) -> None:
    scores, outcomes = example(seed)
    curve = trade_off_curve(scores, outcomes)
    for point, threshold in enumerate(curve.thresholds):
        exits = literal_exits(scores, float(threshold))
        mean_cost = sum(COSTS[layer - 1] for layer in exits) / len(exits)
        assert curve.speed_up[point] == pytest.approx(COSTS[-1] / mean_cost, rel=1e-8)
        assert curve.relative_cost[point] == pytest.approx(mean_cost / COSTS[-1], rel=1e-8)
        assert curve.tally.mean_exit_layer[point] == pytest.approx(sum(exits) / len(exits), rel=1e-12)
        assert tally_at(np.array(exits), outcomes).speed_up == curve.speed_up[point]


@pytest.mark.parametrize("speed_up", [1.2, 1.9, 2.5, 4.0])
def test_randomising_gives_exactly_the_wanted_speed_up(speed_up: float) -> None:
    curve = trade_off_curve(*example(1))
    tally = randomised(curve, speed_up)
    assert tally is not None
    assert float(tally.speed_up) == pytest.approx(speed_up, rel=1e-12)
    assert matched(curve, speed_up).speed_up == pytest.approx(
        min(curve.speed_up, key=lambda speed: abs(speed - speed_up))
    )


def test_bounds_pay_what_their_layers_cost() -> None:
    _, outcomes = example(2)
    for layer in range(1, DEPTH + 1):
        assert float(fixed_layer(outcomes, layer).tally.speed_up) == pytest.approx(COSTS[-1] / COSTS[layer - 1])
    assert float(final_layer(outcomes).tally.speed_up) == 1.0
    best = oracle(outcomes)
    assert best.exits is not None
    paid = np.array(COSTS)[best.exits - 1].mean()
    assert float(best.tally.speed_up) == pytest.approx(COSTS[-1] / paid)


@pytest.mark.parametrize("speed_up", [1.0, 1.7, 20 / 9, 3.0, 20 / 3.5, 6.5, 6.66])
def test_a_fixed_layer_at_a_speed_up_pays_exactly_that(speed_up: float) -> None:
    _, outcomes = example(6)
    bound = fixed_at(outcomes, speed_up)
    assert bound is not None
    assert float(bound.tally.speed_up) == pytest.approx(speed_up, rel=1e-8)
    assert fixed_at(outcomes, 6.7) is None
    tally = fixed_curve(outcomes)
    assert np.allclose(tally.speed_up[::8], [COSTS[-1] / cost for cost in reversed(COSTS)])


def test_the_random_policy_meets_a_speed_up_and_covers_all_that_there_are() -> None:
    _, outcomes = example(3)
    policy = random_at(outcomes, 2.0)
    assert policy is not None
    assert float(policy.tally.speed_up) == pytest.approx(2.0, rel=1e-9)
    assert random_at(outcomes, COSTS[-1] / COSTS[0] + 0.1) is None
    speeds = random_curve(outcomes).speed_up
    assert (speeds[0], speeds[-1]) == pytest.approx((1.0, COSTS[-1] / COSTS[0]))
    chance = 0.3
    shares = [chance * (1 - chance) ** layer for layer in range(DEPTH - 1)] + [(1 - chance) ** (DEPTH - 1)]
    expected = COSTS[-1] / sum(share * cost for share, cost in zip(shares, COSTS, strict=True))
    assert float(random_tally(outcomes, chance).speed_up) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("part", [False, True])
def test_resampled_costs_are_those_of_a_literal_loop(part: bool) -> None:
    scores, outcomes = example(4, samples=40)
    curve = trade_off_curve(scores, outcomes)
    weights = poisson_weights(np.arange(40), 0, 150)
    rows = np.arange(40) % 3 != 0 if part else np.ones(40, dtype=bool)
    drawn = SampleWeights.of(weights, rows)
    tally = weighted_tally(curve, curve.events.ends, drawn)
    units = cost_units(COSTS, DEPTH)
    for point in range(0, curve.points, 5):
        paid = units[curve.exit_layers(point) - 1]
        expected = (weights[rows].astype(np.int64) * paid[rows][:, None]).sum(axis=0)
        assert np.array_equal(np.asarray(tally.cost)[point], expected)
        fixed = resampled_exits(curve.exit_layers(point), outcomes, drawn)
        assert np.array_equal(np.asarray(fixed.cost), expected)
    targets = np.array([1.3, 2.0, 3.7])
    nearest = nearest_listed_points(tally, targets)
    speeds = tally.speed_up
    for row, target in enumerate(targets):
        expected_distance = np.abs(speeds - target).min(axis=0)
        assert np.allclose(np.abs(speeds[nearest[row], np.arange(150)] - target), expected_distance)


def test_costs_in_proportion_to_the_layer_change_nothing_that_can_be_seen() -> None:
    scores, plain = example(5, costs=None)
    _, proportional = example(5, costs=[1.0, 2.0, 3.0, 4.0, 5.0])
    without, with_costs = trade_off_curve(scores, plain), trade_off_curve(scores, proportional)
    assert np.allclose(without.speed_up, with_costs.speed_up, rtol=1e-8)
    assert without.tally.cost is None
    assert np.array_equal(without.speed_up, DEPTH * 60 / without.tally.layers)


def test_sums_of_costs_are_whole_numbers_and_so_independent_of_order() -> None:
    units = cost_units([0.1, 0.1 + 1e-12, 7e5], 3)
    assert units.dtype == np.int64
    assert units.tolist()[-1] == FULL_COST
    assert units[0] >= 1


@pytest.mark.parametrize(
    "costs", [[1.0, 2.0], [2.0, 1.0, 3.0, 4.0, 5.0], [0.0, 1, 2, 3, 4], [1, 2, 3, 4, float("inf")]]
)
def test_costs_that_cannot_be_are_refused(costs: list[float]) -> None:
    with pytest.raises(InputError, match="expected 5 costs above 0 that never fall"):
        cost_units(costs, 5)


@pytest.mark.long
def test_a_cache_with_costs_is_measured_by_them(tmp_path: Path) -> None:
    from exitbench.benchmarks.api import evaluate, replay
    from exitbench.cache import synthetic_cache

    cache = synthetic_cache(tmp_path / "c", rows=300, layers=5, width=6, compact=True, costs=COSTS)
    curve = replay(cache, "deebert")
    point = curve.points // 2
    exits = curve.exit_layers(point)
    assert curve.speed_up[point] == pytest.approx(COSTS[-1] / np.array(COSTS)[exits - 1].mean())
    rows = evaluate(cache, ["deebert"], speed_ups=[2.0], resamples=20).results
    everywhere = rows[(rows.signal == "fixed") & (rows.protocol == "in-sample") & (rows.operating_point == "")]
    fixed = everywhere[everywhere.measure == "speed_up"]
    assert fixed.value.to_numpy() == pytest.approx([COSTS[-1] / cost for cost in COSTS])
    layers = everywhere[everywhere.measure == "mean_exit_layer"]
    assert layers.value.to_numpy() == pytest.approx([1, 2, 3, 4, 5])
    matched_rows = rows[
        (rows.signal == "deebert") & (rows.measure == "speed_up") & (rows.operating_point == "speed_up=2")
    ]
    assert matched_rows.value.to_numpy() == pytest.approx([2.0, 2.0], rel=0.02)


@pytest.mark.long
@pytest.mark.filterwarnings("error")
def test_where_all_layers_cost_the_same_no_exit_is_any_faster(tmp_path: Path) -> None:
    from exitbench.benchmarks.api import evaluate
    from exitbench.cache import synthetic_cache

    cache = synthetic_cache(tmp_path / "c", rows=40, layers=3, width=4, compact=True, costs=[7.0, 7.0, 7.0])
    rows = evaluate(cache, ["deebert", "pabee"], speed_ups=[2.0], resamples=5, protocols=["in-sample"]).results
    speed_ups = rows[(rows.measure == "speed_up") & rows.value.notna()]
    assert {"deebert", "pabee", "fixed"} <= set(speed_ups.signal)
    assert (speed_ups.value == 1.0).all()
