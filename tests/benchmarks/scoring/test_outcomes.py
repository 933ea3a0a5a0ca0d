import numpy as np
import pytest
from sklearn.metrics import accuracy_score, f1_score

from exitbench.benchmarks.replay.tally import Tally, score_verdict, tally_at
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import literal_tally, random_case


@pytest.mark.long
@for_each(seed=range(100))
def test_scores_of_the_merged_predictions_are_those_of_scikit_learn(seed):
    case = random_case(seed)
    n = len(case.labels)
    exits = np.random.default_rng(seed).integers(1, case.scores.depth + 1, n)
    merged = case.predictions[exits - 1, np.arange(n)]
    tally = tally_at(exits, case.outcomes)
    accuracy = 100 * accuracy_score(case.labels, merged)
    f1 = 100 * f1_score(case.labels, merged, zero_division=0)
    assert tally.accuracy == pytest.approx(accuracy)
    assert tally.f1 == pytest.approx(f1)
    assert tally.score("mean_accuracy_f1") == pytest.approx((accuracy + f1) / 2)
    assert tally.speed_up == pytest.approx(case.scores.depth / np.mean(exits))
    assert tally.relative_cost == pytest.approx(np.mean(exits) / case.scores.depth)
    counts = literal_tally(case, exits.tolist())
    assert {name: int(getattr(tally, name)) for name in counts} == counts


def test_speed_up_counts_the_last_layer_as_the_formula_says():
    # Two samples at layer 1, one at layer 3 of 3: sum M N / sum m N = 9 / 5.
    tally = tally_at(np.array([1, 1, 3]), Outcomes(np.ones((3, 3), dtype=bool)))
    assert tally.speed_up == pytest.approx(9 / 5)


def test_f1_without_anything_to_find_is_zero_and_reported_as_undefined():
    outcomes = Outcomes.of(np.zeros((2, 4), dtype=int), np.zeros(4, dtype=int), positive_class=1)
    tally = tally_at(np.full(4, 2), outcomes)
    assert tally.f1 == 0
    assert score_verdict(tally, "f1").status == "undefined"
    assert "no sample of class 1" in score_verdict(tally, "mean_accuracy_f1").reason
    assert score_verdict(tally, "accuracy").status == "ok"


def test_pooling_two_sets_of_samples_is_the_tally_of_all_of_them():
    case = random_case(3, samples=30)
    exits = np.random.default_rng(0).integers(1, case.scores.depth + 1, 30)
    first = np.arange(30) < 11
    parts = [tally_at(exits[rows], case.outcomes.take(rows)) for rows in (first, ~first)]
    whole, pooled = tally_at(exits, case.outcomes), parts[0] + parts[1]
    assert pooled.f1 == whole.f1
    assert pooled.accuracy == whole.accuracy
    assert pooled.speed_up == whole.speed_up


def test_f1_between_two_points_comes_from_interpolated_counts():
    outcomes = Outcomes.of(np.array([[1, 1, 0, 0], [1, 0, 1, 0]]), np.array([1, 0, 1, 0]), positive_class=1)
    early, late = tally_at(np.full(4, 1), outcomes), tally_at(np.full(4, 2), outcomes)
    # Early: TP 1, predicted 2; late: TP 2, predicted 2; a quarter of the way from late to early.
    between = late.towards(early, 0.25)
    assert between.f1 == pytest.approx(100 * 2 * 1.75 / (2 + 2))
    assert between.mean_exit_layer == pytest.approx(1.75)


def test_f1_is_refused_where_no_positive_class_is_counted():
    outcomes = Outcomes.of(np.zeros((2, 3), dtype=int), np.zeros(3, dtype=int))
    assert outcomes.measures == ("accuracy",)
    with pytest.raises(InputError, match="no positive class"):
        tally_at(np.full(3, 2), outcomes).score("f1")


def test_an_unknown_score_is_answered_with_the_nearest_known_one():
    with pytest.raises(InputError, match="Did you mean accuracy"):
        tally_at(np.full(3, 1), Outcomes(np.ones((1, 3), dtype=bool))).score("acuracy")  # type: ignore[arg-type]


def test_predictions_and_labels_must_fit():
    with pytest.raises(InputError, match=r"found \(2, 3\) and \(4,\)"):
        Outcomes.of(np.zeros((2, 3)), np.zeros(4))


@pytest.mark.filterwarnings("error")
def test_a_resample_without_samples_has_no_score_and_says_nothing():
    drawn = Tally(12, np.array([0.0, 3.0]), np.array([0.0, 18.0]), np.array([0.0, 2.0]))
    for values, expected in ((drawn.speed_up, 2.0), (drawn.mean_exit_layer, 6.0), (drawn.accuracy, 200 / 3)):
        np.testing.assert_allclose(values, [np.nan, expected])
