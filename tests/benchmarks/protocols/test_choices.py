"""What a protocol chooses among the values of a grid, against literal loops; a fold leaks nothing into its choice."""

import dataclasses
import itertools

import numpy as np
import pytest

from exitbench.benchmarks.protocols.choice import choose
from exitbench.benchmarks.protocols.part_result import Criterion
from exitbench.benchmarks.protocols.splits import describe_choice
from exitbench.benchmarks.results.operating_point import at_speed_up, within_loss
from exitbench.benchmarks.statistics.hashed_randomness import folds, poisson_weights
from tests.support.literal_points import (
    IN_SAMPLE,
    QUESTIONS,
    choices_of,
    grid,
    literal_choice,
    literal_exits,
    literal_near,
    literal_point,
    literal_within_loss,
    merged_of,
)
from tests.support.scored_cases import configuration, random_arrays, scored_cache


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


def test_resamples_within_a_loss_are_those_of_that_loss(tmp_path):
    """Each resample is written out, and its threshold looked for one by one; in some not a single exit is allowed."""
    labels, predictions, scores = random_arrays(3, 60, 5, 1)
    predictions[:-1], predictions[-1] = 1 - labels, labels  # every exit loses
    right = predictions == labels
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, [configuration()])
    losses = (0.01, 2.0, 30.0)
    choices, _ = choices_of(scored, dataclasses.replace(IN_SAMPLE, losses=losses))
    weights = poisson_weights(np.arange(60), 0, 12)
    without_exit = 0
    for loss, resample in itertools.product(losses, range(12)):
        drawn = np.repeat(np.arange(60), weights[:, resample])
        threshold, _ = literal_within_loss(scores[0][:, drawn], right[:, drawn], loss)
        exits = literal_exits(scores[0][:, drawn], threshold)
        sums = choices.results[0][0].points[within_loss(loss)].resampled
        assert (sums.layers[resample], sums.samples[resample]) == (sum(exits), len(drawn))
        without_exit += sum(exits) == 5 * len(drawn)
    assert 0 < without_exit < 36


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


@pytest.mark.long
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


@pytest.mark.long
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


def test_a_tie_goes_to_the_default():
    never, never_drawn = np.array(False), np.zeros(2, dtype=bool)
    parts = [  # [configurations][parts]
        [Criterion(np.array(value), np.array([value, 90.0 - value]), never, never_drawn)]
        for value in (80.0, 80.0, 70.0)
    ]
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


def test_what_was_chosen_is_reported_in_words():
    assert describe_choice(["a=1"] * 5) == "chosen: a=1"
    assert describe_choice(["a=1", "a=2", "a=2"]) == "chosen: a=2 in 2 of 3 folds, a=1 in 1"
