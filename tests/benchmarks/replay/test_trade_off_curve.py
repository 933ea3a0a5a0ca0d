import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.benchmarks.arrays import scratch_space
from exitbench.benchmarks.replay import exit_events
from exitbench.benchmarks.replay import trade_off_curve as trade_off_curve_module
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import Case, literal_exits, literal_outcomes, literal_tally, random_case

NAMES = ("samples", "layers", "correct", "true_positives", "predicted_positives", "actual_positives")


def assert_curve_is_literal(case: Case) -> None:
    curve = case.curve
    outcomes = literal_outcomes(case.scores)
    assert curve.points == len(outcomes)
    for point, exits in enumerate(outcomes):
        threshold = curve.thresholds[point]
        assert literal_exits(case.scores, threshold) == list(exits)
        assert curve.exit_layers(point).tolist() == list(exits)
        assert curve.histogram(point).sum() == len(exits)
        assert bool(curve.one_layer_at(np.array(point))) == (len(set(exits)) == 1)
        counts = literal_tally(case, exits)
        assert {name: int(getattr(curve.tally[point], name)) for name in NAMES} == counts


@for_each(seed=range(200))
def test_the_curve_has_every_outcome_of_the_literal_rule_and_no_other(seed):
    assert_curve_is_literal(random_case(seed))


@for_each(seed=range(40))
def test_an_integer_signal_has_one_point_per_integer(seed):
    case = random_case(seed, integers=True)
    assert case.curve.points == len(case.scores.integers)
    assert sorted(case.curve.thresholds) == list(case.scores.integers)
    assert_curve_is_literal(case)


@for_each(seed=range(80))
def test_a_point_found_by_bisection_is_the_one_a_search_in_all_points_finds(seed, monkeypatch):
    for module in (exit_events, trade_off_curve_module):
        monkeypatch.setattr(module, "FEW", 0)
    curve = random_case(seed, integers=seed % 4 == 0).curve
    speeds, costs, f1 = curve.speed_up, curve.relative_cost, curve.score("f1")
    asked = np.array([0.5, *speeds, *np.nextafter(speeds, np.inf), *np.nextafter(speeds, -np.inf), 99.0])
    np.testing.assert_array_equal(curve.first_as_fast(asked), np.searchsorted(speeds, asked))
    asked = np.array([2.0, *costs, *np.nextafter(costs, np.inf), *np.nextafter(costs, -np.inf), 0.0])
    np.testing.assert_array_equal(curve.first_as_cheap(asked), np.searchsorted(-costs, -asked))
    for score in (-1.0, *f1, *np.nextafter(f1, np.inf), 101.0):
        assert curve.first_below("f1", score) == next((point for point, here in enumerate(f1) if here < score), len(f1))
    assert curve.earliest_exit == min(int(curve.exit_layers(point).min()) for point in range(curve.points))
    if curve.scores.integers is None:
        assert curve.points_at(curve.thresholds).tolist() == list(range(curve.points))
    some = np.random.default_rng(seed).integers(0, curve.points, 9)
    np.testing.assert_array_equal(curve.thresholds_at(some), curve.thresholds[some])
    exits = [curve.exit_layers(int(point)) for point in some]
    assert curve.one_layer_at(some).tolist() == [len(set(layers.tolist())) == 1 for layers in exits]


@for_each(seed=range(40))
def test_any_threshold_lands_on_the_point_it_realises(seed):
    case = random_case(seed)
    curve, seen = case.curve, case.scores.values[np.isfinite(case.scores.values)]
    thresholds = np.array([-np.inf, np.inf, *seen, *np.nextafter(seen, np.inf), *np.nextafter(seen, -np.inf)])
    for threshold, point in zip(thresholds, curve.points_at(thresholds), strict=True):
        assert curve.exit_layers(point).tolist() == literal_exits(case.scores, threshold)
    assert np.array_equal(curve.points_at(curve.thresholds), np.arange(curve.points))


@pytest.mark.parametrize("direction", ["<", "<=", ">", ">="])
@pytest.mark.parametrize("start", [1.0, -1.0, 0.0, 1e-320, 1e308, -1.7e308, 2.0**52])
def test_neighbouring_floats_are_told_apart(direction, start):
    chain = [start]
    for _ in range(3):
        chain.append(np.nextafter(chain[-1], np.inf))
    scores = SignalScores(np.array([chain]), direction)
    curve = trade_off_curve(scores, Outcomes(np.ones((2, 4), dtype=bool)))
    assert curve.points == 5
    assert [int((curve.exit_layers(point) == 1).sum()) for point in range(5)] == [0, 1, 2, 3, 4]


def test_the_printed_threshold_is_the_midpoint_and_infinite_at_the_ends():
    curve = trade_off_curve(SignalScores(np.array([[0.2, 0.6, 0.2]]), "<"), Outcomes(np.ones((2, 3), dtype=bool)))
    assert curve.thresholds.tolist() == [-np.inf, 0.4, np.inf]
    extreme = trade_off_curve(SignalScores(np.array([[-1.7e308, 1.7e308]]), ">"), Outcomes(np.ones((2, 2), dtype=bool)))
    assert extreme.thresholds.tolist() == [np.inf, 0.0, -np.inf]


def test_zero_and_minus_zero_are_one_value():
    curve = trade_off_curve(SignalScores(np.array([[0.0, -0.0]]), "<"), Outcomes(np.ones((2, 2), dtype=bool)))
    assert curve.points == 2


