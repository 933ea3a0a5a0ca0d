"""Meta: a planted rule over layers is found, none is made up, and each column is what the text says it is."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax
from sklearn.linear_model import LogisticRegression

from exitbench.benchmarks.scoring.score_cache import fitted, score
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.places import FIXTURES
from exitbench.signals import meta, score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.contract.feature_statistics import principal_directions
from exitbench.signals.meta import DIRECTIONS, Meta, calibration_columns, history_columns
from exitbench.signals.right_tool import RightTool
from tests.support.planted_layers import agreement_decides, auroc, layers_from, nothing_decides


def literal_columns(logits: np.ndarray, layer: int) -> np.ndarray:
    """The columns at ``layer`` (from 0), sample by sample."""
    rows = []
    for sample in range(logits.shape[1]):
        here = logits[layer, sample]
        answer = int(here.argmax())
        which = [float(c == answer) for c in range(logits.shape[2])]
        history = [max(log_softmax(logits[j, sample])[answer], -30.0) for j in range(layer + 1)]
        ordered = np.sort(here)
        rows.append([*which, *history, ordered[-1] - ordered[-2]])
    return np.array(rows)


@pytest.mark.parametrize("classes", [2, 3])
def test_the_score_is_scikit_learns_probability_on_literal_columns(classes: int) -> None:
    data = synthetic_layers(150, depth=5, classes=classes, seed=2)
    logits = np.stack([layer.logits.double().numpy() for layer in data.layers])
    scores = score_layers(Meta().fit(data.layers, data.labels), data.layers).numpy()
    for layer in range(4):
        columns = literal_columns(logits, layer)
        spread = columns.std(axis=0)
        scaled = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1)
        right = logits[layer].argmax(axis=1) == data.labels.numpy()
        model = LogisticRegression(C=1 / (0.01 * 150), tol=1e-12, max_iter=10_000).fit(scaled, right)
        np.testing.assert_allclose(scores[layer], model.predict_proba(scaled)[:, 1], atol=1e-5)


def test_the_score_with_features_is_scikit_learns_on_directions_for_each_class() -> None:
    """Features far from zero, so that a mean left in or added twice shows."""
    data = synthetic_layers(150, depth=3, classes=3, width=5, seed=3)
    layers = [dataclasses.replace(layer, features=4.0 + layer.features.double()) for layer in data.layers]
    scores = score_layers(Meta(features=True).fit(layers, data.labels), layers).numpy()
    logits = np.stack([layer.logits.double().numpy() for layer in layers])
    for number, layer in enumerate(layers[:-1]):
        answers, features = logits[number].argmax(axis=1), layer.features.numpy()
        _, singular, right = np.linalg.svd(features - features.mean(axis=0), full_matrices=False)
        seen = (features - features.mean(axis=0)) @ (right / singular[:, None]).T  # any scale: columns are standardised
        of_class = [np.where((answers == c)[:, None], seen, 0.0) for c in range(3)]
        columns = np.column_stack([literal_columns(logits, number), *of_class])
        scaled = (columns - columns.mean(axis=0)) / np.where(columns.std(axis=0) > 0, columns.std(axis=0), 1)
        model = LogisticRegression(C=1 / (0.01 * 150), tol=1e-12, max_iter=10_000)
        expected = model.fit(scaled, answers == data.labels.numpy()).predict_proba(scaled)[:, 1]
        np.testing.assert_allclose(scores[number], expected, atol=1e-5)


def test_columns_of_a_fit_and_of_a_score_are_the_literal_ones_also_beyond_the_cut() -> None:
    logits = 40.0 * np.random.default_rng(0).normal(size=(4, 30, 3))
    layers = layers_from(logits)
    kept = np.stack([layer.logits.double().numpy() for layer in layers])
    history = None
    for number, (layer, columns) in enumerate(calibration_columns(layers)):
        expected = literal_columns(kept, number)
        assert number == 0 or (expected[:, 3:-1] == -30.0).any()
        stepped, history = history_columns(layer, history)
        np.testing.assert_allclose(columns.numpy(), expected, atol=1e-9)
        np.testing.assert_allclose(stepped.numpy(), expected, atol=1e-9)


def test_a_rule_over_two_layers_is_found_that_no_single_layer_shows() -> None:
    layers, labels = agreement_decides(3000, seed=0)
    fresh, fresh_labels = agreement_decides(3000, seed=1)
    assert auroc(RightTool(), fresh, fresh_labels, 3) == pytest.approx(0.5, abs=0.03)
    assert auroc(Meta().fit(layers, labels), fresh, fresh_labels, 3) > 0.7


@pytest.mark.long
@pytest.mark.parametrize("features", [False, True])
def test_a_rule_that_is_not_there_is_not_found(features: bool) -> None:
    layers, labels = nothing_decides(4000, seed=0)
    fresh, fresh_labels = nothing_decides(4000, seed=1)
    assert auroc(Meta(features=features).fit(layers, labels), fresh, fresh_labels, 2) == pytest.approx(0.5, abs=0.03)


def test_with_features_a_rule_in_the_feature_is_found() -> None:
    draw = np.random.default_rng(0)
    features = draw.normal(size=(3, 4000, 40))
    logits = draw.normal(size=(3, 4000, 2))
    answers = logits[1].argmax(axis=1)
    # What speaks for one class speaks against the other: only a weight per predicted class can say so.
    lean = np.where(answers == 1, 1, -1) * features[1, :, 7] * 2
    labels = np.where(draw.uniform(size=4000) < expit(lean), answers, 1 - answers)
    layers, labels = layers_from(logits, features), torch.from_numpy(labels)
    train, test = torch.arange(2000), torch.arange(2000, 4000)
    fresh = [layer.take(test) for layer in layers]
    areas = {
        kind: auroc(
            Meta(features=kind).fit([layer.take(train) for layer in layers], labels[train]), fresh, labels[test], 2
        )
        for kind in (False, True)
    }
    assert areas[False] < 0.55
    # 32 of the 40 directions, all of one variance, are kept; the rule's own is most likely among them in part.
    assert areas[True] > areas[False] + 0.1


def test_with_many_classes_a_feature_is_seen_in_fewer_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number is the rank of the vectors that the classes have at a layer: each lies in the directions kept."""
    data = synthetic_layers(200, depth=3, classes=5, width=12)

    def ranks() -> list[int]:
        vectors = Meta(features=True).fit(data.layers, data.labels).class_vectors
        assert vectors is not None
        return [int(np.linalg.matrix_rank(np.array(layer)[:, :-1])) for layer in vectors]

    assert ranks() == [5, 5]
    monkeypatch.setattr(meta, "SEEN", 3 * 5 + 4)
    assert ranks() == [3, 3]
    monkeypatch.setattr(meta, "SEEN", 4)
    assert ranks() == [1, 1]


