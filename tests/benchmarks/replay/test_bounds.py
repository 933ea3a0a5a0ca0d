import numpy as np
import pytest

from exitbench.benchmarks.replay.bounds import (
    exit_probability,
    final_layer,
    fixed_at,
    fixed_curve,
    fixed_layer,
    neighbouring_layers,
    oracle,
    random_at,
    random_curve,
)
from exitbench.benchmarks.replay.tally import tally_at
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import literal_tally, random_case


@for_each(seed=range(40))
def test_the_oracle_exits_at_the_first_right_layer_else_at_layer_one(seed):
    case = random_case(seed)
    expected = []
    for sample, label in enumerate(case.labels):
        right = [layer for layer in range(1, case.scores.depth + 1) if case.predictions[layer - 1, sample] == label]
        expected.append(right[0] if right else 1)
    bound = oracle(case.outcomes)
    assert bound.exits is not None
    assert bound.exits.tolist() == expected
    assert bound.tally.layers == sum(expected)


@for_each(seed=range(40))
def test_no_operating_point_beats_the_oracle(seed):
    case = random_case(seed, samples=30)
    best = oracle(case.outcomes).tally
    curve = case.curve
    assert np.all(curve.score("accuracy") <= best.accuracy + 1e-9)
    as_good = curve.tally.correct == best.correct
    assert np.all(curve.tally.layers[as_good] >= best.layers)


def test_fixed_and_final_layers_are_that_layer_for_everybody():
    outcomes = random_case(4, samples=9).outcomes
    for layer in range(1, outcomes.depth + 1):
        bound = fixed_layer(outcomes, layer)
        assert bound.tally.speed_up == pytest.approx(outcomes.depth / layer)
        assert bound.tally.correct == outcomes.correct[layer - 1].sum()
    assert final_layer(outcomes).tally.speed_up == 1
    assert final_layer(outcomes).layer == outcomes.depth
    with pytest.raises(InputError, match="expected a layer from 1"):
        fixed_layer(outcomes, 0)


@pytest.mark.long
def test_expected_random_exits_are_the_mean_of_many_drawn_ones():
    rng = np.random.default_rng(0)
    n, depth = 40, 6
    outcomes = Outcomes.of(rng.integers(0, 2, (depth, n)), rng.integers(0, 2, n), positive_class=1)
    bound = random_at(outcomes, 2.0)
    assert bound is not None
    assert bound.tally.speed_up == pytest.approx(2.0)
    chance = next(q for q in np.linspace(0, 1, 100_001) if np.sum((1 - q) ** np.arange(depth)) <= depth / 2)
    layers, correct, true_positives = [], [], []
    for _ in range(4000):
        thrown = rng.random((depth - 1, n)) < chance
        exits = np.where(thrown.any(axis=0), thrown.argmax(axis=0) + 1, depth)
        tally = tally_at(exits, outcomes)
        layers.append(tally.layers)
        correct.append(tally.correct)
        true_positives.append(tally.true_positives)
    assert bound.tally.layers == pytest.approx(np.mean(layers), rel=0.005)
    assert bound.tally.correct == pytest.approx(np.mean(correct), rel=0.01)
    assert bound.tally.true_positives == pytest.approx(np.mean(true_positives), rel=0.02)


def test_a_random_signal_stays_near_the_curve_of_expected_random_exits():
    rng = np.random.default_rng(1)
    n, depth = 4000, 5
    correct = rng.random((depth, n)) < np.linspace(0.5, 0.9, depth)[:, None]
    curve = trade_off_curve(SignalScores(rng.random((depth - 1, n)), ">="), Outcomes(correct))
    expected = random_curve(Outcomes(correct))
    at = np.interp(curve.relative_cost[::-1], expected.relative_cost[::-1], expected.accuracy[::-1])
    assert np.max(np.abs(at - curve.score("accuracy")[::-1])) < 4 * 100 * 0.5 / np.sqrt(n)


