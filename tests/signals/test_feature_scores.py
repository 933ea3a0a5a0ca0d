"""Signals learned from features: each against plain arrays or scikit-learn, on planted rules, and on a real cache."""

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.special import logsumexp, softmax
from scipy.stats import entropy
from sklearn.covariance import LedoitWolf
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.neighbors import NearestNeighbors

from exitbench.benchmarks.scoring.calibration_layers import CalibrationLayers
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.head_algebra import head_algebra
from exitbench.places import FIXTURES
from exitbench.signals import Layer, load_registry, score_layers
from exitbench.signals.conformance.synthetic_layers import SyntheticLayers, synthetic_layers
from exitbench.signals.contract import feature_statistics
from exitbench.signals.contract.feature_statistics import class_means, pack, second_moment, unpack
from exitbench.signals.edr import EDR, distance_ratio
from exitbench.signals.mahalanobis import Mahalanobis
from exitbench.signals.residual import principal_dimensions
from tests.support.planted_layers import auroc, layers_from, nothing_decides

REGISTRY = load_registry()
ALL = ["berxit", "berxit[form=published]", "edr", "fdbd", "knn-agreement", "mahalanobis", "mahalanobis[form=margin]"]
ALL += ["residual", "she", "she[form=cosine]", "vim"]
TUNED = ["berxit[penalty=1]", "edr[weight=2]", "knn-agreement[neighbours=5]"]
"""Other values of a parameter than the default, at which a misplaced one may not show."""
LABELLED = [text for text in ALL if text.split("[")[0] in ("berxit", "edr", "knn-agreement", "mahalanobis", "she")]


@dataclass(frozen=True)
class RealLayers:
    """Some layers of a committed cache with their labels."""

    layers: list[Layer]
    labels: torch.Tensor


Data = SyntheticLayers | RealLayers


