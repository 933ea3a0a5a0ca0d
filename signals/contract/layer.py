"""One layer of a network on some samples, as a signal is given it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any, Protocol, overload

import torch
from torch import Tensor

from exitbench.head_algebra import Head
from exitbench.signals.contract.logit_quantities import Derived, LogitQuantities

Input = str
"""What a signal may declare to read: one of :data:`INPUTS`, or an extra output of the network, ``outputs:NAME``."""


INPUTS: tuple[Input, ...] = ("logits", "features", "offset_norm", "head", "ids")

OUTPUT = "outputs:"
"""What the name of an extra output begins with where a signal declares it."""

OUTPUT_INPUT = re.compile(OUTPUT + r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


def is_input(name: str) -> bool:
    """Whether a signal may declare this: ``logits``, say, or ``outputs:lte``."""
    return name in INPUTS or OUTPUT_INPUT.fullmatch(name) is not None


def output_names(inputs: Collection[Input]) -> list[str]:
    """The names of the extra outputs among some inputs, sorted.

    >>> output_names({"logits", "outputs:lte"})
    ['lte']
    """
    return sorted(name.removeprefix(OUTPUT) for name in inputs if name.startswith(OUTPUT))


State = Any
"""Whatever a signal carries from layer to layer: ``None`` before layer 1, afterwards a tensor, or a
tuple, list or dict of tensors, each with the samples on its first axis."""


class FeatureRows(Protocol):
    """The features of some samples, [samples, width], to be read block by block; a tensor is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples and width."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice | Tensor, /) -> Tensor: ...


@dataclass(frozen=True)
class Layer(LogitQuantities):
    """One layer's outputs for some samples; ``index`` counts from 1, ``depth`` is the last layer.

    ``logits`` [samples, classes] float32; ``ids`` [samples] int64; ``features`` [samples, width],
    ``offset_norm`` [samples] and ``head`` are ``None`` where they were not collected or not asked for. ``outputs`` are
    the network's extra outputs by name, [samples] or [samples, k] float32, those that were asked for.
    What :class:`LogitQuantities` derives from the logits is computed once, in float64, and shared by all signals.
    """

    index: int
    depth: int
    classes: int
    ids: Tensor
    logits: Tensor
    features: Tensor | None = None
    offset_norm: Tensor | None = None
    head: Head | None = None
    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    shared: InitVar[Derived | None] = None
    derived: Derived = field(init=False, repr=False, compare=False)

    def __post_init__(self, shared: Derived | None) -> None:
        # Nothing is shared unless asked for: a replaced tensor must not meet what was derived from the old one.
        object.__setattr__(self, "derived", Derived() if shared is None else shared)

    @property
    def samples(self) -> int:
        return int(self.logits.shape[0])

    @property
    def feature_rows(self) -> FeatureRows | None:
        """The features to be read block by block, as a fit does: where they lie in a cache, no more comes to memory."""
        return self.features

    def _features_at(self, rows: Tensor) -> Tensor | None:
        """The features of the samples at ``rows``."""
        return None if self.features is None else self.features[rows]

    def _features_shown(self, declared: bool) -> Tensor | None:
        """The features where a signal declares them."""
        return self.features if declared else None

    def no_score(self) -> Tensor:
        """A NaN for every sample, [samples] float64: what a layer without a score returns."""
        return torch.full((self.samples,), torch.nan, dtype=torch.float64, device=self.logits.device)

    def take(self, rows: Tensor) -> Layer:
        """The same layer for the samples at ``rows`` (an index or a mask) only."""
        return dataclasses.replace(
            self,
            ids=self.ids[rows],
            logits=self.logits[rows],
            features=self._features_at(rows),
            offset_norm=None if self.offset_norm is None else self.offset_norm[rows],
            outputs={name: output[rows] for name, output in self.outputs.items()},
        )

    def only(self, inputs: Collection[Input]) -> Layer:
        """A view that hides the features, offset norms, head and extra outputs unless ``inputs`` names them.

        Ids and logits stay, and what was or will be derived is shared with this layer.
        """
        return dataclasses.replace(
            self,
            features=self._features_shown("features" in inputs),
            offset_norm=self.offset_norm if "offset_norm" in inputs else None,
            head=self.head if "head" in inputs else None,
            outputs={name: self.outputs[name] for name in output_names(inputs) if name in self.outputs},
            shared=self.derived,
        )


class LayerSlice(Sequence[Layer]):
    """Some of the layers of a sequence, each asked for when its turn comes, so that memory holds one of them."""

    def __init__(self, layers: Sequence[Layer], positions: range) -> None:
        self.layers, self.positions = layers, positions

    def __len__(self) -> int:
        return len(self.positions)

    @overload
    def __getitem__(self, position: int) -> Layer: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Layer]: ...
    def __getitem__(self, position: int | slice) -> Layer | Sequence[Layer]:
        positions = self.positions[position]
        return self.layers[positions] if isinstance(positions, int) else LayerSlice(self.layers, positions)


def declared_layer(
    inputs: Collection[Input],
    *,
    index: int,
    depth: int,
    classes: int,
    ids: Tensor,
    read: Callable[[Input], Tensor],
    head: Callable[[], Head],
) -> Layer:
    """A layer with its ids and logits, and of the rest what ``inputs`` name, from a cache or a live network.

    ``read`` gives the tensor of an input, ``head`` the layer's head; neither is called for what nobody declares.
    """
    return Layer(
        index=index,
        depth=depth,
        classes=classes,
        ids=ids,
        logits=read("logits"),
        features=read("features") if "features" in inputs else None,
        offset_norm=read("offset_norm") if "offset_norm" in inputs else None,
        head=head() if "head" in inputs else None,
        outputs={name: read(OUTPUT + name) for name in output_names(inputs)},
    )
