"""The contract of a training recipe: its stages, its loss, and what it remembers from step to step.

A recipe is a frozen dataclass in a file of its own; its parameters are its fields, at their published values by
default. What it remembers lies in a dictionary of tensors, which checkpoints keep, so that a resumed training goes on
as if it had not stopped. Optimiser, learning rates, epochs and batches are options of the training, the same for all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs, GradientScales
from exitbench.signals.contract.signal import Parametrised

RecipeState = dict[str, Tensor]
"""What a recipe remembers, by name. Several processes join theirs after every step by the elementwise maximum."""


@dataclass(frozen=True)
class Stage:
    """One part of a training: which exits learn (layers from 1), whether the backbone does and what the recipe adds.

    With ``restart`` it begins with the weights that the training began with; with ``renew`` the addition takes over
    from the network what begins as a copy of it. With ``asks`` the recipe is told at its end which training rows each
    layer answers right.
    """

    name: str
    exits: tuple[int, ...]
    backbone: bool = True
    added: bool = True
    renew: bool = False
    restart: bool = False
    asks: bool = False


@dataclass(frozen=True)
class Moment:
    """Where in a training a step is: everything counts from 0, ``step`` and ``epoch`` within the stage.

    ``rows`` [samples] are the numbers of the batch's samples among the training rows.
    """

    stage: int
    step: int
    steps: int
    epoch: int
    epochs: int
    epoch_step: int
    rows: Tensor


@dataclass(frozen=True)
class TrainingRecipe(Parametrised, ABC):
    """A way to train the exits of a network.

    ``exit_rule`` is the signal that the published system leaves by, as a text; ``published`` its optimiser settings and
    poolers in a line, for who wants to repeat them with the options of ``exitbench train``.
    """

    kind: ClassVar[str] = "recipe"
    exit_rule: ClassVar[str]
    published: ClassVar[str]

    @property
    def addition(self) -> str:
        """What it adds to the exits, as the text of an addition; nothing by default."""
        return ""

    @abstractmethod
    def stages(self, depth: int) -> tuple[Stage, ...]:
        """The stages for a network of ``depth`` layers, each of ``--epochs`` passes over the data."""

    @abstractmethod
    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        """What one step makes smaller, a scalar; ``labels`` [samples]. It may change ``state``.

        Random numbers come from torch's own generator, which is seeded anew for every step.
        """

    def gradient_scales(self, depth: int, moment: Moment) -> GradientScales | None:
        """How gradients flow between layers in this step; ``None``, the default, for as they are."""
        return None

    def start(self, depth: int, rows: int) -> RecipeState:
        """What it remembers before the first step of a training on so many rows; nothing by default."""
        return {}

    def after_stage(self, stage: int, right: Tensor, state: RecipeState) -> None:
        """Told after a stage that ``asks``: whether each layer answers each training row right, [layers, rows] bool."""


def equilibrium(depth: int) -> GradientScales:
    """ElasticBERT's gradient equilibrium: a layer learns from the mean over the exits above it, not from their sum.

    >>> equilibrium(2)
    ((0.5, 0.5), (1.0, 0.0))
    """
    return tuple((1 / (depth - m + 1), (depth - m) / (depth - m + 1)) for m in range(1, depth + 1))
