import math

import numpy as np
import pytest

from exitbench.benchmarks.replay.operating_points import (
    area_below,
    areas_below,
    matched,
    value_at_threshold,
    value_within_loss,
)
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import literal_exits, literal_outcomes, literal_tally, random_case

MEASURES = ("accuracy", "f1", "mean_accuracy_f1")


def literal_score(counts, measure):
    accuracy = 100 * counts["correct"] / counts["samples"]
    positives = counts["predicted_positives"] + counts["actual_positives"]
    f1 = 200 * counts["true_positives"] / positives if positives else 0.0
    return {"accuracy": accuracy, "f1": f1, "mean_accuracy_f1": (accuracy + f1) / 2}[measure]


def literal_points(case):
    return [literal_tally(case, exits) for exits in literal_outcomes(case.scores)]


def speed(case, counts):
    return case.scores.depth * counts["samples"] / counts["layers"]


@pytest.mark.parametrize("integers", [False, True])
@for_each(seed=range(80))
def test_the_matched_point_is_the_nearest_of_the_literal_curve(seed, integers):
    case = random_case(seed, integers=integers)
    points = literal_points(case)
    for speed_up in (1.0, 1.3, 1.5, 2.0, 3.0, 4.0):
        point = matched(case.curve, speed_up)
        best = min(points, key=lambda counts: (abs(speed(case, counts) - speed_up), -speed(case, counts)))
        assert point.speed_up == pytest.approx(speed(case, best))
        assert literal_tally(case, literal_exits(case.scores, point.threshold))["layers"] == best["layers"]
        off = abs(speed(case, best) - speed_up) / speed_up
        assert point.status == ("unmatched" if off > 0.02 else "ok")
        assert bool(point.reason) == (point.status != "ok")
        reachable = min(speed(case, p) for p in points) <= speed_up <= max(speed(case, p) for p in points)
        assert (point.randomised is not None) == reachable
        if point.randomised is not None:
            assert point.randomised.speed_up == pytest.approx(speed_up)
            slower = [p for p in points if speed(case, p) <= speed_up][-1]
            faster = next(p for p in points if speed(case, p) >= speed_up)
            gap = slower["layers"] - faster["layers"]
            share = (slower["layers"] - case.scores.depth * slower["samples"] / speed_up) / gap if gap else 0.0
            if speed(case, slower) == speed_up:
                continue
            mixed = {name: slower[name] + share * (faster[name] - slower[name]) for name in slower}
            for measure in MEASURES:
                assert point.randomised.score(measure) == pytest.approx(literal_score(mixed, measure))


def test_of_two_equally_near_points_the_faster_one_is_taken():
    curve = trade_off_curve(SignalScores(np.full((1, 1), 0.5), "<"), Outcomes(np.ones((2, 1), dtype=bool)))
    assert curve.speed_up.tolist() == [1.0, 2.0]
    assert matched(curve, 1.5).speed_up == 2.0
    assert matched(curve, 1.499).speed_up == 1.0


def test_exactly_two_percent_away_is_still_matched():
    scores = SignalScores(np.full((1, 1), 0.5), "<")
    curve = trade_off_curve(scores, Outcomes(np.ones((2, 1), dtype=bool)))
    assert matched(curve, 2.0 / 1.02).status == "ok"
    assert matched(curve, 2.0 / 1.021).status == "unmatched"


def test_out_of_reach_says_how_far_the_signal_goes():
    curve = trade_off_curve(SignalScores(np.full((1, 4), 0.5), "<"), Outcomes(np.ones((2, 4), dtype=bool)))
    point = matched(curve, 3.0)
    assert point.status == "unmatched"
    assert point.randomised is None
    assert "only reaches 1.00x to 2.00x" in point.reason


