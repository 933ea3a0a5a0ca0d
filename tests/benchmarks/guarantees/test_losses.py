import numpy as np
import pytest

from exitbench.benchmarks.guarantees.losses import RISKS, layer_losses, unit_means

PREDICTIONS = np.array([[0, 1, 1, 0], [1, 1, 0, 0], [0, 1, 0, 1]])
TRUTH = np.array([0, 0, 1, 1])


def probabilities():
    random = np.random.default_rng(3)
    made = random.random((3, 4, 2))
    return made / made.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("name", list(RISKS))
def test_every_loss_is_its_definition(name):
    risk, made = RISKS[name], probabilities()
    losses = layer_losses(risk, PREDICTIONS, TRUTH, made)
    for layer in range(3):
        for row in range(4):
            answer, last, true = PREDICTIONS[layer, row], PREDICTIONS[-1, row], TRUTH[row]
            brier = [sum((made[m, row, c] - (c == true)) ** 2 for c in range(2)) for m in (layer, 2)]
            expected = {
                "consistency": float(answer != last),
                "harm": float(answer != true and last == true),
                "gap": float(answer != true) - float(last != true),
                "error": float(answer != true),
                "brier": (brier[0] - brier[1]) / 2,
            }[name]
            assert losses[layer, row] == pytest.approx(expected, abs=1e-15)
    assert losses.max() <= 1
    assert risk.zero_at_the_last_layer == (not losses[-1].any())


def test_the_brier_score_needs_probabilities():
    with pytest.raises(ValueError, match="needs probabilities"):
        layer_losses(RISKS["brier"], PREDICTIONS, TRUTH)


def test_gap_is_at_most_harm_which_is_at_most_consistency():
    random = np.random.default_rng(0)
    predictions, truth = random.integers(0, 3, (4, 200)), random.integers(0, 3, 200)
    gap, harm, consistency = (layer_losses(RISKS[name], predictions, truth) for name in ("gap", "harm", "consistency"))
    assert (gap <= harm).all()
    assert (harm <= consistency).all()


def test_a_group_has_the_mean_of_its_rows():
    values = np.array([[1.0, 2.0, 6.0], [0.0, 1.0, 1.0]])
    assert unit_means(values, np.array([5, 3, 5])).tolist() == [[2.0, 3.5], [1.0, 0.5]]
    assert unit_means(values[0], np.array([5, 3, 5])).tolist() == [2.0, 3.5]
    assert unit_means(values, None) is values
