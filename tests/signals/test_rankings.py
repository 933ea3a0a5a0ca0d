"""Which signals rank alike and which do not, and up to what margins and energies the ranking is right."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau, rankdata

from exitbench.signals import ExitSignal, score_layers
from exitbench.signals.cap import CAP
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.deebert import DeeBERT
from exitbench.signals.e_lang import ELang
from exitbench.signals.pcee import PCEE
from exitbench.signals.right_tool import RightTool

ALIKE = (DeeBERT(), DeeBERT(normalize=True), RightTool())


def certainty_ranks(signal: ExitSignal, layers: list) -> np.ndarray:
    """Ranks [layers - 1, samples], the most certain sample last, ties in the middle."""
    scores = score_layers(signal, layers).numpy()
    return rankdata(scores if ">" in signal.exits_when else -scores, axis=1)


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.integers(0, 30 * 256), min_size=2, max_size=40),
    base=st.integers(-20 * 256, 20 * 256),
    flipped=st.integers(0, 2**40 - 1),
)
def test_with_two_classes_entropy_and_max_softmax_rank_as_the_margin(layers_of, steps, base, flipped) -> None:
    """Margins up to 30 in steps of 1/256, exact in float32, around any common level."""
    rows = [(base + step, base) if flipped >> i & 1 else (base, base + step) for i, step in enumerate(steps)]
    logits = np.array(rows, dtype=np.float32)[None] / 256
    expected = rankdata(steps)
    for signal in ALIKE:
        assert certainty_ranks(signal, layers_of(np.repeat(logits, 2, axis=0)))[0].tolist() == expected.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_with_two_classes_they_rank_identically_at_every_layer_of_real_looking_answers(
    layers_of, real_looking, seed: int
) -> None:
    layers = layers_of(real_looking(seed=seed, samples=500) * 2.5)
    margins = torch.stack([(layer.logits64[:, 0] - layer.logits64[:, 1]).abs() for layer in layers[:-1]])
    assert 15 < margins.max() < 60
    expected = rankdata(margins.numpy().clip(max=30), axis=1)
    within = margins.numpy() < 30
    for signal in ALIKE:
        ranks = certainty_ranks(signal, layers)
        assert np.array_equal(ranks[within], expected[within])


def test_margins_near_thirty_that_float64_cannot_tell_apart_tie_and_never_swap(layers_of) -> None:
    """Max-softmax steps by 1.1e-16 next to 1: the limit that its file states. Entropy has none there."""
    margins = np.float32(29) + np.arange(500, dtype=np.float32) * np.float32(2e-3 / 100)
    layers = layers_of(np.stack([margins, np.zeros_like(margins)], axis=1)[None].repeat(2, axis=0))
    assert (score_layers(RightTool(), layers)[0].diff() >= 0).all()
    assert (score_layers(DeeBERT(), layers)[0].diff() < 0).all()


def test_with_three_classes_entropy_and_max_softmax_rank_differently(layers_of, real_looking) -> None:
    layers = layers_of(real_looking(seed=1, samples=300, classes=3))
    entropy, largest = certainty_ranks(DeeBERT(), layers), certainty_ranks(RightTool(), layers)
    assert np.array_equal(entropy, certainty_ranks(DeeBERT(normalize=True), layers))
    agreement = [kendalltau(a, b).statistic for a, b in zip(entropy, largest, strict=True)]
    assert max(agreement) < 0.999
    assert min(agreement) > 0.5


def test_float32_would_have_tied_what_float64_ranks(layers_of) -> None:
    margins = np.linspace(17.5, 30, 60, dtype=np.float32)
    logits = np.stack([margins, np.zeros(60, dtype=np.float32)], axis=1)
    assert len(np.unique(torch.softmax(torch.from_numpy(logits), dim=1).amax(dim=1).numpy())) == 1
    assert len(score_layers(RightTool(), layers_of(logits[None].repeat(2, axis=0)))[0].unique()) == 60


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_cap_without_its_null_space_share_ranks_as_energy_at_every_layer(classes: int, center: bool) -> None:
    layers = list(synthetic_layers(300, depth=8, classes=classes, seed=4).layers)
    energy, cap = (certainty_ranks(signal, layers) for signal in (ELang(center=center), CAP(alpha=0, center=center)))
    assert np.array_equal(energy, cap)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-30 * 256, 30 * 256), min_size=2, max_size=40))
def test_cap_without_its_null_space_share_ranks_as_energy_up_to_thirty(layers_of, steps: list[int]) -> None:
    """Energies within 30 of 0 in steps of 1/256: one class carries it, the other is 60 below."""
    energies = np.array(steps, dtype=np.float32) / 256
    logits = np.stack([-energies, -energies - 60], axis=1)[None].repeat(2, axis=0)
    heads = [layer.head for layer in synthetic_layers(1, depth=2, classes=2).layers]
    layers = [
        replace(layer, head=head, offset_norm=torch.ones(len(steps)))
        for layer, head in zip(layers_of(logits), heads, strict=True)
    ]
    for signal in (ELang(), CAP(alpha=0)):
        assert certainty_ranks(signal, layers)[0].tolist() == rankdata(-np.array(steps)).tolist()


def test_pcee_with_patience_one_is_normalised_entropy(layers_of, real_looking) -> None:
    layers = layers_of(real_looking(seed=6, classes=3))
    assert torch.equal(score_layers(PCEE(patience=1), layers), score_layers(DeeBERT(normalize=True), layers))


def test_normalised_entropy_of_a_flat_answer_is_one(layers_of) -> None:
    for classes in (2, 3, 10):
        score = score_layers(DeeBERT(normalize=True), layers_of(np.zeros((2, 1, classes))))
        assert score.item() == pytest.approx(1.0, abs=1e-15)
