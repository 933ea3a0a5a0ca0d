"""What one layer of a network says about some samples, as a signal is given it."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from exitbench.signals.contract.logit_quantities import LogitReadings

Input = Literal["logits", "features", "offset_norm", "head", "ids"]
"""What a signal may declare to read."""


INPUTS: tuple[Input, ...] = ("logits", "features", "offset_norm", "head", "ids")


State = Any
"""Whatever a signal carries from layer to layer: ``None`` before layer 1, afterwards a tensor, or a
tuple, list or dict of tensors, each with the samples on its first axis."""


class Head(Protocol):
    """One layer's linear classifier, with the algebra that NSP and CAP need, all in float64.

    ``weight`` [classes, width]; ``bias`` [classes]; ``gram_inverse`` [classes, classes] is the
    pseudo-inverse of ``W W^T``; ``offset`` [width] is ``pinv(W) b``; ``rank`` is the one rank decision
    behind them. ``centered`` is the same algebra after the class mean is taken from W's rows and b.
    """

    @property
    def weight(self) -> Tensor: ...
    @property
    def bias(self) -> Tensor: ...
    @property
    def gram_inverse(self) -> Tensor: ...
    @property
    def offset(self) -> Tensor: ...
    @property
    def rank(self) -> int: ...
    @property
    def centered(self) -> Head: ...


@dataclass(frozen=True)
class Layer:
    """What one layer says about some samples; ``index`` counts from 1, ``depth`` is the last layer.

    ``logits`` [samples, classes] float32; ``ids`` [samples] int64; ``features`` [samples, width],
    ``offset_norm`` [samples] and ``head`` are ``None`` where they were not collected or not asked for.
    The derived quantities below are computed once, in float64, and shared by all signals.
    """

    index: int
    depth: int
    classes: int
    ids: Tensor
    logits: Tensor
    features: Tensor | None = None
    offset_norm: Tensor | None = None
    head: Head | None = None

    @cached_property
    def readings(self) -> LogitReadings:
        """The shared derived quantities; views made by :meth:`only` hold the same object."""
        return LogitReadings(self.logits)

    @property
    def samples(self) -> int:
        return int(self.logits.shape[0])

    @property
    def logits64(self) -> Tensor:
        """The logits in float64, [samples, classes]."""
        return self.readings.logits64

    @property
    def log_probabilities(self) -> Tensor:
        """Log-softmax of the logits in float64, [samples, classes], precise also where a probability is almost 1."""
        return self.readings.log_probabilities

    @property
    def probabilities(self) -> Tensor:
        """Softmax of the logits in float64, [samples, classes]."""
        return self.readings.probabilities

    @property
    def entropy(self) -> Tensor:
        """Entropy of the softmax in nats, [samples] float64."""
        return self.readings.entropy

    @property
    def energy(self) -> Tensor:
        """Energy of the logits at temperature 1, ``-logsumexp(l)``, [samples] float64."""
        return self.readings.energy

    @property
    def prediction(self) -> Tensor:
        """The class with the largest logit, [samples] int64; the first one on a tie."""
        return self.readings.prediction

    def once(self, key: object, make: Callable[[], Tensor]) -> Tensor:
        """What ``make`` returns, computed once for all signals that ask for ``key`` at this layer.

        The key must tell everything apart that the value depends on besides this layer's own tensors.
        """
        derived = self.readings.derived
        if key not in derived:
            derived[key] = make()
        return derived[key]

    def no_score(self) -> Tensor:
        """A NaN for every sample, [samples] float64: what a layer without a score returns."""
        return torch.full((self.samples,), torch.nan, dtype=torch.float64, device=self.logits.device)

    def take(self, rows: Tensor) -> Layer:
        """The same layer for the samples at ``rows`` (an index or a mask) only."""
        return dataclasses.replace(
            self,
            ids=self.ids[rows],
            logits=self.logits[rows],
            features=None if self.features is None else self.features[rows],
            offset_norm=None if self.offset_norm is None else self.offset_norm[rows],
        )

    def only(self, inputs: Collection[Input]) -> Layer:
        """A view that hides the features, offset norms and head unless ``inputs`` names them.

        Ids and logits stay, and what was derived from the logits stays shared with this layer.
        """
        _ = self.readings  # made before the copy, so that the copy holds the same one
        view = copy.copy(self)
        for optional in ("features", "offset_norm", "head"):
            if optional not in inputs:
                object.__setattr__(view, optional, None)
        return view
