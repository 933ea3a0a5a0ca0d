"""Weighted sums must equal what one gets by writing every sample down as often as it was drawn."""

import numpy as np
import pytest

from exitbench.benchmarks.measures.exit_rates import rates_at_threshold
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.replay.operating_points import ROUNDING, matched, value_within_loss
from exitbench.benchmarks.replay.tally import tally_at
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.hashed_randomness import folds, poisson_weights
from exitbench.benchmarks.statistics.resampling import resampled_curves, resampled_points, sample_weights
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import layer_sums
from exitbench.benchmarks.statistics.resampling.resampled_curves import listed_points, weighted_tally
from exitbench.benchmarks.statistics.resampling.resampled_points import (
    gather,
    listed_points_within_losses,
    nearest_listed_points,
    sums_without,
)
from exitbench.benchmarks.statistics.resampling.resampled_rates import reached_tally, weighted_rates
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from tests.support.for_each import for_each
from tests.support.score_cases import random_case

SEEDS = range(60)
B = 7


def drawn(case, weights, column, rows=None):
    """The scores and outcomes of one resample, sample by sample."""
    times = weights[:, column].astype(int) * (1 if rows is None else rows)
    chosen = np.repeat(np.arange(case.scores.samples), times)
    return case.scores.take(chosen), case.outcomes.take(chosen)


def weighted_case(seed):
    case = random_case(seed, samples=9 + seed % 5)
    return case, poisson_weights(np.arange(case.scores.samples), seed, B)


@for_each(seed=SEEDS)
def test_sums_at_every_point_equal_the_samples_written_out(seed):
    case, weights = weighted_case(seed)
    curve = case.curve
    rows = np.arange(case.scores.samples) % 3 > 0
    resampled = weighted_tally(curve, curve.events.ends, SampleWeights.of(weights, rows))
    for column in range(B):
        scores, outcomes = drawn(case, weights, column, rows) if (weights[:, column] * rows).any() else (None, None)
        for point, threshold in enumerate(curve.thresholds):
            if scores is None:
                assert resampled.layers[point, column] == resampled.samples[column] == 0
                continue
            tally = tally_at(exit_layers(scores, threshold), outcomes)
            assert resampled.layers[point, column] == tally.layers
            assert resampled.correct[point, column] == tally.correct
            assert resampled.true_positives[point, column] == tally.true_positives
            assert resampled.predicted_positives[point, column] == tally.predicted_positives
            assert resampled.actual_positives[column] == tally.actual_positives
            assert resampled.samples[column] == tally.samples


@for_each(seed=SEEDS)
def test_the_rest_is_the_whole_without_the_part(seed):
    case, weights = weighted_case(seed)
    curve = case.curve
    rows = np.arange(case.scores.samples) % 2 == 0
    whole, part = (
        weighted_tally(curve, curve.events.ends, SampleWeights.of(weights)),
        weighted_tally(curve, curve.events.ends, SampleWeights.of(weights, rows)),
    )
    rest = weighted_tally(curve, curve.events.ends, SampleWeights.of(weights, ~rows))
    np.testing.assert_array_equal(sums_without(whole, part).layers, rest.layers)
    np.testing.assert_array_equal(sums_without(whole, part).true_positives, rest.true_positives)


@pytest.mark.long
@for_each(seed=SEEDS)
def test_points_of_a_resample_are_the_points_of_its_samples_written_out(seed):
    case, weights = weighted_case(seed)
    curve = case.curve
    sums = weighted_tally(curve, curve.events.ends, SampleWeights.of(weights))
    index = nearest_listed_points(sums, np.array([1.3, 2.0]))
    final = gather(sums, np.zeros(B, dtype=np.int64)).score("accuracy")
    lost, least = listed_points_within_losses(sums, "accuracy", final, [10.0, 3.0], ROUNDING)
    for column in range(B):
        if not weights[:, column].any():
            continue
        written = trade_off_curve(*drawn(case, weights, column))
        for row, speed_up in enumerate((1.3, 2.0)):
            assert gather(sums, index).speed_up[row, column] == pytest.approx(matched(written, speed_up).speed_up)
        for loss, points in ((10.0, lost), (3.0, least)):
            exact = value_within_loss(written, loss, "accuracy")
            assert gather(sums, points).speed_up[column] == pytest.approx(exact.speed_up)


