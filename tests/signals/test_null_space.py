"""NSP and CAP from logits and offset norms, against features and projectors written out in float64."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp, softmax

from exitbench.errors import InputError
from exitbench.head_algebra import head_algebra
from exitbench.signals import Layer, score_layers
from exitbench.signals.calibrated import Calibrated
from exitbench.signals.cap import CAP
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.contract.stepping import validated_score
from exitbench.signals.e_lang import ELang
from exitbench.signals.nsp import NSP


def split(weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """The projector on the row space, the offset, and the spread of the singular values kept: straight from the SVD."""
    left, values, right = np.linalg.svd(weight.astype(np.float64), full_matrices=False)
    keep = values > 1e-4 * values[0]
    left, values, right = left[:, keep], values[keep], right[keep]
    return right.T @ right, right.T @ ((left.T @ bias) / values), float(values[0] / values[-1])


def projector_form(weight: np.ndarray, bias: np.ndarray, features: np.ndarray) -> np.ndarray:
    """The definition: what share of the shifted feature's norm the projector on the row space leaves over."""
    projector, offset, _ = split(weight, bias)
    shifted = features.astype(np.float64) + offset
    return np.linalg.norm(shifted - shifted @ projector, axis=1) / np.linalg.norm(shifted, axis=1)


def centred(weight: np.ndarray, bias: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return weight - weight.mean(axis=0), bias - bias.mean()


def layer_of(weight: np.ndarray, bias: np.ndarray, features: np.ndarray) -> Layer:
    """What a cache would hand over: float32 logits and offset norms, the head's algebra, no feature."""
    _, offset, _ = split(weight, bias)
    exact = features.astype(np.float64)
    logits = (exact @ weight.T.astype(np.float64) + bias).astype(np.float32)
    return Layer(
        index=1,
        depth=2,
        classes=weight.shape[0],
        ids=torch.arange(len(features)),
        logits=torch.from_numpy(logits),
        offset_norm=torch.from_numpy(np.linalg.norm(exact + offset, axis=1).astype(np.float32)),
        head=head_algebra(torch.from_numpy(weight), torch.from_numpy(bias)),
    )


def with_singular_values(values: list[float], classes: int, width: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    left, _ = np.linalg.qr(rng.normal(size=(classes, classes)))
    right, _ = np.linalg.qr(rng.normal(size=(width, classes)))
    return ((left * np.array(values)) @ right.T).astype(np.float32)


def random_case(seed: int, classes: int, width: int, samples: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    weight = (rng.normal(size=(classes, width)) / np.sqrt(width)).astype(np.float32)
    return weight, rng.normal(size=classes).astype(np.float32), rng.normal(size=(samples, width)).astype(np.float32)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(("classes", "width"), [(2, 16), (2, 768), (3, 64), (10, 64), (10, 768)])
def test_nsp_is_the_projector_form_on_random_heads(classes: int, width: int, center: bool) -> None:
    weight, bias, features = random_case(classes + width, classes, width)
    expected = projector_form(*(centred(weight, bias) if center else (weight, bias)), features)
    share = NSP(center=center).score(layer_of(weight, bias, features)).numpy()
    np.testing.assert_allclose(share, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("bias_size", [0.01, 1.0])
@pytest.mark.parametrize("spread", [5.0, 30.0, 300.0, 3000.0])
def test_nsp_is_the_projector_form_on_ill_conditioned_heads_within_the_spread(
    spread: float, bias_size: float, center: bool
) -> None:
    weight = with_singular_values([1.0, 0.7, 0.7 / np.sqrt(spread), 1.0 / spread], 4, 128, seed=1)
    rng = np.random.default_rng(2)
    features = rng.normal(size=(200, 128)).astype(np.float32)
    bias = (bias_size * rng.normal(size=4)).astype(np.float32)
    head = centred(weight, bias) if center else (weight, bias)
    # Centring subtracts one float32 head's offset from another's, so the larger spread of the two counts.
    ratio = max(split(*head)[2], split(weight, bias)[2])
    bound = 1e-6 * (ratio if ratio >= 10 else 1.0)
    share = NSP(center=center).score(layer_of(weight, bias, features)).numpy()
    np.testing.assert_allclose(share, projector_form(*head, features), rtol=0, atol=bound)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("lost", [0.0, 1e-7, 5e-5])
def test_nsp_is_the_projector_form_on_rank_deficient_heads_with_a_bias_outside_their_range(
    lost: float, center: bool
) -> None:
    weight = with_singular_values([1.0, 0.5, lost], 3, 128, seed=3)
    rng = np.random.default_rng(4)
    bias, features = rng.normal(size=3).astype(np.float32), rng.normal(size=(200, 128)).astype(np.float32)
    head = centred(weight, bias) if center else (weight, bias)
    share = NSP(center=center).score(layer_of(weight, bias, features)).numpy()
    np.testing.assert_allclose(share, projector_form(*head, features), rtol=0, atol=1e-6)


def test_nsp_is_the_projector_form_on_float16_features_of_width_768() -> None:
    weight, bias, features = random_case(7, 2, 768, samples=500)
    stored = features.astype(np.float16)
    share = NSP().score(layer_of(weight, bias, stored)).numpy()
    np.testing.assert_allclose(share, projector_form(weight, bias, stored), rtol=0, atol=1e-6)
    # and the features before rounding are as near as float16 can say
    np.testing.assert_allclose(share, projector_form(weight, bias, features), rtol=0, atol=2**-11)


def test_a_feature_inside_the_row_space_is_near_0_and_one_outside_is_1() -> None:
    weight, bias, _ = random_case(1, 3, 32, samples=1)
    projector, offset, _ = split(weight, bias)
    rng = np.random.default_rng(5)
    anything = rng.normal(size=(20, 32))
    inside, outside = anything @ projector - offset, anything - anything @ projector - offset
    # float32 logits leave 1e-7 in the square, which the root turns into a few 1e-4
    assert NSP().score(layer_of(weight, bias, inside)).max() < 1e-3
    np.testing.assert_allclose(NSP().score(layer_of(weight, bias, outside)).numpy(), 1.0, atol=1e-6)


@pytest.mark.parametrize("center", [False, True])
def test_a_shifted_feature_of_nothing_scores_1(center: bool) -> None:
    weight, bias = np.eye(2, 4, dtype=np.float32), np.zeros(2, dtype=np.float32)
    layer = layer_of(weight, bias, np.zeros((1, 4)))
    assert NSP(center=center).score(layer).tolist() == [1.0]


def test_a_head_of_nothing_sees_nothing() -> None:
    layer = replace(
        layer_of(np.eye(2, 4), np.zeros(2), np.ones((1, 4))), head=head_algebra(torch.zeros(2, 4), torch.zeros(2))
    )
    assert NSP().score(layer).tolist() == [1.0]


def test_rounding_below_zero_is_clipped_where_the_published_code_makes_a_nan() -> None:
    layer = layer_of(*random_case(3, 2, 16))
    assert layer.offset_norm is not None
    short = replace(layer, offset_norm=layer.offset_norm * 1e-3)
    assert NSP().score(short).tolist() == [0.0] * layer.samples


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1, 1.0, 10.0])
def test_cap_is_entry_0_of_the_softmax_with_alpha_nsp_in_front(alpha: float) -> None:
    weight, bias, features = random_case(11, 3, 64)
    layer = layer_of(weight, bias, features)
    in_front = alpha * projector_form(weight, bias, features)
    expected = softmax(np.column_stack([in_front, layer.logits64.numpy()]), axis=1)[:, 0]
    np.testing.assert_allclose(CAP(alpha=alpha).score(layer).numpy(), expected, rtol=0, atol=1e-5)


def test_cap_with_center_centres_energy_and_null_space_share() -> None:
    weight, bias, features = random_case(12, 3, 64)
    layer = layer_of(weight, bias, features)
    logits = layer.logits64.numpy()
    energy = -logsumexp(logits - logits.mean(axis=1, keepdims=True), axis=1)
    expected = expit(energy + projector_form(*centred(weight, bias), features))
    np.testing.assert_allclose(CAP(center=True).score(layer).numpy(), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "signal", [ELang(center=True), NSP(center=True), CAP(center=True), CAP(alpha=10.0, center=True)]
)
@pytest.mark.parametrize(("along", "constant"), [(1.0, 0.0), (0.0, 5.0), (2.0, -3.0)])
def test_centring_makes_a_signal_blind_to_a_constant_in_all_rows_and_the_bias(
    signal: Any, along: float, constant: float
) -> None:
    weight, bias, features = random_case(13, 3, 64)
    direction = np.random.default_rng(14).normal(size=64) / 8
    moved = layer_of((weight + along * direction).astype(np.float32), (bias + np.float32(constant)), features)
    still = layer_of(weight, bias, features)
    torch.testing.assert_close(signal.score(moved), signal.score(still), rtol=0, atol=1e-5)
    plain = replace(signal, center=False)
    assert (plain.score(moved) - plain.score(still)).abs().max() > 1e-3


def test_energy_is_that_of_scipy_at_any_temperature() -> None:
    logits = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32) * 8
    layer = Layer(1, 2, 4, torch.arange(50), torch.from_numpy(logits))
    for temperature in (0.5, 1.0, 3.0):
        expected = -temperature * logsumexp(logits.astype(np.float64) / temperature, axis=1)
        np.testing.assert_allclose(ELang(temperature=temperature).score(layer).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("missing", ["head", "offset_norm"])
def test_without_heads_or_offset_norms_the_error_says_what_is_missing(missing: str) -> None:
    layers = [replace(layer, **{missing: None}) for layer in synthetic_layers(3).layers]
    with pytest.raises(InputError, match="layer 1: the null space projection needs heads and offset norms, and this"):
        score_layers(NSP(), layers)


def test_a_head_of_full_rank_has_no_null_space_and_no_score() -> None:
    """Eight classes on eight features: the projector form is rounding noise, and CAP would be energy renamed."""
    weight, bias, features = random_case(1, 8, 8)
    assert projector_form(weight, bias, features).max() < 1e-7
    layer = layer_of(weight, bias, features)
    for signal in (NSP(), CAP()):
        assert signal.unscored_head(layer.head) == ("the head has full rank, its null space is empty (rank 8 of 8)")
        assert signal.score(layer).isnan().all()
        assert validated_score(signal, layer, signal.score(layer)).isnan().all()
    assert not ELang().unscored_head(layer.head)
    # Without the class mean one direction is free again: seven dimensions, and a null space of one.
    for signal in (NSP(center=True), CAP(center=True)):
        assert not signal.unscored_head(layer.head)
        assert signal.head_note(layer.head) == "" and signal.score(layer).isfinite().all()


@pytest.mark.parametrize(("classes", "note"), [(8, ""), (9, "its null space has 1 dimension"), (12, "")])
def test_a_head_of_nearly_full_rank_is_noted(classes: int, note: str) -> None:
    weight, bias, features = random_case(2, classes, 10)
    head = layer_of(weight, bias, features).head
    assert NSP().head_note(head).endswith(note) and bool(NSP().head_note(head)) == bool(note)
    assert bool(NSP().unscored_head(head)) == (classes >= 10)


def test_many_classes_on_a_head_of_low_rank_leave_a_null_space() -> None:
    """What counts is the rank and not the number of classes."""
    weight, bias, features = random_case(3, 12, 6)
    weight[:, 5] = 0.0
    layer = layer_of(weight, bias, features)
    assert not NSP().unscored_head(layer.head)
    np.testing.assert_allclose(NSP().score(layer).numpy(), projector_form(weight, bias, features), atol=3e-5)


def test_a_calibrated_signal_has_no_score_where_its_own_has_none() -> None:
    data = synthetic_layers(120, classes=24, width=24, depth=4)
    ready = Calibrated(of="nsp").fit(data.layers, data.labels)
    assert ready.maps == (None, None, None)
    assert all(ready.unscored_head(layer.head) for layer in data.internal if layer.head is not None)
    assert score_layers(ready, data.layers).isnan().all()