def test_random_exits_run_from_full_depth_to_layer_one():
    outcomes = random_case(3, samples=12).outcomes
    curve = random_curve(outcomes, points=11)
    assert curve.speed_up[0] == 1
    assert curve.speed_up[-1] == pytest.approx(outcomes.depth)
    assert curve.mean_exit_layer == pytest.approx(np.linspace(outcomes.depth, 1, 11))
    assert curve.correct[0] == outcomes.correct[-1].sum()
    assert curve.correct[-1] == outcomes.correct[0].sum()
    assert random_at(outcomes, 0.9) is None
    assert random_at(outcomes, outcomes.depth + 0.1) is None


def test_nobody_exits_at_the_full_depth_and_everybody_at_the_first_layer():
    exact = exit_probability(np.arange(1, 6), [5.0, 7.0, 1.0, 0.5])
    assert exact.tolist() == [0.0, 0.0, 1.0, 1.0]
    # Two layers: the mean is 1 for those who exit and 2 for the others.
    np.testing.assert_allclose(exit_probability(np.arange(1, 3), [1.25, 1.5, 1.75]), [0.75, 0.5, 0.25], atol=1e-12)


def literal_fixed(case, speed_up):
    """Expected counts when each sample exits at one of the two layers around the mean, by summing both."""
    depth, mean = case.outcomes.depth, case.outcomes.depth / speed_up
    early = int(np.floor(mean + 1e-12))
    weights = {early: 1 - (mean - early)} | ({early + 1: mean - early} if mean - early > 1e-12 else {})
    counts = [literal_tally(case, [layer] * case.outcomes.samples) for layer in weights]
    assert all(1 <= layer <= depth for layer in weights)
    return {
        name: sum(share * count[name] for share, count in zip(weights.values(), counts, strict=True))
        for name in counts[0]
    }


@for_each(seed=range(30))
@pytest.mark.parametrize("speed_up", [1.0, 1.3, 1.5, 2.0])
def test_a_fixed_layer_at_a_speed_up_has_the_expected_counts_of_its_two_layers(seed, speed_up):
    case = random_case(seed)
    bound = fixed_at(case.outcomes, speed_up)
    assert bound is not None
    for name, expected in literal_fixed(case, speed_up).items():
        assert float(getattr(bound.tally, name)) == pytest.approx(expected)
    assert float(bound.tally.speed_up) == pytest.approx(speed_up)


def test_a_whole_layer_is_that_layer_and_beyond_the_first_there_is_none():
    outcomes = random_case(4, samples=9).outcomes
    for layer in range(1, outcomes.depth + 1):
        bound = fixed_at(outcomes, outcomes.depth / layer)
        assert bound is not None
        assert bound.layer == layer
    assert fixed_at(outcomes, outcomes.depth + 0.1) is None
    assert fixed_at(outcomes, 0.9) is None


@for_each(seed=range(10))
def test_the_curve_of_fixed_layers_passes_through_every_layer_and_what_lies_between(seed):
    outcomes = random_case(seed).outcomes
    curve = fixed_curve(outcomes, points=4)
    assert curve.speed_up[0] == 1
    assert curve.speed_up[-1] == outcomes.depth
    for position, speed_up in enumerate(curve.speed_up):
        bound = fixed_at(outcomes, float(min(speed_up, outcomes.depth)))
        assert bound is not None
        assert float(curve.accuracy[position]) == pytest.approx(float(bound.tally.accuracy))
        assert float(curve.f1[position]) == pytest.approx(float(bound.tally.f1))


@for_each(seed=range(200))
def test_a_speed_up_that_is_a_layers_cost_but_for_rounding_is_that_layer(seed):
    rng = np.random.default_rng(seed)
    costs = np.array([1, 2, *np.sort(rng.integers(3, 10**12, 4))])
    layer = int(rng.integers(3, 7))
    assert neighbouring_layers(6, float(costs[-1]) / float(costs[layer - 1]), costs) == (layer, layer, 0.0)
