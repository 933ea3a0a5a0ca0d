"""Whatever the registry holds that learns: found without being listed, and held to the same laws."""

import dataclasses
import gc
import json
import tracemalloc
import weakref

import numpy as np
import pytest
import torch

from exitbench.benchmarks.scoring import calibration_layers
from exitbench.benchmarks.scoring.calibration_layers import CalibrationLayers, LayerOfCache, StoredFeatures
from exitbench.cache import Cache, synthetic_cache
from exitbench.head_algebra import head_algebra
from exitbench.signals import ExitSignal, Layer, calibrated, load_registry, mahalanobis, meta, score_layers
from exitbench.signals.contract import feature_statistics, hazard, taken_layers
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.logit_quantities import Derived
from exitbench.signals.contract.taken_layers import ById, few_enough
from exitbench.signals.knn_agreement import KNNAgreement
from exitbench.signals.meta import Meta
from tests.support.planted_layers import auroc, layers_from

pytestmark = pytest.mark.long

REGISTRY = load_registry()
LEARNED = [name for name in sorted(REGISTRY.signals) if REGISTRY.make(name).needs_fit]
BY_RIGHT = [
    name
    for name in LEARNED
    if isinstance(signal := REGISTRY.make(name), LearnedSignal) and signal.told_apart() == ("right", "wrong")
]
VARIANTS = ["calibrated[of=berxit]", "calibrated[of=cap]", "meta[features=true]", "right-tool[temperature=fitted]"]
VARIANTS += ["beem[weights=accuracy]", "calibrated[of=meta,method=isotonic]", "mahalanobis[form=margin]"]
FROM_FEATURES = [
    text
    for text in [*LEARNED, *VARIANTS, "berxit[form=published]", "calibrated[of=edr]"]
    if "features" in REGISTRY.make(text).inputs
]
"""Whatever learns from features, found by what it declares."""


def nothing_decides(rows: int, seed: int) -> tuple[list[Layer], torch.Tensor]:
    """Right answers, two in three, have nothing to do with logits or features; heads of their own."""
    draw = np.random.default_rng(seed)
    heads = np.random.default_rng(99)
    logits = draw.normal(size=(3, rows, 2)) * 2
    labels = np.where(draw.uniform(size=rows) < 2 / 3, logits[1].argmax(axis=1), 1 - logits[1].argmax(axis=1))
    plain = layers_from(logits, draw.normal(size=(3, rows, 6)))
    layers = []
    for layer in plain:
        head = head_algebra(torch.from_numpy(heads.normal(size=(2, 6))), torch.from_numpy(heads.normal(size=2)))
        offset_norm = torch.ones(rows)
        values = {name: getattr(layer, name) for name in ("index", "depth", "classes", "ids", "logits", "features")}
        layers.append(Layer(**values, head=head, offset_norm=offset_norm))
    return layers, torch.from_numpy(labels)


@pytest.mark.parametrize("text", LEARNED)
def test_a_rule_that_is_not_there_is_not_found(text: str) -> None:
    layers, labels = nothing_decides(1500, seed=0)
    fresh, fresh_labels = nothing_decides(1500, seed=1)
    assert auroc(REGISTRY.make(text).fit(layers, labels), fresh, fresh_labels, 2) == pytest.approx(0.5, abs=0.07)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """Shards that are not the blocks of a reader."""
    path = tmp_path_factory.mktemp("caches") / "small"
    return Cache(synthetic_cache(path, rows=90, layers=4, classes=3, width=12, shard_rows=37))


ORDER = np.random.default_rng(0).permutation(90)


def in_memory(cache: Cache, inputs: frozenset[str]) -> list[Layer]:
    """The layers of a cache with everything read, in its own order."""
    layers = []
    for stored in CalibrationLayers(cache, np.arange(cache.rows), inputs):
        values = {name: getattr(stored, name) for name in ("index", "depth", "classes", "ids", "logits", "features")}
        layers.append(Layer(**values, head=stored.head, offset_norm=stored.offset_norm))
    return layers


