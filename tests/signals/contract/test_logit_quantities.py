"""Scoring all signals together costs one pass: each layer is read once, its softmax made once, no feature touched."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import log_softmax

from exitbench.benchmarks.scoring import score_cache
from exitbench.benchmarks.scoring.calibration_layers import read_layer
from exitbench.benchmarks.scoring.score_cache import score, score_all
from exitbench.cache import Cache, compact, synthetic_cache
from exitbench.signals import Registry, f_pabee, nsp, score_layers
from exitbench.signals.contract.layer import Layer
from exitbench.signals.contract.logit_quantities import LogitQuantities

EIGHT = ("deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each layer's logits and features are read, and a log-softmax is made."""
    calls: Counter[str] = Counter()
    for name in ("logits", "features"):
        real = getattr(Cache, name)

        def counting(self, layer, *rest, _real=real, _name=name, **named):
            calls[f"{_name} {layer}"] += 1
            return _real(self, layer, *rest, **named)

        monkeypatch.setattr(Cache, name, counting)
    log_total = LogitQuantities._log1p_of_other_classes

    def counting_softmax(self):
        calls["softmax"] += 1
        return log_total(self)

    monkeypatch.setattr(LogitQuantities, "_log1p_of_other_classes", counting_softmax)
    return calls


def test_all_eight_read_each_layers_logits_once_and_no_feature(
    tmp_path: Path, registry: Registry, counted: Counter[str]
) -> None:
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=50, layers=6))
    score_all(cache, [registry.make(name) for name in EIGHT])
    assert counted == {**{f"logits {layer}": 1 for layer in range(1, 6)}, "softmax": 5}


def test_a_compact_cache_gives_the_scores_of_the_whole_one(tmp_path: Path, registry: Registry) -> None:
    whole = Cache(synthetic_cache(tmp_path / "whole", rows=50, layers=6))
    compact(tmp_path / "whole", tmp_path / "compact")
    small = Cache(tmp_path / "compact")
    assert not small.has_features
    for name in EIGHT:
        np.testing.assert_array_equal(score(small, registry.make(name)), score(whole, registry.make(name)))


def test_together_and_apart_the_scores_are_the_same(tmp_path: Path, registry: Registry) -> None:
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=50, layers=6, classes=3))
    signals = [registry.make(name) for name in EIGHT]
    for signal, scores in zip(signals, score_all(cache, signals), strict=True):
        np.testing.assert_array_equal(scores, score(cache, signal))


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_a_sample_alone_and_among_others_has_the_same_scores(tmp_path: Path, registry: Registry, classes: int) -> None:
    """Among others the numbers lie class by class in memory, alone they do not; no bit of a score may tell."""
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=37, layers=6, classes=classes))
    inputs = frozenset({"logits", "offset_norm", "head"})
    for text in (*EIGHT, "nsp[center=true]", "e-lang[temperature=2.5]", "f-pabee[divergence=symmetric-kl]"):
        signal, together = registry.make(text), score(cache, text)
        for row in (0, 17, 36):
            alone = score_layers(signal, [read_layer(cache, m, slice(row, row + 1), inputs) for m in range(1, 7)])
            np.testing.assert_array_equal(alone[:, 0].numpy(), together[:, row], err_msg=text)


def test_what_the_alphas_and_patiences_of_a_grid_share_is_computed_once(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    for module, name in ((nsp, "outside_share"), (f_pabee, "divergence")):
        real = getattr(module, name)

        def counting(*arguments, _real=real, _name=name):
            calls[_name] += 1
            return _real(*arguments)

        monkeypatch.setattr(module, name, counting)
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=50, layers=6))
    texts = ["nsp", "cap", "cap[alpha=0.1]", "f-pabee[patience=1]", "f-pabee[patience=3]"]
    together = score_all(cache, [registry.make(text) for text in texts])
    assert calls == {"outside_share": 5, "divergence": 4}
    for text, scores in zip(texts, together, strict=True):
        np.testing.assert_array_equal(scores, score(cache, text))


@pytest.mark.parametrize("classes", [2, 3, 17])
def test_the_log_probabilities_of_some_classes_are_those_among_all(classes: int) -> None:
    draw = np.random.default_rng(0)
    logits, asked = draw.normal(size=(9, classes)) * 5, draw.integers(0, classes, (9, 4))
    layer = Layer(index=1, depth=2, classes=classes, ids=torch.arange(9), logits=torch.from_numpy(logits).float())
    some = layer.log_probabilities_of(torch.from_numpy(asked))
    expected = np.take_along_axis(log_softmax(layer.logits.double().numpy(), axis=1), asked, axis=1)
    np.testing.assert_allclose(some.numpy(), expected, rtol=1e-9, atol=1e-13)
    assert torch.equal(some, layer.log_probabilities.gather(1, torch.from_numpy(asked))), "to the last bit"


@pytest.mark.parametrize("most", [1, 7, 1 << 20])
def test_samples_score_the_same_in_blocks_of_any_size(
    most: int, tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In blocks of one row, of two (seven logits hold two rows of three classes, and the last is alone), and whole."""
    cache = Cache(synthetic_cache(tmp_path / "cache", rows=15, layers=4, classes=3))
    signals = [registry.make(name) for name in EIGHT]
    rows = slice(0, 15)
    monkeypatch.setattr(score_cache, "BLOCK_LOGITS", most)
    taken: list[int] = []
    real = score_cache.read_layer

    def watched(cache: Cache, index: int, rows: slice, inputs: frozenset[str]) -> Layer:
        taken.append(rows.stop - rows.start)
        return real(cache, index, rows, inputs)

    monkeypatch.setattr(score_cache, "read_layer", watched)
    together = score_all(cache, signals)
    assert max(taken) == {1: 1, 7: 2, 1 << 20: 15}[most]
    for signal, scores in zip(signals, together, strict=True):
        layers = [read_layer(cache, m, rows, signal.inputs) for m in range(1, 5)]
        np.testing.assert_allclose(scores, score_layers(signal, layers).numpy(), rtol=1e-13, atol=1e-15)
