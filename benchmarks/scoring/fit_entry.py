"""One entry of the fit cache: a fitted signal as a safetensors file, its arrays as tensors and the rest as JSON.

The JSON stands in the header's metadata with the entry's key and a checksum over all of it, so that one file, renamed
into its folder, is the whole entry. What comes back is believed only if everything fits; nothing in it can execute.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.errors import InputError
from exitbench.signals.contract.signal import is_packed

TENSOR = "$tensor"
"""The only key of an object that stands for an array."""
METADATA = "exitbench-fit"
"""Where the JSON stands in the header."""
DTYPES = ("float16", "float32", "float64")
Tensors = dict[str, NDArray[np.floating[Any]]]


def encode_entry(key: str, signal: Mapping[str, Any]) -> bytes:
    """A signal's JSON form as the bytes of an entry."""
    from safetensors.numpy import save

    tensors: Tensors = {}
    text = json.dumps(without_arrays(signal, tensors), sort_keys=True)
    # One text in the metadata: several would come in an order that differs from process to process.
    described = {"key": key, "signal": text, "sha256": checksum(text, tensors)}
    return bytes(save(tensors, {METADATA: json.dumps(described)}))


def read_entry(path: Path, key: str, largest: int) -> dict[str, Any]:
    """The signal's JSON form in an entry; an InputError where it is damaged, foreign, or no plain file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    state = path.lstat()
    if not stat.S_ISREG(state.st_mode) or not 8 <= state.st_size <= largest:
        raise InputError(f"{path}: expected a file of at most {largest} bytes, found none such")
    content = path.read_bytes()
    try:
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        described = json.loads(header["__metadata__"][METADATA])
        text = described["signal"]
        tensors = dict(load(content))
        if described["key"] != key or described["sha256"] != checksum(text, tensors):
            raise InputError(f"{path}: expected the entry {key}, found another or a damaged one")
        signal = with_arrays(json.loads(text), tensors)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
        raise InputError(f"{path}: expected a fitted signal, found something else ({type(error).__name__})") from None
    if not isinstance(signal, dict):
        raise InputError(f"{path}: expected an object, found {type(signal).__name__}")
    return signal


def without_arrays(value: Any, tensors: Tensors) -> Any:
    """A JSON value whose arrays were moved to ``tensors``, each replaced by an object with its name."""
    if is_packed(value) and (array := array_of(value)) is not None:
        name = str(len(tensors))
        tensors[name] = array
        return {TENSOR: name}
    if isinstance(value, list | tuple):
        return [without_arrays(item, tensors) for item in value]
    if isinstance(value, Mapping):
        return {name: without_arrays(item, tensors) for name, item in value.items()}
    return value


def array_of(packed: Any) -> NDArray[np.floating[Any]] | None:
    """The array that a type, a shape and a text in base64 stand for; ``None`` where they stand for none."""
    dtype, shape, text = packed
    if dtype not in DTYPES or not all(isinstance(size, int) and size >= 0 for size in shape):
        return None
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    if len(content) != math.prod(shape) * np.dtype(dtype).itemsize:
        return None
    return np.frombuffer(content, dtype=dtype).reshape(tuple(shape))


def with_arrays(value: Any, tensors: Tensors) -> Any:
    """The JSON value with its arrays back in their places, as text."""
    if isinstance(value, dict) and set(value) == {TENSOR}:
        array = tensors[value[TENSOR]]
        return [str(array.dtype), list(array.shape), base64.b64encode(array.tobytes()).decode("ascii")]
    if isinstance(value, list):
        return [with_arrays(item, tensors) for item in value]
    if isinstance(value, dict):
        return {name: with_arrays(item, tensors) for name, item in value.items()}
    return value


def checksum(text: str, tensors: Tensors) -> str:
    """The sha256 of everything that an entry holds."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"\0{name} {array.dtype} {array.shape}\0".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
