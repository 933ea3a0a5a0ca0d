"""Safetensors files, read by memory-mapping one block at a time, every length checked first, and written in blocks.

Why not the ``safetensors`` package itself, measured with its version 0.8: an open ``safe_open`` keeps all it has read
resident (581 MB after the 24 layers of a 604 MB file, 26 MB here) and holds a descriptor per shard, one opened for each
block takes 95 microseconds instead of 21, its refusals name no numbers, and ``save_file`` gives no blocks to hash.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from exitbench.atomic_files import reason
from exitbench.cache.format.files import child
from exitbench.errors import InputError

LARGEST_HEADER = 2**20
SPARSE_SIZE, SPARSE_SHARE = 64 * 2**20, 64
"""A file of more bytes than this is refused where less than one in so many is stored; no compression gets that far."""

DTYPES: dict[str, torch.dtype] = {
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "I64": torch.int64,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}


@dataclass(frozen=True)
class StoredTensor:
    """Where one tensor lies in a file: its shape, and the byte at which its data begins."""

    path: Path
    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    begin: int

    def block(self, *index: int, rows: slice | None = None) -> Tensor:
        """The memory-mapped part at ``index`` on the leading axes, and ``rows`` of the next axis.

        Writing into the result changes neither the file nor any other block.
        """
        inner = self.shape[len(index) :]
        low, high, _ = (rows or slice(None)).indices(inner[0])
        row_items = math.prod(inner[1:])
        first = sum(position * math.prod(self.shape[axis + 1 :]) for axis, position in enumerate(index))
        offset = self.begin + (first + low * row_items) * self.dtype.itemsize
        shape = (max(high - low, 0), *inner[1:])
        if math.prod(shape) == 0:
            return torch.empty(shape, dtype=self.dtype)
        # Mapped without numpy's wrapper, which takes several times as long as the system: blocks are many and small.
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        count = math.prod(shape)
        try:
            with self.path.open("rb", buffering=0) as stream:
                length = offset - start + count * self.dtype.itemsize
                mapped = mmap.mmap(stream.fileno(), length, access=mmap.ACCESS_COPY, offset=start)
        except (OSError, ValueError) as error:
            raise InputError(f"{self.path}: cannot be read: {str(error).lower()}") from None
        return torch.frombuffer(mapped, dtype=self.dtype, count=count, offset=offset - start).view(shape)

    def copied(self) -> Tensor:
        """The whole tensor in memory of its own: a mapped block keeps its file open as long as it lives."""
        return self.block().clone()

    def expect(self, dtype: torch.dtype, shape: tuple[int, ...]) -> StoredTensor:
        """This tensor, if it has that dtype and shape; else an InputError that names both."""
        if self.dtype is not dtype or self.shape != shape:
            raise InputError(
                f"{self.path}: expected {self.name} of {_name(dtype)} {list(shape)},"
                f" found {_name(self.dtype)} {list(self.shape)}"
            )
        return self


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@dataclass(frozen=True)
class TensorFile:
    """An open-checked safetensors file: every tensor lies inside the file with the length its shape says."""

    path: Path
    tensors: Mapping[str, StoredTensor]

    def tensor(self, name: str) -> StoredTensor:
        if name not in self.tensors:
            names = ", ".join(sorted(self.tensors)) or "none"
            raise InputError(f"{self.path}: expected a tensor {name!r}, found {names}")
        return self.tensors[name]


def open_tensors(directory: Path, name: str) -> TensorFile:
    """Read and check the header of ``name`` in ``directory``; no tensor data is read."""
    path = child(directory, name)
    try:
        state = path.stat()
        size = state.st_size
        _refuse_sparse(path, size, getattr(state, "st_blocks", 0) * 512)
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > min(size - 8, LARGEST_HEADER):
                raise InputError(f"{path}: expected a safetensors header, found a truncated or foreign file")
            text = stream.read(length)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    try:
        header = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: expected a safetensors header in JSON, found something else") from None
    if not isinstance(header, dict):
        raise InputError(f"{path}: expected a safetensors header object, found {type(header).__name__}")
    header.pop("__metadata__", None)
    return TensorFile(path, {key: _stored(path, key, value, 8 + length, size) for key, value in header.items()})


def _refuse_sparse(path: Path, size: int, stored: int) -> None:
    """A file with almost nothing in it claims memory and time for the zeros that it leaves out."""
    if size > SPARSE_SIZE and 0 < stored < size // SPARSE_SHARE:
        raise InputError(f"{path}: expected {size:,} bytes on the disk, found {stored:,}: the file is almost all holes")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**60


def _stored(path: Path, name: str, value: Any, data: int, size: int) -> StoredTensor:
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected an object for tensor {name!r}, found {type(value).__name__}")
    dtype, shape, offsets = value.get("dtype"), value.get("shape"), value.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise InputError(f"{path}: expected {name!r} to have a dtype of {', '.join(DTYPES)}, found {str(dtype)[:40]!r}")
    if not isinstance(shape, list) or len(shape) > 8 or not all(_is_count(item) for item in shape):
        raise InputError(f"{path}: expected {name!r} to have a shape, found {str(shape)[:40]}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(item) for item in offsets):
        raise InputError(f"{path}: expected {name!r} to have two data offsets, found {str(offsets)[:40]}")
    begin, end = offsets
    length = math.prod(shape) * DTYPES[dtype].itemsize
    if end - begin != length:
        raise InputError(f"{path}: expected {length} bytes for {name!r} {shape}, found {end - begin}")
    if data + end > size:
        raise InputError(f"{path}: truncated: expected at least {data + end} bytes, found {size}")
    return StoredTensor(path, name, DTYPES[dtype], tuple(shape), data + begin)


def encode(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file with these tensors, block by block, always in the same order."""
    header: dict[str, object] = {}
    begin = 0
    for name, tensor in tensors.items():
        length = tensor.numel() * tensor.dtype.itemsize
        header[name] = {
            "dtype": CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [begin, begin + length],
        }
        begin += length
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for tensor in tensors.values():
        if tensor.numel():
            yield tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
