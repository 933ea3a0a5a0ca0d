"""The heads on their way into a cache: checked, as the tensors and bytes of their file, with their offsets."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import cast

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from exitbench.cache.format.arrays import as_tensor, layer_name
from exitbench.cache.format.manifest import Task
from exitbench.cache.format.safetensors_file import encode
from exitbench.errors import InputError
from exitbench.head_algebra import head_algebra

Heads = tuple[Tensor | ArrayLike | Sequence[Tensor | ArrayLike], Tensor | ArrayLike]
"""Weights [layers, classes, width], or a list of [classes, width of the layer], and biases [layers, classes]."""


class HeadTensors:
    """All heads of a network in float32: ``weights`` layer by layer, [classes, width], and ``bias`` [layers, classes].

    Where exits differ in width (``widths``), the file has a tensor for each layer, ``weight.01`` and so on.
    """

    def __init__(self, weights: list[Tensor], bias: Tensor, widths: tuple[int, ...] | None) -> None:
        self.weights, self.bias, self.widths = weights, bias, widths

    @classmethod
    def of(
        cls, path: Path, heads: Heads, task: Task, layers: int, width: int | None, widths: tuple[int, ...] | None
    ) -> HeadTensors:
        """The heads, or an InputError that names ``path``; ``width`` is that of every exit unless ``widths`` say."""
        made = cls(layer_weights(heads), as_tensor(heads[1], whole=False, name="heads").float(), widths)
        made._check(path, len(task.classes), widths or (width or made.width,) * layers)
        return made

    @property
    def width(self) -> int:
        """The width of the first head."""
        return int(self.weights[0].shape[-1]) if self.weights and self.weights[0].ndim else 0

    def _check(self, path: Path, classes: int, widths: Sequence[int]) -> None:
        expected, shapes = [[classes, width] for width in widths], [list(weight.shape) for weight in self.weights]
        bias = [len(widths), classes]
        if shapes != expected or list(self.bias.shape) != bias:
            weight, given = str(expected), str(shapes)
            if self.widths is None:
                weight = str([len(widths), *expected[0]])
                given = str([len(shapes), *(shapes[0] if shapes else [])])
            raise InputError(
                f"{path}: expected head weight {weight} and bias {bias}, found {given} and {list(self.bias.shape)}"
            )
        for name, parts in (("weight", self.weights), ("bias", list(self.bias))):
            for layer, part in enumerate(parts, 1):
                if not bool(torch.isfinite(part).all()):
                    raise InputError(f"{path}: expected finite head {name}s, found one at layer {layer} that is not")

    @property
    def file_bytes(self) -> bytes:
        """The bytes of the heads' file."""
        if self.widths is None:
            tensors = {"weight": torch.stack(self.weights)}
        else:
            tensors = {layer_name("weight", layer): weight for layer, weight in enumerate(self.weights, 1)}
        return b"".join(bytes(block) for block in encode({**tensors, "bias": self.bias}))

    @cached_property
    def offsets(self) -> list[Tensor]:
        """The offset ``pinv(W) b`` of every layer, [width of the layer]."""
        return [head_algebra(weight, bias).offset for weight, bias in zip(self.weights, self.bias, strict=True)]


def layer_weights(heads: Heads) -> list[Tensor]:
    """The head weights layer by layer, each [classes, width of the layer]."""
    weight = heads[0]
    if isinstance(weight, list | tuple):
        return [as_tensor(part, whole=False, name="heads").float() for part in weight]
    return list(as_tensor(cast(ArrayLike, weight), whole=False, name="heads").float())


def own_widths(heads: Heads | None) -> tuple[int, ...] | None:
    """The widths of heads that are listed one by one and differ in width; else ``None``."""
    if heads is None or not isinstance(heads[0], list | tuple):
        return None
    widths = tuple(int(weight.shape[-1]) if weight.ndim else 0 for weight in layer_weights(heads))
    return widths if len(set(widths)) > 1 else None
