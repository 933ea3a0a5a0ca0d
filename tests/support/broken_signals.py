"""A sound signal, and signals that are broken in just one way each, for the tests of the conformance checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals import ExitSignal, Input, Layer, Reference, State, learned, parameter


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


class LostBelow(Sound):
    def score(self, layer: Layer) -> Tensor:
        return torch.where(layer.logits64.amax(dim=1) < -1e3, torch.nan, super().score(layer))


class LostBelowTheBest(Sound):
    def score(self, layer: Layer) -> Tensor:
        others = layer.logits64.amin(dim=1)
        return torch.where(others < -1e3, torch.inf, super().score(layer))


class LostAboveAll(Sound):
    def score(self, layer: Layer) -> Tensor:
        margin = super().score(layer)
        return torch.where((margin > 1.5e4) & (layer.classes > 2), torch.nan, margin)


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
    "extreme_logits": [Overflows, LostBelow, LostBelowTheBest, LostAboveAll],
    "text_round_trip": [Doubles],
    "json_round_trip": [Forgets, RoundsWhatItLearned],
    "no_exit_before_first_exit_layer": [ExitsBeforeItScores, ExitsAtLayerZero],
}
"""The signals that each check catches, in the order of the checks."""
