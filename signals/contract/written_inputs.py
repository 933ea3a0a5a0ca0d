"""Writes into what a signal is given, found by torch's version counters.

A layer's tensors and what is derived from them are shared by all signals, so a signal that writes into them would
change its rivals' numbers. Torch counts the in-place operations on every tensor outside inference mode. It does not
count what reaches the memory by another way (an array from ``.numpy()``, or ``.data``): that shows in copies of what is
small and of heads, and for features, which are large, in the file they come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from exitbench.head_algebra import Head
from exitbench.signals.contract.layer import Layer
from exitbench.signals.contract.logit_quantities import version


class TensorVersions:
    """The versions of some tensors, by name, when this was made."""

    def __init__(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        self._before = [(name, tensor, version(tensor)) for name, tensor in tensors]

    def written(self) -> str:
        """The name of a tensor that was written into since, such as ``layer.logits``; empty where none was."""
        return next((name for name, tensor, before in self._before if version(tensor) != before), "")


class TensorCopies:
    """Copies of some tensors, by name: for what is small, since they cost a pass over the numbers."""

    def __init__(self, tensors: Iterable[tuple[str, Tensor]]) -> None:
        self._copies = [(name, tensor, tensor.clone()) for name, tensor in tensors]

    def written(self) -> str:
        """The name of a tensor that holds other numbers than its copy, however they came there; else empty."""
        return next((name for name, tensor, copy in self._copies if not torch.equal(tensor, copy)), "")


def small_tensors(layer: Layer) -> Iterator[tuple[str, Tensor]]:
    """What a layer holds but for features and head, with names."""
    yield "layer.logits", layer.logits
    yield "layer.ids", layer.ids
    if layer.offset_norm is not None:
        yield "layer.offset_norm", layer.offset_norm
    for name, output in layer.outputs.items():
        yield f"layer.outputs[{name!r}]", output


def layer_tensors(layer: Layer) -> Iterator[tuple[str, Tensor]]:
    """Every tensor that a layer hands out, with its name."""
    yield from small_tensors(layer)
    if layer.features is not None:
        yield "layer.features", layer.features
    if layer.head is not None:
        yield from head_tensors(layer.head)


def head_tensors(head: Head) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a head, with their names in a layer."""
    for name in ("weight", "bias", "gram_inverse", "offset"):
        yield f"layer.head.{name}", getattr(head, name)
