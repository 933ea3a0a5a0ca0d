"""Right-Tool's fitted temperatures, against another optimiser and at the edges of what data can say."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from exitbench.errors import InputError
from exitbench.signals import Layer, score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.right_tool import COLDEST, HOTTEST, RightTool, fitted_temperature

FITTED = RightTool(temperature="fitted")


def layer_of(logits: np.ndarray) -> Layer:
    tensor = torch.from_numpy(np.asarray(logits, dtype=np.float32))
    return Layer(1, 2, tensor.shape[1], torch.arange(len(tensor)), tensor)


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_each_layer_gets_the_temperature_that_minimises_its_likelihood(classes: int) -> None:
    data = synthetic_layers(400, classes=classes, seed=3)
    temperatures = FITTED.fit(data.layers, data.labels).temperatures
    assert temperatures is not None
    assert len(temperatures) == len(data.layers)
    for layer, temperature in zip(data.layers, temperatures, strict=True):
        logits, labels = layer.logits64.numpy(), data.labels.numpy()

        def cost(log_t: float, logits: np.ndarray = logits, labels: np.ndarray = labels) -> float:
            return -float(log_softmax(logits / np.exp(log_t), axis=1)[np.arange(len(labels)), labels].mean())

        best = minimize_scalar(cost, bounds=(np.log(0.05), np.log(100)), method="bounded", options={"xatol": 1e-9})
        assert temperature == pytest.approx(np.exp(best.x), rel=1e-5)
        assert cost(np.log(temperature)) <= best.fun + 1e-12


@pytest.mark.long
def test_a_temperature_that_was_put_in_is_found_again() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(40_000, 3)) * 2
    labels = (softmax(logits, axis=1).cumsum(axis=1) < rng.uniform(size=(40_000, 1))).sum(axis=1).clip(max=2)
    for true in (0.5, 1.0, 3.0):
        assert fitted_temperature(layer_of(logits * true), torch.from_numpy(labels)) == pytest.approx(true, rel=0.03)


def test_fitting_twice_gives_the_same_bits() -> None:
    data = synthetic_layers(100, seed=1)
    assert FITTED.fit(data.layers, data.labels) == FITTED.fit(data.layers, data.labels)


def test_samples_that_are_all_right_take_the_coldest_temperature_and_all_wrong_the_hottest() -> None:
    logits = np.array([[4.0, 0.0], [0.0, 3.0], [2.0, 0.0]])
    assert fitted_temperature(layer_of(logits), torch.tensor([0, 1, 0])) == COLDEST
    assert fitted_temperature(layer_of(logits), torch.tensor([1, 0, 1])) == HOTTEST


def test_equal_logits_keep_the_temperature_at_one() -> None:
    assert fitted_temperature(layer_of(np.zeros((4, 3))), torch.tensor([0, 1, 2, 0])) == 1.0


def test_the_score_is_the_largest_softmax_at_the_layers_own_temperature() -> None:
    data = synthetic_layers(30, depth=4, seed=2)
    fitted = FITTED.fit(data.layers, data.labels)
    assert fitted.temperatures is not None
    scores = score_layers(fitted, data.layers)
    for layer, score, temperature in zip(data.internal, scores, fitted.temperatures, strict=False):
        expected = softmax(layer.logits64.numpy() / temperature, axis=1).max(axis=1)
        np.testing.assert_allclose(score, expected, rtol=1e-12)


def test_without_temperature_the_score_is_the_plain_largest_softmax_and_fitting_changes_nothing() -> None:
    data = synthetic_layers(30, depth=4, seed=2)
    plain = RightTool()
    assert plain.fit(data.layers, data.labels) is plain
    assert not plain.needs_fit
    expected = softmax(data.layers[0].logits64.numpy(), axis=1).max(axis=1)
    np.testing.assert_allclose(score_layers(plain, data.layers)[0], expected, rtol=1e-12)


def test_scoring_before_fitting_or_beyond_the_layers_fitted_is_refused() -> None:
    data = synthetic_layers(10, depth=4)
    assert FITTED.needs_fit
    with pytest.raises(InputError, match="must be fitted on a calibration set"):
        FITTED.score(data.layers[0])
    two = FITTED.fit(data.layers[:2], data.labels)
    assert not two.needs_fit
    with pytest.raises(InputError, match="was fitted on 2 layers, found layer 3"):
        score_layers(two, data.layers)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (torch.zeros(2, dtype=torch.int64), r"needs one label for each of 3 samples .* found labels of shape \[2\]"),
        (torch.tensor([0, 1, 2]), r"expected labels 0\.\.1, found 0\.\.2"),
        (torch.tensor([-1, 0, 1]), r"expected labels 0\.\.1, found -1\.\.1"),
    ],
)
def test_labels_that_do_not_fit_the_layer_are_refused(labels: torch.Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        FITTED.fit([layer_of(np.eye(3, 2))], labels)


def test_no_calibration_samples_are_refused() -> None:
    empty = replace(layer_of(np.eye(3, 2)), logits=torch.zeros(0, 2), ids=torch.zeros(0, dtype=torch.int64))
    with pytest.raises(InputError, match="at least one"):
        FITTED.fit([empty], torch.zeros(0, dtype=torch.int64))
