"""Choices and merged predictions against literal loops; nothing leaks from a fold into what is chosen for it."""

import dataclasses

import numpy as np
import pytest

from exitbench.benchmarks.protocols.part_points import threshold_of
from exitbench.benchmarks.protocols.splits import fold_numbers, parts_of
from exitbench.benchmarks.results.operating_point import at_speed_up, at_threshold, within_loss
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.errors import InputError
from tests.support.literal_points import (
    IN_SAMPLE,
    QUESTIONS,
    grid,
    literal_exits,
    literal_point,
    merged_of,
)
from tests.support.score_cases import random_case
from tests.support.scored_cases import configuration, random_arrays, scored_cache


def test_the_parts_of_cross_fitting_are_the_folds_of_the_ids():
    ids = np.arange(100, 140)
    parts = parts_of("cross-fit", ids, seed=3, count=4)
    expected = folds(ids, 3, 4)
    for number, part in enumerate(parts):
        np.testing.assert_array_equal(part.test, expected == number)
        np.testing.assert_array_equal(part.train, ~part.test)
    np.testing.assert_array_equal(fold_numbers(parts), expected)


def test_a_fold_without_samples_is_no_part_and_one_fold_alone_is_refused():
    assert 1 < len(parts_of("cross-fit", np.arange(4), seed=0, count=50)) <= 4
    with pytest.raises(InputError, match="1 samples are too few to cross-fit"):
        parts_of("cross-fit", np.array([7]), seed=0, count=5)


def test_held_out_needs_a_calibration_cache():
    with pytest.raises(InputError, match="needs a calibration cache"):
        parts_of("held-out", np.arange(4), seed=0, count=5)


def test_in_sample_chooses_and_scores_on_the_same_samples(tmp_path):
    labels, predictions, scores = random_arrays(2, 60, 5, 1)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(1))
    point = merged_of(scored, IN_SAMPLE).at(at_speed_up(2))
    threshold, speed_up, accuracy = literal_point(scores[0], predictions == labels, 2.0)
    assert (point.threshold, float(point.tally.speed_up)) == (threshold, pytest.approx(speed_up))
    assert float(point.tally.accuracy) == pytest.approx(accuracy)


def test_held_out_applies_the_thresholds_of_the_calibration_cache(tmp_path):
    labels, predictions, scores = random_arrays(2, 60, 5, 1)
    other = random_arrays(8, 70, 5, 1)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(1), calibration=other)
    point = merged_of(scored, dataclasses.replace(QUESTIONS, protocols=("held-out",))).at(at_speed_up(2))
    threshold = literal_point(other[2][0], other[1] == other[0], 2.0)[0]
    assert point.threshold == threshold
    np.testing.assert_array_equal(point.exits, literal_exits(scores[0], threshold))


def test_a_grid_reaches_the_costs_that_any_of_its_values_reaches(tmp_path):
    labels, predictions, scores = random_arrays(3, 200, 6, 2)
    late = [configuration(parameters="a=0"), configuration(parameters="a=1", first_exit_layer=5)]
    merged = merged_of(scored_cache(tmp_path / "s", labels, predictions, scores, late), IN_SAMPLE)
    assert not merged.choices.results[1][0].reaches.all()
    assert merged.reaches.all()


@pytest.mark.parametrize("protocol", ["in-sample", "cross-fit"])
def test_a_point_at_which_every_sample_exits_at_one_layer_is_degenerate(tmp_path, protocol):
    labels, predictions, scores = random_arrays(3, 90, 6, 1)
    patient = [configuration(first_exit_layer=3)]
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, patient)
    merged = merged_of(scored, dataclasses.replace(QUESTIONS, protocols=(protocol,)))
    value = merged.at(at_speed_up(2.0))  # 6 / 3: everything exits at the first layer that may
    assert (value.status, value.reason) == (
        "degenerate",
        "every sample exits at layer 3: a fixed layer, not a signal",
    )
    assert np.isinf(value.threshold)
    assert float(value.tally.accuracy) == pytest.approx(100 * (predictions == labels)[2].mean())
    assert merged.at(at_speed_up(1.5)).status == "ok"


def test_a_point_at_which_every_fold_exits_at_its_own_layer_is_degenerate_too(tmp_path):
    """Two values of a patience, each a fixed layer near 2x; which one is better differs between folds."""
    labels, predictions, _ = random_arrays(3, 90, 100, 1)
    fold = folds(np.arange(90), 0, 3)
    # Layer 50 of 100 (2.0x) errs on the first fold only, layer 51 (1.96x) on the last: training parts disagree.
    predictions[49] = np.where(fold == 0, 1 - labels, labels)
    predictions[50] = np.where(fold == 2, 1 - labels, labels)
    late = [configuration(parameters=f"a={layer}", first_exit_layer=layer) for layer in (50, 51)]
    scores = [np.tile(np.arange(99.0)[::-1, None], 90)] * 2
    questions = dataclasses.replace(QUESTIONS, speed_ups=(1.98,), primary_speed_up=1.98, rates_speed_up=1.98)
    merged = merged_of(scored_cache(tmp_path / "s", labels, predictions, scores, late), questions)
    value = merged.at(at_speed_up(1.98))
    assert set(value.exits.tolist()) == {50, 51}
    assert value.status == "degenerate"
    assert "every sample of a fold exits at one layer" in value.reason