@pytest.mark.parametrize("text", [*LEARNED, *VARIANTS])
def test_reading_block_by_block_in_any_order_changes_no_bit_and_json_brings_it_back(
    text: str, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    signal = REGISTRY.make(text)
    layers, labels = in_memory(cache, signal.inputs), torch.from_numpy(cache.labels)
    whole = signal.fit(layers, labels)
    monkeypatch.setattr(calibration_layers, "GAP", 1)
    monkeypatch.setattr(calibration_layers, "TOGETHER", 5)
    monkeypatch.setattr(taken_layers, "TOGETHER", 3 * 17)
    monkeypatch.setattr(calibrated, "LOGITS", 3 * 4 * 40)
    stored = CalibrationLayers(cache, ORDER, signal.inputs)
    assert signal.fit(stored, labels[ORDER]).to_json() == whole.to_json()
    back = type(signal).from_json(json.loads(json.dumps(whole.to_json())))
    expected = score_layers(whole, layers)
    torch.testing.assert_close(score_layers(back, layers), expected, rtol=0, atol=0, equal_nan=True)
    for size in (1, 32):
        parts = [
            score_layers(back, [layer.take(torch.arange(start, min(start + size, 90))) for layer in layers])
            for start in range(0, 90, size)
        ]
        torch.testing.assert_close(torch.cat(parts, dim=1), expected, rtol=1e-9, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("text", [*LEARNED, *VARIANTS, "calibrated[of=meta]"])
def test_a_fit_derives_nothing_from_more_logits_than_it_may_hold(
    text: str, cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With many classes a layer's probabilities, or a regression's columns, are as large as its features."""
    signal, derived = REGISTRY.make(text), []
    real = Derived.__setitem__

    def watched(self: Derived, key: object, tensor: torch.Tensor) -> None:
        derived.append(tensor.numel())
        real(self, key, tensor)

    monkeypatch.setattr(Derived, "__setitem__", watched)
    for module, name in ((taken_layers, "TOGETHER"), (taken_layers, "ENTRIES"), (calibrated, "LOGITS")):
        monkeypatch.setattr(module, name, 3 * 30)
    signal.fit(CalibrationLayers(cache, ORDER, signal.inputs), torch.from_numpy(cache.labels[ORDER]))
    assert max((size for size in derived if size != cache.rows), default=0) <= 3 * 30  # 90 are answers, one a sample


def test_of_too_many_samples_some_are_taken_evenly(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    layers, labels = in_memory(cache, frozenset({"logits"})), torch.from_numpy(cache.labels)
    rows = [0, 9, 19, 29, 39, 49, 59, 69, 79, 89]
    of_few = Meta().fit([layer.take(torch.tensor(rows)) for layer in layers], labels[rows])
    assert few_enough(layers, labels, 5) == (layers, labels)
    monkeypatch.setattr(taken_layers, "ENTRIES", 5 * 10 + 4)
    few, their_labels = few_enough(layers, labels, 5)
    assert few[2].ids.tolist() == layers[2].ids[rows].tolist()
    assert their_labels.tolist() == labels[rows].tolist()
    monkeypatch.setattr(taken_layers, "ENTRIES", (3 + 4) * 10)
    assert Meta().fit(layers, labels) == of_few


@pytest.mark.parametrize("text", [*LEARNED, *VARIANTS])
def test_a_fit_keeps_no_layer_that_it_is_done_with(text: str, cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a cycle either, which nobody collects: tensors are no Python objects that would call the collector."""
    signal, given, alive = REGISTRY.make(text), [], []
    real = CalibrationLayers._layer

    def watched(self: CalibrationLayers, index: int) -> Layer:
        layer = real(self, index)
        given.append(weakref.ref(layer.logits))
        alive.append(sum(logits() is not None for logits in given))
        return layer

    monkeypatch.setattr(CalibrationLayers, "_layer", watched)
    calibration = CalibrationLayers(cache, np.arange(90), signal.inputs)
    gc.disable()
    try:
        signal.fit(calibration, torch.from_numpy(cache.labels))
    finally:
        gc.enable()
    assert len(given) >= 3
    assert max(alive) <= 3


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> int:
    """What a fit may hold at once, made so small that a small cache is far larger: rows of a block, and of a sample."""
    rows = 20
    for module, name in (
        (feature_statistics, "BLOCK"),
        (calibrated, "BLOCK"),
        (mahalanobis, "SHRINKAGE_ROWS"),
    ):
        monkeypatch.setattr(module, name, rows)
    return rows


@pytest.mark.parametrize("text", FROM_FEATURES)
def test_a_fit_never_asks_for_all_features_at_once(
    text: str, cache: Cache, small_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it keep what it has read: of the five blocks of a layer at most three are in memory together."""
    read, held, kept = [], [], []
    real = StoredFeatures.__getitem__

    def watched(self: StoredFeatures, rows: slice | torch.Tensor) -> torch.Tensor:
        values = real(self, rows).double().numpy().copy()  # in float64, so that a fit makes no copy of its own
        read.append(len(values))
        kept.append(weakref.ref(values))
        held.append(sum(len(block) for ref in kept if (block := ref()) is not None))
        return torch.from_numpy(values)

    monkeypatch.setattr(StoredFeatures, "__getitem__", watched)
    signal = with_small_bank(REGISTRY.make(text), small_blocks)
    signal.fit(CalibrationLayers(cache, ORDER, signal.inputs), torch.from_numpy(cache.labels[ORDER]))
    assert sum(read) >= (3 * 90 if signal.name != "knn-agreement" else 3 * small_blocks)
    assert max(read) <= small_blocks
    assert max(held) <= 3 * small_blocks


@pytest.fixture(scope="module")
def wide_cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """A layer of it is 1.5 MB in float64."""
    path = tmp_path_factory.mktemp("caches") / "wide"
    return Cache(synthetic_cache(path, rows=3000, layers=3, classes=2, width=64))


@pytest.mark.parametrize("text", FROM_FEATURES)
def test_a_fit_holds_no_layer_in_memory(
    text: str, cache: Cache, wide_cache: Cache, small_blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What numpy holds at its peak, beside what a reader is asked for: blocks that are joined would show here."""
    for module, name, size in (
        (feature_statistics, "BLOCK", 200),
        (calibrated, "BLOCK", 200),
        (meta, "ENTRIES", 8000),
        (hazard, "ENTRIES", 8000),
    ):
        monkeypatch.setattr(module, name, size)
    signal = with_small_bank(REGISTRY.make(text), small_blocks)
    signal.fit(CalibrationLayers(cache, ORDER, signal.inputs), torch.from_numpy(cache.labels[ORDER]))  # imports
    calibration = CalibrationLayers(wide_cache, np.arange(3000), signal.inputs)
    tracemalloc.start()
    try:
        signal.fit(calibration, torch.from_numpy(wide_cache.labels))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3000 * 64 * 8 / 2


def with_small_bank(signal: ExitSignal, rows: int) -> ExitSignal:
    """The signal, but for one that keeps samples: that keeps no more than ``rows``."""
    return dataclasses.replace(signal, bank=rows) if isinstance(signal, KNNAgreement) else signal


def test_the_stored_features_of_some_rows_are_those_of_the_cache(cache: Cache) -> None:
    stored = CalibrationLayers(cache, ORDER, frozenset({"features"}))[1]
    assert isinstance(stored, LayerOfCache) and stored.feature_rows is not None
    expected = cache.features(2)[torch.from_numpy(ORDER)]
    assert tuple(stored.feature_rows.shape) == (90, 12) and len(stored.feature_rows) == 90
    assert torch.equal(stored.feature_rows[7:50], expected[7:50])
    assert stored.features is not None and torch.equal(stored.features, expected)
    mask = torch.arange(90) % 3 == 0
    some = stored.take(mask).only({"features"})
    assert not isinstance(some.feature_rows, torch.Tensor)
    assert some.features is not None and torch.equal(some.features, expected[mask])
    assert stored.only({"logits"}).features is None
    sliced = ById(CalibrationLayers(cache, ORDER, frozenset({"features"})))[1:][:1]
    assert [layer.index for layer in sliced] == [2] and len(sliced) == 1


@pytest.mark.parametrize("text", [*BY_RIGHT, *VARIANTS[:3]])
def test_a_layer_with_nine_wrong_samples_is_left_out_once_for_all_folds(text: str, cache: Cache) -> None:
    """Layer 2 of 3 internal ones has 9 wrong answers among all samples; a fold of 60 of them sees fewer or more."""
    signal = REGISTRY.make(text)
    layers = in_memory(cache, signal.inputs)
    labels = torch.from_numpy(cache.labels)
    logits = 3.0 * torch.nn.functional.one_hot(labels, 3).float()
    logits[:9] = logits[:9].roll(1, dims=1)
    uneven = 0.01 * torch.arange(270).reshape(90, 3) / 270
    layers[1] = dataclasses.replace(layers[1], logits=logits + uneven)
    for number in (0, 2, 3):  # noise, so that all other layers have enough of either kind
        draw = torch.randn(90, 3, generator=torch.Generator().manual_seed(number))
        layers[number] = dataclasses.replace(layers[number], logits=draw)
    ready = signal.leave_out(layers, labels)
    assert list(ready.unscored_layers) == [2]
    assert "81 of 90 calibration samples at layer 2 are right and 9 wrong" in ready.unscored_layers[2]
    fold = torch.arange(90) % 3 != 0
    part = ready.fit([layer.take(fold) for layer in layers], labels[fold])
    scores = score_layers(part, layers)
    assert scores.isnan().all(dim=1).tolist() == [False, True, False]