scores_grid = st.integers(0, 2**32 - 1)


@given(scores_grid)
@settings(max_examples=60, deadline=None)
def test_speed_up_never_falls_along_the_points_and_thresholds_are_in_order(seed):
    case = random_case(seed, samples=25)
    curve = case.curve
    assert np.all(np.diff(curve.speed_up) > 0)
    assert np.all(np.diff(curve.thresholds * case.scores.sign) < 0)


@given(scores_grid)
@settings(max_examples=60, deadline=None)
def test_a_monotone_transform_changes_no_outcome(seed):
    case = random_case(seed, samples=25)
    scores = case.scores
    changed = SignalScores(
        np.arctan(scores.values / 3) * 5 + 2,
        scores.direction,
        scores.first_exit_layer,
        scores.first_scored_layer,
    )
    curve, other = case.curve, trade_off_curve(changed, case.outcomes)
    assert np.array_equal(curve.tally.layers, other.tally.layers)
    assert np.array_equal(curve.tally.correct, other.tally.correct)
    assert np.array_equal(curve.tally.f1, other.tally.f1)


@given(scores_grid)
@settings(max_examples=40, deadline=None)
def test_permuting_the_samples_changes_nothing(seed):
    case = random_case(seed, samples=25)
    order = np.random.default_rng(seed).permutation(25)
    other = trade_off_curve(case.scores.take(order), case.outcomes.take(order))
    assert np.array_equal(case.curve.thresholds, other.thresholds)
    assert np.array_equal(case.curve.tally.layers, other.tally.layers)
    assert np.array_equal(case.curve.tally.correct, other.tally.correct)
    assert np.array_equal(case.curve.tally.true_positives, other.tally.true_positives)


@pytest.mark.parametrize("integers", [False, True])
@for_each(seed=range(60))
def test_a_split_curve_is_those_of_its_two_sides(seed, integers, monkeypatch):
    monkeypatch.setattr(scratch_space, "BLOCK", 3 + seed % 40)  # taken over several blocks, or in one
    case = random_case(seed, samples=9 + seed % 5, integers=integers)
    rows = np.random.default_rng(seed).random(case.scores.samples) < 0.6
    rows[:2] = True, False
    for side, some in zip((rows, ~rows), case.curve.split(rows), strict=True):
        alone = Case(case.scores.take(side), case.outcomes.take(side), case.predictions[:, side], case.labels[side])
        assert_curve_is_literal(alone)
        assert np.array_equal(some.thresholds, alone.curve.thresholds)
        assert integers or np.array_equal(some.events.values, alone.curve.events.values)
        assert np.array_equal(some.scores.values, alone.scores.values, equal_nan=True)
        assert np.array_equal(some.scores.certainty, alone.scores.certainty, equal_nan=True)
        for point, threshold in enumerate(some.thresholds):
            exits = literal_exits(alone.scores, threshold)
            assert some.exit_layers(point).tolist() == exits
            assert some.tally.layers[point] == sum(exits)
            right = [alone.predictions[layer - 1, i] == alone.labels[i] for i, layer in enumerate(exits)]
            assert some.tally.correct[point] == sum(right)


@given(scores_grid)
@settings(max_examples=40, deadline=None)
def test_turning_scores_and_direction_around_changes_nothing(seed):
    case = random_case(seed, samples=25)
    around = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[case.scores.direction]
    turned = SignalScores(-case.scores.values, around, case.scores.first_exit_layer, case.scores.first_scored_layer)
    other = trade_off_curve(turned, case.outcomes)
    assert np.array_equal(case.curve.thresholds, -other.thresholds)
    assert np.array_equal(case.curve.tally.correct, other.tally.correct)


def test_an_integer_signal_refuses_other_thresholds():
    scores = SignalScores(np.array([[0.0, 1.0], [1.0, 2.0]]), ">=", integers=range(1, 3), signal="pabee")
    curve = trade_off_curve(scores, Outcomes(np.ones((3, 2), dtype=bool)))
    assert curve.points_at([2, 1]).tolist() == [0, 1]
    with pytest.raises(InputError, match=r"'pabee': expected an integer threshold 1..2, found 1.5"):
        curve.points_at(1.5)
    with pytest.raises(InputError, match="found 3"):
        curve.points_at([1, 3])


def test_nan_is_no_threshold():
    with pytest.raises(InputError, match="found nan"):
        random_case(0).curve.points_at(np.nan)


def test_scores_and_outcomes_must_belong_together():
    with pytest.raises(InputError, match="expected scores for 3 layers and 4 samples, found 2 and 4"):
        trade_off_curve(SignalScores(np.zeros((1, 4)), "<"), Outcomes(np.ones((3, 4), dtype=bool)))


def test_a_large_curve_agrees_with_replay_at_scattered_points():
    rng = np.random.default_rng(0)
    scores = SignalScores(np.round(rng.normal(size=(5, 3000)), 2), ">=")
    predictions, labels = rng.integers(0, 3, (6, 3000)), rng.integers(0, 3, 3000)
    curve = trade_off_curve(scores, Outcomes.of(predictions, labels))
    for point in rng.integers(0, curve.points, 20):
        exits = exit_layers(scores, float(curve.thresholds[point]))
        assert curve.tally.layers[point] == exits.sum()
        assert curve.tally.correct[point] == np.sum(predictions[exits - 1, np.arange(3000)] == labels)
