"""Searches in resampled sums must find what a walk along the points finds, one resample at a time."""

import numpy as np
import pytest

from exitbench.benchmarks.replay.operating_points import ROUNDING, nearest_point, nearest_points
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.statistics.hashed_randomness import poisson_weights
from exitbench.benchmarks.statistics.resampling.resampled_curves import weighted_tally
from exitbench.benchmarks.statistics.resampling.resampled_points import (
    TOGETHER,
    exactly_at,
    fewest_right,
    listed_points_within_losses,
    nearest_listed_points,
)
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.benchmarks.statistics.resampling.weighted_sums import WIDE, cumulative_sum
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import random_case

SEEDS = range(40)
RESAMPLES = 9


def whole_part_and_rest(seed):
    case = random_case(seed, samples=9 + seed % 5)
    curve, rows = case.curve, np.arange(case.scores.samples) % 3 == 0
    weights = poisson_weights(np.arange(case.scores.samples), seed, RESAMPLES)
    return tuple(
        weighted_tally(curve, curve.events.ends, SampleWeights.of(weights, drawn_rows))
        for drawn_rows in (rows | True, rows, ~rows)
    )


@for_each(seed=SEEDS)
def test_the_nearest_point_is_that_of_a_walk_along_all_points(seed):
    whole, part, rest = whole_part_and_rest(seed)
    speed_ups = np.array([1.0, 1.4, 2.0, 7.0])
    nearest = nearest_listed_points(whole, speed_ups, part)
    np.testing.assert_array_equal(nearest, nearest_listed_points(rest, speed_ups))
    for row, speed_up in enumerate(speed_ups):
        for column in np.flatnonzero(rest.samples):
            speeds = rest.depth * float(rest.samples[column]) / rest.layers[:, column].astype(float)
            apart = np.abs(speeds - speed_up)
            assert apart[nearest[row, column]] == apart.min()
            assert speeds[nearest[row, column]] == speeds[apart == apart.min()].max()


@pytest.mark.parametrize("measure", ["accuracy", "f1", "mean_accuracy_f1"])
@for_each(seed=SEEDS)
def test_the_last_point_within_a_loss_is_that_of_a_walk_from_full_depth(seed, measure):
    whole, part, rest = whole_part_and_rest(seed)
    losses = [0.0, 3.0, 12.5]
    scores = rest.score(measure)
    final = scores[0]
    last = listed_points_within_losses(whole, measure, final, losses, ROUNDING, part)
    np.testing.assert_array_equal(last, listed_points_within_losses(rest, measure, final, losses, ROUNDING))
    for row, loss in enumerate(losses):
        for column in range(RESAMPLES):
            point = 0
            while point < len(scores) and not scores[point, column] < final[column] - loss - ROUNDING:
                point += 1
            assert last[row, column] == point - 1


def test_the_fewest_right_answers_are_those_of_trying_every_count():
    samples = np.repeat(np.arange(1.0, 41.0), 41)
    counts = np.tile(np.arange(41.0), 40)
    exact = 100.0 * counts / samples
    for asked in (exact, np.nextafter(exact, 200.0), np.nextafter(exact, -1.0), exact - ROUNDING, exact - 0.5):
        every = 100.0 * np.arange(2000.0)[:, None] / samples
        literal = np.argmax(every >= asked, axis=0)
        np.testing.assert_array_equal(np.maximum(fewest_right(asked, samples), 0), literal)


def test_a_resample_without_samples_has_no_fewest_right_answers():
    assert np.isnan(fewest_right(np.array([[np.nan, 50.0]]), np.array([0.0, 0.0]))).all()


@pytest.mark.parametrize("integers", [False, True])
@for_each(seed=SEEDS)
def test_the_points_nearest_to_many_speed_ups_are_the_nearest_of_all(seed, integers):
    curve = random_case(seed, integers=integers).curve
    speed_ups = np.linspace(0.5, curve.depth + 0.5, 17)
    for speed_up, point in zip(speed_ups, nearest_points(curve, speed_ups), strict=True):
        apart = np.abs(curve.speed_up - speed_up)
        assert apart[point] == pytest.approx(apart.min(), abs=1e-12)
        assert point == 0 or curve.speed_up[point - 1] < curve.speed_up[point]
        assert point == nearest_point(curve, float(speed_up))


def test_one_senseless_speed_up_among_many_is_refused():
    with pytest.raises(InputError, match="above 0, found -1"):
        nearest_points(random_case(3).curve, np.array([2.0, -1.0]))


@for_each(seed=SEEDS)
def test_the_value_at_exactly_a_speed_up_lies_on_the_line_between_its_neighbours(seed):
    whole, _, _ = whole_part_and_rest(seed)
    for speed_up in (1.0, 1.3, 2.0, 50.0):
        exact = exactly_at(whole, speed_up)
        for column in np.flatnonzero(whole.samples):
            layers, right = whole.layers[:, column].astype(float), whole.correct[:, column].astype(float)
            asked = whole.depth * float(whole.samples[column]) / speed_up
            reached = float(np.clip(asked, layers.min(), layers.max()))
            assert exact.layers[column] == pytest.approx(reached)
            # Where no drawn sample moves, several points have one cost: any of them may be the neighbour.
            between = {
                float(np.interp(reached, layers[::-1][kept], right[::-1][kept])) for kept in one_per_cost(layers)
            }
            assert min(abs(exact.correct[column] - value) for value in between) < 1e-9


def one_per_cost(layers):
    """Rising positions with one point per cost: the first, or the last of each group of equal costs."""
    rising = layers[::-1]
    first = np.concatenate([[True], rising[1:] != rising[:-1]])
    last = np.concatenate([rising[1:] != rising[:-1], [True]])
    return first, last


@pytest.mark.parametrize("resamples", [1, TOGETHER, 2 * TOGETHER + 1])
def test_the_nearest_point_is_the_nearest_of_all_in_every_resample(resamples: int) -> None:
    random = np.random.default_rng(resamples)
    samples = random.poisson(20, resamples).astype(np.float64)
    layers = -np.sort(-random.integers(1, 12 * 20, (37, resamples)), axis=0).astype(np.float32)
    speed_ups = np.array([1.5, 2.0, 4.0])
    points = nearest_listed_points(Tally(12, samples, layers, layers), speed_ups)
    for speed_up, nearest in zip(speed_ups, points, strict=True):
        for resample in range(resamples):
            distances = np.abs(12 * samples[resample] / layers[:, resample].astype(np.float64) - speed_up)
            assert distances[nearest[resample]] == distances.min()


@pytest.mark.parametrize("columns", [1, WIDE - 1, WIDE, WIDE + 1])
def test_cumulative_sums_of_wide_and_of_narrow_rows(columns: int) -> None:
    for rows in (1, 2, 9, 50):
        changes = np.random.default_rng(rows).integers(-9, 9, (rows, columns)).astype(np.float32)
        np.testing.assert_array_equal(cumulative_sum(changes.copy()), np.cumsum(changes, axis=0))
