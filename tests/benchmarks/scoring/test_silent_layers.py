"""A layer without a score inside a network: nothing exits there; all other numbers are those of a literal loop."""

from pathlib import Path

import numpy as np
import pytest

from exitbench import evaluate
from exitbench.benchmarks.measures.exit_rates import rates_at_points, rates_at_threshold
from exitbench.benchmarks.replay.exit_quotas import quotas_filled
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.cache import Cache, synthetic_cache
from exitbench.errors import InputError
from exitbench.exit_rule import PASSES, Direction
from exitbench.signals.meta import Meta

DIRECTIONS: tuple[Direction, ...] = ("<", "<=", ">", ">=")


def drawn(silent: list[int], seed: int = 0) -> tuple[np.ndarray, Outcomes]:
    draw = np.random.default_rng(seed)
    values = draw.integers(0, 6, (5, 40)).astype(float)  # many ties
    values[silent] = np.nan
    return values, Outcomes(draw.uniform(size=(6, 40)) < 0.6)


def literal_exits(values: np.ndarray, direction: Direction, first: int, threshold: float) -> list[int]:
    exits = []
    for sample in range(values.shape[1]):
        passed = [
            layer
            for layer in range(first, len(values) + 1)
            if not np.isnan(values[layer - 1, sample]) and PASSES[direction](values[layer - 1, sample], threshold)
        ]
        exits.append(passed[0] if passed else len(values) + 1)
    return exits


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("silent", [[0], [2], [4], [0, 1], [1, 3], [0, 1, 2, 3]])
@pytest.mark.parametrize("first", [1, 2])
def test_every_operating_point_is_that_of_a_literal_loop(direction: Direction, silent: list[int], first: int) -> None:
    values, outcomes = drawn(silent)
    scores = SignalScores(values, direction, first_exit_layer=first)
    curve = trade_off_curve(scores, outcomes)
    for point, threshold in enumerate(curve.thresholds):
        expected = literal_exits(values, direction, first, threshold)
        assert exit_layers(scores, threshold).tolist() == expected
        assert curve.tally[point].layers == sum(expected)
        right = sum(bool(outcomes.correct[layer - 1, sample]) for sample, layer in enumerate(expected))
        assert curve.tally[point].correct == right
    generous = -np.inf if direction.startswith(">") else np.inf
    assert set(literal_exits(values, direction, first, generous)) == set(exit_layers(scores, generous).tolist())


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("decisions", ["all", "reached"])
def test_rates_count_a_silent_layer_as_continue(direction: Direction, decisions) -> None:
    values, outcomes = drawn([1, 3], seed=2)
    scores = SignalScores(values, direction)
    curve = trade_off_curve(scores, outcomes)
    everywhere = rates_at_points(curve, np.arange(curve.points), decisions)
    for point, threshold in enumerate(curve.thresholds):
        one_by_one = rates_at_threshold(scores, outcomes, threshold, decisions).sum_layers()
        assert everywhere.wrong_exits[point] == one_by_one.wrong_exits
        assert everywhere.right_continuations[point] == one_by_one.right_continuations
    assert not rates_at_threshold(scores, outcomes, curve.thresholds[-1]).wrong_exits[[1, 3]].any()


@pytest.mark.parametrize("silent", [[0], [1, 3]])
def test_no_quota_is_filled_at_a_silent_layer(silent: list[int]) -> None:
    values, _ = drawn(silent, seed=3)
    exits = quotas_filled(SignalScores(values, ">="), log_ratio=0.0)
    assert len(set(exits.tolist())) > 2
    assert not {layer + 1 for layer in silent} & set(exits.tolist())


def test_a_layer_with_some_nan_is_still_refused() -> None:
    values, _ = drawn([2])
    values[3, 5] = np.nan
    with pytest.raises(InputError, match="gives the score nan at layer 4, row 5"):
        SignalScores(values, ">")


def test_taking_some_samples_keeps_the_silence() -> None:
    values, _ = drawn([2])
    assert SignalScores(values, ">").take(np.array([3, 4])).silent.tolist() == [False, False, True, False, False]


@pytest.mark.long
def test_results_say_undefined_with_the_numbers_at_a_layer_that_could_not_be_taught(tmp_path: Path) -> None:
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=150, layers=6, width=8))
    wrong = (cache.predictions() != cache.labels).sum(axis=1)[:-1]
    scarce = [layer for layer in range(1, 6) if wrong[layer - 1] < 10]
    if not scarce:
        pytest.fail("this cache was made to have a layer with fewer than ten wrong answers")
    results = evaluate(tmp_path / "cache", [Meta()], protocols=["cross-fit"], resamples=20).results
    ours = results[(results.signal == "meta") & (results.measure == "dis")].set_index("layer")
    for layer in scarce:
        assert ours.status[layer] == "undefined"
        assert f"{wrong[layer - 1]} wrong; a fit needs 10 of each" in ours.reason[layer]
    assert (ours.status.drop(scarce) != "undefined").all()
    speed = results[
        (results.signal == "meta") & (results.operating_point == "speed_up=2") & (results.measure == "speed_up")
    ]
    assert len(speed)
