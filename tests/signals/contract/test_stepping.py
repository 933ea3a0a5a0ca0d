"""Layers as signals see them, and driving a signal over them."""

import math
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import log_softmax
from scipy.stats import entropy
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals import (
    ExitSignal,
    Integers,
    Layer,
    Reference,
    State,
    score_layers,
    take_state,
    validated_score,
)
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.contract.layer import Input
from exitbench.signals.deebert import DeeBERT
from exitbench.signals.nsp import NSP
from exitbench.signals.pabee import PABEE
from exitbench.signals.right_tool import RightTool

LOGITS = arrays(np.float32, (5, 3), elements=st.floats(-30, 30, width=32))


def layer_of(logits: Any, **fields: Any) -> Layer:
    tensor = torch.tensor(np.asarray(logits), dtype=torch.float32)
    samples, classes = tensor.shape
    return Layer(
        **{"index": 1, "depth": 4, "classes": classes, "ids": torch.arange(samples), "logits": tensor} | fields
    )


@dataclass(frozen=True)
class Scripted(ExitSignal):
    """A signal that returns what the test writes into ``answer``."""

    name: ClassVar[str] = "scripted"
    title: ClassVar[str] = "Scripted"
    reference: ClassVar[Reference] = Reference("none", 2026, "")
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    answer: ClassVar[Any] = None

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        return self.answer(layer), state


@settings(max_examples=50, deadline=None)
@given(LOGITS)
def test_log_probabilities_and_entropy_are_those_of_scipy(logits: np.ndarray) -> None:
    layer, exact = layer_of(logits), logits.astype(np.float64)
    np.testing.assert_allclose(layer.log_probabilities, log_softmax(exact, axis=1), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        layer.entropy, entropy(np.exp(log_softmax(exact, axis=1)), axis=1), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("margin", [0.5, 5.0, 20.0, 30.0, 60.0, 200.0])
def test_a_confident_entropy_keeps_its_precision(margin: float) -> None:
    """Against sixty decimal digits: the ordinary log-softmax has lost everything at 40."""
    with localcontext() as context:
        context.prec = 120
        rest = (-Decimal(margin)).exp()
        small, large = rest / (1 + rest), 1 / (1 + rest)
        expected = -(small * small.ln() + large * large.ln())
    assert math.isclose(layer_of([[margin, 0.0]]).entropy.item(), float(expected), rel_tol=1e-13)


def test_a_tie_of_logits_predicts_the_first_class() -> None:
    assert layer_of([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]]).prediction.tolist() == [0, 1]


def test_only_hides_what_is_not_named_and_shares_what_was_derived() -> None:
    layer = synthetic_layers(4).layers[0]
    view = layer.only({"logits", "head"})
    assert view.features is None
    assert view.offset_norm is None
    assert view.head is layer.head
    assert view.logits is layer.logits
    assert view.log_probabilities is layer.log_probabilities
    assert layer.features is not None


def test_a_view_computes_for_its_layer_too() -> None:
    layer = synthetic_layers(4).layers[0]
    assert layer.only({"logits"}).entropy is layer.only({"ids"}).entropy


def test_taking_rows_takes_them_from_every_tensor_and_from_what_is_derived() -> None:
    layer = synthetic_layers(6).layers[0]
    _ = layer.entropy
    rows = torch.tensor([4, 1])
    few = layer.take(rows)
    assert few.samples == 2
    assert few.ids.tolist() == layer.ids[rows].tolist()
    assert few.features is not None
    assert few.features.shape == (2, 24)
    assert few.entropy.tolist() == layer.entropy[rows].tolist()
    assert layer_of([[1.0, 2.0]]).take(torch.tensor([0])).features is None


def test_scores_stand_for_the_internal_layers_only() -> None:
    data = synthetic_layers(5, depth=6)
    assert score_layers(DeeBERT(), data.layers).shape == (5, 5)
    assert torch.equal(score_layers(DeeBERT(), data.layers), score_layers(DeeBERT(), data.internal))


def test_a_layer_without_a_score_is_nan() -> None:
    scores = score_layers(PABEE(), synthetic_layers(5, depth=6).layers)
    assert scores[0].isnan().all()
    assert scores[1:].isfinite().all()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda layer: layer.entropy.numpy(), "signal scripted at layer 1: expected a tensor of scores, found ndarray"),
        (lambda layer: layer.entropy.float(), r"expected scores float64 \[3\], found float32 \[3\]"),
        (lambda layer: layer.entropy[:, None], r"expected scores float64 \[3\], found float64 \[3, 1\]"),
        (lambda layer: layer.entropy.index_fill(0, torch.tensor([2]), torch.nan), r"for row 2 \(id 12\), found nan"),
        (lambda layer: layer.entropy.index_fill(0, torch.tensor([1]), -torch.inf), r"for row 1 \(id 11\), found -inf"),
    ],
)
def test_a_wrong_score_is_refused_with_signal_layer_and_row(answer: Any, message: str) -> None:
    signal = Scripted()
    layer = layer_of(np.eye(3), ids=torch.tensor([10, 11, 12]))
    with pytest.raises(InputError, match=message):
        validated_score(signal, layer, answer(layer))


