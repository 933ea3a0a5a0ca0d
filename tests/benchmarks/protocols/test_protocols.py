"""Choices and merged predictions against literal loops; nothing leaks from a fold into what is chosen for it."""

import dataclasses

import numpy as np
import pytest

from exitbench.benchmarks.protocols.choice import Choices, choose
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.part_points import threshold_of
from exitbench.benchmarks.protocols.part_result import Criterion
from exitbench.benchmarks.protocols.splits import describe_choice, fold_numbers, parts_of
from exitbench.benchmarks.results.operating_point import at_speed_up, at_threshold, within_loss
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations
from exitbench.benchmarks.statistics.hashed_randomness import folds, poisson_weights
from exitbench.benchmarks.suites.questions import Questions
from exitbench.errors import InputError
from tests.support.score_cases import random_case
from tests.support.scored_cases import configuration, random_arrays, scored_cache

QUESTIONS = Questions(
    speed_ups=(1.5, 2.0), rates_speed_up=2.0, losses=(5.0,), resamples=12, folds=3, protocols=("cross-fit",)
)


IN_SAMPLE = dataclasses.replace(QUESTIONS, protocols=("in-sample",))


def choices_of(scored, questions, default=None):
    """The choices among all configurations under the questions' one protocol, and its parts."""
    numbers = range(len(scored.configurations))
    evaluation = evaluate_configurations(scored, list(numbers), questions)
    (protocol,) = questions.protocols
    results = [evaluation.results[protocol][number] for number in numbers]
    names = [scored.configurations[number].parameters for number in numbers]
    default = min(1, len(results) - 1) if default is None else default
    return Choices(results, names, default, questions), evaluation.parts[protocol]


def merged_of(scored, questions, default=None):
    choices, parts = choices_of(scored, questions, default)
    return MergedParts(choices, parts, scored.samples())


def grid(count):
    return [configuration(parameters=f"a={number}", changed=int(number != 1)) for number in range(count)]


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


def literal_near(values, right, speed_up):
    """The score at the nearest point if that is within 2%, else -1: what a choice for a speed-up looks at."""
    _, realised, accuracy = literal_point(values, right, speed_up)
    return accuracy if abs(realised - speed_up) <= 0.02 * speed_up + 1e-9 else -1


def literal_within_loss(values, right, loss):
    """Threshold and speed-up of the last point, from full depth on, before the score falls by more than the loss."""
    depth, samples = right.shape
    levels = np.unique(np.maximum.accumulate(values, axis=0))
    last = None
    for threshold in [np.inf, *((levels[1:] + levels[:-1]) / 2)[::-1], -np.inf]:
        exits = literal_exits(values, threshold)
        accuracy = 100 * sum(right[e - 1, i] for i, e in enumerate(exits)) / samples
        if accuracy < 100 * right[-1].mean() - loss - 1e-9:
            break
        last = (threshold, depth * samples / sum(exits))
    return last


def literal_choice(criteria, default):
    return default if criteria[default] == max(criteria) else int(np.argmax(criteria))


@pytest.mark.parametrize("seed", range(4))
def test_cross_fit_chooses_parameters_for_each_speed_up_as_a_literal_loop_over_folds_does(tmp_path, seed):
    labels, predictions, scores = random_arrays(seed, 45, 5, 3)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(3))
    merged = merged_of(scored, QUESTIONS)
    right = predictions == labels
    fold = folds(np.arange(45), 0, 3)
    for speed_up in (1.5, 2.0):
        exits, chosen = np.zeros(45, dtype=int), []
        for number in range(3):
            train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            near = [literal_near(values[:, train], right[:, train], speed_up) for values in scores]
            chosen.append(literal_choice(near, default=1))
            threshold = literal_point(scores[chosen[-1]][:, train], right[:, train], speed_up)[0]
            exits[test] = literal_exits(scores[chosen[-1]][:, test], threshold)
        point = merged.at(at_speed_up(speed_up))
        assert merged.choices.at(at_speed_up(speed_up)).parts.tolist() == chosen
        np.testing.assert_array_equal(point.exits, exits)
        assert float(point.tally.accuracy) == pytest.approx(100 * right[exits - 1, np.arange(45)].mean())
        assert float(point.tally.speed_up) == pytest.approx(5 / exits.mean())


@pytest.mark.parametrize("seed", range(4))
def test_cross_fit_chooses_the_parameters_with_the_largest_speed_up_within_a_loss(tmp_path, seed):
    labels, predictions, scores = random_arrays(seed, 45, 5, 3)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(3))
    merged = merged_of(scored, QUESTIONS)
    right = predictions == labels
    fold = folds(np.arange(45), 0, 3)
    exits, chosen = np.zeros(45, dtype=int), []
    for number in range(3):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        last = [literal_within_loss(values[:, train], right[:, train], 5.0) for values in scores]
        chosen.append(literal_choice([speed_up for _, speed_up in last], default=1))
        exits[test] = literal_exits(scores[chosen[-1]][:, test], last[chosen[-1]][0])
    assert merged.choices.at(within_loss(5.0)).parts.tolist() == chosen
    np.testing.assert_array_equal(merged.at(within_loss(5.0)).exits, exits)


