"""The random baseline: uniform, independent, and a function of seed, id and layer alone."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from exitbench.signals import Layer
from exitbench.signals.random_exit import Random, mixed

MASK = (1 << 64) - 1


def splitmix(word: int) -> int:
    """SplitMix64's finaliser in Python's unbounded integers, as published."""
    word = (word + 0x9E3779B97F4A7C15) & MASK
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def layer_of(ids: torch.Tensor, index: int = 1) -> Layer:
    return Layer(index, 12, 2, ids, torch.zeros(len(ids), 2))


def test_the_mixing_function_gives_the_published_first_output_of_seed_zero() -> None:
    assert int(mixed(torch.tensor([0]))[0]) & MASK == 0xE220A8397B1DCDAF


@settings(max_examples=60, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**70), 2**70), st.integers(1, 100))
def test_a_score_is_the_mix_of_seed_id_and_layer(sample: int, seed: int, layer: int) -> None:
    expected = (splitmix(splitmix((sample & MASK) ^ splitmix(seed & MASK)) ^ layer) >> 11) / 2**53
    assert Random(seed=seed).score(layer_of(torch.tensor([sample]), layer)).item() == expected


@pytest.mark.parametrize(("seed", "layer"), [(0, 1), (0, 2), (1, 1), (12345, 11)])
def test_scores_are_uniform(seed: int, layer: int) -> None:
    scores = Random(seed=seed).score(layer_of(torch.arange(20_000), layer)).numpy()
    assert scores.min() >= 0.0
    assert scores.max() < 1.0
    assert kstest(scores, "uniform").pvalue > 1e-3


def test_layers_and_seeds_are_independent_of_each_other() -> None:
    ids = torch.arange(20_000)
    columns = [Random(seed=seed).score(layer_of(ids, layer)).numpy() for seed in (0, 1, 2) for layer in (1, 2, 3)]
    correlations = np.corrcoef(columns)
    np.fill_diagonal(correlations, 0.0)
    assert np.abs(correlations).max() < 5 / np.sqrt(20_000)


def test_neighbouring_ids_are_independent() -> None:
    scores = Random().score(layer_of(torch.arange(20_000))).numpy()
    assert abs(np.corrcoef(scores[:-1], scores[1:])[0, 1]) < 5 / np.sqrt(20_000)


def test_the_score_does_not_depend_on_the_logits_or_the_depth() -> None:
    ids = torch.arange(5)
    scores = Random().score(Layer(3, 12, 2, ids, torch.zeros(5, 2)))
    other = Random().score(Layer(3, 6, 4, ids, torch.full((5, 4), torch.nan)))
    assert torch.equal(scores, other)


def test_another_seed_gives_other_numbers_and_not_the_same_ones_to_other_ids() -> None:
    drawn = [set(Random(seed=seed).score(layer_of(torch.arange(512))).tolist()) for seed in (0, 1, 2)]
    assert not drawn[0] & drawn[1]
    assert not drawn[0] & drawn[2]
