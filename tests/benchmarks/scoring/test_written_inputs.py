"""A signal that writes into what all signals share is named, and its rivals keep their numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

from exitbench.benchmarks.scoring.raw_memory import METHODS
from exitbench.benchmarks.scoring.score_cache import fitted, score_each
from exitbench.cache import Cache, synthetic_cache
from exitbench.errors import InputError
from exitbench.signals import ExitSignal, Layer, Reference, Tensor, load_registry
from exitbench.signals.contract.written_inputs import SharedInputs

pytestmark = pytest.mark.long

RIVALS = ("deebert", "right-tool", "pabee", "e-lang", "nsp", "cap", "random")


@dataclass(frozen=True)
class Vandal(ExitSignal):
    """Writes into something at one layer."""

    name: ClassVar[str] = "vandal"
    title: ClassVar[str] = "Vandal"
    reference: ClassVar[Reference] = Reference("nowhere", 2000, "https://example.org")
    exits_when: ClassVar = "<"
    inputs: ClassVar = frozenset({"logits", "features", "offset_norm", "head", "ids"})
    deed: ClassVar[Callable[[Layer], object]]

    def score(self, layer: Layer) -> Tensor:
        scores = layer.entropy.clone()
        if layer.index == 2:
            type(self).deed(layer)
        return scores


def numpy_write(tensor: Tensor) -> None:
    tensor.numpy()[...] = 0


def storage_write(tensor: Tensor) -> None:
    tensor.untyped_storage().fill_(0)


def replace_data(tensor: Tensor) -> None:
    tensor.data = torch.zeros_like(tensor)


DEEDS: dict[str, tuple[Callable[[Layer], object], str]] = {
    "logits": (lambda layer: layer.logits.mul_(-1), "layer.logits"),
    "part of the logits": (lambda layer: layer.logits[:1, :1].add_(5), "layer.logits"),
    "logits by numpy": (lambda layer: numpy_write(layer.logits), "layer.logits"),
    "logits by data": (lambda layer: layer.logits.data.zero_(), "layer.logits"),
    "ids": (lambda layer: layer.ids.zero_(), "layer.ids"),
    "ids by numpy": (lambda layer: numpy_write(layer.ids), "layer.ids"),
    "features": (lambda layer: layer.features.zero_(), "layer.features"),
    "offset norms": (lambda layer: layer.offset_norm.add_(1), "layer.offset_norm"),
    "offset norms by numpy": (lambda layer: numpy_write(layer.offset_norm), "layer.offset_norm"),
    "head": (lambda layer: layer.head.gram_inverse.mul_(2), "layer.head.gram_inverse"),
    "features by numpy": (lambda layer: numpy_write(layer.features), "layer.features"),
    "features by data": (lambda layer: layer.features.data.mul_(2), "layer.features"),
    "head by numpy": (lambda layer: numpy_write(layer.head.weight), "layer.head.weight"),
    "head by data": (lambda layer: layer.head.offset.data.zero_(), "layer.head.offset"),
    "probabilities by numpy": (lambda layer: numpy_write(layer.probabilities), "derived from the layer"),
    "probabilities": (lambda layer: layer.probabilities.fill_(0.5), "derived from the layer"),
    "a view by numpy": (lambda layer: layer.logits[:, :1].numpy().fill(9), "layer.logits"),
    "sorted by numpy": (lambda layer: np.asarray(layer.logits).sort(axis=0), "layer.logits"),
    "by a capsule": (lambda layer: torch.from_dlpack(layer.logits).fill_(9), "layer.logits"),
    "by its storage": (lambda layer: storage_write(layer.logits), "layer.logits"),
    "by another tensor's data": (lambda layer: replace_data(layer.logits), "layer.logits"),
    "in inference mode": (lambda layer: torch.inference_mode()(layer.logits.mul_)(2), "layer.logits"),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_cache(
        tmp_path_factory.mktemp("written") / "c", rows=90, layers=5, classes=3, width=8, shard_rows=40
    )


@pytest.mark.parametrize("deed", DEEDS)
def test_the_writer_is_named_and_its_rivals_keep_their_scores(
    deed: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals = [load_registry().make(text) for text in RIVALS]
    clean = score_each(Cache(path), rivals)
    action, tensor = DEEDS[deed]
    monkeypatch.setattr(Vandal, "deed", staticmethod(action), raising=False)
    outcomes = score_each(Cache(path), [Vandal(), *rivals])
    assert isinstance(outcomes[0], InputError)
    assert str(outcomes[0]).startswith("signal vandal at layer 2 wrote into")
    assert tensor in str(outcomes[0])
    for text, scores, expected in zip(RIVALS, outcomes[1:], clean, strict=True):
        np.testing.assert_array_equal(scores, expected, err_msg=text)  # type: ignore[arg-type]


def test_a_head_that_is_written_into_a_layer_later_is_noticed(path: Path) -> None:
    class Late(Vandal):
        kept: ClassVar[list[Layer]] = []

        def score(self, layer: Layer) -> Tensor:
            self.kept.append(layer)
            if len(self.kept) == 2:
                self.kept[0].head.bias.zero_()  # type: ignore[union-attr]
            return layer.entropy.clone()

    nsp = load_registry().make("nsp")
    outcomes = score_each(Cache(path), [Late(), nsp])
    np.testing.assert_array_equal(outcomes[1], score_each(Cache(path), [nsp])[0])  # type: ignore[arg-type]


@pytest.mark.parametrize("kept", [0, 1], ids=["of an earlier layer", "of this layer"])
def test_a_head_s_memory_that_is_asked_for_late_is_noticed(kept: int, path: Path) -> None:
    class Late(Vandal):
        seen: ClassVar[list[Layer]] = []

        def score(self, layer: Layer) -> Tensor:
            self.seen.append(layer)
            if len(self.seen) == 2:
                numpy_write(self.seen[kept].head.bias)  # type: ignore[union-attr]
            return layer.entropy.clone()

    nsp = load_registry().make("nsp")
    outcomes = score_each(Cache(path), [Late(), nsp])
    np.testing.assert_array_equal(outcomes[1], score_each(Cache(path), [nsp])[0])  # type: ignore[arg-type]


def test_an_array_that_is_only_read_is_no_write_and_torch_is_as_before(path: Path) -> None:
    class Reader(Vandal):
        def score(self, layer: Layer) -> Tensor:
            return torch.from_numpy(layer.entropy.numpy().copy()) + 0 * layer.probabilities.data[:, 0]

    before = {name: getattr(torch.Tensor, name) for name in (*METHODS, "data")}
    own = set(vars(torch.Tensor))
    deebert = load_registry().make("deebert")
    outcomes = score_each(Cache(path), [Reader(), deebert])
    np.testing.assert_array_equal(outcomes[0], outcomes[1])  # type: ignore[arg-type]
    assert {name: getattr(torch.Tensor, name) for name in before} == before
    assert set(vars(torch.Tensor)) == own


def test_a_signal_that_asks_for_no_memory_costs_no_copy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = []
    monkeypatch.setattr(SharedInputs, "copy_new", lambda shared: copied.append(shared._layer))
    signals = [load_registry().make(text) for text in RIVALS]
    score_each(Cache(path), signals)
    assert [layer for layer in copied if layer is not None] == []


def test_a_signal_that_writes_into_a_head_while_it_learns_is_named(path: Path) -> None:
    class Learner(Vandal):
        def fit(self, layers, labels):  # type: ignore[no-untyped-def]
            layers[1].logits.zero_()  # a copy of its own
            layers[1].head.weight.data.zero_()
            return self

    cache = Cache(path)
    before = cache.head(2).weight.clone()
    with pytest.raises(InputError, match=r"signal vandal wrote into layer\.head\.weight in fit"):
        fitted(Learner(), cache)
    assert torch.equal(cache.head(2).weight, before)
