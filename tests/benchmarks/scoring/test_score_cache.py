import collections
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch

import exitbench
from exitbench.benchmarks.scoring.score_cache import fitted, score, score_all, score_each
from exitbench.cache import Cache, CacheWriter, Model, Task, synthetic_cache
from exitbench.cache.format.stored_shard import Shard
from exitbench.errors import InputError
from exitbench.signals import ExitSignal, Layer, Reference, load_registry, score_layers

torch.set_num_threads(1)  # many tiny steps: threads would only wait for each other

TEXTS = ["deebert", "pabee", "f-pabee[patience=2]", "pcee", "e-lang", "nsp", "cap[alpha=0.1]", "random"]


class Made(ExitSignal):
    """What every made-up signal declares."""

    title: ClassVar[str] = "Made up"
    reference: ClassVar[Reference] = Reference("nowhere", 2000, "https://example.org")
    exits_when: ClassVar = "<"
    inputs: ClassVar = frozenset({"logits"})


@dataclass(frozen=True)
class NotANumber(Made):
    name: ClassVar[str] = "not-a-number"

    def score(self, layer):
        values = layer.logits64[:, 0].clone()
        if layer.index == 2:
            values[layer.ids == 41] = torch.nan
        return values


@dataclass(frozen=True)
class Peeks(Made):
    name: ClassVar[str] = "peeks"

    def score(self, layer):
        assert layer.features is None
        assert layer.offset_norm is None
        assert layer.head is None
        return layer.logits64[:, 0]


@dataclass(frozen=True)
class ReadsFeatures(Made):
    name: ClassVar[str] = "reads-features"
    inputs: ClassVar = frozenset({"features"})

    def score(self, layer):
        return layer.features.double().norm(dim=1)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return synthetic_cache(
        tmp_path_factory.mktemp("scoring") / "c", rows=90, layers=5, classes=3, width=8, shard_rows=40
    )


@pytest.fixture(scope="module")
def registry():
    return load_registry()


def test_one_pass_equals_scoring_all_samples_at_once(path, registry):
    cache = Cache(path)
    signals = [registry.make(text) for text in TEXTS]
    layers = [
        Layer(
            m,
            5,
            3,
            torch.from_numpy(cache.ids),
            cache.logits(m),
            cache.features(m),
            cache.offset_norms(m),
            cache.head(m),
        )
        for m in range(1, 6)
    ]
    for signal, scores in zip(signals, score_all(cache, signals), strict=True):
        np.testing.assert_allclose(scores, score_layers(signal, layers).numpy(), rtol=1e-12, err_msg=signal.text)


def test_each_layers_logits_are_read_once_for_all_signals(path, registry, monkeypatch):
    reads = collections.Counter()
    original = Cache.logits

    def counted(self, layer, rows=slice(None)):
        reads[layer, rows.start] += 1
        return original(self, layer, rows)

    monkeypatch.setattr(Cache, "logits", counted)
    cache = Cache(path)
    score_all(cache, [registry.make(text) for text in TEXTS])
    blocks = [block.start for block in cache.blocks()]
    assert len(blocks) == 3
    assert reads == {(layer, start): 1 for layer in range(1, 5) for start in blocks}


def test_features_are_never_opened_when_no_signal_declares_them(path, registry, monkeypatch):
    def refuse(self, layer):
        raise AssertionError("a feature file was opened")

    monkeypatch.setattr(Shard, "features", refuse)
    score_all(Cache(path), [registry.make(text) for text in TEXTS])
    with pytest.raises(AssertionError, match="a feature file was opened"):
        score(Cache(path), ReadsFeatures())


def test_a_signal_sees_only_what_it_declares(path, registry):
    score_all(Cache(path), [registry.make("cap"), Peeks(), ReadsFeatures()])


def test_nan_where_a_score_is_declared_is_refused_with_signal_layer_and_row(path):
    with pytest.raises(InputError, match=r"not-a-number at layer 2: expected a finite score for row 41 \(id 41\)"):
        score(Cache(path), NotANumber())


def test_before_the_first_scored_layer_scores_are_nan(path, registry):
    scores = score(Cache(path), registry.make("pabee"))
    assert np.isnan(scores[0]).all()
    assert not np.isnan(scores[1:]).any()


def test_when_a_signal_fails_the_others_keep_their_scores(path, registry):
    cache = Cache(path)
    first, broken, last = score_each(cache, [registry.make("deebert"), NotANumber(), registry.make("cap")])
    assert isinstance(broken, InputError)
    np.testing.assert_array_equal(first, score(cache, registry.make("deebert")))
    np.testing.assert_array_equal(last, score(cache, registry.make("cap")))


def test_missing_inputs_name_signal_and_cache(tmp_path, registry):
    with CacheWriter(
        tmp_path / "bare",
        task=Task("t", ("a", "b"), "accuracy"),
        split="dev",
        model=Model("m", None, 3, None, "none", "none"),
    ) as writer:
        for rows in writer.pending(4):
            writer.add(labels=[0, 1, 0, 1][: len(rows)], logits=torch.randn(3, len(rows), 2))
    with pytest.raises(InputError, match=r"signal nsp reads heads and offset norms, which cache bare does not hold"):
        score(Cache(tmp_path / "bare"), registry.make("nsp"))


