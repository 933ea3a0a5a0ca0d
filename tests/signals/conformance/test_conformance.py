"""Every signal passes every check, and every check catches a signal that is broken in just its way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import pytest
import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals import ExitSignal, Layer, Reference, State, learned, load_registry, parameter
from exitbench.signals.conformance import CHECKS, Check, CheckError, name_of, run_check, run_checks, synthetic_layers
from exitbench.signals.conformance.harness import points, same
from exitbench.signals.contract.layer import Input
from exitbench.signals.f_pabee import FPABEE
from exitbench.signals.right_tool import RightTool

SIGNALS = load_registry().signals


@pytest.mark.parametrize("check", CHECKS, ids=name_of)
@pytest.mark.parametrize("name", sorted(SIGNALS))
def test_every_signal_conforms(name: str, check: Check) -> None:
    outcome = run_check(check, SIGNALS[name])
    assert outcome.status != "fail", outcome.detail


def test_random_alone_needs_an_exception() -> None:
    assert {name for name, signal in SIGNALS.items() if signal.exceptions} == {"random"}
    (check,) = (check for check in CHECKS if name_of(check) == "direction_agrees_with_accuracy")
    outcome = run_check(check, SIGNALS["random"])
    assert (outcome.status, outcome.detail) == ("exception", "a baseline that knows nothing about the sample")


@dataclass(frozen=True)
class Sound(ExitSignal):
    """The margin between the two largest logits; what the broken ones below are made from."""

    name: ClassVar[str] = "sound"
    title: ClassVar[str] = "Sound"
    reference: ClassVar[Reference] = Reference("none", 2026, "")
    exits_when: ClassVar[Direction] = ">"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})

    def score(self, layer: Layer) -> Tensor:
        best, second = layer.logits64.topk(2, dim=1).values.unbind(dim=1)
        return best - second


class Float32(Sound):
    def score(self, layer: Layer) -> Tensor:
        return super().score(layer).float()


class SometimesNaN(Sound):
    def score(self, layer: Layer) -> Tensor:
        margin = super().score(layer)
        return torch.where(margin < 0.05, torch.nan, margin)


class ScoreTooEarly(Sound):
    first_scored_layer = 2  # type: ignore[assignment]
    first_exit_layer = 2  # type: ignore[assignment]


class Rolls(Sound):
    def score(self, layer: Layer) -> Tensor:
        return super().score(layer) + 1e-7 * torch.rand(layer.samples, dtype=torch.float64)


class ByPosition(Sound):
    def score(self, layer: Layer) -> Tensor:
        return super().score(layer) + 1e-6 * torch.arange(layer.samples)


class BatchNormalised(Sound):
    def score(self, layer: Layer) -> Tensor:
        margin = super().score(layer)
        return margin - margin.mean()


class Remembers(Sound):
    """Looks up what it saw at the next layer in an earlier run over the same samples."""

    seen: ClassVar[dict[tuple[int, int], float]] = {}

    def score(self, layer: Layer) -> Tensor:
        margin = super().score(layer)
        ids = layer.ids.tolist()
        self.seen.update({(sample, layer.index): float(value) for sample, value in zip(ids, margin, strict=True)})
        ahead = [self.seen.get((sample, layer.index + 1), 0.0) for sample in ids]
        return margin + 0.1 * torch.tensor(ahead, dtype=torch.float64)


class StateOutsideTheState(Sound):
    """Keeps the mean of all samples in the state, where only what belongs to a sample may be."""

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        margin = self.score(layer)
        before = torch.zeros(()) if state is None else state
        return margin + before, margin.mean()


class TransposedState(Sound):
    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        margin = self.score(layer)
        history = margin[None] if state is None else torch.cat([state, margin[None]])
        return history.mean(dim=0), history


class ReadsFeaturesUnasked(Sound):
    def score(self, layer: Layer) -> Tensor:
        assert layer.features is not None
        return super().score(layer) - 0.01 * layer.features.double().norm(dim=1)


class ReadsIdsUnasked(Sound):
    def score(self, layer: Layer) -> Tensor:
        return super().score(layer) + 1e-9 * layer.ids


class Scribbles(Sound):
    def score(self, layer: Layer) -> Tensor:
        margin = super().score(layer)
        layer.logits.sub_(0.25)
        return margin


class ScribblesOnTheHead(Sound):
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "head"})

    def score(self, layer: Layer) -> Tensor:
        assert layer.head is not None
        layer.head.bias.mul_(2.0)
        return super().score(layer)


class WrongWayRound(Sound):
    exits_when: ClassVar[Direction] = "<"


class ClaimsInvariance(Sound):
    shift_invariant = True

    def score(self, layer: Layer) -> Tensor:
        return layer.logits64.amax(dim=1)


class CountsFeatureBits(Sound):
    """Sees the rounding of the features, not the features."""

    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features"})

    def score(self, layer: Layer) -> Tensor:
        assert layer.features is not None
        fine = torch.frac(layer.features.double() * 2**9).abs().mean(dim=1)
        return super().score(layer) + fine


class ThreeClassesOnly(Sound):
    def score(self, layer: Layer) -> Tensor:
        return layer.logits64.sort(dim=1).values[:, 2] - layer.logits64.mean(dim=1)


class Overflows(Sound):
    def score(self, layer: Layer) -> Tensor:
        weights = layer.logits64.exp()
        return weights.amax(dim=1) / weights.sum(dim=1)


@dataclass(frozen=True)
class Doubles(Sound):
    """Changes the parameter that it is given."""

    weight: float = parameter(1.0, grid=(2.0,))

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weight", self.weight * 2)


@dataclass(frozen=True)
class Forgets(Sound):
    """Learns into something that is no field, so JSON loses it."""

    needs_fit: ClassVar[bool] = True  # type: ignore[assignment]

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        fitted = replace(self)
        object.__setattr__(fitted, "needs_fit", False)
        return fitted


@dataclass(frozen=True)
class RoundsWhatItLearned(Sound):
    scale: float | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.scale is None

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        return replace(self, scale=float(calibration[0].logits64.std()))

    def score(self, layer: Layer) -> Tensor:
        assert self.scale is not None
        return super().score(layer) / self.scale

    def to_json(self) -> dict[str, Any]:
        assert self.scale is not None
        return super().to_json() | {"learned": {"scale": round(self.scale, 3)}}


class ExitsBeforeItScores(Sound):
    first_scored_layer = 3  # type: ignore[assignment]
    first_exit_layer = 2  # type: ignore[assignment]

    def score(self, layer: Layer) -> Tensor:
        return super().score(layer) if layer.index >= 3 else layer.no_score()


class ExitsAtLayerZero(Sound):
    first_exit_layer = 0  # type: ignore[assignment]


CAUGHT: Mapping[str, Sequence[type[ExitSignal]]] = {
    "shape_and_dtype": [Float32],
    "finite_where_defined": [SometimesNaN, ScoreTooEarly],
    "deterministic": [Rolls],
    "permutation_permutes_scores": [ByPosition],
    "alone_as_in_company": [BatchNormalised],
    "cannot_see_later_layers": [Remembers],
    "dropping_samples_changes_nothing": [StateOutsideTheState, TransposedState],
    "undeclared_inputs_not_read": [ReadsFeaturesUnasked, ReadsIdsUnasked],
    "inputs_not_modified": [Scribbles, ScribblesOnTheHead],
    "direction_agrees_with_accuracy": [WrongWayRound],
    "shift_invariance_where_claimed": [ClaimsInvariance],
    "feature_precision": [CountsFeatureBits],
    "class_counts": [ThreeClassesOnly],
    "extreme_logits": [Overflows],
    "text_round_trip": [Doubles],
    "json_round_trip": [Forgets, RoundsWhatItLearned],
    "no_exit_before_first_exit_layer": [ExitsBeforeItScores, ExitsAtLayerZero],
}


def test_the_sound_signal_passes_everything() -> None:
    assert [outcome for outcome in run_checks(Sound) if outcome.status != "pass"] == []


def test_every_check_has_a_broken_signal_that_it_catches() -> None:
    assert [name_of(check) for check in CHECKS] == list(CAUGHT)


@pytest.mark.parametrize(
    ("name", "broken"),
    [(name, broken) for name, several in CAUGHT.items() for broken in several],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_signal_is_caught(name: str, broken: type[ExitSignal]) -> None:
    (check,) = (check for check in CHECKS if name_of(check) == name)
    with pytest.raises(CheckError, match="sound"):
        check(broken)


@pytest.mark.parametrize("broken", [Float32, ByPosition, WrongWayRound, ClaimsInvariance, CountsFeatureBits, Doubles])
def test_a_signal_broken_in_one_way_fails_one_check(broken: type[ExitSignal]) -> None:
    """The checks are one property each: a fault is not reported all over the table."""
    (name,) = (name for name, several in CAUGHT.items() if broken in several)
    failed = {outcome.check for outcome in run_checks(broken) if outcome.status == "fail"}
    # A position is both an order and a company, and 16-bit noise is neither.
    assert failed - {"alone_as_in_company", "dropping_samples_changes_nothing"} == {name}


def test_a_failure_names_the_setting_and_what_was_expected() -> None:
    (outcome,) = (outcome for outcome in run_checks(WrongWayRound) if outcome.status == "fail")
    assert outcome.detail.startswith("sound: AUROC of certainty 0.2")
    assert outcome.detail.endswith("is exits_when the wrong way round?")


def test_an_error_inside_a_signal_is_a_failure_that_names_it() -> None:
    class Raises(Sound):
        def score(self, layer: Layer) -> Tensor:
            raise ValueError("no idea")

    (outcome,) = (outcome for outcome in run_checks(Raises) if outcome.check == "deterministic")
    assert (outcome.status, outcome.detail) == ("fail", "sound: ValueError: no idea")


def test_a_declared_exception_is_reported_with_its_reason() -> None:
    class Excused(WrongWayRound):
        exceptions: ClassVar[Mapping[str, str]] = {"direction_agrees_with_accuracy": "to show the worst case"}

    outcomes = {outcome.check: outcome for outcome in run_checks(Excused)}
    assert outcomes["direction_agrees_with_accuracy"].status == "exception"
    assert outcomes["direction_agrees_with_accuracy"].detail == "to show the worst case"
    assert {outcome.status for outcome in outcomes.values()} == {"pass", "exception"}


def test_an_exception_that_is_not_needed_is_reported_as_passing() -> None:
    class Modest(Sound):
        exceptions: ClassVar[Mapping[str, str]] = {"deterministic": "rolls dice"}

    outcome = next(outcome for outcome in run_checks(Modest) if outcome.check == "deterministic")
    assert (outcome.status, outcome.detail) == ("pass", "declared as an exception (rolls dice), but it passes")


def test_an_exception_that_names_no_check_is_a_failure() -> None:
    class Mistaken(Sound):
        exceptions: ClassVar[Mapping[str, str]] = {"determinism": "rolls dice"}

    outcome = run_checks(Mistaken)[-1]
    assert (outcome.check, outcome.status) == ("determinism", "fail")
    assert "no check has that name; known: shape_and_dtype, " in outcome.detail


def test_a_class_is_checked_at_its_defaults_and_at_every_value_of_its_grids_and_choices() -> None:
    assert [point.text for point in points(FPABEE)] == [
        "f-pabee",
        *(f"f-pabee[divergence={kind}]" for kind in ("kl", "reverse-kl", "symmetric-kl")),
        *(f"f-pabee[patience={t}]" for t in (1, 3, 4, 5, 6)),
    ]
    assert [point.text for point in points(RightTool)] == ["right-tool", "right-tool[temperature=fitted]"]
    assert [point.text for point in points(FPABEE(patience=9))] == ["f-pabee[patience=9]"]


def test_an_instance_beyond_the_grid_can_be_checked_too() -> None:
    assert {outcome.status for outcome in run_checks(FPABEE(divergence="kl", patience=9))} == {"pass"}


def test_comparing_scores_sees_a_difference_in_one_value_and_in_shape() -> None:
    scores = [torch.tensor([1.0, torch.nan])]
    assert same(scores, [torch.tensor([1.0, torch.nan])], exactly=True)
    assert not same(scores, [torch.tensor([1.0, 2.0])])
    assert not same(scores, [torch.tensor([1.0])])
    assert not same(scores, [torch.tensor([1.0 + 1e-6, torch.nan])])


def test_the_synthetic_layers_are_easy_consistent_and_fresh_each_time() -> None:
    data = synthetic_layers(400, seed=1)
    accuracy = [float((layer.prediction == data.labels).double().mean()) for layer in data.layers]
    assert accuracy[-1] > accuracy[0] > 1 / 3
    layer = data.layers[3]
    assert layer.head is not None
    assert layer.features is not None
    expected = layer.features.double() @ layer.head.weight.T + layer.head.bias
    torch.testing.assert_close(layer.logits, expected.float())
    again = synthetic_layers(400, seed=1).layers[3]
    assert torch.equal(again.logits, layer.logits)
    assert again.logits.data_ptr() != layer.logits.data_ptr()
