"""Where a publication's text and code compute different scores, both forms are parameters, and they differ."""

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from exitbench.cache import Cache, read_manifest
from exitbench.exit_rule import exits
from exitbench.places import cache_directories
from exitbench.signals import ExitSignal, load_registry, score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.deebert import DeeBERT
from exitbench.signals.nsp import outside_share

REGISTRY = load_registry()
EIGHT = ("cap", "deebert", "e-lang", "f-pabee", "nsp", "pabee", "pcee", "right-tool")


def forms_of(name: str) -> list[ExitSignal]:
    """One signal for every published form; of a form that is a grid, its first value."""
    return [REGISTRY.expand(f"{name}[{form.parameters}]")[0] for form in REGISTRY.get(name).forms]


@pytest.mark.parametrize("name", EIGHT)
def test_every_published_signal_says_where_its_text_and_code_part(name: str) -> None:
    signal = REGISTRY.get(name)
    assert signal.beyond_the_score
    assert "Text and code:" in (__import__(signal.__module__, fromlist=["x"]).__doc__ or "")


@pytest.mark.parametrize("name", [name for name in EIGHT if REGISTRY.get(name).forms])
def test_no_two_published_forms_of_a_signal_are_the_same_score(name: str) -> None:
    data = synthetic_layers(200, depth=5, classes=3, seed=8)
    scores = []
    for signal in forms_of(name):
        fitted = signal.fit(data.layers, data.labels) if signal.needs_fit else signal
        scores.append(score_layers(fitted, list(data.layers))[1:].numpy())
    assert len(scores) > 1
    for number, first in enumerate(scores):
        for second in scores[number + 1 :]:
            assert not np.allclose(first, second)


def test_the_two_forms_of_f_pabee_do_not_even_rank_alike() -> None:
    layers = list(synthetic_layers(400, depth=5, classes=2, seed=9).layers)
    text, code = (score_layers(signal, layers)[2].numpy() for signal in forms_of("f-pabee"))
    assert abs(kendalltau(text, code).statistic) < 0.9


def test_a_rule_that_is_not_strict_has_the_same_operating_points_under_other_thresholds() -> None:
    """FastBERT's script exits on <=, its package on <: what tau does in one, the next number does in the other."""
    layers = list(synthetic_layers(40, depth=5, classes=3, seed=3).layers)
    scores = score_layers(DeeBERT(normalize=True), layers).numpy()
    parted = 0
    for tau in np.unique(scores):
        not_strict = exits(scores, "<=", 1, tau)
        assert not_strict.tolist() == exits(scores, "<", 1, np.nextafter(tau, np.inf)).tolist()
        parted += not_strict.tolist() != exits(scores, "<", 1, tau).tolist()
    assert parted > 40  # at one and the same threshold the two rules do part


def test_without_its_clip_nsp_has_no_score_for_a_feature_within_the_row_space() -> None:
    data = synthetic_layers(1, depth=2, classes=2, seed=1)
    head = data.layers[0].head
    assert head is not None
    logits = torch.tensor([[3.0, -1.0]], dtype=torch.float64)
    inside = (logits * (logits @ head.gram_inverse)).sum(dim=1)
    rounded_down = inside.sqrt() * (1 - 1e-9)
    assert torch.isnan((1 - inside / rounded_down.square()).sqrt()).all()
    assert outside_share(logits, rounded_down, head, center=False).item() == 0.0


@pytest.mark.long
@pytest.mark.parametrize(
    "path", [path for path in cache_directories() if read_manifest(path).heads], ids=lambda path: path.name
)
def test_on_the_committed_caches_the_clip_changes_nothing(path) -> None:
    cache = Cache(path)
    for layer in range(1, cache.manifest.model.layers):
        logits, norm = cache.logits(layer).double(), cache.offset_norms(layer).double()
        inside = (logits * (logits @ cache.head(layer).gram_inverse)).sum(dim=1)
        assert (inside < 0.99 * norm.square()).all()