@pytest.mark.parametrize("rows", [20, 300])
def test_principal_directions_are_those_of_the_singular_value_decomposition(rows: int) -> None:
    values = np.random.default_rng(0).normal(size=(rows, 50)) * np.linspace(1, 5, 50) + 3
    mean, basis = principal_directions(torch.from_numpy(values), DIRECTIONS)
    np.testing.assert_allclose(mean, values.mean(axis=0))
    seen = (values - mean) @ basis
    np.testing.assert_allclose(seen.T @ seen / rows, np.eye(seen.shape[1]), atol=1e-9)
    _, singular, right = np.linalg.svd(values - mean, full_matrices=False)
    kept = min(32, rows - 1)
    np.testing.assert_allclose(
        np.abs(basis.T * np.sqrt(rows)), np.abs(right[:kept][::-1] * rows / singular[:kept][::-1, None]), atol=1e-8
    )


def test_features_that_are_missing_are_refused() -> None:
    data = synthetic_layers(30)
    with pytest.raises(InputError, match="needs features"):
        Meta(features=True).fit([dataclasses.replace(layer, features=None) for layer in data.layers], data.labels)


def test_on_a_real_cache_history_helps_where_shallow_layers_disagree() -> None:
    cache = Cache(FIXTURES / "caches" / "mpnet-base-mnli-dev")
    even, odd = np.arange(0, cache.rows, 2), np.arange(1, cache.rows, 2)
    right = cache.predictions()[5] == cache.labels

    def area(certainty: np.ndarray, rows: np.ndarray) -> float:
        good, bad = certainty[rows][right[rows]], certainty[rows][~right[rows]]
        return float((good[:, None] > bad).mean())

    ours = [
        area(score(cache, fitted(Meta(), cache, learned))[5], judged) for learned, judged in ((even, odd), (odd, even))
    ]
    plain = [area(score(cache, "right-tool")[5], judged) for judged in (odd, even)]
    assert np.mean(ours) > np.mean(plain) + 0.02
