"""Patience as a window exits exactly where the published counters exit, for every patience and threshold."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon
from scipy.special import log_softmax, rel_entr
from scipy.stats import entropy

from exitbench.signals import exits, score_layers
from exitbench.signals.f_pabee import FPABEE
from exitbench.signals.pabee import PABEE
from exitbench.signals.pcee import PCEE

DIVERGENCES = ("jsd", "kl", "reverse-kl", "symmetric-kl")
COMPARISONS = (*DIVERGENCES, "mean-entropy")
"""Every way to compare two answers; the entropy of the mean is no divergence: of equal answers it is not 0."""
FEW_LOGITS = arrays(
    np.float32,
    st.tuples(st.integers(3, 9), st.integers(1, 4), st.integers(2, 3)),
    elements=st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0]),
)


def counter_exits(values: np.ndarray, patience: int, tau: float, first_value_at: int) -> list[int]:
    """The published loop: count layers in a row whose value is below tau; exit when the count reaches the patience.

    ``values`` [internal layers, samples]; rows before layer ``first_value_at`` hold nothing yet.
    """
    internal, samples = values.shape
    exit_layers = []
    for sample in range(samples):
        counter, exit_layer = 0, internal + 1
        for layer in range(first_value_at, internal + 1):
            counter = counter + 1 if values[layer - 1, sample] < tau else 0
            if counter == patience:
                exit_layer = layer
                break
        exit_layers.append(exit_layer)
    return exit_layers


def every_threshold(values: np.ndarray) -> list[float]:
    """All values, the points between them, and both ends: every way a threshold can fall."""
    distinct = np.unique(values[np.isfinite(values)])
    middles = (distinct[1:] + distinct[:-1]) / 2
    return [-math.inf, *distinct, *middles, math.inf]


def assert_window_is_counter(make: Callable[[int], FPABEE | PCEE], layers: list, first_value_at: int) -> None:
    values = score_layers(make(1), layers).numpy()  # the last one value: what the counter looks at
    depth = len(layers)
    for patience in range(1, depth + 1):
        signal = make(patience)
        scores = score_layers(signal, layers).numpy()
        for tau in every_threshold(values):
            expected = counter_exits(values, patience, tau, first_value_at)
            assert exits(scores, signal.exits_when, signal.first_exit_layer, tau).tolist() == expected, (patience, tau)


@settings(max_examples=25, deadline=None)
@given(logits=FEW_LOGITS)
def test_pcee_exits_where_its_counter_exits(layers_of, logits: np.ndarray) -> None:
    assert_window_is_counter(lambda patience: PCEE(patience=patience), layers_of(logits), 1)


@settings(max_examples=20, deadline=None)
@given(logits=FEW_LOGITS, divergence=st.sampled_from(COMPARISONS))
def test_f_pabee_exits_where_its_counter_exits(layers_of, logits: np.ndarray, divergence: str) -> None:
    make = lambda patience: FPABEE(divergence=divergence, patience=patience)  # noqa: E731
    assert_window_is_counter(make, layers_of(logits), 2)


@pytest.mark.parametrize("classes", [2, 3])
def test_pcee_and_f_pabee_exit_where_their_counters_exit_on_real_looking_answers(
    layers_of, real_looking, classes: int
) -> None:
    layers = layers_of(real_looking(seed=5, samples=7, classes=classes))
    assert_window_is_counter(lambda patience: PCEE(patience=patience), layers, 1)
    assert_window_is_counter(lambda patience: FPABEE(patience=patience), layers, 2)


def pabee_loop(predictions: np.ndarray, patience: int) -> list[int]:
    """The published loop: count layers that agree with the one before; exit when the count reaches the patience."""
    internal, samples = predictions.shape
    exit_layers = []
    for sample in range(samples):
        counter, before, exit_layer = 0, None, internal + 1
        for layer in range(1, internal + 1):
            answer = predictions[layer - 1, sample]
            counter = counter + 1 if before is not None and answer == before else 0
            before = answer
            if counter == patience:
                exit_layer = layer
                break
        exit_layers.append(exit_layer)
    return exit_layers


def assert_pabee_is_its_loop(layers: list) -> None:
    predictions = np.stack([layer.logits.numpy().argmax(axis=1) for layer in layers[:-1]])
    signal = PABEE()
    scores = score_layers(signal, layers).numpy()
    for patience in signal.thresholds.values(len(layers)):
        exit_layers = exits(scores, signal.exits_when, signal.first_exit_layer, patience)
        assert exit_layers.tolist() == pabee_loop(predictions, patience), patience


@settings(max_examples=60, deadline=None)
@given(logits=FEW_LOGITS)
def test_pabee_exits_where_its_counter_exits(layers_of, logits: np.ndarray) -> None:
    assert_pabee_is_its_loop(layers_of(logits))


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_pabee_exits_where_its_counter_exits_on_real_looking_answers(layers_of, real_looking, classes: int) -> None:
    assert_pabee_is_its_loop(layers_of(real_looking(seed=9, samples=200, classes=classes)))


def test_pabee_counts_agreements_and_starts_again_after_a_change(layers_of) -> None:
    answers = np.eye(3, dtype=np.float32)[[0, 0, 0, 1, 1, 0, 2]][:, None, :]
    scores = score_layers(PABEE(), layers_of(answers))[:, 0].tolist()
    assert math.isnan(scores[0])
    assert scores[1:] == [1, 2, 0, 1, 0]


def literal_divergence(kind: str, p: np.ndarray, q: np.ndarray) -> float:
    forward, backward = rel_entr(p, q).sum(), rel_entr(q, p).sum()
    table = {
        "kl": forward,
        "reverse-kl": backward,
        "symmetric-kl": (forward + backward) / 2,
        "jsd": jensenshannon(p, q) ** 2,
        "mean-entropy": entropy((p + q) / 2),
    }
    return float(table[kind])


@pytest.mark.parametrize("kind", COMPARISONS)
def test_the_divergence_is_that_of_scipy_between_the_layer_before_and_this_one(layers_of, real_looking, kind) -> None:
    logits = real_looking(seed=2, depth=5, samples=20, classes=3)
    probabilities = np.exp(log_softmax(logits.astype(np.float64), axis=2))
    scores = score_layers(FPABEE(divergence=kind, patience=1), layers_of(logits)).numpy()
    for layer in range(1, 4):
        expected = [literal_divergence(kind, *probabilities[layer - 1 : layer + 1, sample]) for sample in range(20)]
        np.testing.assert_allclose(scores[layer], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", DIVERGENCES)
def test_equal_answers_do_not_diverge_and_no_divergence_is_negative(layers_of, kind: str) -> None:
    rng = np.random.default_rng(0)
    still = np.repeat(rng.normal(size=(1, 50, 3)) * 10, 4, axis=0)
    scores = score_layers(FPABEE(divergence=kind), layers_of(still))[1:]
    assert scores.abs().max() < 1e-15
    nearly = still + 1e-6 * rng.normal(size=still.shape)
    assert (score_layers(FPABEE(divergence=kind), layers_of(nearly))[1:] >= 0).all()


def decimal_answers(before: list[float], here: list[float]) -> list[list[Decimal]]:
    """The softmax of two rows of logits, and their mean."""
    powers = [[Decimal(value).exp() for value in row] for row in (before, here)]
    p, q = ([power / sum(row) for power in row] for row in powers)
    return [p, q, [(a + b) / 2 for a, b in zip(p, q, strict=True)]]


def decimal_jsd(before: list[float], here: list[float]) -> float:
    """The Jensen-Shannon divergence between the softmax of two rows of logits, to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        triples = zip(*decimal_answers(before, here), strict=True)
        return float(sum(a * (a / r).ln() + b * (b / r).ln() for a, b, r in triples) / 2)