def test_a_compact_cache_scores_like_the_whole_one(tmp_path, registry):
    made = {"rows": 50, "layers": 4, "width": 8, "seed": 2}
    whole = synthetic_cache(tmp_path / "whole", **made)
    compact = synthetic_cache(tmp_path / "compact", **made, compact=True)
    np.testing.assert_array_equal(
        score(Cache(whole), registry.make("cap")), score(Cache(compact), registry.make("cap"))
    )


@dataclass(frozen=True)
class Remembers(Made):
    """Learns the mean feature of each layer, and says what it was given."""

    name: ClassVar[str] = "remembers"
    inputs: ClassVar = frozenset({"logits", "features", "offset_norm", "head"})
    needs_fit = True
    seen: ClassVar[list[Layer]] = []

    def fit(self, calibration, labels):
        assert len(calibration) == 4
        self.seen[:] = [*calibration, calibration[-1], *calibration[1:3]]
        return self


def test_calibration_layers_hold_the_chosen_samples_in_their_order_over_shards(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=90, layers=4, width=8, shard_rows=32))
    rows = np.random.default_rng(0).permutation(90)[:50]
    fitted(Remembers(), cache, rows)
    assert [layer.index for layer in Remembers.seen] == [1, 2, 3, 4, 4, 2, 3]
    chosen = torch.from_numpy(rows)
    for layer in Remembers.seen:
        assert torch.equal(layer.ids, torch.from_numpy(cache.ids)[chosen])
        assert torch.equal(layer.logits, cache.logits(layer.index)[chosen])
        assert torch.equal(layer.features, cache.features(layer.index)[chosen])
        assert torch.equal(layer.offset_norm, cache.offset_norms(layer.index)[chosen])
        assert torch.equal(layer.head.weight, cache.head(layer.index).weight)


def test_a_signal_that_learns_is_fitted_on_the_samples_given(path, registry):
    cache = Cache(path)
    signal = registry.make("right-tool[temperature=fitted]")
    with pytest.raises(InputError, match="fit_on"):
        score(cache, signal)
    np.testing.assert_array_equal(score(cache, signal, fit_on=cache), score(cache, fitted(signal, cache)))
    half = fitted(signal, cache, np.arange(45))
    assert half.temperatures != fitted(signal, cache).temperatures


@dataclass(frozen=True)
class Stumbles(Made):
    """Raises with a message of two lines."""

    name: ClassVar[str] = "stumbles"

    def score(self, layer):
        raise ZeroDivisionError("no third layer\nand no fourth")


@dataclass(frozen=True)
class LearnsNothing(Made):
    name: ClassVar[str] = "learns-nothing"
    needs_fit = True

    def score(self, layer):
        return layer.logits64[:, 0]

    def fit(self, calibration, labels):
        raise KeyError("weights")


def test_a_path_and_a_text_score_like_the_cache_and_the_signal(path, registry):
    expected = score(Cache(path), registry.make("cap[alpha=0.1]"))
    np.testing.assert_array_equal(exitbench.score(str(path), "cap[alpha=0.1]"), expected)
    np.testing.assert_array_equal(exitbench.score(path, registry.make("cap[alpha=0.1]")), expected)
    learned = score(path, "right-tool[temperature=fitted]", fit_on=path)
    again = score(Cache(path), registry.make("right-tool[temperature=fitted]"), fit_on=Cache(path))
    np.testing.assert_array_equal(learned, again)


def test_what_a_signal_raises_is_one_line_that_names_the_signal_and_the_error(path):
    with pytest.raises(InputError) as raised:
        score(path, Stumbles())
    assert str(raised.value) == "signal stumbles raised ZeroDivisionError: no third layer"
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(InputError, match=r"^signal learns-nothing raised KeyError: 'weights'$"):
        score(path, LearnsNothing(), fit_on=path)


@pytest.mark.parametrize("text", ["beem", "berxit", "cap", "knn-agreement", "mahalanobis", "meta", "palbert", "vim"])
def test_some_samples_are_scored_as_all_are(text: str, tmp_path: Path) -> None:
    """Blocks that are wanted in part, whole and not at all."""
    cache = Cache(synthetic_cache(tmp_path / "small", rows=90, layers=4, classes=3, width=12, shard_rows=30))
    signal = load_registry().make(text)
    ready = fitted(signal, cache) if signal.needs_fit else signal
    wanted = np.arange(90) % 3 == 0
    wanted[30:60], wanted[60:] = True, False
    (whole,), (part,) = score_each(cache, [ready]), score_each(cache, [ready], wanted)
    np.testing.assert_allclose(part, whole[:, wanted], rtol=1e-12, atol=1e-12)  # type: ignore[index]


def test_a_row_without_a_score_is_named_by_its_number_in_the_cache(tmp_path: Path) -> None:
    cache = Cache(synthetic_cache(tmp_path / "small", rows=90, layers=4, classes=3, width=12, shard_rows=30))
    (error,) = score_each(cache, [NotANumber()], np.arange(90) % 3 == 2)
    assert isinstance(error, InputError) and "for row 41 (id 41)" in str(error)
