"""ECE and Brier score: literal loops, scikit-learn, and errors that fresh samples confirm."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss

from exitbench.benchmarks.measures.calibration import BINS, calibration_errors
from exitbench.errors import InputError
from tests.support.for_each import for_each


def literal_ece(probability: np.ndarray, right: np.ndarray) -> float:
    total = 0.0
    for number in range(BINS):
        low, high = number / BINS, (number + 1) / BINS
        inside = [i for i, p in enumerate(probability) if low <= p < high or (number == BINS - 1 and p == 1.0)]
        if inside:
            gap = np.mean([probability[i] for i in inside]) - np.mean([right[i] for i in inside])
            total += abs(gap) * len(inside) / len(probability)
    return 100 * total


@for_each(seed=range(5))
def test_both_are_what_a_loop_and_scikit_learn_give(seed: int) -> None:
    rng = np.random.default_rng(seed)
    probability = rng.beta(5, 1, size=400)
    right = rng.random(400) < probability**1.5
    errors = calibration_errors(probability, right)
    assert errors["brier"][0] == pytest.approx(100 * brier_score_loss(right, probability))
    assert errors["ece"][0] == pytest.approx(literal_ece(probability, right))
    share, mean = calibration_curve(right, probability, n_bins=BINS)
    counts = np.histogram(probability, bins=BINS, range=(0, 1))[0]
    assert errors["ece"][0] == pytest.approx(100 * np.sum(counts[counts > 0] * np.abs(share - mean)) / 400)


def test_certain_and_right_is_perfect_and_certain_and_wrong_is_as_bad_as_can_be() -> None:
    for right, expected in ((True, 0.0), (False, 100.0)):
        errors = calibration_errors(np.ones(4), np.full(4, right))
        assert [value for value, _ in errors.values()] == [expected, expected]


def test_a_score_beyond_one_is_no_probability() -> None:
    with pytest.raises(InputError, match=r"must lie in 0\.\.1, found 0\.5\.\.1\.5"):
        calibration_errors(np.array([0.5, 1.5]), np.array([True, False]))


@pytest.mark.long
@pytest.mark.parametrize("measure", ["ece", "brier"])
def test_the_standard_error_is_the_spread_over_fresh_samples(measure: str) -> None:
    rng = np.random.default_rng(7)
    values, errors = [], []
    for _ in range(500):
        probability = rng.beta(6, 1.5, size=500)
        right = rng.random(500) < probability - 0.15  # overconfident throughout, so that no bin's gap changes sign
        value, influence = calibration_errors(probability, right)[measure]
        values.append(value)
        errors.append(np.linalg.norm(influence))
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.1)
