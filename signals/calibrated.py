"""Calibrated: any signal's score turned into the probability that the layer's answer is right.

.. math:: s_m = h_m(c_m), \\qquad \\text{exit when } s_m \\ge \\tau

with :math:`c_m` the certainty of the signal ``of`` at layer m (its score, negated where less is surer) and
:math:`h_m` learned on calibration samples, one per layer: ``method=platt`` is ``1 / (1 + exp(-(a c + b)))`` fitted by
maximum likelihood, ``method=isotonic`` the best non-decreasing step function, straight between its knots. After that
one threshold means the same at every layer: the largest error that an exit may risk.

Within a layer a rising map changes no ranking (isotonic ones tie what lies on a step; a negative slope, where
certainty misleads at that layer, turns it round): DIS stays, curves move. A signal that learns itself is calibrated on
scores of samples that its fit has not seen (five folds by id), and then fitted on all of them.

Reference: Platt, *Probabilistic Outputs for Support Vector Machines*, 1999; Zadrozny, Elkan, *Transforming Classifier
Scores into Accurate Multiclass Probability Estimates*, KDD 2002.

Where the publications differ: both calibrate the probability of a class; here it is that of a right answer. Platt's
targets, one sample's worth away from 0 and 1, are kept: they bound the slope where right and wrong do not overlap.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.head_algebra import Head
from exitbench.signals.contract.feature_statistics import BLOCK
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.logistic import LARGEST, logistic_weights, sigmoid
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import ExitSignal, Reference, plain
from exitbench.signals.contract.stepping import validated_score
from exitbench.signals.contract.taken_layers import TakenLayers, row_ranges

FOLDS = 5
LOGITS = 1 << 25
"""The most logits of all layers that are in memory at once, 0.13 GB."""
PENALTY = 1e-8
"""Next to none: Platt's targets already bound the slope."""
Knots = tuple[tuple[float, ...], tuple[float, ...]]
"""Certainties in rising order, and the probability at each."""


@dataclass(frozen=True)
class Calibrated(LearnedSignal):
    """The probability of a right answer, given another signal's score."""

    name: ClassVar[str] = "calibrated"
    title: ClassVar[str] = "Calibrated"
    reference: ClassVar[Reference] = Reference(
        "Transforming Classifier Scores into Accurate Multiclass Probability Estimates",
        2002,
        "https://doi.org/10.1145/775047.775151",
    )
    exits_when: ClassVar[Direction] = ">="
    probability_of: ClassVar[str] = "right"

    of: str = parameter("right-tool", signal=True, help="the signal whose score is calibrated")
    method: str = parameter("platt", choices=("platt", "isotonic"), help="the shape of the map")
    maps: tuple[Knots | tuple[float, float] | None, ...] | None = learned()
    inner_learned: Mapping[str, Any] | None = learned()

    @cached_property
    def inner(self) -> ExitSignal:
        """The signal that is calibrated, with what it has learned itself."""
        from exitbench.signals.registry.discovery import known_signal  # which loads this file

        inner = known_signal(self.of)
        if isinstance(inner, Calibrated):
            raise InputError(f"signal {self.text}: a calibrated signal is not calibrated again")
        if self.inner_learned is None:
            return inner
        return type(inner).from_json({**inner.to_json(), "learned": self.inner_learned})

    @property
    def inputs(self) -> frozenset[Input]:  # type: ignore[override]
        return self.inner.inputs | {"logits"} if self.of != "right-tool" else frozenset({"logits"})

    @property
    def shift_invariant(self) -> bool:
        return self.inner.shift_invariant

    @property
    def first_exit_layer(self) -> int:
        return self.inner.first_exit_layer

    @property
    def first_scored_layer(self) -> int:
        return self.inner.first_scored_layer

    def unsuited(self, pooler: str | None) -> str:
        return self.inner.unsuited(pooler)

    @property
    def needs_one_width(self) -> bool:
        return self.inner.needs_one_width

    def unscored_head(self, head: Head) -> str:
        return self.inner.unscored_head(head)

    def head_note(self, head: Head) -> str:
        return self.inner.head_note(head)

    @property
    def needs_fit(self) -> bool:
        return self.maps is None

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        inner = self.inner
        if inner.needs_fit:
            certainties = out_of_fold(inner, calibration, labels)
            inner = inner.fit(calibration, labels)
        else:
            certainties = stepped(inner, calibration)
        answers = [(layer.prediction == labels).cpu().numpy() for layer in calibration[:-1]]
        fit_map = platt_map if self.method == "platt" else isotonic_map
        maps = tuple(
            None if np.isnan(certainty).any() else fit_map(certainty, right)
            for certainty, right in zip(certainties, answers, strict=True)
        )
        taught = None if inner is self.inner else plain(self.text, inner.to_json()["learned"])
        return dataclasses.replace(self, maps=maps, inner_learned=taught)

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        self.require_layer(layer, self.maps)
        assert self.maps is not None
        score, state = self.inner.step(layer, state)
        score = validated_score(self.inner, layer, score)
        fitted = self.maps[layer.index - 1]
        if fitted is None or layer.index in self.inner.unscored_layers:
            return layer.no_score(), state
        return mapped(certainty_of(self.inner, score), fitted), state


