"""Anybody's arrays, read and checked before anything is written: names, kinds, shapes, and what looks mistaken."""

from __future__ import annotations

import re
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.cache.format.arrays import layer_name
from exitbench.cache.format.manifest_file import check_costs
from exitbench.errors import InputError, did_you_mean, one_line

PLAIN = ("logits", "labels", "features", "weight", "bias", "offset_norm", "ids", "groups", "costs")
LAYERED = re.compile(r"(features|weight)\.([0-9]{1,5})", re.ASCII)
"""One layer's features or head weights, where exits differ in width."""

OUTPUT = re.compile(r"outputs\.([A-Za-z0-9][A-Za-z0-9_-]{0,62})", re.ASCII)
LOOKED_AT = 4096
"""Rows that are looked at for probabilities in the place of logits."""

DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What numpy and zipfile raise for archives that are cut, encrypted, or larger than any memory."""

Arrays = Mapping[str, NDArray[Any]]


def open_arrays(source: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an ``.npz`` file (read whole) or of a folder of ``.npy`` files (memory-mapped).

    Names of single layers come back as ``features.01`` and so on, however many zeros they were written with.
    """
    if source.is_dir():
        return _named({path.stem: _load(path, path.stem) for path in _array_files(source)}, source)
    if not source.exists():
        raise InputError(f"{source}: expected an .npz file or a folder of .npy files, found nothing")
    if not source.is_file() or not zipfile.is_zipfile(source):
        raise InputError(f"{source}: expected an .npz file, found something else")
    try:
        with np.load(source, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if _is_expected(name, source)}
    except DAMAGE as error:
        raise InputError(f"{source}: expected arrays of numbers, found something else ({one_line(error)})") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # a member that is no .npy file is given back as bytes
            raise InputError(f"{source}: expected an array {name!r}, found something else")
    return _named(arrays, source)


def _array_files(source: Path) -> Iterator[Path]:
    for path in sorted(source.glob("*.npy")):
        if _is_expected(path.stem, source):
            yield path


def _named(arrays: Mapping[str, NDArray[Any]], source: Path) -> dict[str, NDArray[Any]]:
    named: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        layered = LAYERED.fullmatch(name)
        written = layer_name(layered[1], int(layered[2])) if layered else name
        if written in named:
            raise InputError(f"{source}: expected {written} once, found it twice")
        named[written] = array
    return named


def _is_expected(name: str, source: Path) -> bool:
    if name not in PLAIN and not LAYERED.fullmatch(name) and not OUTPUT.fullmatch(name):
        expected = (*PLAIN, "features.01", "weight.01", "outputs.NAME")
        raise InputError(
            f"{source}: expected only {', '.join(expected)}, found {name!r}.{did_you_mean(name, expected)}"
        )
    return True


def _load(path: Path, name: str) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise InputError(
            f"{path}: expected an array of numbers for {name}, found something else ({one_line(error)})"
        ) from None
    return array


def output_array_names(arrays: Arrays) -> list[str]:
    """The names of the extra outputs among some arrays, sorted."""
    return sorted(match[1] for name in arrays if (match := OUTPUT.fullmatch(name)))


def by_layer(arrays: Arrays, name: str) -> list[NDArray[Any]]:
    """The arrays ``features.01`` and so on (or those of ``weight``), in the order of the layers; none where none is."""
    return [arrays[key] for key in sorted(_layer_numbers(arrays, name), key=lambda key: int(key.split(".")[1]))]


def _layer_numbers(arrays: Arrays, name: str) -> list[str]:
    return [key for key in arrays if (match := LAYERED.fullmatch(key)) and match[1] == name]


