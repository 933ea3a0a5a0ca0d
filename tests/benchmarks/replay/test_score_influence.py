"""The influence function of a task score against the binomial error and the jackknife."""

import numpy as np
import pytest

from exitbench.benchmarks.replay.tally import score_influence, tally_at
from exitbench.benchmarks.scoring.outcomes import Outcomes


def made(seed: int, samples: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, samples)
    predictions = np.where(rng.random((3, samples)) < 0.8, labels, 1 - labels)
    return predictions, labels, rng.integers(1, 4, samples)


def test_the_error_of_an_accuracy_is_that_of_a_share():
    predictions, labels, exits = made(0)
    share = np.mean(predictions[exits - 1, np.arange(400)] == labels)
    influence = score_influence(exits, Outcomes.of(predictions, labels), "accuracy")
    assert np.linalg.norm(influence) == pytest.approx(100 * np.sqrt(share * (1 - share) / 400))


@pytest.mark.parametrize("measure", ["accuracy", "f1", "mean_accuracy_f1"])
def test_the_influence_of_a_sample_is_what_leaving_it_out_moves(measure):
    predictions, labels, exits = made(1)
    outcomes = Outcomes.of(predictions, labels, positive_class=1)
    whole = float(tally_at(exits, outcomes).score(measure))
    rows = np.arange(400)
    without = [float(tally_at(exits[rows != row], outcomes.take(rows != row)).score(measure)) for row in rows]
    jackknife = (whole - np.array(without)) * (399 / 400)
    np.testing.assert_allclose(score_influence(exits, outcomes, measure), jackknife, atol=2e-3)
