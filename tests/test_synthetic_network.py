"""The synthetic network: the same numbers for the same arguments, better with depth, and one for caches and checks."""

from pathlib import Path

import pytest
import torch

from exitbench.cache import Cache, synthetic_cache
from exitbench.head_algebra import head_algebra
from exitbench.signals.conformance import synthetic_layers
from exitbench.synthetic_network import SyntheticNetwork, synthetic_network


@pytest.fixture(scope="module")
def network() -> SyntheticNetwork:
    return synthetic_network(6, 3, 16, seed=5)


def accuracy(network: SyntheticNetwork, rows: int = 2000) -> list[float]:
    labels, features = network.samples(0, rows)
    logits = torch.einsum("mnw,mcw->mnc", features, network.weight) + network.bias[:, None]
    return (logits.argmax(dim=2) == labels).double().mean(dim=1).tolist()


def test_later_layers_are_right_more_often(network: SyntheticNetwork) -> None:
    by_layer = accuracy(network)
    assert by_layer == sorted(by_layer)
    assert by_layer[0] > 1 / 3
    assert by_layer[-1] > by_layer[0] + 0.1


def test_stronger_class_directions_make_an_easier_task(network: SyntheticNetwork) -> None:
    easy = synthetic_network(6, 3, 16, seed=5, strengths=(1.0, 4.0))
    assert all(better > worse for better, worse in zip(accuracy(easy), accuracy(network), strict=True))


def test_a_block_depends_on_where_it_begins_and_on_the_seed_only(network: SyntheticNetwork) -> None:
    again = synthetic_network(6, 3, 16, seed=5)
    assert all(torch.equal(a, b) for a, b in zip(network.samples(40, 8), again.samples(40, 8), strict=True))
    assert not torch.equal(network.samples(40, 8)[1], network.samples(41, 8)[1])
    assert not torch.equal(network.weight, synthetic_network(6, 3, 16, seed=6).weight)


def test_hard_samples_have_more_outside_the_space_of_the_classes(network: SyntheticNetwork) -> None:
    labels, features = network.samples(0, 2000)
    wrong_outside, right_outside = 0.0, 0.0
    for m in range(6):
        directions = network.directions[m]
        outside = (features[m] - features[m] @ directions @ directions.T).norm(dim=1)
        right = (features[m] @ network.weight[m].T + network.bias[m]).argmax(dim=1) == labels
        wrong_outside += float(outside[~right].mean())
        right_outside += float(outside[right].mean())
    assert wrong_outside > right_outside


def test_a_synthetic_cache_holds_the_samples_of_the_network(network: SyntheticNetwork, tmp_path: Path) -> None:
    cache = Cache(
        synthetic_cache(tmp_path / "c", rows=30, layers=6, classes=3, width=16, seed=5, feature_dtype="float32")
    )
    labels, features = network.samples(0, 30)
    assert torch.equal(torch.as_tensor(cache.labels), labels)
    for layer in range(1, 7):
        assert torch.equal(cache.features(layer), features[layer - 1])
        torch.testing.assert_close(cache.head(layer).weight, network.weight[layer - 1].double())


def test_the_layers_of_the_checks_fit_their_heads() -> None:
    for layer in synthetic_layers(20, depth=4, classes=3, width=12, seed=3).layers:
        assert layer.features is not None and layer.head is not None and layer.offset_norm is not None
        exact = layer.features.double()
        torch.testing.assert_close(layer.logits.double(), exact @ layer.head.weight.T + layer.head.bias)
        offset = head_algebra(layer.head.weight, layer.head.bias).offset
        torch.testing.assert_close(layer.offset_norm.double(), (exact + offset).norm(dim=1))


def test_the_layers_of_the_checks_are_fresh_each_time() -> None:
    first, second = synthetic_layers(10, seed=1), synthetic_layers(10, seed=1)
    assert first.layers[0].features is not None and second.layers[0].features is not None
    first.layers[0].features.zero_()
    first.labels.zero_()
    assert not torch.equal(first.layers[0].features, second.layers[0].features)
    assert torch.equal(synthetic_layers(10, seed=1).labels, second.labels)