def literal_last(scores, floor):
    """The point before the first whose score lies below ``floor``, looked for one by one."""
    for point, score in enumerate(scores):
        if score < floor:
            return point - 1
    return len(scores) - 1


@for_each(seed=SEEDS)
@pytest.mark.parametrize("searched", [1, 2, 64])
@pytest.mark.parametrize("measure", ["accuracy", "f1", "mean_accuracy_f1"])
def test_the_last_point_within_a_loss_is_the_one_before_the_first_that_loses_more(measure, searched, seed, monkeypatch):
    """Some resamples fall early, some late and some never; on all samples, and on some less others."""
    monkeypatch.setattr(resampled_points, "SEARCHED", searched)
    case, weights = weighted_case(seed)
    curve, rows = case.curve, np.arange(case.scores.samples) % 3 == 0
    losses = [[0.0, 3.0], [0.0, 3.0, 20.0, 1000.0]][seed % 2]  # below the last of these no resample ever falls
    whole, part, rest = (
        weighted_tally(curve, curve.events.ends, SampleWeights.of(weights, chosen)) for chosen in (None, rows, ~rows)
    )
    everywhere = np.repeat(np.arange(curve.points)[:, None], B, axis=1)
    for less, left in ((None, whole), (part, rest)):
        scores = gather(left, everywhere).score(measure)
        last = listed_points_within_losses(whole, measure, scores[0], losses, ROUNDING, less)
        for column in range(B):
            floors = scores[0, column] - np.array(losses) - ROUNDING
            assert last[:, column].tolist() == [literal_last(scores[:, column], floor) for floor in floors]


@for_each(seed=SEEDS)
def test_rates_of_a_resample_count_its_samples_written_out(seed):
    case, weights = weighted_case(seed)
    curve = case.curve
    rows = np.arange(case.scores.samples) % 4 > 0
    index = np.random.default_rng(seed).integers(0, curve.points, B)
    some = SampleWeights.of(weights, rows)
    decisions = layer_sums(case.outcomes, some).decisions
    every = weighted_rates(case.scores, case.outcomes, curve.thresholds, index, some, decisions)
    reached = reached_tally(curve, curve.events.ends, index, SampleWeights.of(weights, rows))
    for column in range(B):
        if not (weights[:, column] * rows).any():
            continue
        scores, outcomes = drawn(case, weights, column, rows)
        threshold = curve.thresholds[index[column]]
        literal = rates_at_threshold(scores, outcomes, threshold, "all")
        np.testing.assert_array_equal(every.wrong_exits[:, column], literal.wrong_exits)
        np.testing.assert_array_equal(every.right_continuations[:, column], literal.right_continuations)
        np.testing.assert_array_equal(every.wrong_decisions[:, column], literal.wrong_decisions)
        np.testing.assert_array_equal(every.right_decisions[:, column], literal.right_decisions)
        literal = rates_at_threshold(scores, outcomes, threshold, "reached").sum_layers()
        assert reached.wrong_exits[column] == literal.wrong_exits
        assert reached.wrong_decisions[column] == literal.wrong_decisions
        assert reached.right_continuations[column] == literal.right_continuations
        assert reached.right_decisions[column] == literal.right_decisions


