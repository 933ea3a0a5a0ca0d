"""The JEI gate: best exits by a literal loop, weights by another optimiser, a planted rule and none."""

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax, softmax
from scipy.stats import entropy
from sklearn.linear_model import LogisticRegression

from exitbench.benchmarks.scoring.score_cache import fitted, score
from exitbench.cache import Cache
from exitbench.places import FIXTURES
from exitbench.signals import score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.jei_gate import JEIGate, best_exits, shape_of
from tests.support.planted_layers import layers_from


def literal_best(logits: np.ndarray, labels: np.ndarray, tradeoff: float) -> list[int]:
    depth = len(logits)
    best = []
    for sample, label in enumerate(labels):
        costs = [-log_softmax(logits[m, sample])[label] + tradeoff * (m + 1) / depth for m in range(depth)]
        best.append(int(np.argmin(costs)) + 1)
    return best


def literal_shape(logits: np.ndarray) -> np.ndarray:
    p = softmax(logits.astype(np.float64), axis=1)
    ordered = np.sort(p, axis=1)
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    return np.stack(
        [ordered[:, -1], entropy(p, axis=1), ordered[:, -1] - ordered[:, -2], entropy(sharp, axis=1)], axis=1
    )


@pytest.mark.parametrize("tradeoff", [0.0, 0.15, 0.7, 5.0])
def test_the_best_exit_weighs_loss_against_cost(tradeoff: float) -> None:
    data = synthetic_layers(60, seed=4)
    logits = np.stack([layer.logits.double().numpy() for layer in data.layers])
    assert best_exits(data.layers, data.labels, tradeoff).tolist() == literal_best(
        logits, data.labels.numpy(), tradeoff
    )


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_the_gate_sees_four_numbers(classes: int) -> None:
    layer = synthetic_layers(50, classes=classes, seed=1).layers[2]
    np.testing.assert_allclose(shape_of(layer), literal_shape(layer.logits.numpy()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("tradeoff", [0.15, 0.7])
def test_each_gate_is_scikit_learns_weighted_regression(tradeoff: float) -> None:
    data = synthetic_layers(200, depth=5, seed=6)
    logits = np.stack([layer.logits.double().numpy() for layer in data.layers])
    best = np.array(literal_best(logits, data.labels.numpy(), tradeoff))
    scores = score_layers(JEIGate(tradeoff=tradeoff).fit(data.layers, data.labels), data.layers).numpy()
    for layer in range(4):
        worth, here = best <= layer + 1, (best == layer + 1).sum()
        if len(set(worth)) == 1:  # nothing to tell apart: the share, half a sample away from 0 and 1
            np.testing.assert_allclose(scores[layer], (worth.sum() + 0.5) / 201)
            continue
        weight = np.where(worth, 5.0 if here == 0 else min((200 - here) / here, 5.0), 1.0)
        columns = literal_shape(logits[layer])
        scaled = (columns - columns.mean(axis=0)) / columns.std(axis=0)
        model = LogisticRegression(C=1 / (1e-4 * weight.sum()), tol=1e-12, max_iter=100_000)
        expected = model.fit(scaled, worth, sample_weight=weight).predict_proba(scaled)[:, 1]
        np.testing.assert_allclose(scores[layer], expected, atol=2e-3)


def planted(rows: int, seed: int, *, separable: bool) -> tuple[list, torch.Tensor]:
    """Layer 1 is as good as the last for half of the samples, which its confidence tells, or does not."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, rows)
    easy = draw.uniform(size=rows) < 0.5
    logits = np.zeros((3, rows, 2))
    confident = (np.where(easy, 4.0, 1.0) if separable else 3.0) + draw.uniform(0, 0.3, rows)
    answer = np.where(easy, labels, 1 - labels)
    logits[0, np.arange(rows), answer] = confident
    logits[1] = draw.normal(size=(rows, 2))
    logits[2, np.arange(rows), labels] = 4.2
    return layers_from(logits), torch.from_numpy(labels)


def area(score: np.ndarray, worth: np.ndarray) -> float:
    lead = score[worth][:, None] - score[~worth]
    return float((lead > 0).mean() + (lead == 0).mean() / 2)


@pytest.mark.parametrize(("separable", "low", "high"), [(True, 0.99, 1.0), (False, 0.45, 0.55)])
def test_a_planted_reason_to_leave_is_found_and_one_that_is_not_there_is_not(
    separable: bool, low: float, high: float
) -> None:
    layers, labels = planted(1500, 0, separable=separable)
    fresh, fresh_labels = planted(1500, 1, separable=separable)
    gate = JEIGate(tradeoff=0.15).fit(layers, labels)
    worth = best_exits(fresh, fresh_labels, 0.15).numpy() == 1
    assert low <= area(score_layers(gate, fresh)[0].numpy(), worth) <= high


def test_on_a_real_cache_the_score_is_that_of_its_weights() -> None:
    cache = Cache(FIXTURES / "caches" / "mpnet-base-qqp-dev")
    gate = fitted(JEIGate(), cache)
    assert isinstance(gate, JEIGate) and gate.gates is not None
    scores = score(cache, gate)
    for layer in (1, 6):
        weights = np.array(gate.gates[layer - 1])
        expected = expit(literal_shape(cache.logits(layer).numpy()) @ weights[:-1] + weights[-1])
        if layer not in gate.unscored_layers:
            np.testing.assert_allclose(scores[layer - 1], expected, rtol=1e-6)


def test_layers_are_left_out_by_what_the_gate_tells_apart() -> None:
    cache = Cache(FIXTURES / "caches" / "mpnet-base-mnli-dev")
    gate = fitted(JEIGate(), cache)
    assert "are worth exiting by then and" in next(iter(gate.unscored_layers.values()))


def test_what_is_worth_leaving_is_mostly_wrong_in_shallow_layers_of_a_real_network() -> None:
    """Why the gate ranks badly there: its target, known beforehand, ranks wrong answers before right ones."""
    cache = Cache(FIXTURES / "caches" / "mpnet-base-mnli-dev")
    logits = np.stack([cache.logits(layer).double().numpy() for layer in range(1, cache.layers + 1)])
    losses = -np.take_along_axis(log_softmax(logits, axis=2), cache.labels[None, :, None], axis=2)[:, :, 0]
    best = (losses + 0.7 * np.arange(1, cache.layers + 1)[:, None] / cache.layers).argmin(axis=0) + 1
    for layer, share_worth, share_other in ((2, 0.255, 0.514), (6, 0.332, 0.713)):
        right, worth = logits[layer - 1].argmax(axis=1) == cache.labels, best <= layer
        assert right[worth].mean() == pytest.approx(share_worth, abs=1e-3)
        assert right[~worth].mean() == pytest.approx(share_other, abs=1e-3)
