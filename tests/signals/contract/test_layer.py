"""Extra outputs of a network, as a signal declares them and is given them."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.head_algebra import Head, head_algebra
from exitbench.signals import ExitSignal, Layer, Reference, Registry
from exitbench.signals.conformance import run_checks
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.contract.layer import Input, declared_layer, is_input
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.written_inputs import TensorVersions, layer_tensors
from exitbench.signals.registry.catalogue import catalogue_of


@dataclass(frozen=True)
class ReadsOutput(ExitSignal):
    """A signal that reads one extra output, whose name is a parameter."""

    name: ClassVar[str] = "reads-output"
    title: ClassVar[str] = "Reads an output"
    reference: ClassVar[Reference] = Reference("none", 2026, "")
    exits_when: ClassVar[Direction] = ">="

    output: str = parameter("lte", help="the output")

    @property
    def inputs(self) -> frozenset[Input]:  # type: ignore[override]
        return frozenset({f"outputs:{self.output}"})

    def score(self, layer: Layer) -> Tensor:
        return layer.outputs[self.output].double()


def layer_with_outputs() -> Layer:
    return Layer(
        index=1,
        depth=3,
        classes=2,
        ids=torch.arange(4),
        logits=torch.zeros(4, 2),
        outputs={"lte": torch.arange(4.0), "policy": torch.arange(8.0).view(4, 2)},
    )


@pytest.mark.parametrize("name", ["logits", "head", "outputs:lte", "outputs:Hazard_2", "outputs:a-b"])
def test_an_input_is_a_known_word_or_a_named_output(name: str) -> None:
    assert is_input(name)


@pytest.mark.parametrize("name", ["logit", "outputs", "outputs:", "outputs:a b", "outputs:../x", "outputs:" + "x" * 64])
def test_anything_else_is_no_input(name: str) -> None:
    assert not is_input(name)


def test_a_view_shows_the_declared_outputs_and_no_other() -> None:
    layer = layer_with_outputs()
    assert set(layer.only({"logits"}).outputs) == set()
    assert set(layer.only({"outputs:policy", "outputs:absent"}).outputs) == {"policy"}


def test_taking_samples_takes_them_from_every_output() -> None:
    taken = layer_with_outputs().take(torch.tensor([3, 1]))
    assert taken.outputs["lte"].tolist() == [3.0, 1.0]
    assert taken.outputs["policy"].tolist() == [[6.0, 7.0], [2.0, 3.0]]


def test_a_write_into_an_output_is_seen() -> None:
    layer = layer_with_outputs()
    versions = TensorVersions(layer_tensors(layer))
    layer.outputs["policy"].add_(1)
    assert versions.written() == "layer.outputs['policy']"


def test_a_signal_of_an_output_passes_the_checks_and_is_described_with_it() -> None:
    assert [outcome for outcome in run_checks(ReadsOutput) if outcome.status != "pass"] == []
    registry = Registry()
    registry.add(ReadsOutput, "here")
    assert catalogue_of(registry)[0]["inputs"] == ["outputs:lte"]


@dataclass(frozen=True)
class ReadsAnotherOutput(ReadsOutput):
    """Declares one output and reads another."""

    name: ClassVar[str] = "reads-another"

    @property
    def inputs(self) -> frozenset[Input]:  # type: ignore[override]
        return frozenset({"outputs:declared"})

    def score(self, layer: Layer) -> Tensor:
        return layer.outputs["undeclared"].double()


def test_reading_an_output_that_is_not_declared_is_caught() -> None:
    failed = {outcome.check for outcome in run_checks(ReadsAnotherOutput) if outcome.status == "fail"}
    assert failed == {"undeclared_inputs_not_read"}


def test_synthetic_outputs_are_larger_where_the_answer_is_right() -> None:
    for layer in synthetic_layers(400, outputs=["lte"]).layers:
        score = layer.outputs["lte"]
        assert score.dtype == torch.float32
        assert bool(((score > 0) & (score < 1)).all())


def test_a_live_network_says_that_it_has_no_such_output() -> None:
    from exitbench.models.exit_thresholds import require_exits

    with pytest.raises(InputError, match="reads the output 'lte', which a cache may hold"):
        require_exits(ReadsOutput(), 0.5, 4)


@pytest.mark.parametrize("inputs", [set(), {"logits"}, {"features"}, {"offset_norm", "head"}, {"ids", "outputs:lte"}])
def test_a_declared_layer_reads_its_logits_and_what_is_declared_and_nothing_else(inputs: set[str]) -> None:
    asked: list[str] = []

    def read(name: str) -> torch.Tensor:
        asked.append(name)
        return torch.zeros(3, 2)

    def head() -> Head:
        asked.append("head")
        return head_algebra(torch.eye(2), torch.zeros(2))

    layer = declared_layer(inputs, index=2, depth=5, classes=2, ids=torch.arange(3), read=read, head=head)
    assert sorted(asked) == sorted({"logits", *inputs} - {"ids"})
    assert (layer.index, layer.depth, layer.classes, layer.samples) == (2, 5, 2, 3)
    held = {name for name in ("features", "offset_norm", "head") if getattr(layer, name) is not None}
    assert held == inputs & {"features", "offset_norm", "head"}
    assert set(layer.outputs) == ({"lte"} if "outputs:lte" in inputs else set())