def test_operating_points_of_one_entry_may_choose_different_parameters(tmp_path):
    """The first configuration knows what is right at the first layer only, the second at the third only."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 300)
    right = rng.random((5, 300)) < np.array([0.7, 0.75, 0.8, 0.85, 0.9])[:, None]
    early, late = rng.normal(size=(4, 300)) - 4, rng.normal(size=(4, 300)) - 4
    early[0], late[2] = (4 * right[layer] + rng.normal(size=300) for layer in (0, 2))
    scored = scored_cache(tmp_path / "s", labels, np.where(right, labels, 1 - labels), [early, late], grid(2))
    choices, _ = choices_of(scored, dataclasses.replace(IN_SAMPLE, speed_ups=(1.5, 2.5)))
    assert [choices.chosen_names(at_speed_up(speed_up)) for speed_up in (1.5, 2.5)] == [["a=1"], ["a=0"]]
    assert choices.described(at_speed_up(2.5)) == ("chosen: a=0", '{"a=0": 1}')
    assert len(set(choices.along_costs.parts[0].tolist())) == 2


@pytest.mark.parametrize("protocol", ["in-sample", "cross-fit"])
def test_resamples_repeat_the_choice_of_their_own_operating_point(tmp_path, protocol):
    labels, predictions, scores = random_arrays(6, 60, 5, 3)
    right = predictions == labels
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, grid(3))
    choices, parts = choices_of(scored, dataclasses.replace(QUESTIONS, protocols=(protocol,)))
    weights = poisson_weights(np.arange(60), 0, 12)
    for number, part in enumerate(parts):
        for resample in range(12):
            rows = np.repeat(np.arange(60), weights[:, resample] * part.train)
            for speed_up in (1.5, 2.0):
                near = [literal_near(values[:, rows], right[:, rows], speed_up) for values in scores]
                choice = choices.at(at_speed_up(speed_up)).resampled
                assert choice[number, resample] == literal_choice(near, default=1)
            last = [literal_within_loss(values[:, rows], right[:, rows], 5.0)[1] for values in scores]
            assert choices.at(within_loss(5.0)).resampled[number, resample] == literal_choice(last, default=1)


def test_a_curve_is_chosen_cost_by_cost(tmp_path):
    labels, predictions, scores = random_arrays(7, 60, 5, 3)
    right = predictions == labels
    merged = merged_of(scored_cache(tmp_path / "s", labels, predictions, scores, grid(3)), QUESTIONS)
    fold = folds(np.arange(60), 0, 3)
    layers, correct = np.zeros(48), np.zeros(48)
    for number in range(3):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        for column, cost in enumerate(np.linspace(1 / 5, 1, 48)):
            near = [literal_near(values[:, train], right[:, train], 1 / cost) for values in scores]
            chosen = literal_choice(near, default=1)
            assert merged.choices.along_costs.parts[number, column] == chosen
            threshold = literal_point(scores[chosen][:, train], right[:, train], 1 / cost)[0]
            exits = np.array(literal_exits(scores[chosen][:, test], threshold))
            layers[column] += exits.sum()
            correct[column] += right[exits - 1, test].sum()
    np.testing.assert_allclose(merged.band[0].layers, layers)
    np.testing.assert_allclose(merged.band[0].correct, correct)


def test_shuffling_the_labels_of_a_fold_changes_nothing_that_is_chosen_for_it(tmp_path):
    labels, predictions, scores = random_arrays(5, 80, 5, 3)
    fold = folds(np.arange(80), 0, 3)
    shuffled = labels.copy()
    rng = np.random.default_rng(0)
    shuffled[fold == 1] = rng.permutation(1 - labels[fold == 1])
    plain, changed = (
        choices_of(scored_cache(tmp_path / name, true, predictions, scores, grid(3)), QUESTIONS)[0]
        for name, true in (("plain", labels), ("shuffled", shuffled))
    )
    assert not np.array_equal(labels[fold == 1], shuffled[fold == 1])
    for at in (at_speed_up(1.5), at_speed_up(2.0), within_loss(5.0)):
        assert plain.at(at).parts[1] == changed.at(at).parts[1]
        np.testing.assert_array_equal(plain.at(at).resampled[1], changed.at(at).resampled[1])
    np.testing.assert_array_equal(plain.along_costs.resampled[1], changed.along_costs.resampled[1])
    for before, after in zip(plain.results, changed.results, strict=True):
        for at, point in before[1].points.items():
            same = after[1].points[at]
            assert point.threshold == same.threshold or np.isnan([point.threshold, same.threshold]).all()
            np.testing.assert_array_equal(point.exits, same.exits)
    # The other folds do train on the shuffled labels, so the test could have failed.
    at_two = at_speed_up(2.0)
    before, after = (
        [float(parts[0].criteria[at_two].value) for parts in choices.results] for choices in (plain, changed)
    )
    assert before != after


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


def test_a_tie_goes_to_the_default():
    parts = [
        [Criterion(np.array(value), np.array([value, 90.0 - value]))] for value in (80.0, 80.0, 70.0)
    ]  # [configurations][parts]
    choice = choose(parts, default=1, criterion_of=lambda criterion: criterion)
    assert choice.parts.tolist() == [1]
    assert choice.resampled.tolist() == [[1, 2]]


def test_a_configuration_that_never_gets_near_a_speed_up_is_not_chosen_for_its_score_elsewhere(tmp_path):
    labels, predictions, scores = random_arrays(3, 60, 6, 2)
    late = [configuration(parameters="a=0"), configuration(parameters="a=1", first_exit_layer=5)]
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, late)
    choices, _ = choices_of(scored, IN_SAMPLE)
    assert np.isnan(choices.results[1][0].criteria[at_speed_up(2.0)].value)  # at best 6 / 5 = 1.2x
    assert choices.at(at_speed_up(2.0)).parts.tolist() == [0]
    costs = np.linspace(1 / 6, 1, 48)
    assert (choices.along_costs.parts[0][costs < 0.8] == 0).all()


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


def test_what_was_chosen_is_reported_in_words():
    assert describe_choice(["a=1"] * 5) == "chosen: a=1"
    assert describe_choice(["a=1", "a=2", "a=2"]) == "chosen: a=2 in 2 of 3 folds, a=1 in 1"


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
