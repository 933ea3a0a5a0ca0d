"""Every learned signal on a committed cache: the scores of scikit-learn, scipy or a plain loop fitted on the same rows.

What is learned from features is compared in ``test_feature_scores`` and ``test_hazards``, on real features too.
"""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression

from exitbench.benchmarks.scoring.calibration_layers import CalibrationLayers
from exitbench.cache import Cache
from exitbench.places import FIXTURES
from exitbench.signals import Layer, eenet, load_registry, score_layers
from tests.signals.test_jei_gate import literal_best, literal_shape
from tests.signals.test_meta import literal_columns
from tests.support.planted_layers import auroc

REGISTRY = load_registry()
ROWS = np.arange(0, 1000, 5)
JUDGED = (1, 5, 9)
"""Layers, from 0, that are compared."""


@pytest.fixture(scope="module")
def mnli() -> tuple[list[Layer], torch.Tensor, np.ndarray]:
    """Layers, labels and logits [layers, samples, 3] of some rows of the committed MNLI cache."""
    cache = Cache(FIXTURES / "caches" / "mpnet-base-mnli-dev")
    layers = list(CalibrationLayers(cache, ROWS, frozenset({"logits"})))
    return layers, torch.from_numpy(cache.labels[ROWS]), np.stack([layer.logits.double().numpy() for layer in layers])


def regression(columns: np.ndarray, target: np.ndarray, penalty: float, weight: np.ndarray | None = None) -> np.ndarray:
    """The log-odds of scikit-learn's default solver on standardised columns, [samples]."""
    spread = columns.std(axis=0)
    scaled = (columns - columns.mean(axis=0)) / np.where(spread > 1e-9, spread, 1)
    total = len(target) if weight is None else weight.sum()
    model = LogisticRegression(C=1 / (penalty * total), tol=1e-12, max_iter=100_000)
    return np.asarray(model.fit(scaled, target, sample_weight=weight).decision_function(scaled))


def by_scikit_learn(text: str, logits: np.ndarray, labels: np.ndarray, layer: int) -> np.ndarray:
    """The scores at a layer (from 0)."""
    answers = logits.argmax(axis=2)
    if text in ("meta", "meta[target=final]"):
        truth = answers[-1] if "final" in text else labels
        return expit(regression(literal_columns(logits, layer), answers[layer] == truth, 0.01))
    if text == "settled":
        columns = literal_columns(logits, layer)
        harmful = (answers[layer] != labels) & (answers[-1] == labels)
        halves = [regression(columns, kind, 0.03) for kind in (answers[layer] == answers[-1], ~harmful)]
        return expit(np.mean(halves, axis=0))
    if text == "jei-gate":
        best = np.array(literal_best(logits, labels, 0.7))
        worth, here = best <= layer + 1, int((best == layer + 1).sum())
        weight = np.where(worth, 5.0 if here == 0 else min((len(best) - here) / here, 5.0), 1.0)
        return expit(regression(literal_shape(logits[layer]), worth, 1e-4, weight))
    assert text == "eenet"
    estimates: list[np.ndarray] = []
    for m in range(layer + 1):
        p = softmax(logits[m], axis=1)
        columns = np.column_stack([p, p.max(axis=1), 1 - entropy(p, axis=1) / math.log(3), *estimates])
        estimates.append(expit(regression(columns, answers[m] == labels, 0.01)))
    return estimates[-1]


@pytest.mark.long
@pytest.mark.parametrize("text", ["eenet", "jei-gate", "meta", "meta[target=final]", "settled"])
def test_scores_are_those_of_scikit_learn(text: str, mnli: tuple[list[Layer], torch.Tensor, np.ndarray]) -> None:
    layers, labels, logits = mnli
    ready = REGISTRY.make(text).fit(layers, labels)
    scores = score_layers(ready, layers).numpy()
    for layer in JUDGED:
        # EENet's score is its estimate less a threshold of the layer; the thresholds have tests of their own.
        above = ready.thresholds_fitted[layer] if isinstance(ready, eenet.EENet) else 0.0
        # The gate has next to no penalty and nearly collinear columns: the other solver stops a little earlier.
        tolerance = 2e-3 if text == "jei-gate" else 1e-5
        expected = by_scikit_learn(text, logits, labels.numpy(), layer)
        np.testing.assert_allclose(scores[layer] + above, expected, atol=tolerance)


def test_fitted_temperatures_are_those_of_scipy(mnli: tuple[list[Layer], torch.Tensor, np.ndarray]) -> None:
    layers, labels, logits = mnli
    ready = REGISTRY.make("right-tool[temperature=fitted]").fit(layers, labels)
    scores = score_layers(ready, layers).numpy()
    rows = np.arange(len(labels))
    for layer in JUDGED:

        def loss(log_temperature: float, own: np.ndarray = logits[layer]) -> float:
            return -float(log_softmax(own / math.exp(log_temperature), axis=1)[rows, labels.numpy()].mean())

        best = minimize_scalar(loss, bounds=(-4, 4), method="bounded", options={"xatol": 1e-10})
        expected = softmax(logits[layer] / math.exp(best.x), axis=1).max(axis=1)
        np.testing.assert_allclose(scores[layer], expected, atol=1e-6)


FEATURES = [
    name
    for name in sorted(REGISTRY.signals)
    if (signal := REGISTRY.make(name)).needs_fit and "features" in signal.inputs
]


@pytest.fixture(scope="module")
def sst2() -> tuple[list[Layer], torch.Tensor]:
    """Layers 2, 6 and 12 of the committed SST-2 cache, as a network of three, with features and heads."""
    cache = Cache(FIXTURES / "caches" / "mpnet-base-sst2-dev")
    inputs = frozenset({"logits", "features", "head", "offset_norm"})
    stored = CalibrationLayers(cache, np.arange(cache.rows), inputs)
    layers = []
    for index, number in enumerate((2, 6, 12), start=1):
        layer = stored[number - 1]
        kept = {name: getattr(layer, name) for name in ("ids", "logits", "features", "offset_norm", "head")}
        layers.append(Layer(index=index, depth=3, classes=2, **kept))
    return layers, torch.from_numpy(cache.labels)


@pytest.mark.long
@pytest.mark.parametrize("text", FEATURES)
def test_half_of_a_real_cache_teaches_something_about_the_other_half(
    text: str, sst2: tuple[list[Layer], torch.Tensor]
) -> None:
    """At layer 6 every one of them ranks right answers before wrong ones, some by much; labels drawn anew undo it."""
    layers, labels = sst2
    even, odd = torch.arange(0, len(labels), 2), torch.arange(1, len(labels), 2)
    unseen = [layer.take(odd) for layer in layers]
    ready = REGISTRY.make(text).fit([layer.take(even) for layer in layers], labels[even])
    assert auroc(ready, unseen, labels[odd], 2) > {"palbert": 0.55, "consistentee": 0.55}.get(text, 0.6)