def check_arrays(arrays: Arrays, source: Path) -> None:
    """Refuse arrays that cannot be a cache, before anything is written."""
    if "logits" not in arrays:
        raise InputError(f"{source}: expected an array 'logits', found {', '.join(arrays) or 'none'}")
    for name, array in arrays.items():
        if array.ndim == 0:
            raise InputError(f"{source}: expected an array {name!r}, found a single number")
        if array.dtype.kind not in "iuf":
            raise InputError(f"{source}: expected {name} to be numbers, found {array.dtype}")
    layers, rows, classes = _checked_logits(arrays, source)
    if ("weight" in arrays or _layer_numbers(arrays, "weight") != []) != ("bias" in arrays):
        raise InputError(f"{source}: expected weight and bias together, found only one of them")
    _check_layered(arrays, source, layers)
    width = arrays["features"].shape[-1] if "features" in arrays and arrays["features"].ndim == 3 else None
    if width is None and "weight" in arrays:
        width = arrays["weight"].shape[-1]
    shapes: dict[str, list[int | None]] = {
        "labels": [rows],
        "ids": [rows],
        "groups": [rows],
        "costs": [layers],
        "offset_norm": [layers, rows],
        "features": [layers, rows, width],
        "weight": [layers, classes, width],
        "bias": [layers, classes],
    }
    for layer, array in enumerate(by_layer(arrays, "features"), 1):
        shapes[layer_name("features", layer)] = [rows, array.shape[-1]]
    widths = [array.shape[-1] for array in by_layer(arrays, "features")]
    for layer, array in enumerate(by_layer(arrays, "weight"), 1):
        shapes[layer_name("weight", layer)] = [classes, widths[layer - 1] if widths else array.shape[-1]]
    for name in output_array_names(arrays):
        array = arrays[f"outputs.{name}"]
        shapes[f"outputs.{name}"] = [layers, rows, *(array.shape[2:3] if array.ndim > 2 else ())]
    for name, shape in shapes.items():
        if name in arrays and list(arrays[name].shape) != shape:
            hint = transposed(arrays[name].shape, shape)
            raise InputError(f"{source}: expected {name} {shape}, found {list(arrays[name].shape)}{hint}")
    if "costs" in arrays:
        check_costs([float(cost) for cost in arrays["costs"]], str(source))


def _checked_logits(arrays: Arrays, source: Path) -> tuple[int, int, int]:
    """The numbers of layers, samples and classes, if the logits can be [layers, samples, classes]."""
    logits = arrays["logits"]
    if logits.ndim != 3:
        raise InputError(f"{source}: expected logits [layers, samples, classes], found {list(logits.shape)}")
    layers, rows, classes = logits.shape
    labels = arrays.get("labels")
    if labels is not None and labels.ndim == 1 and len(labels) != rows and len(labels) in logits.shape:
        raise InputError(
            f"{source}: expected logits [layers, samples, classes] with {len(labels)} samples, as many as labels, "
            f"found {list(logits.shape)}; transposed?"
        )
    for count, axis in ((layers, "layers"), (classes, "classes")):
        if count < 2:
            raise InputError(f"{source}: expected at least 2 {axis}, found {count}")
    if rows < 1:
        raise InputError(f"{source}: expected at least one row, found none")
    return layers, rows, classes


def _check_layered(arrays: Arrays, source: Path, layers: int) -> None:
    """Arrays of single layers are there for every layer, and not beside one for all of them."""
    for name in ("features", "weight"):
        keys = _layer_numbers(arrays, name)
        if not keys:
            continue
        if name in arrays:
            raise InputError(f"{source}: expected {name} or {layer_name(name, 1)} and so on, found both")
        missing = [key for layer in range(1, layers + 1) if (key := layer_name(name, layer)) not in arrays]
        if missing or len(keys) != layers:
            present = f"no {missing[0]}" if missing else f"{len(keys)}"
            raise InputError(f"{source}: expected {layer_name(name, 1)} to {layer_name(name, layers)}, found {present}")
        if "weight" in arrays and name == "features":
            raise InputError(f"{source}: expected weight.01 and so on beside features.01, found weight")


def transposed(shape: Sequence[int], expected: Sequence[int | None]) -> str:
    """A question to append where a shape has the expected numbers in another order; else nothing.

    >>> transposed((872, 12), (12, 872))
    '; transposed?'
    """
    swapped = len(shape) == len(expected) > 1 and list(shape) != list(expected)
    # The width of weights and features is read off their last axis, so it may itself be a swapped one.
    return "; transposed?" if swapped and (set(shape) == set(expected) or shape[-1] in expected[:-1]) else ""


def doubts(arrays: Arrays) -> list[str]:
    """What looks mistaken in arrays that are a good cache, one line each."""
    logits = arrays["logits"]
    layers, rows, _ = logits.shape
    lines = []
    if layers > rows and "labels" not in arrays:
        lines.append(f"logits have {layers} layers and {rows} samples: transposed?")
    seen = np.asarray(logits[:, :LOOKED_AT], dtype=np.float64)
    if not np.isfinite(seen).all():
        return lines  # refused when it is written, with the place
    if (seen >= 0).all() and np.abs(seen.sum(axis=2) - 1).max() < 1e-3:
        lines.append(
            "logits look like probabilities (none below 0, every row adds up to 1): energies and calibration need "
            "the numbers before the softmax"
        )
    elif (seen <= 0).all() and np.abs(np.logaddexp.reduce(seen, axis=2)).max() < 1e-3:
        lines.append(
            "logits look like log-probabilities (the probabilities of every row add up to 1): every energy is 0; "
            "it needs the numbers before the softmax"
        )
    return lines
