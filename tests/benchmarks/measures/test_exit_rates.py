import math

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix

from exitbench.benchmarks.measures.exit_rates import rates_at_points, rates_at_threshold
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import literal_rates, random_case


def columns(tally):
    return np.stack(
        [tally.wrong_exits, tally.wrong_decisions, tally.right_continuations, tally.right_decisions], axis=-1
    )


@pytest.mark.parametrize("decisions", ["all", "reached"])
@pytest.mark.parametrize("integers", [False, True])
@for_each(seed=range(60))
def test_decisions_are_counted_as_in_a_loop_by_layer_and_at_every_point(seed, integers, decisions):
    case = random_case(seed, integers=integers)
    curve = case.curve
    everywhere = columns(rates_at_points(curve, np.arange(curve.points), decisions))
    for point, threshold in enumerate(curve.thresholds):
        expected = np.array(literal_rates(case, threshold, decisions))
        tally = rates_at_threshold(curve.scores, curve.outcomes, float(threshold), decisions)
        assert np.array_equal(columns(tally), expected)
        assert np.array_equal(everywhere[point], expected.sum(axis=0))
        assert np.array_equal(columns(tally.sum_layers()), expected.sum(axis=0))


def test_the_rates_are_the_false_positive_and_false_negative_rates_of_exit():
    rng = np.random.default_rng(0)
    scores = SignalScores(rng.normal(size=(4, 50)), "<")
    correct = rng.random((5, 50)) < 0.6
    tally = rates_at_threshold(scores, Outcomes(correct), 0.1).sum_layers()
    (tn, fp), (fn, tp) = confusion_matrix(correct[:-1].ravel(), (scores.values < 0.1).ravel())
    assert tally.premature == pytest.approx(100 * fp / (fp + tn))
    assert tally.delayed == pytest.approx(100 * fn / (fn + tp))


def test_the_raw_score_decides_even_after_the_sample_has_left():
    # Leaves at layer 1; the rule would continue at layer 2, where the prediction is wrong.
    scores = SignalScores(np.array([[0.1], [0.9]]), "<")
    outcomes = Outcomes(np.array([[True], [False], [True]]))
    everything = rates_at_threshold(scores, outcomes, 0.5, "all")
    assert everything.wrong_decisions.tolist() == [0, 1]
    assert everything.wrong_exits.tolist() == [0, 0]
    reached = rates_at_threshold(scores, outcomes, 0.5, "reached")
    assert reached.wrong_decisions.tolist() == [0, 0]
    assert math.isnan(reached.sum_layers().premature)
    assert reached.sum_layers().delayed == 0


def test_a_layer_that_may_not_exit_continues_and_still_counts():
    scores = SignalScores(np.zeros((2, 3)), "<", first_exit_layer=2)
    tally = rates_at_threshold(scores, Outcomes(np.ones((3, 3), dtype=bool)), 1.0)
    assert tally.delayed.tolist() == [100.0, 0.0]
    assert tally.sum_layers().delayed == 50.0


def test_the_last_layer_is_never_a_decision():
    case = random_case(5, samples=20)
    tally = rates_at_threshold(case.scores, case.outcomes, float(case.curve.thresholds[0]), "all").sum_layers()
    assert tally.wrong_decisions + tally.right_decisions == 20 * (case.scores.depth - 1)
    assert tally.wrong_exits == 0
    assert tally.right_continuations == tally.right_decisions


def test_pooled_folds_count_all_decisions():
    case = random_case(9, samples=31)
    first = np.arange(31) % 3 == 0
    parts = [
        rates_at_threshold(case.scores.take(rows), case.outcomes.take(rows), 0.5, "reached") for rows in (first, ~first)
    ]
    whole = rates_at_threshold(case.scores, case.outcomes, 0.5, "reached")
    assert np.array_equal(columns(parts[0] + parts[1]), columns(whole))


def test_unknown_decisions_are_refused():
    curve = trade_off_curve(SignalScores(np.zeros((1, 1)), "<"), Outcomes(np.ones((2, 1), dtype=bool)))
    with pytest.raises(InputError, match="'all' or 'reached', found 'some'"):
        rates_at_points(curve, np.arange(1), "some")  # type: ignore[arg-type]
