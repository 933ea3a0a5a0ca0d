"""Signals and measures on the committed caches of real networks, against independent oracles."""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from exitbench.benchmarks.api import replay
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache, read_manifest, verify
from exitbench.places import FIXTURES, cache_directories
from exitbench.signals.registry.discovery import load_registry

pytestmark = pytest.mark.long

CACHES = cache_directories()
TWO_CLASSES = [path for path in CACHES if len(read_manifest(path).task.classes) == 2]
SST2 = FIXTURES / "caches" / "mpnet-base-sst2-dev"
make = load_registry().make


@pytest.mark.parametrize("path", CACHES, ids=lambda path: path.name)
def test_a_cache_is_sound_and_names_no_machine(path: Path) -> None:
    assert verify(path) == []
    manifest = (path / "manifest.json").read_text()
    assert '"/' not in manifest
    assert " /" not in manifest


@pytest.mark.parametrize("path", TWO_CLASSES, ids=lambda path: path.name)
def test_with_two_classes_three_confidences_rank_alike(path: Path) -> None:
    cache = Cache(path)
    entropy = score(cache, make("deebert"))
    normalised = score(cache, make("deebert[normalize=true]"))
    softmax = score(cache, make("right-tool"))
    for layer in range(cache.layers - 1):
        expected = rankdata(entropy[layer])
        np.testing.assert_array_equal(rankdata(normalised[layer]), expected)
        np.testing.assert_array_equal(rankdata(-softmax[layer]), expected)


def test_cap_without_its_null_space_part_ranks_as_energy() -> None:
    cache = Cache(SST2)
    scores, energy = score(cache, make("cap[alpha=0]")), score(cache, make("e-lang"))
    for layer in range(cache.layers - 1):
        np.testing.assert_array_equal(rankdata(scores[layer]), rankdata(energy[layer]))


@pytest.mark.parametrize("patience", range(1, 7))
def test_pcee_exits_as_its_published_counter_does(patience: int) -> None:
    cache = Cache(SST2)
    logits = torch.stack([cache.logits(m) for m in range(1, cache.layers)]).double()
    probabilities = torch.softmax(logits, dim=2)
    entropy = (-(probabilities * probabilities.log()).sum(dim=2) / np.log(2)).numpy()
    curve = replay(cache, f"pcee[patience={patience}]")
    for threshold in (0.05, 0.2, 0.5, 0.8):
        expected = []
        for sample in range(cache.rows):
            counter, left = 0, cache.layers
            for layer in range(cache.layers - 1):
                counter = counter + 1 if entropy[layer, sample] < threshold else 0
                if counter == patience:
                    left = layer + 1
                    break
            expected.append(left)
        np.testing.assert_array_equal(exit_layers(curve.scores, threshold), expected)


def test_pabee_exits_as_its_published_counter_does() -> None:
    cache = Cache(SST2)
    answers = cache.predictions()
    curve = replay(cache, "pabee")
    for patience in range(1, cache.layers - 1):
        expected = []
        for sample in range(cache.rows):
            counter, left = 0, cache.layers
            for layer in range(1, cache.layers - 1):
                counter = counter + 1 if answers[layer, sample] == answers[layer - 1, sample] else 0
                if counter == patience:
                    left = layer + 1
                    break
            expected.append(left)
        np.testing.assert_array_equal(exit_layers(curve.scores, patience), expected)


def test_nsp_is_that_of_the_projector_on_real_features() -> None:
    cache = Cache(SST2)
    scores = score(cache, make("nsp"))
    for layer in range(1, cache.layers):
        weight, bias = (part[layer - 1].double().numpy() for part in cache.head_tensors())
        shifted = cache.features(layer).double().numpy() + np.linalg.pinv(weight) @ bias
        outside = shifted - shifted @ np.linalg.pinv(weight) @ weight
        expected = np.linalg.norm(outside, axis=1) / np.linalg.norm(shifted, axis=1)
        # Logits and norms were collected from features that were not yet rounded to float16.
        np.testing.assert_allclose(scores[layer - 1], expected, atol=2e-3)


@pytest.mark.parametrize("text", ["deebert", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap"])
def test_dis_is_scikit_learns_auroc(text: str) -> None:
    cache = Cache(SST2)
    curve = replay(cache, text)
    dis = Ranking(curve.scores.certainty, curve.outcomes.correct[:-1]).dis()
    for layer in range(cache.layers - 1):
        certainty = curve.scores.certainty[layer]
        if np.isnan(certainty).any():
            assert np.isnan(dis[layer])
            continue
        right = cache.predictions()[layer] == cache.labels
        assert dis[layer] == pytest.approx(100 * roc_auc_score(right, certainty), abs=1e-9)
