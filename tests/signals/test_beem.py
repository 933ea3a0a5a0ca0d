"""BEEM sums confidences as its published loop does, with each kind of weight, and is PABEE where all are 1."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import softmax

from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.places import FIXTURES
from exitbench.signals import score_layers
from exitbench.signals.beem import BEEM
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.pabee import PABEE


def literal(logits: np.ndarray, weights: list[float]) -> np.ndarray:
    """The published loop, sample by sample: add while the answer stays, begin again at 0 where it changes."""
    depth, samples, _ = logits.shape
    totals = np.full((depth - 1, samples), np.nan)
    for sample in range(samples):
        total, before = 0.0, logits[0, sample].argmax()
        for layer in range(1, depth - 1):
            answer = logits[layer, sample].argmax()
            total = total + weights[layer] * softmax(logits[layer, sample]).max() if answer == before else 0.0
            totals[layer, sample], before = total, answer
    return totals


WEIGHTS = {
    "cost": lambda depth: [(layer + 1) / depth for layer in range(depth)],
    "uniform": lambda depth: [1.0] * depth,
    "code": lambda depth: [0.1 * layer for layer in range(depth)],
}
FEW_LOGITS = arrays(
    np.float32,
    st.tuples(st.integers(3, 8), st.integers(1, 4), st.integers(2, 3)),
    elements=st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0]),
)


@pytest.mark.parametrize("weights", WEIGHTS)
@settings(max_examples=40, deadline=None)
@given(logits=FEW_LOGITS)
def test_the_score_is_that_of_the_published_loop(layers_of, weights: str, logits: np.ndarray) -> None:
    expected = literal(logits.astype(np.float64), WEIGHTS[weights](len(logits)))
    np.testing.assert_allclose(score_layers(BEEM(weights=weights), layers_of(logits)), expected, rtol=1e-12)


def test_accuracy_weights_are_the_accuracies_of_the_calibration_samples() -> None:
    data = synthetic_layers(80, seed=2)
    fitted = BEEM(weights="accuracy").fit(data.layers, data.labels)
    accuracies = [float(np.mean(layer.logits.numpy().argmax(axis=1) == data.labels.numpy())) for layer in data.layers]
    assert fitted.accuracies == pytest.approx(accuracies, abs=1e-15)
    logits = np.stack([layer.logits.double().numpy() for layer in data.layers])
    np.testing.assert_allclose(score_layers(fitted, data.layers), literal(logits, accuracies), rtol=1e-12)


def test_with_certain_answers_and_uniform_weights_it_counts_as_pabee(layers_of, real_looking) -> None:
    layers = layers_of(real_looking(seed=3) * 1e4)
    np.testing.assert_allclose(score_layers(BEEM(weights="uniform"), layers), score_layers(PABEE(), layers), rtol=1e-6)


def test_other_weights_need_no_fit_and_learn_nothing() -> None:
    data = synthetic_layers(10)
    plain = BEEM()
    assert plain.fit(data.layers, data.labels) is plain
    assert not plain.needs_fit


def test_accuracy_weights_before_a_fit_or_beyond_its_layers_are_refused() -> None:
    data = synthetic_layers(10, depth=5)
    signal = BEEM(weights="accuracy")
    _, state = signal.step(data.layers[0], None)
    with pytest.raises(InputError, match="must be fitted"):
        signal.step(data.layers[1], state)
    with pytest.raises(InputError, match="was fitted on 2 layers, found layer 3"):
        score_layers(signal.fit(data.layers[:2], data.labels), data.layers)


def test_on_real_answers_it_is_the_published_loop() -> None:
    cache = Cache(FIXTURES / "caches" / "mpnet-base-mnli-dev")
    logits = torch.stack([cache.logits(layer) for layer in range(1, cache.layers + 1)]).double().numpy()
    np.testing.assert_allclose(score(cache, "beem"), literal(logits, WEIGHTS["cost"](len(logits))), rtol=1e-10)