def arrays(data: Data, layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Features, logits, answers and labels of a layer (from 1)."""
    chosen = data.layers[layer - 1]
    assert chosen.features is not None
    logits = chosen.logits.double().numpy()
    return chosen.features.double().numpy(), logits, logits.argmax(axis=1), data.labels.numpy()


def expected(text: str, data: Data, layer: int) -> np.ndarray:
    """The scores of a layer by plain arrays and scikit-learn, fitted on the very samples."""
    x, logits, answers, labels = arrays(data, layer)
    head = data.layers[layer - 1].head
    assert head is not None
    classes, rows = logits.shape[1], np.arange(len(x))
    right = answers == labels
    means = np.stack([x[labels == c].mean(axis=0) for c in range(classes)])
    within = x - means[labels]
    others = np.ones((len(x), classes), dtype=bool)
    others[rows, answers] = False
    if text in ("berxit", "berxit[penalty=1]"):
        scores = np.empty(len(x))
        for c in range(classes):
            inside = x[answers == c]
            scale = inside.var(axis=0).mean() * len(inside)
            penalty = 1 if "penalty" in text else 10
            model = Ridge(alpha=penalty * scale).fit(inside, right[answers == c].astype(float))
            scores[answers == c] = model.predict(inside)
        return scores
    if text == "berxit[form=published]":
        stacked = [arrays(data, m) for m in range(1, len(data.layers))]
        every = np.concatenate([part[0] for part in stacked])
        target = np.concatenate([part[2] == labels for part in stacked]).astype(float)
        return Ridge(alpha=10 * every.var(axis=0).mean() * len(every)).fit(every, target).predict(x)
    if text.startswith("edr"):
        weight = 2 if "weight" in text else 1
        distances = np.linalg.norm(x[:, None] - means, axis=2)
        own, other = distances[rows, answers], np.where(others, distances, np.inf).min(axis=1)
        ratio = (1 + (own - other) / np.maximum(own, other)) / 2
        return (weight + 1) / (weight / ratio + np.log(classes) / entropy(softmax(logits, axis=1), axis=1))
    if text == "fdbd":
        rows_of_head = head.weight.numpy()
        total = np.zeros(len(x))
        for row in rows:
            for c in range(classes):
                if c != answers[row]:
                    gap = np.linalg.norm(rows_of_head[answers[row]] - rows_of_head[c])
                    total[row] += (logits[row, answers[row]] - logits[row, c]) / gap
        return total / np.linalg.norm(x - x.mean(axis=0), axis=1)
    if text.startswith("knn-agreement"):
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        bank = x.astype(np.float16).astype(float)
        bank /= np.linalg.norm(bank, axis=1, keepdims=True)
        near = (
            NearestNeighbors(n_neighbors=5 if "neighbours" in text else 20)
            .fit(bank)
            .kneighbors(unit, return_distance=False)
        )
        return (labels[near] == answers[:, None]).mean(axis=1)
    if text.startswith("mahalanobis"):
        precision = np.linalg.inv(LedoitWolf(assume_centered=True).fit(within).covariance_)
        distances = np.stack([np.einsum("ij,jk,ik->i", x - mean, precision, x - mean) for mean in means], axis=1)
        if "margin" not in text:
            return -distances.min(axis=1)
        return np.where(others, distances, np.inf).min(axis=1) - distances[rows, answers]
    if text.startswith("she"):
        good = np.stack([x[right & (answers == c)].mean(axis=0) for c in range(classes)])[answers]
        product = (x * good).sum(axis=1)
        cosine = product / np.linalg.norm(x, axis=1) / np.linalg.norm(good, axis=1)
        return cosine if "cosine" in text else product
    shifted = x + np.linalg.pinv(head.weight.numpy()) @ head.bias.numpy()
    _, _, directions = np.linalg.svd(shifted, full_matrices=True)
    norm = np.linalg.norm(shifted @ directions[principal_dimensions(x.shape[1], len(x)) :].T, axis=1)
    if text == "residual":
        return -norm
    return logsumexp(logits, axis=1) - logits.max(axis=1).mean() / norm.mean() * norm


ROUNDED = ("mahalanobis", "residual", "vim")
"""They keep a large fitted matrix in float32; all others are float64 to the last digits."""


def real_layers() -> RealLayers:
    """The last three layers of a committed ResNet-20, ten classes, with their features of width 64."""
    cache = Cache(FIXTURES / "caches" / "resnet20-cifar10-features-dev")
    rows = np.arange(0, cache.rows, 2)  # as many as the largest bank
    stored = CalibrationLayers(cache, rows, frozenset({"logits", "features", "head"}))
    layers = []
    for index, layer in enumerate(stored[-3:], start=1):
        kept = {name: getattr(layer, name) for name in ("ids", "classes", "logits", "features", "head")}
        layers.append(Layer(index=index, depth=3, **kept))
    return RealLayers(layers, torch.from_numpy(cache.labels[rows]))


@pytest.mark.parametrize("text", [*ALL, *TUNED])
@pytest.mark.parametrize("source", ["two classes", "three classes", "a real network"])
def test_scores_are_those_of_plain_arrays(text: str, source: str) -> None:
    data: Data = real_layers()
    if source != "a real network":
        data = synthetic_layers(150, depth=4, classes=2 if source == "two classes" else 3, seed=7)
    scores = score_layers(REGISTRY.make(text).fit(data.layers, data.labels), data.layers).numpy()
    near = {"rtol": 1e-5, "atol": 1e-6} if text in ROUNDED else {"rtol": 1e-9, "atol": 1e-10}
    for layer in range(1, len(data.layers)):
        np.testing.assert_allclose(scores[layer - 1], expected(text, data, layer), **near)


@pytest.mark.parametrize("text", ALL)
def test_neither_the_order_of_samples_nor_the_size_of_blocks_matters(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = synthetic_layers(90, depth=4, seed=5)
    order = torch.randperm(90, generator=torch.Generator().manual_seed(1))
    signal = REGISTRY.make(text)
    whole = signal.fit(data.layers, data.labels)
    permuted = signal.fit([layer.take(order) for layer in data.layers], data.labels[order])
    assert permuted.to_json() == whole.to_json()
    monkeypatch.setattr(feature_statistics, "BLOCK", 7)
    scores = score_layers(signal.fit(data.layers, data.labels), data.layers)
    torch.testing.assert_close(scores, score_layers(whole, data.layers), rtol=1e-5, atol=1e-6)


def planted(rows: int, seed: int) -> tuple[list, torch.Tensor]:
    """Answers are right where the feature lies on their class's side; logits say nothing of it."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, 2, rows)
    features = draw.normal(size=(3, rows, 8))
    features[:, :, 0] += np.where(labels == 1, 2.0, -2.0)
    logits = np.zeros((3, rows, 2))
    answers = draw.integers(0, 2, (3, rows))
    np.put_along_axis(logits, answers[:, :, None], draw.uniform(1, 2, (3, rows, 1)), axis=2)
    return layers_from(logits, features), torch.from_numpy(labels)


@pytest.mark.parametrize(
    "text", ["berxit", "edr", "knn-agreement", "mahalanobis[form=margin]", "she", "she[form=cosine]"]
)
def test_a_rule_in_the_feature_is_found(text: str) -> None:
    layers, labels = planted(1500, 0)
    fresh, fresh_labels = planted(1500, 1)
    assert auroc(REGISTRY.make(text).fit(layers, labels), fresh, fresh_labels, 2) > 0.9


def untypical(rows: int, seed: int) -> tuple[list[Layer], torch.Tensor]:
    """Answers are wrong where the feature leaves the four of its eight directions that it mostly takes."""
    draw = np.random.default_rng(seed)
    labels, right = draw.integers(0, 2, rows), draw.uniform(size=rows) < 0.7
    features = draw.normal(size=(3, rows, 8))
    features[:, :, 4:] *= np.where(right, 0.1, 0.6)[:, None]
    features[:, :, 0] += np.where(labels == 1, 3.0, -3.0)
    logits = np.zeros((3, rows, 2))
    logits[:, np.arange(rows), np.where(right, labels, 1 - labels)] = 2.0  # the margin says nothing
    head = head_algebra(torch.eye(8)[:2].double() + 0.1, torch.zeros(2, dtype=torch.float64))
    return [dataclasses.replace(layer, head=head) for layer in layers_from(logits, features)], torch.from_numpy(labels)


@pytest.mark.parametrize("text", ["mahalanobis", "residual", "vim"])
def test_an_untypical_feature_is_found(text: str) -> None:
    layers, labels = untypical(800, 0)
    fresh, fresh_labels = untypical(800, 1)
    assert auroc(REGISTRY.make(text).fit(layers, labels), fresh, fresh_labels, 2) > 0.9


def test_fdbd_finds_the_distance_from_a_centre_that_it_has_learned() -> None:
    """Answers are wrong where the feature is far from the mean of the others, which is nowhere near zero."""
    draw = np.random.default_rng(0)
    labels, right = draw.integers(0, 2, 800), draw.uniform(size=800) < 0.7
    directions = draw.normal(size=(3, 800, 8))
    directions /= np.linalg.norm(directions, axis=2, keepdims=True)
    features = 20.0 + directions * np.where(right, 1.0, 2.0)[:, None]
    logits = np.zeros((3, 800, 2))
    logits[:, np.arange(800), np.where(right, labels, 1 - labels)] = 2.0
    head = head_algebra(torch.eye(8)[:2].double(), torch.zeros(2, dtype=torch.float64))
    layers = [dataclasses.replace(layer, head=head) for layer in layers_from(logits, features)]
    even, odd = torch.arange(0, 800, 2), torch.arange(1, 800, 2)
    ready = REGISTRY.make("fdbd").fit([layer.take(even) for layer in layers], torch.from_numpy(labels)[even])
    assert auroc(ready, [layer.take(odd) for layer in layers], torch.from_numpy(labels)[odd], 2) > 0.95


def test_one_linear_map_cannot_say_that_either_side_is_certain() -> None:
    layers, labels = planted(1500, 0)
    fresh, fresh_labels = planted(1500, 1)
    published = REGISTRY.make("berxit[form=published]").fit(layers, labels)
    assert auroc(published, fresh, fresh_labels, 2) == pytest.approx(0.5, abs=0.05)


@pytest.mark.long
@pytest.mark.parametrize("text", LABELLED)
def test_a_rule_that_is_not_there_is_not_found(text: str) -> None:
    layers, labels = nothing_decides(3000, seed=0)
    fresh, fresh_labels = nothing_decides(3000, seed=1)
    assert auroc(REGISTRY.make(text).fit(layers, labels), fresh, fresh_labels, 2) == pytest.approx(0.5, abs=0.04)


@pytest.mark.parametrize("text", ALL)
def test_missing_features_a_missing_fit_and_unknown_layers_are_refused(text: str) -> None:
    data = synthetic_layers(40, depth=5)
    signal = REGISTRY.make(text)
    assert signal.needs_fit
    with pytest.raises(InputError):
        signal.step(data.layers[0], None)
    short = signal.fit([dataclasses.replace(layer, depth=3) for layer in data.layers[:3]], data.labels)
    with pytest.raises(InputError):
        score_layers(short, data.layers)
    with pytest.raises(InputError, match="needs features"):
        signal.fit([dataclasses.replace(layer, features=None) for layer in data.layers], data.labels)


@pytest.mark.parametrize("text", ["fdbd", "residual", "vim"])
def test_missing_heads_are_refused(text: str) -> None:
    data = synthetic_layers(40, depth=4)
    ready = REGISTRY.make(text).fit(data.layers, data.labels)
    with pytest.raises(InputError, match="needs heads"):
        ready.step(dataclasses.replace(data.layers[0], head=None), None)


@pytest.mark.parametrize("text", LABELLED)
def test_a_class_that_no_sample_has_leaves_finite_scores(text: str) -> None:
    data = synthetic_layers(80, depth=4, classes=3, seed=2)
    some = torch.nonzero(data.labels != 2)[:, 0]
    signal = REGISTRY.make(text).fit([layer.take(some) for layer in data.layers], data.labels[some])
    scores = score_layers(signal, data.layers)
    assert scores.isfinite().all()
    if signal.name == "she":  # nothing right looks like this answer
        assert [set(row[layer.prediction == 2].tolist()) for row, layer in zip(scores, data.layers, strict=False)] == [
            {0.0}
        ] * 3


def test_an_answer_that_nobody_gave_has_the_map_of_all_answers_in_berxit() -> None:
    data = synthetic_layers(80, depth=2, classes=3, seed=2)
    x, _, answers, labels = arrays(data, 1)
    seen, new = answers != 2, torch.from_numpy(answers == 2)
    ready = REGISTRY.make("berxit").fit([layer.take(~new) for layer in data.layers], data.labels[~new])
    model = Ridge(alpha=10 * x[seen].var(axis=0).mean() * seen.sum()).fit(x[seen], (answers == labels)[seen] * 1.0)
    scores = score_layers(ready, [layer.take(new) for layer in data.layers])[0].numpy()
    np.testing.assert_allclose(scores, model.predict(x[~seen]), rtol=1e-9)


def test_with_two_classes_the_margin_of_mahalanobis_ranks_as_linear_discriminants() -> None:
    data = synthetic_layers(2000, depth=3, classes=2, seed=1)
    x, _, answers, labels = arrays(data, 1)
    model = LinearDiscriminantAnalysis(solver="lsqr", priors=[0.5, 0.5]).fit(x, labels)
    ours = score_layers(Mahalanobis(form="margin").fit(data.layers, data.labels), data.layers)[0].numpy()
    scikit_learn = np.where(answers == 1, 1, -1) * model.decision_function(x)
    assert np.corrcoef(ours, scikit_learn)[0, 1] > 0.99, "but for the shrinkage they are one map"


def test_equal_prototypes_and_a_feature_on_its_prototype_have_a_ratio() -> None:
    distances = torch.tensor([[0.0, 0.0], [0.0, 3.0], [3.0, 0.0]], dtype=torch.float64)
    assert distance_ratio(distances, torch.tensor([0, 0, 0])).tolist() == [0.5, 0.0, 1.0]
    data = synthetic_layers(30, depth=3)
    on_it = EDR().fit(data.layers, data.labels)
    certain = dataclasses.replace(data.layers[0], logits=torch.tensor([[1e4, 0.0, 0.0]] * 30))
    assert (on_it.score(certain) == 0).all()


def test_the_bank_is_bounded_and_spread_over_the_ids() -> None:
    data = synthetic_layers(100, depth=3, seed=1)
    signal = REGISTRY.make("knn-agreement[bank=10]").fit(data.layers, data.labels)
    assert signal.labels == tuple(data.labels[[0, 11, 22, 33, 44, 55, 66, 77, 88, 99]].tolist())


def test_of_equally_near_samples_the_smaller_id_counts() -> None:
    logits = np.tile([0.0, 1.0], (2, 4, 1))
    layers = layers_from(logits, np.ones((2, 4, 3)))
    for labels in ([1, 0, 0, 0], [0, 1, 1, 1]):
        ready = REGISTRY.make("knn-agreement[neighbours=1]").fit(layers, torch.tensor(labels))
        assert score_layers(ready, layers)[0].tolist() == [float(labels[0])] * 4


def test_arrays_come_back_from_text_to_the_last_bit() -> None:
    values = np.random.default_rng(0).normal(size=(3, 5))
    assert torch.equal(unpack(pack(values)), torch.from_numpy(values))
    assert torch.equal(unpack(pack(values, "float32")), torch.from_numpy(values.astype(np.float32).astype(float)))


def test_means_and_moments_are_those_of_the_whole_array(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feature_statistics, "BLOCK", 3)
    draw = np.random.default_rng(0)
    values, groups = draw.normal(size=(10, 4)), np.array([0, 0, 1, 1, 1, 0, -1, 1, 0, 0])
    means, counts = class_means(torch.from_numpy(values), groups, 3)
    assert counts.tolist() == [5, 4, 0]
    np.testing.assert_allclose(means[0], values[groups == 0].mean(axis=0))
    np.testing.assert_allclose(means[2], values[groups >= 0].mean(axis=0))
    shift = draw.normal(size=4)
    np.testing.assert_allclose(
        second_moment(torch.from_numpy(values), shift), (values + shift).T @ (values + shift), rtol=1e-12
    )


@pytest.mark.parametrize("width", [10, 767, 768, 2047, 2048])
def test_principal_dimensions_are_the_published_ones_where_samples_are_many(width: int) -> None:
    assert principal_dimensions(width, 10_000) == {10: 5, 767: 383, 768: 512, 2047: 512, 2048: 1000}[width]
    assert principal_dimensions(width, 8) == 4


def test_the_scale_of_vim_does_not_depend_on_how_many_samples_it_was_fitted_on() -> None:
    """Fewer samples than directions: a threshold of one fit means the same in another."""
    draw = np.random.default_rng(0)
    layers = layers_from(draw.normal(size=(2, 400, 2)) + 3, draw.normal(size=(2, 400, 200)))
    head = head_algebra(torch.randn(2, 200, generator=torch.Generator().manual_seed(0)), torch.zeros(2))
    layers = [dataclasses.replace(layer, head=head) for layer in layers]
    fresh = [layer.take(torch.arange(300, 400)) for layer in layers]
    means = []
    for rows in (80, 110, 190):
        part = [layer.take(torch.arange(rows)) for layer in layers]
        signal = REGISTRY.make("vim").fit(part, torch.zeros(rows, dtype=torch.int64))
        means.append(float((-fresh[0].energy - score_layers(signal, fresh)[0]).mean()))
    assert max(means) < 1.25 * min(means)
