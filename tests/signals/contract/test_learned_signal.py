"""Signals that learn: which layers they leave out, what they learn from; the order of samples does not matter."""

import dataclasses

import numpy as np
import pytest
import torch

from exitbench.errors import InputError
from exitbench.signals import load_registry, score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.contract.learned_signal import FEWEST
from exitbench.signals.meta import Meta
from tests.support.planted_layers import layers_from, nothing_decides

LEARNERS = ["calibrated", "calibrated[method=isotonic]", "calibrated[of=meta]", "meta", "jei-gate", "eenet"]
REGISTRY = load_registry()


def layers_with_wrong(counts: list[int], rows: int = 60) -> tuple[list, torch.Tensor]:
    """Layers that get these many samples wrong; all labels are 0."""
    draw = np.random.default_rng(0)
    logits = draw.uniform(0.1, 1.0, size=(len(counts), rows, 2)) * [1, 0]
    for layer, wrong in enumerate(counts):
        logits[layer, :wrong] = logits[layer, :wrong, ::-1]
    return layers_from(logits), torch.zeros(rows, dtype=torch.int64)


def test_a_layer_with_nine_wrong_or_nine_right_samples_is_left_out_with_its_numbers() -> None:
    layers, labels = layers_with_wrong([FEWEST - 1, FEWEST, 60 - FEWEST, 61 - FEWEST, 0])
    ready = Meta().leave_out(layers, labels)
    assert ready.unscored_layers == {
        1: "51 of 60 calibration samples at layer 1 are right and 9 wrong; a fit needs 10 of each",
        4: "9 of 60 calibration samples at layer 4 are right and 51 wrong; a fit needs 10 of each",
    }
    scores = score_layers(ready.fit(layers, labels), layers)
    assert scores.isnan().all(dim=1).tolist() == [True, False, False, True]


def test_the_last_layer_is_no_exit_and_never_counts() -> None:
    layers, labels = layers_with_wrong([20, 20, 0])
    assert not Meta().leave_out(layers, labels).unscored_layers


def test_what_was_left_out_is_decided_once_and_stays_through_a_fit_on_fewer_samples() -> None:
    layers, labels = layers_with_wrong([12, 20, 0])
    ready = Meta().leave_out(layers, labels)
    few = torch.arange(12, 60)
    part = [layer.take(few) for layer in layers]
    again = ready.leave_out(part, labels[few])
    assert not again.unscored_layers
    assert not again.fit(part, labels[few]).unscored_layers


def test_samples_that_teach_no_layer_are_refused_with_the_numbers() -> None:
    layers, labels = layers_with_wrong([3, 7, 0])
    with pytest.raises(
        InputError, match=r"needs 10 samples that are right and 10 that are wrong at some layer .* has 7"
    ):
        Meta().leave_out(layers, labels)


@pytest.mark.long
@pytest.mark.parametrize("text", LEARNERS)
def test_the_order_of_samples_changes_no_bit_of_what_is_learned(text: str) -> None:
    data = synthetic_layers(120, seed=5)
    order = torch.randperm(120, generator=torch.Generator().manual_seed(1))
    signal = REGISTRY.make(text)
    expected = signal.fit(data.layers, data.labels).to_json()
    assert signal.fit([layer.take(order) for layer in data.layers], data.labels[order]).to_json() == expected


@pytest.mark.long
@pytest.mark.parametrize("text", LEARNERS)
def test_learning_from_the_last_layer_needs_no_label(text: str) -> None:
    data = synthetic_layers(120, seed=5)
    signal = dataclasses.replace(REGISTRY.make(text), target="final")
    expected = signal.fit(data.layers, data.labels).to_json()
    assert signal.fit(data.layers, torch.zeros_like(data.labels)).to_json() == expected
    by_label = dataclasses.replace(signal, target="right").fit(data.layers, data.layers[-1].prediction)
    assert by_label.to_json()["learned"] == expected["learned"]


@pytest.mark.parametrize("text", LEARNERS)
def test_scoring_before_a_fit_or_beyond_its_layers_is_refused(text: str) -> None:
    data = synthetic_layers(60, depth=5)
    signal = REGISTRY.make(text)
    assert signal.needs_fit
    with pytest.raises(InputError, match="must be fitted"):
        signal.step(data.layers[0], None)
    short = signal.fit([dataclasses.replace(layer, depth=3) for layer in data.layers[:3]], data.labels)
    with pytest.raises(InputError, match="was fitted on 2 layers, found layer 3"):
        score_layers(short, data.layers)


def test_labels_that_do_not_match_the_samples_are_refused() -> None:
    data = synthetic_layers(20)
    with pytest.raises(InputError, match=r"one label for each of 20 samples .* found labels of shape \[3\]"):
        Meta().fit(data.layers, data.labels[:3])


def test_every_number_that_a_fit_gave_counts_as_a_parameter() -> None:
    layers, labels = nothing_decides(60, seed=3, depth=3, width=4)
    assert REGISTRY.make("meta").fitted_parameters == 0
    expected = {
        "calibrated": 2 * 2,
        "calibrated[of=meta]": 2 * 2 + (5 + 6),
        "berxit": 2 * 2 * 5,
        "berxit[form=published]": 5,
        "edr": 2 * 2 * 4,
    }
    for text, count in expected.items():
        signal = REGISTRY.make(text)
        assert signal.leave_out(layers, labels).fit(layers, labels).fitted_parameters == count, text
