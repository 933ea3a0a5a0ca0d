"""Output: an extra output of the network as a signal, and its texts."""

import dataclasses

import pytest
import torch

from exitbench.errors import InputError
from exitbench.signals import load_registry, score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.output import NamedOutput

REGISTRY = load_registry()


def test_the_score_is_the_named_output() -> None:
    layers = synthetic_layers(20, depth=4, outputs=("lte", "policy")).layers
    for name in ("lte", "policy"):
        scores = score_layers(REGISTRY.make(f"output[name={name}]"), layers)
        assert torch.equal(scores, torch.stack([layer.outputs[name].double() for layer in layers[:-1]]))
    negated = score_layers(REGISTRY.make("output[factor=-1]"), layers)
    assert torch.equal(negated, -score_layers(NamedOutput(), layers))


def test_one_number_of_several_is_chosen() -> None:
    layer = synthetic_layers(5, depth=3).layers[0]
    layer = dataclasses.replace(layer, outputs={"lte": torch.arange(10.0).reshape(5, 2)})
    assert REGISTRY.make("output[entry=1]").score(layer).tolist() == [1.0, 3.0, 5.0, 7.0, 9.0]
    with pytest.raises(InputError, match="has 2 numbers per sample, found entry 2"):
        REGISTRY.make("output[entry=2]").score(layer)


def test_it_is_written_by_the_outputs_name_and_stays_itself() -> None:
    signal = REGISTRY.make("output[name=hazard]")
    assert signal.name == "output"
    assert signal.text == "output[name=hazard]"
    assert signal.parameters_text == "name=hazard,entry=0,factor=1"
    assert signal.inputs == {"outputs:hazard"}
    assert NamedOutput.from_json(signal.to_json()) == signal
    assert [made.text for made in REGISTRY.expand("output[name=lte|policy]")] == ["output", "output[name=policy]"]
