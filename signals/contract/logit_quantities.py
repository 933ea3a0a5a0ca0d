"""What several signals want to know about the same logits, computed once for all of them."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

FEW_CLASSES = 3
"""Up to here the order of a sum over classes is the same in every memory layout."""


class LogitReadings:
    """Quantities derived from the logits [samples, classes] of one layer: each computed at most once, in float64.

    With few classes and many samples the numbers lie class by class in memory: sums and maxima over two neighbours
    would take most of the time of a replay; over two long columns they take almost none. No value depends on it.
    """

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits
        self.derived: dict[object, Tensor] = {}

    @cached_property
    def logits64(self) -> Tensor:
        samples, classes = self.logits.shape
        if samples == 1 or classes > FEW_CLASSES:
            return self.logits.double()
        columns = torch.empty((classes, samples), dtype=torch.float64, device=self.logits.device)
        return columns.copy_(self.logits.T).T

    @cached_property
    def _largest(self) -> Tensor:
        return self.logits64.amax(dim=1, keepdim=True)

    @cached_property
    def _shifted(self) -> Tensor:
        return self.logits64 - self._largest

    @cached_property
    def _log_total(self) -> Tensor:
        """The logarithm of the sum over classes of exp(logit - largest logit), [samples, 1]."""
        # The library's log-softmax adds exp(-30) to 1 before it takes the logarithm and loses most of it there;
        # log1p over the other classes keeps the full precision of a confident answer.
        shifted = self._shifted
        if shifted.shape[1] == 2:
            others = shifted.amin(dim=1, keepdim=True).exp()
        else:
            others = shifted.exp().scatter(1, self.prediction[:, None], 0.0).sum(dim=1, keepdim=True)
        return torch.log1p(others)

    @cached_property
    def log_probabilities(self) -> Tensor:
        return self._shifted - self._log_total

    @cached_property
    def probabilities(self) -> Tensor:
        return self.log_probabilities.exp()

    @cached_property
    def entropy(self) -> Tensor:
        return -(self.probabilities * self.log_probabilities).sum(dim=1)

    @cached_property
    def energy(self) -> Tensor:
        return -(self._largest + self._log_total)[:, 0]

    @cached_property
    def prediction(self) -> Tensor:
        return self.logits.argmax(dim=1)