def decimal_mean_entropy(before: list[float], here: list[float]) -> float:
    """The entropy of the mean of the softmax of two rows of logits, to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return float(-sum(r * r.ln() for r in decimal_answers(before, here)[2]))


@pytest.mark.parametrize("margin", [0, 5, 15, 25, 30, 35])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    ("kind", "oracle"), [("jsd", decimal_jsd), ("mean-entropy", decimal_mean_entropy)], ids=["jsd", "mean-entropy"]
)
def test_precision_is_kept_between_confident_answers(layers_of, margin: int, classes: int, kind, oracle) -> None:
    rng = np.random.default_rng(margin)
    logits = rng.normal(size=(3, 40, classes))
    logits[:, :, 0] += margin
    logits = logits.astype(np.float32)
    scores = score_layers(FPABEE(divergence=kind, patience=1), layers_of(logits))[1].tolist()
    expected = [oracle(*logits[:2, sample].tolist()) for sample in range(40)]
    np.testing.assert_allclose(scores, expected, rtol=1e-11)


def test_the_mean_entropy_of_two_certain_answers_that_contradict_each_other_is_ln_2(layers_of) -> None:
    apart = np.array([[[30.0, 0.0]], [[0.0, 30.0]], [[0.0, 0.0]]], dtype=np.float32)
    score = score_layers(FPABEE(divergence="mean-entropy"), layers_of(apart))[1].item()
    assert score == pytest.approx(math.log(2), rel=1e-12)


def test_the_mean_entropy_of_equal_answers_is_their_entropy_and_their_divergence_is_0(layers_of, real_looking) -> None:
    still = np.repeat(real_looking(seed=4, samples=30, classes=3)[:1], 3, axis=0)
    layers = layers_of(still)
    mean_entropy = score_layers(FPABEE(divergence="mean-entropy", patience=1), layers)[1]
    np.testing.assert_allclose(mean_entropy.numpy(), layers[1].entropy.numpy(), rtol=1e-13)
    assert score_layers(FPABEE(), layers)[1].abs().max() < 1e-15


def test_samples_that_swap_two_answers_tie_in_both_forms(layers_of) -> None:
    """Both forms are symmetric in the two answers, to the last bit."""
    first, second = [1.25, -0.5, 3.0], [0.75, 2.0, -1.0]
    logits = np.array([[first, second], [second, first], [first, first]], dtype=np.float32)
    for kind in ("jsd", "mean-entropy"):
        forward, backward = score_layers(FPABEE(divergence=kind), layers_of(logits))[1].tolist()
        assert forward == backward


def test_first_exit_layers_follow_from_the_patience() -> None:
    assert [PCEE(patience=t).first_exit_layer for t in (1, 2, 6)] == [1, 2, 6]
    assert [FPABEE(patience=t).first_exit_layer for t in (1, 2, 6)] == [2, 3, 7]
    assert (PABEE().first_exit_layer, PABEE().first_scored_layer, FPABEE().first_scored_layer) == (2, 2, 2)


def test_a_window_that_is_not_full_yet_still_ranks(layers_of, real_looking) -> None:
    layers = layers_of(real_looking(seed=3))
    six, single = score_layers(PCEE(patience=6), layers), score_layers(PCEE(patience=1), layers)
    for layer in range(11):
        expected = single[max(0, layer - 5) : layer + 1].amax(dim=0)
        assert six[layer].tolist() == expected.tolist()
