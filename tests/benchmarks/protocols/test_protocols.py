"""Choices and merged predictions against literal loops; nothing leaks from a fold into what is chosen for it."""

import dataclasses

import numpy as np
import pytest

from exitbench.benchmarks.protocols.choice import Choice, choose
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.splits import describe_choice, fold_numbers, parts_of
from exitbench.benchmarks.results.operating_point import at_speed_up, at_threshold
from exitbench.benchmarks.run.measure_stage import evaluate_configurations
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.benchmarks.suites.questions import Questions
from exitbench.errors import InputError
from tests.support.scored_cases import configuration, random_arrays, scored_cache

QUESTIONS = Questions(
    speed_ups=(1.5, 2.0), rates_speed_up=2.0, losses=(5.0,), resamples=12, folds=3, protocols=("cross-fit",)
)


def grid(count):
    return [configuration(parameters=f"a={number}", default=number == 1) for number in range(count)]


def literal_exits(values, threshold):
    """The first internal layer whose score is at least the threshold, else the last."""
    depth = len(values) + 1
    return [next((m + 1 for m in range(depth - 1) if values[m, i] >= threshold), depth) for i in range(values.shape[1])]


def literal_point(values, right, speed_up):
    """Threshold, speed-up and accuracy of the point nearest to a speed-up, the faster of two, by trying them all."""
    depth, samples = right.shape
    levels = np.unique(np.maximum.accumulate(values, axis=0))
    best = None
    for threshold in [*((levels[1:] + levels[:-1]) / 2), -np.inf, np.inf]:
        exits = literal_exits(values, threshold)
        realised = depth * samples / sum(exits)
        accuracy = 100 * sum(right[e - 1, i] for i, e in enumerate(exits)) / samples
        key = (abs(realised - speed_up), -realised)
        if best is None or key < best[0]:
            best = (key, threshold, realised, accuracy)
    return best[1:]


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


@pytest.mark.parametrize("seed", range(4))
def test_cross_fit_equals_a_literal_loop_over_folds(tmp_path, seed):
    labels, predictions, scores = random_arrays(seed, 45, 5, 3)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(3))
    evaluation = evaluate_configurations(scored, [0, 1, 2], QUESTIONS)
    candidates = [evaluation.results["cross-fit"][number] for number in range(3)]
    merged = MergedParts(candidates, evaluation.parts["cross-fit"], choose(candidates, 1), scored.samples())
    right = predictions == labels
    fold = folds(np.arange(45), 0, 3)
    exits = np.zeros(45, dtype=int)
    for number, part in enumerate(evaluation.parts["cross-fit"]):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        at_two = [literal_point(values[:, train], right[:, train], 2.0) for values in scores]
        near = [accuracy if abs(realised - 2.0) <= 0.04 else -1 for _, realised, accuracy in at_two]
        chosen = 1 if near[1] == max(near) else int(np.argmax(near))
        assert merged.choice.parts[number] == chosen
        threshold = literal_point(scores[chosen][:, train], right[:, train], 1.5)[0]
        exits[test] = literal_exits(scores[chosen][:, test], threshold)
        assert part.test.sum() == len(test)
    point = merged.at(at_speed_up(1.5))
    np.testing.assert_array_equal(point.exits, exits)
    assert float(point.tally.accuracy) == pytest.approx(100 * right[exits - 1, np.arange(45)].mean())
    assert float(point.tally.speed_up) == pytest.approx(5 / exits.mean())


def test_shuffling_the_labels_of_a_fold_changes_nothing_that_is_chosen_for_it(tmp_path):
    labels, predictions, scores = random_arrays(5, 80, 5, 3)
    fold = folds(np.arange(80), 0, 3)
    shuffled = labels.copy()
    rng = np.random.default_rng(0)
    shuffled[fold == 1] = rng.permutation(1 - labels[fold == 1])
    chosen = []
    for name, true in (("plain", labels), ("shuffled", shuffled)):
        scored = scored_cache(tmp_path / name, true, predictions, scores, grid(3))
        evaluation = evaluate_configurations(scored, [0, 1, 2], QUESTIONS)
        candidates = [evaluation.results["cross-fit"][number] for number in range(3)]
        choice = choose(candidates, 1)
        chosen.append((choice, candidates))
    (before, plain), (after, changed) = chosen
    assert not np.array_equal(labels[fold == 1], shuffled[fold == 1])
    assert before.parts[1] == after.parts[1]
    np.testing.assert_array_equal(before.resampled[1], after.resampled[1])
    for configuration_before, configuration_after in zip(plain, changed, strict=True):
        for at, point in configuration_before[1].points.items():
            same = configuration_after[1].points[at]
            assert point.threshold == same.threshold or np.isnan([point.threshold, same.threshold]).all()
            np.testing.assert_array_equal(point.exits, same.exits)
    # The other folds do train on the shuffled labels, so the test could have failed.
    assert [parts[0].primary for parts in plain] != [parts[0].primary for parts in changed]


