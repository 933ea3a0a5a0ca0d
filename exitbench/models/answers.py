"""What a running model answers: one text's answer, a batch's as tensors, and what one layer does on the way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from exitbench.signals import State


@dataclass(frozen=True)
class Answer:
    """The answer to one text: its class, the layer that answered (from 1), and the score there.

    ``score`` is the signal's number at the exit layer; ``None`` at the last layer, which asks no signal.
    ``probabilities`` are the softmax of that layer's logits, one for each class of the model.
    """

    id: int
    label: str
    class_index: int
    exit_layer: int
    score: float | None
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class LayerOutcome:
    """What one layer does for some samples: hidden states after it, its ``logits`` [samples, classes], and who exits.

    ``scores`` [samples] is ``None`` at the last layer, which asks no signal; ``exits`` [samples] is ``None`` where the
    signal never exits.
    """

    hidden: Tensor
    logits: Tensor
    scores: Tensor | None
    exits: Tensor | None
    state: State


ExitRule = Callable[[int, Tensor, Tensor], Tensor]
"""Which samples exit at a layer (from 1), a mask [samples], by their ids and scores, both [samples]."""


@dataclass(frozen=True)
class Answers:
    """The answers of a batch as tensors, each [samples]; ``scores`` is NaN at the last layer.

    ``probabilities`` [samples, classes] float64.
    """

    predictions: Tensor
    exit_layers: Tensor
    scores: Tensor
    probabilities: Tensor

    @classmethod
    def blank(cls, samples: int, classes: int, device: torch.device) -> Self:
        """Room for the answers of so many samples."""
        predictions = torch.empty(samples, dtype=torch.int64, device=device)
        scores = torch.full((samples,), torch.nan, dtype=torch.float64, device=device)
        shares = torch.empty((samples, classes), dtype=torch.float64, device=device)
        return cls(predictions, torch.empty_like(predictions), scores, shares)

    def put(self, rows: Tensor, m: int, outcome: LayerOutcome) -> None:
        """Write the answers of the samples that exit at layer ``m`` to ``rows``, their numbers in the batch."""
        logits = outcome.logits[outcome.exits]
        self.predictions[rows] = logits.argmax(dim=1)
        self.probabilities[rows] = logits.double().softmax(dim=1)
        self.exit_layers[rows] = m
        if outcome.scores is not None:
            self.scores[rows] = outcome.scores[outcome.exits]

    def cpu(self) -> Answers:
        return Answers(*(getattr(self, field.name).cpu() for field in dataclasses.fields(self)))
