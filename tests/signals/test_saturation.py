"""Saturation: the angle between neighbouring features, where layers share a basis, and a refusal where they do not."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache, synthetic_cache
from exitbench.errors import InputError
from exitbench.places import FIXTURES
from exitbench.signals import Layer, score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.saturation import Saturation


def layers_with(features: np.ndarray) -> list[Layer]:
    depth, samples, _ = features.shape
    logits, ids = torch.zeros(samples, 2), torch.arange(samples)
    return [
        Layer(index, depth, 2, ids, logits, features=torch.from_numpy(features[index - 1]))
        for index in range(1, depth + 1)
    ]


def test_the_score_is_the_cosine_of_neighbouring_features(tmp_path: Path) -> None:
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=60, layers=5))
    scores = score(cache, "saturation")
    assert np.isnan(scores[0]).all()
    for layer in range(2, cache.layers):
        before, now = (cache.features(m).double().numpy() for m in (layer - 1, layer))
        expected = [a @ b / np.sqrt((a @ a) * (b @ b)) for a, b in zip(before, now, strict=True)]
        np.testing.assert_allclose(scores[layer - 1], expected, rtol=1e-12)


def test_a_feature_that_stays_scores_one_and_one_that_turns_back_minus_one() -> None:
    feature = np.array([[3.0, 4.0], [3.0, 4.0]], dtype=np.float32)
    layers = layers_with(np.stack([feature, feature * [[2], [-1]], feature]).astype(np.float32))
    assert score_layers(Saturation(), layers)[1].tolist() == [1.0, -1.0]


def test_a_feature_of_zeros_scores_zero() -> None:
    features = np.zeros((3, 2, 4), dtype=np.float32)
    features[0] = 1.0
    assert score_layers(Saturation(), layers_with(features))[1].tolist() == [0.0, 0.0]


def test_where_easy_samples_settle_early_it_ranks_right_answers_first() -> None:
    draw = np.random.default_rng(0)
    right = draw.uniform(size=500) < 0.7
    target = draw.normal(size=(500, 16))
    noise = np.where(right, 0.3, 1.0)[None, :, None]
    features = target + noise * draw.normal(size=(4, 500, 16))
    certainty = score_layers(Saturation(), layers_with(features.astype(np.float32)))[1].numpy()
    assert (certainty[right][:, None] > certainty[~right]).mean() > 0.9


def test_a_network_with_a_pooler_per_layer_is_refused_with_the_reason() -> None:
    with pytest.raises(InputError) as refused:
        score(Cache(FIXTURES / "caches" / "mpnet-base-sst2-dev"), "saturation")
    assert str(refused.value) == (
        "cache mpnet-base-sst2-dev: signal saturation compares layers, so they must be read through one pooler or none "
        "(none or shared), and this network has the pooler 'per-layer'"
    )


@pytest.mark.parametrize(("pooler", "refused"), [("none", False), ("shared", False), ("per-layer", True), (None, True)])
def test_only_a_basis_that_all_layers_share_is_accepted(pooler: str | None, refused: bool) -> None:
    assert bool(Saturation().unsuited(pooler)) is refused
    if pooler is None:
        assert "does not say" in Saturation().unsuited(pooler)


def test_widths_that_differ_and_features_that_are_missing_are_refused() -> None:
    layers = list(synthetic_layers(5, depth=4).layers)
    layers[1] = dataclasses.replace(layers[1], features=torch.ones(5, 3))
    with pytest.raises(InputError, match="found widths 24 and 3 at layers 1 and 2"):
        score_layers(Saturation(), layers)
    with pytest.raises(InputError, match="needs features"):
        Saturation().step(dataclasses.replace(layers[0], features=None), None)
