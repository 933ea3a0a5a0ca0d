"""The contract of an exit signal: what a signal declares, what it is given, what it returns.

A signal is a frozen dataclass in a file of its own. Its parameters are its fields; what it declares
are class variables; what it does is :meth:`ExitSignal.score` (no memory) or :meth:`ExitSignal.step`
(memory from layer to layer). Layers come in order, so a signal cannot look ahead, and the samples
are independent of each other, so one implementation serves the replay of a whole cache, live
inference with one sample, and live batches that shrink as samples leave.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self

import torch
from torch import Tensor

from signals import text as forms
from signals.readings import LogitReadings

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


def parameter(
    default: Any,
    *,
    grid: Sequence[Any] = (),
    choices: Sequence[Any] = (),
    at_least: float | None = None,
    above: float | None = None,
    help: str = "",  # noqa: A002
) -> Any:
    """A parameter of a signal: its default, the published grid, the values allowed, one line of help.

    The field's annotation (``int``, ``float``, ``bool`` or ``str``) is its type. ``choices`` lists the only
    values allowed; ``at_least`` and ``above`` bound a number from below, the second one strictly.
    """
    return field(
        default=default,
        metadata={
            "grid": tuple(grid),
            "choices": tuple(choices),
            "at_least": at_least,
            "above": above,
            "help": help,
        },
    )


def learned() -> Any:
    """A value that :meth:`ExitSignal.fit` finds; ``None`` before. It is kept as JSON, so: numbers, text, tuples."""
    return field(default=None, metadata={"learned": True})


@dataclass(frozen=True)
class ExitSignal:
    """One number per sample and internal layer, a direction, and the first layer that may exit.

    A subclass is a ``@dataclass(frozen=True)`` too. It sets the class variables, writes its
    parameters as fields made by :func:`parameter`, and overrides :meth:`score` or :meth:`step`.
    ``exceptions`` maps the name of a conformance check that the signal breaks on purpose to the reason.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    reference: ClassVar[Reference]
    exits_when: ClassVar[Direction]
    inputs: ClassVar[frozenset[Input]]
    thresholds: ClassVar[Continuous | Integers] = Continuous()
    exceptions: ClassVar[Mapping[str, str]] = {}

    def __post_init__(self) -> None:
        for one in forms.parameters(type(self)):
            object.__setattr__(self, one.name, one.checked(self.name, getattr(self, one.name)))

    @property
    def text(self) -> str:
        """The shortest text that makes this signal again, such as ``cap[alpha=0.1]``; defaults are left out."""
        return forms.signal_text(self)

    @property
    def parameters_text(self) -> str:
        """Every parameter with its value, such as ``alpha=1,center=false``; empty where there is none."""
        return forms.parameters_text(self)

    @property
    def shift_invariant(self) -> bool:
        """Whether a constant added to all of a sample's logits (to all rows of W and to b) changes nothing.

        A signal that always is may write ``shift_invariant = True``; one that depends on a parameter, a property.
        """
        return False

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

    def to_json(self) -> dict[str, Any]:
        """Name, parameters and learned values as plain JSON values; floats survive exactly."""
        return forms.to_json(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The signal that :meth:`to_json` described."""
        return forms.from_json(cls, stored)
