"""Anybody's arrays as tensors of the stored kinds: whole numbers and real numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from exitbench.errors import InputError

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


def layer_name(name: str, layer: int) -> str:
    """The name of one layer's tensor or array, where each layer has its own.

    >>> layer_name("features", 3)
    'features.03'
    """
    return f"{name}.{layer:02d}"
