"""Writes into what a signal is given, found by torch's version counters.

A layer's tensors and what is derived from them are shared by all signals, so a signal that writes into them would
change its rivals' numbers. Torch counts the in-place operations on every tensor outside inference mode. It does not
count what reaches the memory by another way (an array from ``.numpy()``, or ``.data``): that shows in copies of what is
small and of heads, which are made when somebody first asks for memory, and for features, which are large, in the file
they come from.
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


class SharedInputs:
    """What all signals are given, one layer after another, and whether somebody wrote into it.

    ``memory_asked`` says that some memory was handed out since :meth:`begin`. Heads serve every block of samples, so a
    write into one may come long after its layer.
    """

    def __init__(self) -> None:
        self.memory_asked = False
        self._layer: Layer | None = None
        self._versions = TensorVersions(())
        self._copies: TensorCopies | None = None
        self._heads: dict[int, tuple[Head, TensorVersions]] = {}
        self._head_copies: dict[int, TensorCopies] = {}

    def begin(self, layer: Layer) -> None:
        """Signals are given this layer from now on."""
        self._layer, self._copies, self.memory_asked = layer, None, False
        self._versions = TensorVersions(layer_tensors(layer))
        if layer.head is not None and layer.index not in self._heads:
            self._heads[layer.index] = layer.head, TensorVersions(head_tensors(layer.head))

    def copy_new(self) -> None:
        """Somebody asks for memory: copy what is small, and all heads so far, unless that was done before."""
        layer = self._layer
        if layer is None:
            return
        self.memory_asked = True
        if self._copies is None:
            self._copies = TensorCopies(small_tensors(layer))
        layer.derived.copy_new()
        for index, (head, _) in self._heads.items():
            if index not in self._head_copies:
                self._head_copies[index] = TensorCopies(head_tensors(head))

    def end(self) -> str:
        """All signals are done with the layer: the name of a tensor that was written into, else an empty text.

        Into features only if torch saw it: they are not copied.
        """
        assert self._layer is not None
        layer, self._layer = self._layer, None
        copied = self._copies.written() if self._copies else ""
        return self._versions.written() or layer.derived.written() or copied

    def written_head(self) -> tuple[str, int] | None:
        """The name of a head's tensor that was written into, and its layer."""
        for index, (_, versions) in self._heads.items():
            copied = self._head_copies[index].written() if index in self._head_copies else ""
            if tensor := versions.written() or copied:
                return tensor, index
        return None


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
