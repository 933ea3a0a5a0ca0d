"""Every method against an oracle that shares no code with it: scikit-learn, literal loops, differences of the loss."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.linear_model import LogisticRegression

from exitbench.cache import Cache, synthetic_cache
from exitbench.derive import calibration_rows
from exitbench.derive.contract import DerivedAnswers
from exitbench.derive.methods import cascaded
from exitbench.derive.methods.etf import fitted_map, simplex_directions
from exitbench.derive.methods.past_future import PastFuture, state_reader
from exitbench.derive.registry import load_methods
from exitbench.derive.softmax_regression import Blocks, Targets, softmax_head
from exitbench.head_algebra import head_algebra
from tests.support.for_each import for_each

EVERY = slice(None)


def fit(written: str, cache: Cache) -> DerivedAnswers:
    return load_methods().make(written).fit(cache)


def features(cache: Cache, layer: int) -> np.ndarray:
    return cache.features(layer).double().numpy()


def logits(cache: Cache, layer: int) -> np.ndarray:
    return cache.logits(layer).double().numpy()


def standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def test_heads_are_those_of_scikit_learn(train: Cache) -> None:
    penalty = 0.05
    answers = fit(f"heads[penalty={penalty}]", train).logits(train, EVERY)
    for layer in range(1, train.layers):
        model = LogisticRegression(C=1 / (penalty * train.rows), tol=1e-10, max_iter=5000)
        inputs = standardised(features(train, layer))
        expected = model.fit(inputs, train.labels).predict_proba(inputs)
        np.testing.assert_allclose(softmax(answers[layer - 1].numpy(), axis=1), expected, atol=2e-5)


def test_distilled_heads_end_where_the_divergence_from_the_last_layer_is_flat(train: Cache) -> None:
    penalty, step = 0.01, 1e-5
    wanted = softmax(logits(train, train.layers) / 2, axis=1)
    answers = fit(f"distilled[penalty={penalty},temperature=2]", train)
    assert answers.heads is not None
    inputs = features(train, 2)
    spread, mean = inputs.std(axis=0), inputs.mean(axis=0)
    weight, bias = (tensor.double().numpy() for tensor in answers.heads[1])

    def loss(weight: np.ndarray, bias: np.ndarray) -> float:
        said = log_softmax(inputs @ weight.T + bias, axis=1)
        return float(-(wanted * said).sum(axis=1).mean() + penalty / 2 * np.square(weight * spread).sum())

    assert loss(weight, bias) < loss(weight * 0, bias * 0) - 0.1
    rng = np.random.default_rng(0)
    for _ in range(5):
        turn, shift = rng.normal(size=weight.shape), rng.normal(size=bias.shape)
        slope = (
            (loss(weight + step * turn, bias + step * shift) - loss(weight - step * turn, bias - step * shift))
            / step
            / 2
        )
        assert abs(slope) < 1e-5, "the optimum is flat in every direction"
    assert np.isfinite(mean).all()


@for_each(text=["heads", "distilled", "cascaded", "ensemble", "class-means", "etf", "vector"])
def test_rows_read_in_blocks_are_fitted_as_all_at_once(
    train: Cache, source: Cache, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    whole = fit(text, train).logits(source, EVERY)
    with monkeypatch.context() as patch:
        patch.setattr(calibration_rows, "BLOCK", 13)
        blocks = fit(text, train).logits(source, EVERY)
    for once, often in zip(whole, blocks, strict=True):
        torch.testing.assert_close(often, once, atol=1e-4, rtol=1e-4)


def test_single_rows_are_the_same_read_or_held(train: Cache) -> None:
    rows = np.array([5, 0, train.rows - 1, 5])
    expected = [train.features(layer)[rows].float() for layer in range(1, train.layers + 1)]
    for most in (0, 2**26):
        assert all(map(torch.equal, state_reader(train, most)(rows), expected))


def test_distillation_reads_no_label(train: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(train.__dict__, "labels", np.full(train.rows, -1))
    assert len(fit("distilled", train).logits(train, EVERY)) == train.layers - 1


def test_a_constant_feature_has_weight_zero() -> None:
    rows = np.column_stack([np.full(20, 3.0), np.linspace(-1, 1, 20)])
    targets = np.eye(2)[(rows[:, 1] > 0).astype(int)]
    weight, bias = softmax_head(lambda: iter([rows[:7], rows[7:]]), targets, penalty=0.1)
    assert (weight[:, 0] == 0).all() and weight[1, 1] > 0
    whole, _ = softmax_head(lambda: iter([rows]), targets, penalty=0.1)
    np.testing.assert_allclose(weight, whole, atol=1e-7)
    assert np.isfinite(bias).all()


def test_cascaded_heads_read_the_answer_before(train: Cache) -> None:
    penalty = 0.02
    answers = [each.numpy() for each in fit(f"cascaded[penalty={penalty}]", train).logits(train, EVERY)]
    model = LogisticRegression(C=1 / (penalty * train.rows), tol=1e-10, max_iter=5000)
    before: list[np.ndarray] = []
    for layer in range(1, train.layers):
        read = features(train, layer)
        if before:
            normal = torch.nn.functional.layer_norm(torch.from_numpy(before[-1]), (train.classes,)).numpy()
            read = np.column_stack([read, normal])
        inputs = standardised(read)
        expected = model.fit(inputs, train.labels).predict_proba(inputs)
        np.testing.assert_allclose(softmax(answers[layer - 1], axis=1), expected, atol=5e-5)
        before.append(answers[layer - 1])


def test_cascaded_heads_hold_the_answers_of_one_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large cache with many classes they are most of what a fit needs; each exit's take the place of the last."""
    cache = synthetic_cache(tmp_path / "c", rows=6000, layers=5, width=2, classes=40, shard_rows=2500)
    monkeypatch.setattr(calibration_rows, "BLOCK", 250)
    heads = []

    def any_head(read: Blocks, targets: Targets, *, penalty: float) -> tuple[np.ndarray, np.ndarray]:
        columns = next(read()).shape[1]
        heads.append((np.random.default_rng(columns).normal(size=(40, columns)), np.zeros(40)))
        return heads[-1]

    monkeypatch.setattr(cascaded, "softmax_head", any_head)
    tracemalloc.start()
    fit("cascaded", Cache(cache))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    answers = 6000 * 40 * 8
    assert len(heads) == 4 and answers < peak < 1.6 * answers


