"""Rows on their way into a cache: checked, rounded to the stored dtypes, gathered into a shard."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from exitbench.cache.format.finite import all_finite
from exitbench.cache.format.manifest import Manifest, Model, Task
from exitbench.errors import InputError
from exitbench.head_algebra import offset_norms

FEATURE_DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
"""The dtypes features may be stored in, by their names in a manifest."""


def as_tensor(value: Tensor | ArrayLike, *, whole: bool, name: str) -> Tensor:
    """The value as a tensor in memory, if it holds whole or real numbers as asked."""
    tensor = value.detach().to("cpu") if isinstance(value, Tensor) else _from_array(np.asarray(value), name)
    floating = tensor.dtype.is_floating_point
    if whole and (floating or tensor.dtype is torch.bool or tensor.dtype.is_complex):
        raise InputError(f"expected {name} to be whole numbers, found {_dtype_name(tensor)}")
    if not whole and (tensor.dtype is torch.bool or tensor.dtype.is_complex):
        raise InputError(f"expected {name} to be real numbers, found {_dtype_name(tensor)}")
    return tensor


def _from_array(array: NDArray[Any], name: str) -> Tensor:
    if array.dtype.kind not in "iuf":
        raise InputError(f"expected {name} to be numbers, found {array.dtype}")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"expected {name} to fit 64-bit signed numbers, found {array.max()}")
    if array.dtype == np.uint64 or not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("=") if array.dtype.kind == "f" else np.int64)
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    # A read-only array (a memory-mapped file) cannot be wrapped without a warning; a batch is small.
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def checked_heads(
    path: Path, heads: tuple[Tensor | ArrayLike, Tensor | ArrayLike], task: Task, model: Model
) -> dict[str, Tensor]:
    """``weight`` [layers, classes, width] and ``bias`` [layers, classes] in float32, or an InputError."""
    weight, bias = (as_tensor(part, whole=False, name="heads").float() for part in heads)
    expected = [model.layers, len(task.classes), model.width or (weight.shape[-1] if weight.ndim else 0)]
    if list(weight.shape) != expected or list(bias.shape) != expected[:2]:
        raise InputError(
            f"{path}: expected head weight {expected} and bias {expected[:2]},"
            f" found {list(weight.shape)} and {list(bias.shape)}"
        )
    for name, part in (("weight", weight), ("bias", bias)):
        wrong = torch.nonzero(~torch.isfinite(part))
        if len(wrong):
            layer = int(wrong[0, 0]) + 1
            raise InputError(f"{path}: expected finite head {name}s, found one at layer {layer} that is not")
    return {"weight": weight.contiguous(), "bias": bias.contiguous()}


@dataclass(frozen=True)
class CacheRows:
    """Some samples at all layers: logits [layers, n, classes], features [layers, n, width], and so on."""

    labels: Tensor
    logits: Tensor
    features: Tensor | None
    ids: Tensor | None
    offset_norm: Tensor | None
    rounded: bool

    @classmethod
    def make(
        cls,
        labels: Tensor | ArrayLike,
        logits: Tensor | ArrayLike,
        features: Tensor | ArrayLike | None,
        ids: Tensor | ArrayLike | None,
        offset_norm: Tensor | ArrayLike | None,
    ) -> CacheRows:
        """Rows in the stored dtypes; ``rounded`` is whether any float64 value was rounded."""
        scores = as_tensor(logits, whole=False, name="logits")
        inputs = None if features is None else as_tensor(features, whole=False, name="features")
        norms = None if offset_norm is None else as_tensor(offset_norm, whole=False, name="offset_norm")
        rounded = any(part is not None and part.dtype is torch.float64 for part in (scores, inputs, norms))
        return cls(
            labels=as_tensor(labels, whole=True, name="labels").long(),
            logits=scores.float(),
            features=inputs.float() if inputs is not None and inputs.dtype not in FEATURE_DTYPES.values() else inputs,
            ids=None if ids is None else as_tensor(ids, whole=True, name="ids").long(),
            offset_norm=None if norms is None else norms.float(),
            rounded=rounded,
        )

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, start: int, stop: int) -> CacheRows:
        """The samples ``start`` to ``stop`` of this batch."""
        return replace(
            self,
            labels=self.labels[start:stop],
            logits=self.logits[:, start:stop],
            features=None if self.features is None else self.features[:, start:stop],
            ids=None if self.ids is None else self.ids[start:stop],
            offset_norm=None if self.offset_norm is None else self.offset_norm[:, start:stop],
        )

    def with_offset_norms(self, offsets: list[Tensor]) -> CacheRows:
        """The same batch with ``||x + o||`` of its features, one offset per layer."""
        assert self.features is not None
        norms = [offset_norms(layer, offset) for layer, offset in zip(self.features, offsets, strict=True)]
        return replace(self, offset_norm=torch.stack(norms))

    def check(self, plan: Manifest, start: int) -> None:
        """Refuse wrong shapes, labels outside the classes and values that are not finite."""
        if self.labels.ndim != 1:
            raise InputError(f"expected labels [n], found {list(self.labels.shape)}")
        n, layers, classes = len(self.labels), plan.model.layers, len(plan.task.classes)
        _expect("logits", self.logits, (layers, n, classes))
        if self.features is not None:
            width = plan.model.width or (self.features.shape[-1] if self.features.ndim else 0)
            _expect("features", self.features, (layers, n, width))
        elif plan.feature_dtype is not None:
            raise InputError(f"expected features to store as {plan.feature_dtype}, found none")
        if self.offset_norm is not None:
            _expect("offset_norm", self.offset_norm, (layers, n))
        if self.ids is not None:
            _expect("ids", self.ids, (n,))
        wrong = torch.nonzero((self.labels < 0) | (self.labels >= classes))
        if len(wrong):
            row = int(wrong[0])
            raise InputError(f"expected labels in 0..{classes - 1}, found {int(self.labels[row])} at row {row + start}")
        for name in ("logits", "features", "offset_norm"):
            part = getattr(self, name)
            if part is not None:
                _refuse_non_finite(name, part, start)


def _expect(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise InputError(f"expected {name} of shape {list(shape)}, found {list(tensor.shape)}")


def _refuse_non_finite(name: str, tensor: Tensor, start: int) -> None:
    if not all_finite(tensor):
        finite = torch.isfinite(tensor)
        layer, row = (int(part) for part in torch.nonzero(~finite)[0, :2])
        value = tensor[~finite][0].item()
        raise InputError(f"expected finite {name}, found {value} at layer {layer + 1}, row {row + start}")


class ShardBuffer:
    """The rows of one shard while they arrive, in the layout and dtypes of the file."""

    def __init__(self, plan: Manifest, rows: range) -> None:
        self.plan, self.first, self.capacity, self.filled = plan, rows.start, len(rows), 0
        self._parts: list[CacheRows] = []

    @property
    def position(self) -> int:
        """The row that comes next."""
        return self.first + self.filled

    @property
    def full(self) -> bool:
        return self.filled == self.capacity

    def take(self, batch: CacheRows) -> CacheRows:
        """Take what fits, and return the rest."""
        count = min(len(batch), self.capacity - self.filled)
        part = batch.rows(0, count)
        if part.ids is None:
            part = replace(part, ids=torch.arange(self.position, self.position + count))
        self._parts.append(self._stored(part))
        self.filled += count
        return batch.rows(count, len(batch))

    def _stored(self, part: CacheRows) -> CacheRows:
        """The part in the dtypes of the file, copied, since the caller may reuse its arrays."""
        dtype = self.plan.feature_dtype
        features = None
        if part.features is not None and dtype is not None:
            features = part.features.to(FEATURE_DTYPES[dtype], copy=True)
            if not all_finite(features):
                layer, row = (int(item) for item in torch.nonzero(~torch.isfinite(features))[0, :2])
                value = float(part.features[layer, row].abs().max())
                raise InputError(
                    f"expected features that fit {dtype}, found {value:g} at layer {layer + 1},"
                    f" row {self.position + row}; bfloat16 and float32 hold larger numbers"
                )
        norms = None if part.offset_norm is None else part.offset_norm.clone()
        return replace(
            part, logits=part.logits.clone(), labels=part.labels.clone(), features=features, offset_norm=norms
        )

    def tensors(self) -> tuple[dict[str, Tensor], Tensor | None]:
        """The tensors of the shard's file, and the features for its feature file."""
        has_norms = {part.offset_norm is not None for part in self._parts}
        if len(has_norms) > 1:
            raise InputError("expected offset norms for all batches or for none, found them for some")
        tensors = {
            "labels": torch.cat([part.labels for part in self._parts]),
            "ids": torch.cat([part.ids for part in self._parts if part.ids is not None]),
            "logits": torch.cat([part.logits for part in self._parts], dim=1),
        }
        norms = [part.offset_norm for part in self._parts if part.offset_norm is not None]
        if norms:
            tensors["offset_norm"] = torch.cat(norms, dim=1)
        features = [part.features for part in self._parts if part.features is not None]
        return tensors, torch.cat(features, dim=1) if features else None