def test_in_sample_chooses_and_scores_on_the_same_samples(tmp_path):
    labels, predictions, scores = random_arrays(2, 60, 5, 2)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(2))
    evaluation = evaluate_configurations(scored, [0, 1], dataclasses.replace(QUESTIONS, protocols=("in-sample",)))
    point = MergedParts(
        [evaluation.results["in-sample"][0]], evaluation.parts["in-sample"], Choice.only(0, 1), scored.samples()
    ).at(at_speed_up(2))
    threshold, speed_up, accuracy = literal_point(scores[0], predictions == labels, 2.0)
    assert (point.threshold, float(point.tally.speed_up)) == (threshold, pytest.approx(speed_up))
    assert float(point.tally.accuracy) == pytest.approx(accuracy)


def test_held_out_applies_the_thresholds_of_the_calibration_cache(tmp_path):
    labels, predictions, scores = random_arrays(2, 60, 5, 1)
    other = random_arrays(8, 70, 5, 1)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(1), calibration=other)
    held_out = dataclasses.replace(QUESTIONS, protocols=("held-out",))
    evaluation = evaluate_configurations(scored, [0], held_out)
    point = MergedParts(
        [evaluation.results["held-out"][0]], evaluation.parts["held-out"], Choice.only(0, 1), scored.samples()
    ).at(at_speed_up(2))
    threshold = literal_point(other[2][0], other[1] == other[0], 2.0)[0]
    assert point.threshold == threshold
    np.testing.assert_array_equal(point.exits, literal_exits(scores[0], threshold))


def test_a_tie_goes_to_the_default():
    class Part:
        def __init__(self, primary):
            self.primary, self.primary_resampled = primary, np.array([primary, 90.0 - primary])

    choice = choose([[Part(80.0)], [Part(80.0)], [Part(70.0)]], default=1)
    assert choice.parts.tolist() == [1]
    assert choice.resampled.tolist() == [[1, 2]]


def test_a_configuration_that_never_gets_near_the_speed_up_is_not_chosen_for_its_score_elsewhere(tmp_path):
    labels, predictions, scores = random_arrays(3, 60, 6, 2)
    late = [configuration(parameters="a=0"), configuration(parameters="a=1", first_exit_layer=5)]
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, late)
    evaluation = evaluate_configurations(scored, [0, 1], dataclasses.replace(QUESTIONS, protocols=("in-sample",)))
    candidates = [evaluation.results["in-sample"][number] for number in (0, 1)]
    assert np.isnan(candidates[1][0].primary)  # at best 6 / 5 = 1.2x
    assert choose(candidates, 1).parts.tolist() == [0]


def test_the_median_threshold_is_a_score_of_the_cache(tmp_path):
    labels, predictions, scores = random_arrays(3, 61, 4, 1)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(1))
    questions = dataclasses.replace(QUESTIONS, protocols=("in-sample",), thresholds={"*": ("median", 0.25)})
    evaluation = evaluate_configurations(scored, [0], questions)
    points = evaluation.results["in-sample"][0][0].points
    assert points[at_threshold("median")].threshold == np.sort(scores[0][0])[30]
    np.testing.assert_array_equal(points[at_threshold(0.25)].exits, literal_exits(scores[0], 0.25))


def test_what_was_chosen_is_reported_in_words():
    assert describe_choice(["a=1"] * 5) == "chosen: a=1"
    assert describe_choice(["a=1", "a=2", "a=2"]) == "chosen: a=2 in 2 of 3 folds, a=1 in 1"


def test_randomising_on_held_out_samples_takes_the_shares_of_the_training_samples(tmp_path):
    labels, predictions, scores = random_arrays(2, 60, 5, 1)
    train_labels, train_predictions, train_scores = random_arrays(8, 70, 5, 1)
    coarse, train_coarse = (np.round(values[0] / 2) for values in (scores, train_scores))  # few thresholds
    calibration = (train_labels, train_predictions, [train_coarse])
    scored = scored_cache(tmp_path / "s", labels, predictions, [coarse], grid(1), calibration=calibration)
    evaluation = evaluate_configurations(scored, [0], dataclasses.replace(QUESTIONS, protocols=("held-out",)))
    results, parts = evaluation.results["held-out"][0], evaluation.parts["held-out"]
    merged = MergedParts([results], parts, Choice.only(0, 1), scored.samples())
    value = merged.at(at_speed_up(1.5))
    assert value.status == "unmatched"
    levels = np.unique(np.maximum.accumulate(train_coarse, axis=0))
    thresholds = [np.inf, *((levels[1:] + levels[:-1]) / 2)[::-1], -np.inf]
    means = [np.mean(literal_exits(train_coarse, threshold)) for threshold in thresholds]
    right = next(place for place, mean in enumerate(means) if 5 / mean >= 1.5)
    share = (means[right - 1] - 5 / 1.5) / (means[right - 1] - means[right])
    before, after = (np.mean(literal_exits(coarse, thresholds[place])) for place in (right - 1, right))
    assert float(value.randomised.mean_exit_layer) == pytest.approx((1 - share) * before + share * after)