def test_a_thinned_list_of_points_gives_the_error_of_all_points(monkeypatch):
    case = random_case(3, samples=1500)
    curve = case.curve
    weights = SampleWeights.of(poisson_weights(np.arange(1500), 0, 200))
    sums = weighted_tally(curve, curve.events.ends, weights)
    exact = gather(sums, nearest_listed_points(sums, np.array([1.5]))).accuracy[0]
    monkeypatch.setattr(resampled_curves, "ALL_POINTS", 200)
    points = listed_points(curve, [1.5])
    assert len(points) < curve.points / 3
    sums = weighted_tally(curve, curve.events.ends[points], weights)
    thinned = gather(sums, nearest_listed_points(sums, np.array([1.5]))).accuracy[0]
    assert thinned.std() == pytest.approx(exact.std(), rel=0.02)
    np.testing.assert_allclose(thinned, exact, atol=0.1 * exact.std() + 0.1)


@pytest.mark.parametrize("speed_up", [1.3, 2.0])
def test_within_six_standard_errors_a_listed_point_is_never_a_tenth_of_one_away(monkeypatch, speed_up):
    rng = np.random.default_rng(1)
    samples, depth = 60_000, 12
    scores = SignalScores(rng.normal(size=(depth - 1, samples)), ">=")
    curve = trade_off_curve(scores, Outcomes(rng.random((depth, samples)) < 0.8))
    monkeypatch.setattr(resampled_curves, "ALL_POINTS", 4)  # the mesh alone
    listed = curve.relative_cost[listed_points(curve, [speed_up])]
    exits = curve.exit_layers(int(np.searchsorted(curve.speed_up, speed_up)))
    error = exits.std() / depth / np.sqrt(samples)
    costs = 1 / speed_up + error * np.linspace(-6, 6, 999)
    furthest = np.abs(costs[:, None] - listed).min(axis=1).max()
    assert furthest < 0.1 * error
    assert len(listed) < curve.points / 1000


def test_sums_beyond_what_float32_holds_are_exact(monkeypatch):
    largest = sample_weights.LARGEST_EXACT
    assert int(np.float32(largest - 1)) == largest - 1
    assert np.float32(largest) + np.float32(1) == np.float32(largest)
    case = random_case(3, samples=40)
    curve, weights = case.curve, poisson_weights(np.arange(40), 0, 7)
    expected = weighted_tally(curve, curve.events.ends, SampleWeights.of(weights))
    # As if 24 bits were 6: what is beyond must be summed in blocks, and in float64.
    monkeypatch.setattr(sample_weights, "LARGEST_EXACT", 64)
    sums = weighted_tally(curve, curve.events.ends, SampleWeights.of(weights))
    assert sums.layers.dtype == np.float64
    assert expected.layers.dtype == np.float32
    for name in ("samples", "layers", "correct", "true_positives", "actual_positives"):
        np.testing.assert_array_equal(getattr(sums, name), getattr(expected, name))


def test_a_layer_without_a_score_never_says_exit_however_generous_the_threshold():
    scores = SignalScores(np.array([[np.nan] * 4, [1.0, 2.0, 3.0, 4.0]]), ">=")
    outcomes = Outcomes(np.array([[1, 0, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]], dtype=bool))
    ones = SampleWeights.of(np.ones((4, 1), dtype=np.uint8))
    decisions = layer_sums(outcomes, ones).decisions
    rates = weighted_rates(scores, outcomes, np.array([-np.inf]), np.zeros(1, dtype=np.int64), ones, decisions)
    assert rates.wrong_exits.tolist() == [[0], [2]]
    assert rates.right_continuations.tolist() == [[2], [0]]


@pytest.mark.long
def test_seventeen_million_equal_samples_are_counted_to_the_last():
    size = (1 << 24) + 3
    weights = np.broadcast_to(np.uint8(1), (size, 1))
    drawn = SampleWeights(weights, np.ones(size, dtype=bool))
    assert drawn.times(np.ones((1, size), dtype=np.float32)).tolist() == [[size]]
    few = SampleWeights(weights[:5].astype(np.float32), np.ones(5, dtype=bool))
    assert few.times(np.full((1, 5), 1 << 23, dtype=np.float32), 1 << 23).tolist() == [[5 << 23]]