def test_blocks_are_read_into_one_array(train: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held in memory each has its own; both ways a layer is the same numbers."""
    monkeypatch.setattr(calibration_rows, "BLOCK", 40)
    expected = features(train, 2)
    held = list(calibration_rows.feature_blocks(train, 2)())
    np.testing.assert_array_equal(np.concatenate(held), expected)
    monkeypatch.setattr(calibration_rows, "kept_if_small", lambda read, elements: read)
    read, start = calibration_rows.feature_blocks(train, 2)(), 0
    first = block = next(read)
    for start in (0, 40, 80, 100, 140):  # a block ends where its shard does, at row 100
        np.testing.assert_array_equal(block, expected[start : start + len(block)])
        assert np.shares_memory(first, block)
        block = next(read, block)
    assert start + len(block) == train.rows


def test_an_equal_ensemble_is_the_geometric_mean(train: Cache, source: Cache) -> None:
    answers = fit("ensemble[weights=equal]", train).logits(source, EVERY)
    for layer in range(1, source.layers):
        product = np.ones((source.rows, source.classes))
        for earlier in range(1, layer + 1):
            product *= softmax(logits(source, earlier), axis=1) ** (1 / layer)
        expected = product / product.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(softmax(answers[layer - 1].numpy(), axis=1), expected, atol=1e-12)


def test_fitted_ensemble_weights_are_the_best_that_are_not_negative(train: Cache) -> None:
    answers = fit("ensemble", train).logits(train, EVERY)
    logs = np.stack([log_softmax(logits(train, layer), axis=1) for layer in (1, 2, 3)])
    wanted = np.eye(train.classes)[train.labels]

    def loss(values: np.ndarray) -> float:
        said = log_softmax(np.einsum("j,jnc->nc", values[:3] / 3, logs) + values[3:], axis=1)
        away = np.concatenate([values[:3] - 1, values[3:]])
        return float(-(wanted * said).sum(axis=1).mean() + 0.5e-4 * (away @ away))

    bounds = [(0, None)] * 3 + [(None, None)] * train.classes
    best = minimize(
        loss, np.ones(3 + train.classes), method="SLSQP", bounds=bounds, options={"ftol": 1e-13, "maxiter": 500}
    )
    said = log_softmax(np.einsum("j,jnc->nc", best.x[:3] / 3, logs) + best.x[3:], axis=1)
    np.testing.assert_allclose(log_softmax(answers[2].numpy(), axis=1), said, atol=2e-4)


def test_class_means_answer_with_the_nearest(train: Cache, source: Cache) -> None:
    answers = fit("class-means", train).logits(source, EVERY)
    for layer in range(1, source.layers):
        known, rows = features(train, layer), features(source, layer)
        for number in range(train.classes):
            own = known[train.labels == number]
            mean = own.mean(axis=0)
            typical = np.mean([np.linalg.norm(row - mean) for row in own])
            expected = [-np.linalg.norm(row - mean) / typical for row in rows]
            np.testing.assert_allclose(answers[layer - 1][:, number].numpy(), expected, rtol=1e-9)


def test_simplex_directions_are_as_far_apart_as_they_can_be() -> None:
    directions = simplex_directions(9, 4, seed=3, layer=2)
    products = directions.T @ directions
    np.testing.assert_allclose(products, np.where(np.eye(4), 1.0, -1 / 3), atol=1e-12)
    assert not np.allclose(directions, simplex_directions(9, 4, seed=3, layer=1))


def test_simplex_heads_lower_the_cross_entropy_to_a_flat_place(train: Cache) -> None:
    rows, wanted = features(train, 3), np.eye(train.classes)[train.labels]
    simplex = simplex_directions(6, train.classes, seed=0, layer=3)
    slope, shift = fitted_map(lambda: iter([rows[:70], rows[70:]]), simplex, wanted)

    def loss(slope: np.ndarray, shift: np.ndarray) -> float:
        values = rows * slope + shift
        unit = values / np.linalg.norm(values, axis=1, keepdims=True)
        return float(-(wanted * log_softmax(unit @ simplex, axis=1)).sum(axis=1).mean())

    start = 1 / rows.std(axis=0)
    assert loss(slope, shift) < loss(start, -rows.mean(axis=0) * start)
    rng = np.random.default_rng(1)
    for _ in range(5):
        turn, move = rng.normal(size=6) * slope, rng.normal(size=6) * np.abs(shift).mean()
        change = (
            loss(slope + 1e-5 * turn, shift + 1e-5 * move) - loss(slope - 1e-5 * turn, shift - 1e-5 * move)
        ) / 2e-5
        assert abs(change) < 1e-4


def test_simplex_features_are_unit_vectors_and_their_heads_are_linear(train: Cache, source: Cache) -> None:
    answers = fit("etf", train)
    assert answers.heads is not None
    for layer in range(1, source.layers):
        unit = answers.features(source, layer, EVERY)
        torch.testing.assert_close(torch.linalg.vector_norm(unit, dim=1), torch.ones(source.rows, dtype=torch.float64))
        weight, bias = answers.heads[layer - 1]
        torch.testing.assert_close(answers.logits(source, EVERY)[layer - 1], unit @ weight.double().T)
        assert not bias.any()


def test_more_classes_than_features_have_no_simplex(folder: Path) -> None:
    from exitbench.cache import synthetic_cache
    from exitbench.errors import InputError

    narrow = Cache(synthetic_cache(folder / "narrow", rows=30, layers=3, classes=5, width=4))
    with pytest.raises(InputError, match="found 4 features and 5 classes at layer 1"):
        fit("etf", narrow)


def test_a_past_future_exit_is_its_formula() -> None:
    torch.manual_seed(0)
    maps = PastFuture(layers=3, width=4, classes=2, seed=5).double()
    for each in maps.parameters():
        torch.nn.init.normal_(each, std=0.5)
    states = [torch.randn(2, 4, dtype=torch.float64) for _ in range(3)]
    weights = {name: value.detach().numpy() for name, value in maps.named_parameters()}
    labels = np.array([1, 0])
    wrong, unlike = 0.0, 0.0
    for m in (1, 2):
        said = maps.exit_logits(states[:m], maps.imagined(states[m - 1], m)).detach().numpy()
        for row in range(2):
            s = [state[row].numpy() for state in states]
            past = sum(s[j] @ weights["answer"][j] + weights["answer_shift"][j] for j in range(m))
            imagined = {j: np.tanh(s[m - 1] @ weights["imagine"][j] + weights["imagine_shift"][j]) for j in range(m, 3)}
            future = sum(imagined[j] @ weights["answer"][j] + weights["answer_shift"][j] for j in range(m, 3))
            hint = sum(s[j] @ weights["gate"][j] + weights["gate_shift"][j] for j in range(m)) / m
            gate = 1 / (1 + np.exp(-(np.tanh(hint) @ weights["mix"] + weights["mix_shift"])))
            expected = 2 * gate * past + (2 - 2 * gate) * future
            np.testing.assert_allclose(said[row], expected, rtol=1e-10)
            wrong += m * -log_softmax(expected)[labels[row]] / 2
            cosines = [imagined[j] @ s[j] / np.linalg.norm(imagined[j]) / np.linalg.norm(s[j]) for j in range(m, 3)]
            unlike += float(np.mean([1 - cosine for cosine in cosines])) / 2
    loss = float(maps.loss(states, torch.from_numpy(labels)).detach())
    assert loss == pytest.approx((wrong / 3 + unlike / 2) / 2, rel=1e-6)


@pytest.mark.long
def test_past_future_learns_and_does_not_depend_on_the_order_of_the_rows(train: Cache, folder: Path) -> None:
    from exitbench.cache import CacheWriter

    answers = fit("past-future[epochs=25]", train).logits(train, EVERY)
    right = float((answers[2].argmax(dim=1).numpy() == train.labels).mean())
    assert right > np.bincount(train.labels).max() / train.rows + 0.15
    order = np.random.default_rng(0).permutation(train.rows)
    manifest = train.manifest
    with CacheWriter(
        folder / "shuffled",
        task=manifest.task,
        split="x",
        model=manifest.model,
        heads=train.head_tensors(),
        feature_dtype="float32",
    ) as writer:
        stacked = [
            torch.stack([read(layer)[order] for layer in range(1, 5)]) for read in (train.logits, train.features)
        ]
        writer.add(labels=train.labels[order], ids=train.ids[order], logits=stacked[0], features=stacked[1])
    again = fit("past-future[epochs=25]", Cache(folder / "shuffled")).logits(train, EVERY)
    for one, other in zip(answers, again, strict=True):
        assert torch.equal(one, other)


@pytest.mark.long
def test_a_temperature_changes_no_answer_and_makes_labels_likelier(train: Cache) -> None:
    answers = fit("temperature", train)
    for layer, said in enumerate(answers.logits(train, EVERY), 1):
        assert torch.equal(said.argmax(dim=1), train.logits(layer).argmax(dim=1))
        own, rows = logits(train, layer), np.arange(train.rows)

        def loss(inverse: float, own: np.ndarray = own, rows: np.ndarray = rows) -> float:
            return float(-log_softmax(own * inverse, axis=1)[rows, train.labels].mean())

        inverse_temperature = float(said[0, 0] / own[0, 0])
        grid = np.linspace(0.05, 5, 2000)
        assert loss(inverse_temperature) <= min(map(loss, grid)) + 1e-9
    assert answers.heads is not None
    before, after = train.head(1).offset, head_algebra(*answers.heads[0]).offset
    torch.testing.assert_close(after, before)


def test_vector_scaling_is_the_best_scale_and_shift_of_every_class(train: Cache) -> None:
    answers = fit("vector", train)
    own, wanted = logits(train, 2), np.eye(train.classes)[train.labels]

    def loss(values: np.ndarray) -> float:
        said = log_softmax(own * values[:3] + values[3:], axis=1)
        away = np.concatenate([values[:3] - 1, values[3:]])
        return float(-(wanted * said).sum(axis=1).mean() + 0.5e-4 * (away @ away))

    best = minimize(loss, np.ones(6), method="BFGS", options={"gtol": 1e-9})
    np.testing.assert_allclose(answers.logits(train, EVERY)[1].numpy(), own * best.x[:3] + best.x[3:], atol=2e-3)
    assert answers.heads is not None
    weight, bias = answers.heads[1]
    features_2 = train.features(2).double()
    np.testing.assert_allclose(
        (features_2 @ weight.T + bias).numpy(), answers.logits(train, EVERY)[1].numpy(), atol=1e-4
    )
