"""What a fit reads of a cache: the samples that it asks for, in its order, and no others."""

from pathlib import Path

import numpy as np
import pytest
import torch

from exitbench.benchmarks.scoring.calibration_layers import CalibrationLayers
from exitbench.cache import Cache, synthetic_cache
from exitbench.signals import Layer
from exitbench.signals.contract.taken_layers import ById, TakenLayers
from exitbench.signals.edr import EDR

INPUTS = frozenset({"logits", "features", "offset_norm", "head"})
ORDER = np.random.default_rng(0).permutation(90)[:60]
"""Some samples of the cache, by no rule."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """Shards of 37 samples, the last of 16."""
    path = tmp_path_factory.mktemp("caches") / "small"
    return Cache(synthetic_cache(path, rows=90, layers=3, classes=3, width=8, shard_rows=37))


def agree(layer: Layer, cache: Cache, rows: np.ndarray) -> None:
    """The layer holds what the cache has of these rows."""
    wanted = torch.from_numpy(rows)
    assert torch.equal(layer.ids, torch.from_numpy(cache.ids)[wanted])
    assert torch.equal(layer.logits, cache.logits(layer.index)[wanted])
    assert layer.features is not None and torch.equal(layer.features, cache.features(layer.index)[wanted])
    assert layer.offset_norm is not None and torch.equal(layer.offset_norm, cache.offset_norms(layer.index)[wanted])


@pytest.mark.parametrize("count", [0, 1, 2, 60])
def test_some_samples_in_any_order_are_those_of_the_cache(count: int, cache: Cache) -> None:
    for layer in CalibrationLayers(cache, ORDER[:count], INPUTS):
        agree(layer, cache, ORDER[:count])


@pytest.mark.parametrize("chosen", [torch.tensor([5, 3, 59]), torch.arange(60) % 7 == 2, torch.zeros(60).bool()])
def test_samples_of_samples_are_those_of_the_cache_however_deep(chosen: torch.Tensor, cache: Cache) -> None:
    layers = CalibrationLayers(cache, ORDER, INPUTS)
    by_id = np.sort(ORDER)  # ids are the numbers of rows
    first, last = TakenLayers(ById(layers), chosen), torch.tensor([-1] if chosen.any() else [], dtype=torch.long)
    for some, rows in (
        (TakenLayers(layers, chosen), ORDER[chosen.numpy()]),
        (first, by_id[chosen.numpy()]),
        (TakenLayers(first, last), by_id[chosen.numpy()][last.numpy()]),
        (TakenLayers(list(layers), chosen), ORDER[chosen.numpy()]),
        (TakenLayers(TakenLayers(list(layers), chosen), last), ORDER[chosen.numpy()][last.numpy()]),
    ):
        assert len(some) == 3
        for layer in some:
            agree(layer, cache, rows)


def test_the_samples_that_nobody_asks_for_are_not_read(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[slice] = []
    real = Cache.logits

    def watched(self: Cache, layer: int, rows: slice) -> torch.Tensor:
        asked.append(rows)
        return real(self, layer, rows)

    layers = ById(CalibrationLayers(cache, np.arange(90), frozenset({"logits"})))
    monkeypatch.setattr(Cache, "logits", watched)
    TakenLayers(layers, torch.arange(40, 44))[1]
    assert sum(rows.stop - rows.start for rows in asked) <= 4 + 1, "four, and one for the shape"


def test_a_layer_counts_once_for_the_progress_of_a_fit(cache: Cache) -> None:
    layers, seen = CalibrationLayers(cache, ORDER, INPUTS), []
    layers.on_new_layer = lambda: seen.append(1)
    some = layers.of_rows(torch.arange(5))
    assert [layer.index for layer in some] == [layer.index for layer in layers] == [1, 2, 3]
    assert len(seen) == 3


def test_a_head_written_into_through_some_samples_is_noticed(tmp_path: Path) -> None:
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=9, layers=3))
    layers = CalibrationLayers(cache, np.arange(9), INPUTS)
    head = TakenLayers(layers, torch.arange(2))[0].head
    assert head is not None and layers.written_head() == ""
    head.weight[0, 0] += 1.0
    assert "weight" in layers.written_head()


def test_logits_that_nobody_asks_for_are_not_read_and_others_once(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = Cache.logits

    def watched(self: Cache, layer: int, rows: slice) -> torch.Tensor:
        asked.append(layer)
        return real(self, layer, rows)

    monkeypatch.setattr(Cache, "logits", watched)
    layer = CalibrationLayers(cache, ORDER, INPUTS)[1]
    assert (layer.samples, layer.classes, len(layer.ids), layer.offset_norm is None) == (60, 3, 60, False)
    assert layer.features is not None and asked == []
    first = layer.logits
    count = len(asked)
    assert layer.logits is first and layer.prediction.shape == (60,) and len(asked) == count
    EDR().fit(CalibrationLayers(cache, np.arange(90), EDR.inputs), torch.from_numpy(cache.labels))
    assert set(asked[count:]) == {1}, "it learns from features and labels; the first layer says where labels belong"
