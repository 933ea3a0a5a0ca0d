import numpy as np
import pytest

from exitbench.benchmarks.replay.exit_rule import exit_histogram, exit_layers
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import literal_exits, random_case


@for_each(seed=range(60))
def test_exits_are_those_of_the_literal_rule(seed):
    case = random_case(seed)
    finite = case.scores.values[np.isfinite(case.scores.values)]
    for threshold in [-np.inf, np.inf, *finite[:6], *(finite[:6] + 0.5)]:
        exits = exit_layers(case.scores, threshold)
        assert exits.tolist() == literal_exits(case.scores, threshold)
        histogram = exit_histogram(exits, case.scores.depth)
        assert histogram.tolist() == [int(np.sum(exits == layer)) for layer in range(1, case.scores.depth + 1)]


def test_a_score_on_the_threshold_exits_unless_the_rule_is_strict():
    for direction, layer in (("<", 2), ("<=", 1), (">", 2), (">=", 1)):
        assert exit_layers(SignalScores(np.array([[0.5]]), direction), 0.5).tolist() == [layer]


def test_nothing_exits_before_the_first_exit_layer():
    scores = SignalScores(np.zeros((4, 3)), "<", first_exit_layer=3)
    assert exit_layers(scores, 1.0).tolist() == [3, 3, 3]


def test_a_signal_that_may_never_exit_stays_to_the_end():
    scores = SignalScores(np.zeros((2, 3)), "<", first_exit_layer=3)
    assert exit_layers(scores, 1.0).tolist() == [3, 3, 3]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_is_refused_with_signal_layer_and_row(bad):
    values = np.zeros((3, 5))
    values[0] = np.nan
    values[1, 4] = bad
    with pytest.raises(InputError, match=rf"'shaky' gives the score {bad} at layer 2, row 4"):
        SignalScores(values, "<", first_exit_layer=2, first_scored_layer=2, signal="shaky")


def test_wrong_declarations_are_refused_in_one_line():
    with pytest.raises(InputError, match="direction"):
        SignalScores(np.zeros((1, 1)), "=")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"expected scores \[layers - 1, samples\].*found \(3,\)"):
        SignalScores(np.zeros(3), "<")
    with pytest.raises(InputError, match="scores begin at layer 2"):
        SignalScores(np.zeros((3, 1)), "<", first_exit_layer=1, first_scored_layer=2)
    with pytest.raises(InputError, match="no integer threshold is possible with 2 layers"):
        SignalScores(np.zeros((1, 1)), ">=", integers=range(1, 1))