def certainty_of(signal: ExitSignal, score: Tensor) -> Tensor:
    """The score as a certainty: the larger, the sooner a sample exits."""
    return (score if ">" in signal.exits_when else -score).clamp(-LARGEST, LARGEST)


def stepped(signal: ExitSignal, layers: Sequence[Layer]) -> NDArray[np.float64]:
    """The certainty of a signal at each internal layer, [layers - 1, samples]; NaN where it has none.

    A block of samples goes through all layers before the next, so that memory holds one block's features. The logits
    of all layers are read for as many samples as :data:`LOGITS` allows, mostly for all of them.
    """
    samples, classes = layers[0].samples, layers[0].classes
    certainties = np.empty((len(layers) - 1, samples))
    for rows in row_ranges(samples, classes * len(layers), LOGITS):
        some = layers if len(rows) == samples else TakenLayers(layers, rows)
        internal = [layer.only(signal.inputs) for layer in some[:-1]]
        for block_rows in row_ranges(len(rows), 1, BLOCK):
            state: State = None
            for position, layer in enumerate(internal):
                block = layer.take(block_rows)
                score, state = signal.step(block, state)
                certainty = certainty_of(signal, validated_score(signal, block, score))
                certainties[position, (rows[0] + block_rows).numpy()] = certainty.cpu().numpy()
    return certainties


def out_of_fold(signal: ExitSignal, layers: Sequence[Layer], labels: Tensor) -> NDArray[np.float64]:
    """The certainty of each sample by a fit that has not seen it, [layers - 1, samples]; samples come by id."""
    numbers = torch.arange(len(labels))
    if len(labels) < 2:
        raise InputError(f"calibrating {signal.text}, which learns, needs at least 2 samples, found {len(labels)}")
    certainties = np.empty((len(layers) - 1, len(labels)))
    for fold in range(min(FOLDS, len(labels))):
        inside = numbers % FOLDS == fold
        ready = signal.fit(TakenLayers(layers, ~inside), labels[~inside])
        certainties[:, inside.numpy()] = stepped(ready, TakenLayers(layers, inside))
    return certainties


def platt_map(certainty: NDArray[np.float64], right: NDArray[np.bool_]) -> tuple[float, float]:
    """Slope and intercept of the log-odds of a right answer."""
    positives, negatives = int(right.sum()), int((~right).sum())
    target = np.where(right, (positives + 1.0) / (positives + 2.0), 1.0 / (negatives + 2.0))
    # A target between 0 and 1 is a sample of both kinds, each with its share.
    slope, intercept = logistic_weights(
        np.concatenate([certainty, certainty])[:, None],
        np.repeat([True, False], len(right)),
        penalty=PENALTY,
        sample_weight=np.concatenate([target, 1.0 - target]),
    )
    return slope, intercept


def isotonic_map(certainty: NDArray[np.float64], right: NDArray[np.bool_]) -> Knots:
    """The knots of the best non-decreasing map."""
    from sklearn.isotonic import IsotonicRegression  # a second to load, and only a fit needs it

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(certainty, right.astype(np.float64))
    return tuple(map(float, model.X_thresholds_)), tuple(map(float, model.y_thresholds_))


def mapped(certainty: Tensor, fitted: Knots | tuple[float, float]) -> Tensor:
    """The probability at each certainty, [samples] float64."""
    first, second = fitted
    if isinstance(first, tuple) and isinstance(second, tuple):
        xs, ys = (torch.tensor(part, dtype=torch.float64, device=certainty.device) for part in (first, second))
        if len(xs) == 1:
            return ys.expand(len(certainty)).clone()
        inside = certainty.clamp(float(xs[0]), float(xs[-1])).contiguous()
        right = torch.searchsorted(xs, inside).clamp(1, len(xs) - 1)
        share = (inside - xs[right - 1]) / (xs[right] - xs[right - 1])
        return ys[right - 1] + share * (ys[right] - ys[right - 1])
    assert not isinstance(first, tuple) and not isinstance(second, tuple)
    return sigmoid(first * certainty + second)