def test_a_score_before_the_first_scored_layer_is_refused() -> None:
    layer = layer_of(np.eye(3))
    with pytest.raises(InputError, match="pabee at layer 1: a score before its first scored layer, 2"):
        validated_score(PABEE(), layer, layer.entropy)


def test_driving_refuses_layers_out_of_order_none_at_all_and_a_signal_that_has_not_learned() -> None:
    layers = synthetic_layers(3).layers
    with pytest.raises(InputError, match="expected layer 2, found layer 3"):
        score_layers(DeeBERT(), [layers[0], layers[2]])
    with pytest.raises(InputError, match="at least one internal layer"):
        score_layers(DeeBERT(), [])
    with pytest.raises(InputError, match="must be fitted"):
        score_layers(RightTool(temperature="fitted"), layers)


def test_driving_hides_inputs_that_are_not_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Layer] = []
    monkeypatch.setattr(Scripted, "answer", staticmethod(lambda layer: (seen.append(layer), layer.entropy)[1]))
    score_layers(Scripted(), synthetic_layers(3).layers)
    assert all(layer.features is None and layer.head is None and layer.offset_norm is None for layer in seen)


def test_a_signal_that_writes_neither_score_nor_step_says_so() -> None:
    class Nothing(Scripted):
        step = ExitSignal.step

    with pytest.raises(TypeError, match="overrides neither score nor step"):
        Nothing().step(layer_of(np.eye(2)), None)


def test_a_state_is_sliced_through_tuples_lists_and_dicts() -> None:
    rows = torch.tensor([True, False, True])
    state = (torch.arange(3), [torch.eye(3)], {"a": torch.arange(3) * 10, "b": None})
    counts, (matrix,), named = take_state(state, rows)
    assert counts.tolist() == [0, 2]
    assert matrix.tolist() == [[1, 0, 0], [0, 0, 1]]
    assert named["a"].tolist() == [0, 20]
    assert named["b"] is None
    assert take_state(None, rows) is None


def test_a_state_of_another_kind_is_refused() -> None:
    with pytest.raises(InputError, match=r"a signal's state must be tensors.*found str"):
        take_state("a memory", torch.tensor([0]))


def test_integer_thresholds_end_below_the_depth() -> None:
    assert list(Integers(1, 2).values(6)) == [1, 2, 3, 4]
    assert str(Integers(1, 2)) == "integers 1..M-2"


def test_replacing_logits_does_not_keep_what_was_derived_from_the_old_ones() -> None:
    layer = layer_of([[3.0, 0.0]])
    _ = layer.entropy
    assert replace(layer, logits=torch.zeros(1, 2)).entropy.item() == pytest.approx(math.log(2))


def test_replacing_what_a_signal_keeps_at_a_layer_depends_on_computes_it_again() -> None:
    """The logits are the same tensor, so only a layer of its own keeps the null space shares apart."""
    layer = synthetic_layers(4).layers[0]
    assert layer.offset_norm is not None
    other = replace(layer, offset_norm=layer.offset_norm * 2)
    assert not torch.equal(NSP().score(layer), NSP().score(other))


def test_a_row_of_a_block_is_named_by_its_row_in_the_cache() -> None:
    layer = layer_of(np.eye(3), ids=torch.tensor([10, 11, 12]))
    score = layer.entropy.index_fill(0, torch.tensor([2]), torch.nan)
    with pytest.raises(InputError, match=r"scripted at layer 1: expected a finite score for row 102 \(id 12\)"):
        validated_score(Scripted(), layer, score, rows=range(100, 103))


def test_scores_are_judged_one_by_one_even_where_their_sum_overflows() -> None:
    layer = layer_of(np.zeros((4, 2)))
    large = torch.full((4,), 1e308, dtype=torch.float64)
    assert validated_score(DeeBERT(), layer, large) is large
    with pytest.raises(InputError, match=r"expected a finite score for row 2 .*found inf"):
        validated_score(DeeBERT(), layer, torch.where(torch.arange(4) == 2, torch.inf, large))
