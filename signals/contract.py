"""The contract of an exit signal: what a signal declares, what it is given, what it returns.

A signal is a frozen dataclass in a file of its own. Its parameters are its fields; what it declares
are class variables; what it does is :meth:`ExitSignal.score` (no memory) or :meth:`ExitSignal.step`
(memory from layer to layer). Layers come in order, so a signal cannot look ahead, and the samples
are independent of each other, so one implementation serves the replay of a whole cache, live
inference with one sample, and live batches that shrink as samples leave.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor

Direction = Literal["<", "<=", ">", ">="]
"""A sample exits when its score stands in this relation to the threshold."""

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

    @property
    def samples(self) -> int:
        return int(self.logits.shape[0])

    @cached_property
    def logits64(self) -> Tensor:
        """The logits in float64, [samples, classes]."""
        return self.logits.double()

    @cached_property
    def log_probabilities(self) -> Tensor:
        """Log-softmax of the logits in float64, [samples, classes]."""
        return torch.log_softmax(self.logits64, dim=1)

    @cached_property
    def prediction(self) -> Tensor:
        """The class with the largest logit, [samples] int64; the first one on a tie."""
        return self.logits.argmax(dim=1)

    def take(self, rows: Tensor) -> Layer:
        """The same layer for the samples at ``rows`` (an index or a mask) only."""
        return dataclasses.replace(
            self,
            ids=self.ids[rows],
            logits=self.logits[rows],
            features=None if self.features is None else self.features[rows],
            offset_norm=None if self.offset_norm is None else self.offset_norm[rows],
        )


@dataclass(frozen=True)
class Reference:
    """Where a signal was published."""

    paper: str
    year: int
    link: str


@dataclass(frozen=True)
class Continuous:
    """Any real threshold."""

    def __str__(self) -> str:
        return "continuous"


@dataclass(frozen=True)
class Integers:
    """Integer thresholds ``low .. depth - below_depth``."""

    low: int
    below_depth: int

    def values(self, depth: int) -> range:
        return range(self.low, depth - self.below_depth + 1)

    def __str__(self) -> str:
        return f"integers {self.low}..M-{self.below_depth}"


def parameter(default: Any, *, grid: Sequence[Any] = (), choices: Sequence[Any] = (), help: str = "") -> Any:  # noqa: A002
    """A parameter of a signal: its default, the published grid, the values allowed, one line of help."""
    return field(default=default, metadata={"grid": tuple(grid), "choices": tuple(choices), "help": help})


def learned() -> Any:
    """A value that :meth:`ExitSignal.fit` finds; ``None`` before. It is kept as JSON."""
    return field(default=None, metadata={"learned": True})


@dataclass(frozen=True)
class ExitSignal:
    """One number per sample and internal layer, a direction, and the first layer that may exit.

    A subclass is a ``@dataclass(frozen=True)`` too. It sets the class variables, writes its
    parameters as fields made by :func:`parameter`, and overrides :meth:`score` or :meth:`step`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reference: ClassVar[Reference]
    exits_when: ClassVar[Direction]
    inputs: ClassVar[frozenset[Input]]
    thresholds: ClassVar[Continuous | Integers] = Continuous()
    shift_invariant: ClassVar[bool] = False
    exceptions: ClassVar[Mapping[str, str]] = {}

    @property
    def first_exit_layer(self) -> int:
        """The first layer (from 1) at which a sample may exit."""
        return 1

    @property
    def first_scored_layer(self) -> int:
        """The first layer (from 1) that has a score; before it the score is NaN."""
        return 1

    @property
    def needs_fit(self) -> bool:
        """Whether :meth:`fit` must be called before the first step."""
        return False

    def score(self, layer: Layer) -> Tensor:
        """The score of each sample at this layer, [samples] float64. For signals without memory."""
        raise TypeError(f"signal {self.name!r} overrides neither score nor step")

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        """The score of each sample at this layer, and what to remember for the next one."""
        return self.score(layer), state

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        """A signal that has learned from all layers of some labelled samples; by default, itself."""
        return self
