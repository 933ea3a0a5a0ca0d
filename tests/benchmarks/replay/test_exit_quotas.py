import numpy as np
import pytest

from exitbench.benchmarks.replay.exit_quotas import exits_until, quota_exits, quotas_filled, thresholds_of_exits
from exitbench.benchmarks.replay.exit_rule import exit_layers, per_layer_exits
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import RELATIONS, random_case

DIRECTIONS = ("<", "<=", ">", ">=")


def untied(seed: int, samples: int, depth: int, **rule) -> SignalScores:
    rng = np.random.default_rng(seed)
    return SignalScores(rng.normal(size=(depth - 1, samples)), DIRECTIONS[seed % 4], **rule)


def plain(scores: SignalScores) -> np.ndarray:
    """Costs in layers."""
    return np.arange(1, scores.depth + 1)


def literal_per_layer_exits(scores: SignalScores, thresholds) -> list[int]:
    exits = []
    for sample in range(scores.samples):
        layer = scores.first_exit_layer
        while layer < scores.depth and not RELATIONS[scores.direction](
            scores.values[layer - 1, sample], thresholds[layer - 1]
        ):
            layer += 1
        exits.append(layer)
    return exits


@for_each(seed=range(60))
def test_exits_at_per_layer_thresholds_are_those_of_a_literal_loop(seed):
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    seen = np.nan_to_num(case.scores.values)
    thresholds = np.array([rng.choice([*row, -np.inf, np.inf]) for row in seen])
    assert per_layer_exits(case.scores, thresholds).tolist() == literal_per_layer_exits(case.scores, thresholds)


@for_each(seed=range(20))
def test_equal_thresholds_at_all_layers_are_a_shared_threshold(seed):
    scores = random_case(seed).scores
    threshold = float(np.nanmedian(scores.values[scores.first_scored_layer - 1 :]))
    shared = np.full(scores.depth - 1, threshold)
    assert per_layer_exits(scores, shared).tolist() == exit_layers(scores, threshold).tolist()


@pytest.mark.parametrize("thresholds", [[0.5], [0.5, 0.5, 0.5], [0.5, float("nan")]])
def test_every_internal_layer_needs_a_threshold(thresholds):
    with pytest.raises(InputError, match="expected a threshold for each of 2 internal layers"):
        per_layer_exits(untied(0, 5, 3), np.array(thresholds))


@for_each(seed=range(20))
@pytest.mark.parametrize("log_ratio", [-1.0, -0.2, 0.0, 0.3])
def test_each_layer_lets_its_quota_exit_within_one_sample(seed, log_ratio):
    scores = untied(seed, 97, 6, first_exit_layer=1 + seed % 3)
    layers = np.arange(scores.first_exit_layer, 7)
    weights = np.exp(log_ratio) ** layers
    quotas = 97 * weights / weights.sum()
    exits = quotas_filled(scores, log_ratio)
    counts = np.array([(exits == layer).sum() for layer in layers])
    assert np.all(np.abs(counts - quotas) < 1 + 1e-9)
    assert counts[:-1].cumsum().tolist() == exits_until(scores, log_ratio).tolist()


@for_each(seed=range(20))
def test_those_that_exit_at_a_layer_are_the_most_certain_that_are_left(seed):
    scores = untied(seed, 60, 5)
    exits = quotas_filled(scores, -0.1)
    for layer in range(1, 5):
        certainty = scores.certainty[layer - 1]
        assert certainty[exits == layer].min() > certainty[exits > layer].max()


def test_quotas_by_hand():
    # Half at layer 1, a quarter at layer 2, a quarter at layer 3: q = 1/2 gives 4/7, 2/7, 1/7 of seven samples.
    certainty = np.array([[7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0, 1.0, 3.0, 2.0]])
    exits = quotas_filled(SignalScores(certainty, ">="), float(np.log(0.5)))
    assert exits.tolist() == [1, 1, 1, 1, 3, 2, 2]


@for_each(seed=range(20))
@pytest.mark.parametrize("speed_up", [1.2, 2.0, 3.0])
def test_the_quotas_have_the_speed_up_that_was_asked_for(seed, speed_up):
    scores = untied(seed, 400, 6)
    exits = quota_exits(scores, speed_up, plain(scores))
    assert 6 / exits.mean() == pytest.approx(speed_up, rel=0.005)


@for_each(seed=range(10))
@pytest.mark.parametrize("speed_up", [1.3, 2.0, 4.0])
def test_the_speed_up_of_quotas_is_that_of_the_costs(seed, speed_up):
    scores, costs = untied(seed, 400, 6), np.array([1, 2, 2, 30, 40, 100])
    exits = quota_exits(scores, speed_up, costs)
    assert 100 / np.mean([costs[layer - 1] for layer in exits]) == pytest.approx(speed_up, rel=0.02)
    assert exits.tolist() != quota_exits(scores, speed_up, plain(scores)).tolist()


def test_beyond_what_the_signal_reaches_the_nearest_quotas_are_taken():
    late = untied(1, 50, 6, first_exit_layer=4)
    assert quota_exits(late, 4.0, plain(late)).tolist() == [4] * 50
    assert quota_exits(late, 1.0, plain(late)).tolist() == [6] * 50


@for_each(seed=range(60))
def test_the_thresholds_of_exits_realise_exactly_these_exits(seed):
    scores = random_case(seed).scores
    exits = quota_exits(scores, 1.0 + scores.depth / 4, plain(scores))
    assert per_layer_exits(scores, thresholds_of_exits(scores, exits)).tolist() == exits.tolist()


def test_a_threshold_lies_halfway_between_the_last_that_exits_and_the_first_that_stays():
    entropy = SignalScores(np.array([[0.2, 0.4, 0.9, 0.8], [0.1, 0.1, 0.7, 0.5]]), "<")
    thresholds = thresholds_of_exits(entropy, np.array([1, 1, 3, 2]))
    assert thresholds == pytest.approx([0.6, 0.6])
    assert thresholds_of_exits(entropy, np.array([3, 3, 3, 3])).tolist() == [-np.inf, -np.inf]
    assert thresholds_of_exits(entropy, np.array([1, 1, 1, 1])).tolist() == [np.inf, -np.inf]


@for_each(seed=range(10))
def test_quotas_do_not_depend_on_the_order_of_samples(seed):
    scores = random_case(seed, samples=40).scores
    order = np.random.default_rng(seed).permutation(40)
    assert (
        quota_exits(scores.take(order), 1.5, plain(scores)).tolist()
        == quota_exits(scores, 1.5, plain(scores))[order].tolist()
    )