def test_a_loss_that_allows_no_exit_is_degenerate(tmp_path):
    labels, predictions, scores = random_arrays(3, 60, 4, 1)
    predictions[-1] = labels
    predictions[:-1] = 1 - labels
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(1))
    value = merged_of(scored, dataclasses.replace(IN_SAMPLE, losses=(0.0,))).at(within_loss(0.0))
    assert (value.status, value.speed_up) == ("degenerate", 1.0)
    assert value.reason == "every sample exits at layer 4, the last: no early exit"


def test_a_degenerate_point_far_from_the_speed_up_says_both(tmp_path):
    labels, predictions, scores = random_arrays(3, 60, 6, 1)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, [configuration(first_exit_layer=4)])
    value = merged_of(scored, IN_SAMPLE).at(at_speed_up(2.0))
    assert value.status == "degenerate"
    assert value.reason.startswith("every sample exits at layer 4: a fixed layer, not a signal; the nearest operating")


def test_the_median_threshold_is_a_score_of_the_cache(tmp_path):
    labels, predictions, scores = random_arrays(3, 61, 4, 1)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(1))
    questions = dataclasses.replace(QUESTIONS, protocols=("in-sample",), thresholds={"*": ("median", 0.25)})
    evaluation = evaluate_configurations(scored, [0], questions)
    points = evaluation.results["in-sample"][0][0].points
    assert points[at_threshold("median")].threshold == np.sort(scores[0][0])[30]
    np.testing.assert_array_equal(points[at_threshold(0.25)].exits, literal_exits(scores[0], 0.25))


def test_randomising_on_held_out_samples_takes_the_shares_of_the_training_samples(tmp_path):
    labels, predictions, scores = random_arrays(2, 60, 5, 1)
    train_labels, train_predictions, train_scores = random_arrays(8, 70, 5, 1)
    coarse, train_coarse = (np.round(values[0] / 2) for values in (scores, train_scores))  # few thresholds
    calibration = (train_labels, train_predictions, [train_coarse])
    scored = scored_cache(tmp_path / "s", labels, predictions, [coarse], grid(1), calibration=calibration)
    value = merged_of(scored, dataclasses.replace(QUESTIONS, protocols=("held-out",))).at(at_speed_up(1.5))
    assert value.status == "unmatched"
    levels = np.unique(np.maximum.accumulate(train_coarse, axis=0))
    thresholds = [np.inf, *((levels[1:] + levels[:-1]) / 2)[::-1], -np.inf]
    means = [np.mean(literal_exits(train_coarse, threshold)) for threshold in thresholds]
    right = next(index for index, mean in enumerate(means) if 5 / mean >= 1.5)
    share = (means[right - 1] - 5 / 1.5) / (means[right - 1] - means[right])
    before, after = (np.mean(literal_exits(coarse, thresholds[index])) for index in (right - 1, right))
    assert float(value.randomised.mean_exit_layer) == pytest.approx((1 - share) * before + share * after)


def test_the_error_of_a_held_out_speed_up_is_the_jackknifes(tmp_path):
    labels, predictions, scores = random_arrays(3, samples=400, depth=5, configurations=1)
    calibration = random_arrays(4, samples=250, depth=5, configurations=1)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(1), calibration=calibration)
    merged = merged_of(scored, dataclasses.replace(QUESTIONS, protocols=("held-out",)))
    value = merged.at(at_speed_up(2))
    exits = value.exits.astype(float)
    without = 5 / ((exits.sum() - exits) / (len(exits) - 1))
    of_scored = np.sqrt((len(exits) - 1) * without.var())
    # The 250 rows that chose vary as the 400 scored ones do, row by row.
    assert merged._speed_up_error(value) == pytest.approx(of_scored * np.sqrt(1 + 400 / 250), rel=0.01)


@pytest.mark.parametrize("samples", [9, 10])
def test_the_median_threshold_is_the_lower_median_of_the_first_layer_that_may_exit(samples):
    scores = random_case(3, samples=samples).scores
    first = sorted(scores.values[scores.first_exit_layer - 1].tolist())
    assert threshold_of(at_threshold("median"), scores) == first[4]


def test_a_curve_from_the_first_to_the_last_layer_reaches_every_cost(tmp_path):
    arrays = random_arrays(5, samples=40, depth=5, configurations=1)
    scored = scored_cache(tmp_path / "s", *arrays, grid(1))
    (result,) = evaluate_configurations(scored, [0], IN_SAMPLE).results["in-sample"][0]
    assert result.reaches.all()