@for_each(seed=range(80))
def test_the_point_at_a_threshold_is_the_literal_replay(seed):
    case = random_case(seed)
    for threshold in (-1.0, 0.0, 0.4, 1.0, 3.5, math.inf):
        point = value_at_threshold(case.curve, threshold)
        counts = literal_tally(case, literal_exits(case.scores, threshold))
        assert point.threshold == threshold
        assert point.speed_up == pytest.approx(speed(case, counts))
        assert point.score("f1") == pytest.approx(literal_score(counts, "f1"))


@pytest.mark.long
@pytest.mark.parametrize("integers", [False, True])
@for_each(seed=range(80))
def test_the_largest_speed_up_within_a_loss_stops_at_the_first_fall(seed, integers):
    case = random_case(seed, integers=integers)
    points = literal_points(case)
    for measure in MEASURES:
        final = literal_score(literal_tally(case, [case.scores.depth] * len(case.labels)), measure)
        for loss in (0.0, 5.0, 20.0, 50.0):
            last = None
            for counts in points:
                if literal_score(counts, measure) < final - loss - 1e-9:
                    break
                last = counts
            point = value_within_loss(case.curve, loss, measure)
            if last is None:
                assert point.status == "undefined"
                assert math.isnan(point.speed_up)
                assert math.isnan(point.score(measure))
                assert "most cautious" in point.reason
            else:
                assert point.speed_up == pytest.approx(speed(case, last))


def test_a_loss_of_exactly_the_allowance_is_not_more_than_it():
    correct = np.ones((2, 200), dtype=bool)
    correct[0, 0] = False
    curve = trade_off_curve(SignalScores(np.zeros((1, 200)), "<"), Outcomes(correct))
    assert value_within_loss(curve, 0.5, "accuracy").speed_up == 2.0
    assert value_within_loss(curve, 0.49, "accuracy").speed_up == 1.0


@for_each(seed=range(60))
def test_the_area_is_that_of_a_fine_rectangle_sum(seed):
    case = random_case(seed)
    low, high = case.curve.cost_range
    if low == high:
        return
    low, high = low + 0.1 * (high - low), high - 0.2 * (high - low)
    cost = np.array([counts["layers"] / counts["samples"] / case.scores.depth for counts in literal_points(case)])
    score = np.array([literal_score(counts, "f1") for counts in literal_points(case)])
    middles = low + (np.arange(20_000) + 0.5) / 20_000 * (high - low)
    expected = np.interp(middles, cost[::-1], score[::-1]).mean() * (high - low)
    polyline = case.curve.relative_cost[::-1], case.curve.score("f1")[::-1]
    assert area_below(*polyline, low, high) == pytest.approx(expected, abs=1e-3)
    many = areas_below(*(np.repeat(values[:, None], 3, axis=1) for values in polyline), low, high)
    np.testing.assert_allclose(many, area_below(*polyline, low, high), rtol=1e-12)


def test_the_area_of_the_whole_curve_is_the_trapezoid_rule():
    curve = random_case(6, samples=40).curve
    expected = -np.trapezoid(curve.score("accuracy"), curve.relative_cost)
    polyline = curve.relative_cost[::-1], curve.score("accuracy")[::-1]
    assert area_below(*polyline, *curve.cost_range) == pytest.approx(expected)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan])
def test_a_senseless_speed_up_or_loss_is_refused(bad):
    curve = random_case(6, samples=10).curve
    with pytest.raises(InputError, match="expected a speed-up above 0"):
        matched(curve, bad)
    with pytest.raises(InputError, match="expected a loss of at least 0"):
        value_within_loss(curve, bad - 1, "accuracy")


def test_beyond_their_ends_polylines_are_level():
    # By hand: a rise from 60 at 0.4 to 80 at 0.6, level on both sides; the second lies left of the range altogether.
    costs = np.array([[0.6, 0.1], [0.4, 0.2]])
    scores = np.array([[80.0, 10.0], [60.0, 30.0]])
    expected = [0.2 * 60 + 0.2 * 70 + 0.3 * 80, 0.7 * 30]
    np.testing.assert_allclose(areas_below(costs, scores, 0.2, 0.9), expected, rtol=1e-12)
