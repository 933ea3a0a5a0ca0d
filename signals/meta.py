"""Meta: a classifier on what this and the earlier layers said about the current answer (CATs, CALM).

.. math:: s_m = \\sigma(w_m \\cdot z_m + c_m), \\qquad \\text{exit when } s_m \\ge \\tau

z holds, for the current prediction ``y = y_m``: which class it is (one column per class), its log-probability at this
layer and at each layer before, ``ln p_j(y), j = 1..m``, and the margin of the logits. So an answer that earlier layers
shared is told from one that just appeared. ``features=true`` adds the head's input in its 32 directions of largest
variance, once for each predicted class: a function linear in the feature alone cannot say "far from the boundary on
either side". With more than 64 classes the directions are fewer, 2,048 columns in all.

Every layer has a logistic regression of its own (standardised columns, penalty 0.01 on the mean loss: convex, one
answer), so the score is an estimate of the probability that the answer is right, and one threshold means the same at
every layer.

Reference: Schuster, Fisch, Jaakkola, Barzilay, *Consistent Accelerated Inference via Confident Adaptive Transformers*,
EMNLP 2021; Schuster et al., *Confident Adaptive Language Modeling*, NeurIPS 2022.

Where published code differs: CATs feed probabilities, leave out the first exit, and put a 32-wide tanh layer, trained
by mini-batches, over them and over a 32-wide learned map of the hidden state; CALM has one linear layer on the hidden
state, shared by all layers. Both learn agreement with the last layer (``target=final`` here) and weigh the two classes
equally, which moves thresholds and not rankings; here every sample counts once.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import (
    by_class,
    evenly,
    principal_directions,
    projected,
    require_features,
    require_rows,
)
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.learned_signal import LearnedSignal, with_labels
from exitbench.signals.contract.logistic import Weights, logistic_weights, probability
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Reference
from exitbench.signals.contract.taken_layers import few_enough
from exitbench.signals.margin import logit_margin

PENALTY = 0.01
DIRECTIONS, SEEN = 32, 2048
"""The most directions of a feature, and the most columns that they may be in all: Newton's method keeps several
matrices of columns by columns, with 32 directions of 150 classes 0.2 GB each."""
ENTRIES = 1 << 24
"""The most numbers in the regression with features (0.13 GB): of more samples some are taken, evenly over the ids."""
LEAST_LOG = -30.0
"""Log-probabilities are cut here: below it a class is out of the question, however far."""


@dataclass(frozen=True)
class Meta(LearnedSignal):
    """The probability of a right answer, given what the layers so far said about it."""

    name: ClassVar[str] = "meta"
    title: ClassVar[str] = "Meta (CATs)"
    reference: ClassVar[Reference] = Reference(
        "Consistent Accelerated Inference via Confident Adaptive Transformers", 2021, "https://arxiv.org/abs/2104.08803"
    )
    exits_when: ClassVar[Direction] = ">="
    probability_of: ClassVar[str] = "right"
    shift_invariant = True

    features: bool = parameter(False, help="read the feature as well")
    weights: tuple[Weights, ...] | None = learned()
    class_vectors: tuple[tuple[Weights, ...], ...] | None = learned()

    @property
    def inputs(self) -> frozenset[Input]:  # type: ignore[override]
        return frozenset({"logits", "features"} if self.features else {"logits"})

    @property
    def needs_fit(self) -> bool:
        return self.weights is None

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        calibration, labels = few_enough(calibration, labels, calibration[0].classes + len(calibration))
        every_weights, every_vectors = [], []
        for layer, columns in calibration_columns(calibration):
            right = (layer.prediction == labels).cpu().numpy()
            if not self.features:
                every_weights.append(logistic_weights(columns.cpu().numpy(), right, penalty=PENALTY))
                continue
            features = require_rows(self.text, layer)
            mean, basis = principal_directions(features, min(DIRECTIONS, max(SEEN // layer.classes, 1)))
            kept = columns.shape[1]
            rows = evenly(len(right), ENTRIES // (kept + layer.classes * basis.shape[1]))
            chosen = layer.take(torch.from_numpy(rows))
            seen = projected(require_rows(self.text, chosen), mean, basis)
            spread = by_class(seen, chosen.prediction.cpu().numpy(), layer.classes)
            design = np.concatenate([columns.cpu().numpy()[rows], spread], axis=1)
            del spread  # as large as the design itself
            both = logistic_weights(design, right[rows], penalty=PENALTY)
            every_weights.append((*both[:kept], both[-1]))
            # w . B^T (x - mean) is one vector and one number per class, which is all that a score needs.
            vectors = np.array(both[kept:-1]).reshape(layer.classes, -1) @ basis.T
            every_vectors.append(tuple((*map(float, vector), float(-vector @ mean)) for vector in vectors))
        return dataclasses.replace(
            self, weights=tuple(every_weights), class_vectors=tuple(every_vectors) if self.features else None
        )

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        self.require_layer(layer, self.weights)
        assert self.weights is not None
        columns, history = history_columns(layer, state)
        weights = self.weights[layer.index - 1]
        if self.class_vectors is not None:
            vectors = torch.tensor(self.class_vectors[layer.index - 1], dtype=torch.float64, device=columns.device)
            chosen = vectors[layer.prediction]
            seen = (require_features(self.text, layer).double() * chosen[:, :-1]).sum(dim=1) + chosen[:, -1]
            columns, weights = torch.cat([columns, seen[:, None]], dim=1), (*weights[:-1], 1.0, weights[-1])
        return probability(columns, weights), history


def history_columns(layer: Layer, history: Tensor | None) -> tuple[Tensor, Tensor]:
    """What the layers so far say about the current answer, [samples, columns], and the history to remember.

    ``history`` [samples, layers before, classes] are the log-probabilities of the layers before.
    """
    logs = layer.log_probabilities.clamp(min=LEAST_LOG)[:, None]
    history = logs if history is None else torch.cat([history, logs], dim=1)
    of_answer = history.gather(2, layer.prediction[:, None, None].expand(-1, history.shape[1], 1))[:, :, 0]
    return answer_columns(layer, of_answer, logit_margin(layer)), history


def calibration_columns(calibration: Sequence[Layer]) -> Iterator[tuple[Layer, Tensor]]:
    """Each internal layer with its columns, as :func:`history_columns` has them.

    A fit knows all answers beforehand: of a layer it remembers what it says of this and later answers, not of all
    classes, and forgets what is used up.
    """
    internal = calibration[:-1]
    answers = torch.stack([layer.prediction for layer in internal], dim=1)
    said: list[list[Tensor]] = [[] for _ in range(len(internal))]
    for number, layer in enumerate(internal):
        of_answers, margins = [], []
        for block, given in with_labels(layer, answers[:, number:]):
            of_answers.append(block.log_probabilities_of(given).clamp(min=LEAST_LOG))
            margins.append(logit_margin(block))
        for later, column in enumerate(torch.cat(of_answers).unbind(dim=1), start=number):
            said[later].append(column.clone())  # not a part of a tensor that would stay whole
        yield layer, answer_columns(layer, torch.stack(said[number], dim=1), torch.cat(margins))
        said[number].clear()


def answer_columns(layer: Layer, of_answer: Tensor, margin: Tensor) -> Tensor:
    """Which class the answer is, the layers' log-probabilities of it, ``of_answer``, and the margin of the logits."""
    which = torch.nn.functional.one_hot(layer.prediction, layer.classes).double()
    return torch.cat([which, of_answer, margin[:, None]], dim=1)