@pytest.mark.parametrize(("block", "blocks"), [(0, 26), (100, 13), (10**6, 1)])
def test_weights_block_by_block_give_the_same_sums(block, blocks, monkeypatch):
    case = random_case(5, samples=40)
    curve, weights = case.curve, poisson_weights(np.arange(40), 0, 50)
    rows = np.arange(40) % 3 > 0
    index = np.random.default_rng(0).integers(0, curve.points, 50)

    def everything():
        some = SampleWeights.of(weights, rows)
        tally = weighted_tally(curve, curve.events.ends, some)
        layers = layer_sums(case.outcomes, some)
        rates = weighted_rates(case.scores, case.outcomes, curve.thresholds, index, some, layers.decisions)
        reached = reached_tally(curve, curve.events.ends, index, some)
        return [
            tally.layers,
            tally.true_positives,
            tally.actual_positives,
            *vars(rates).values(),
            *vars(reached).values(),
        ]

    whole = everything()
    monkeypatch.setattr(sample_weights, "FEW", 0)
    monkeypatch.setattr(sample_weights, "BLOCK", block)
    assert len(list(SampleWeights.of(weights, rows).blocks())) == blocks
    for sums, expected in zip(everything(), whole, strict=True):
        np.testing.assert_array_equal(sums, expected)


@pytest.mark.parametrize("point", [0, 3, -1])
def test_points_with_no_event_between_them_have_the_same_sums_block_by_block(point, monkeypatch):
    """As all resamples of a signal with few thresholds may choose one point."""
    case = random_case(5, samples=40)
    weights = poisson_weights(np.arange(40), 0, 50)
    indices = np.repeat(case.curve.events.ends[point], 2)
    whole = weighted_tally(case.curve, indices, SampleWeights.of(weights))
    monkeypatch.setattr(sample_weights, "FEW", 0)
    monkeypatch.setattr(sample_weights, "BLOCK", 100)
    monkeypatch.setattr(sample_weights, "SPARSE_BLOCK", 100)
    blockwise = weighted_tally(case.curve, indices, SampleWeights.of(weights))
    np.testing.assert_array_equal(blockwise.layers, whole.layers)
    np.testing.assert_array_equal(blockwise.true_positives, whole.true_positives)
    np.testing.assert_array_equal(blockwise.layers[0], blockwise.layers[1])


def test_folds_add_up_to_the_whole():
    case = random_case(9, samples=40)
    weights = poisson_weights(np.arange(40), 0, B)
    fold = folds(np.arange(40), 0)
    event_indices = case.curve.events.ends
    parts = [weighted_tally(case.curve, event_indices, SampleWeights.of(weights, fold == k)).correct for k in range(5)]
    np.testing.assert_array_equal(
        sum(parts), weighted_tally(case.curve, event_indices, SampleWeights.of(weights)).correct
    )


def test_a_network_of_two_hundred_layers_is_summed_without_overflow():
    rng = np.random.default_rng(0)
    scores = SignalScores(rng.normal(size=(199, 6)), ">=")
    outcomes = Outcomes(rng.random((200, 6)) < 0.5)
    curve = trade_off_curve(scores, outcomes)
    ones = SampleWeights.of(np.ones((6, 1), dtype=np.float32))
    sums = weighted_tally(curve, curve.events.ends, ones)
    np.testing.assert_array_equal(sums.layers[:, 0], curve.tally.layers)
    middle = np.array([curve.points // 2])
    reached = reached_tally(curve, curve.events.ends, middle, ones)
    literal = rates_at_threshold(scores, outcomes, curve.thresholds[middle[0]], "reached").sum_layers()
    assert reached.wrong_decisions[0] == literal.wrong_decisions
    assert reached.right_continuations[0] == literal.right_continuations
