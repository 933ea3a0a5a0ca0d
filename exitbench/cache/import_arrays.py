"""A cache from anybody's arrays: an ``.npz`` file, or a folder of ``.npy`` files larger than memory."""

from __future__ import annotations

import hashlib
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.cache.format.manifest import FeatureDtype, Model, Task
from exitbench.cache.format.tasks import TASKS
from exitbench.cache.writer import CacheWriter
from exitbench.errors import InputError, did_you_mean, one_line

REQUIRED = ("labels", "logits")
OPTIONAL = ("features", "weight", "bias", "offset_norm", "ids")
BLOCK_ROWS = 1024
DIGEST_ROWS = 4096
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
    """The arrays of an ``.npz`` file (read whole) or of a folder of ``.npy`` files (memory-mapped)."""
    if source.is_dir():
        files = {path.stem: path for path in sorted(source.glob("*.npy"))}
        return {name: _load(path, name) for name, path in files.items() if _is_expected(name, source)}
    if not source.exists():
        raise InputError(f"{source}: expected an .npz file or a folder of .npy files, found nothing")
    if not zipfile.is_zipfile(source):
        raise InputError(f"{source}: expected an .npz file, found something else")
    try:
        with np.load(source, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files if _is_expected(name, source)}
    except DAMAGE as error:
        raise InputError(f"{source}: expected arrays of numbers, found something else ({one_line(error)})") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # a member that is no .npy file is given back as bytes
            raise InputError(f"{source}: expected an array {name!r}, found something else")
    return arrays


def _is_expected(name: str, source: Path) -> bool:
    expected = (*REQUIRED, *OPTIONAL)
    if name not in expected:
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


def task_of(name: str, classes: tuple[str, ...] | None, metric: str | None, count: int) -> Task:
    """The task to write in the manifest: GLUE's own names where they are known and fit."""
    glue_task = TASKS.get(name)
    if classes is None and glue_task is not None and len(glue_task.classes) != count:
        raise InputError(f"task {name}: expected {len(glue_task.classes)} classes, found {count} in the logits")
    task = glue_task if glue_task is not None and classes is None else None
    if task is None:
        task = Task(name, classes or tuple(str(k) for k in range(count)), glue_task.metric if glue_task else "accuracy")
    if len(task.classes) != count:
        raise InputError(
            f"expected {len(task.classes)} classes ({', '.join(task.classes)}), found {count} in the logits"
        )
    if metric is not None and metric not in ("accuracy", "f1"):
        raise InputError(f"expected metric accuracy or f1, found {metric!r}")
    return replace(task, metric=metric) if metric else task  # type: ignore[arg-type]


def _check_kinds(arrays: Arrays, source: Path) -> None:
    for name in REQUIRED:
        if name not in arrays:
            raise InputError(f"{source}: expected an array {name!r}, found {', '.join(arrays) or 'none'}")
    for name, array in arrays.items():
        if array.ndim == 0:
            raise InputError(f"{source}: expected an array {name!r}, found a single number")
        if array.dtype.kind not in "iuf":
            raise InputError(f"{source}: expected {name} to be numbers, found {array.dtype}")


def check_arrays(arrays: Arrays, source: Path) -> None:
    """Refuse arrays that cannot be a cache, before anything is written."""
    _check_kinds(arrays, source)
    logits = arrays["logits"]
    if logits.ndim != 3:
        raise InputError(f"{source}: expected logits [layers, samples, classes], found {list(logits.shape)}")
    layers, rows, classes = logits.shape
    for count, axis in ((layers, "layers"), (classes, "classes")):
        if count < 2:
            raise InputError(f"{source}: expected at least 2 {axis}, found {count}")
    if rows < 1:
        raise InputError(f"{source}: expected at least one row, found none")
    if ("weight" in arrays) != ("bias" in arrays):
        raise InputError(f"{source}: expected weight and bias together, found only one of them")
    width = arrays["features"].shape[-1] if "features" in arrays and arrays["features"].ndim == 3 else None
    if width is None and "weight" in arrays:
        width = arrays["weight"].shape[-1]
    shapes = {
        "labels": [rows],
        "ids": [rows],
        "offset_norm": [layers, rows],
        "features": [layers, rows, width],
        "weight": [layers, classes, width],
        "bias": [layers, classes],
    }
    for name, shape in shapes.items():
        if name in arrays and list(arrays[name].shape) != shape:
            raise InputError(f"{source}: expected {name} {shape}, found {list(arrays[name].shape)}")


def import_arrays(
    source: Path,
    out: Path,
    *,
    task: str,
    split: str,
    classes: tuple[str, ...] | None = None,
    metric: str | None = None,
    model: str = "imported",
    features: str | None = "same",
    shard_rows: int = 4096,
    command: str = "",
    note: str = "",
) -> None:
    """Write the arrays in ``source`` as a cache at ``out``.

    ``features`` is the dtype to store: ``same`` keeps the array's own (float64 becomes float32), None
    makes a compact cache, whose offset norms are still computed from the features and heads.
    """
    arrays = open_arrays(source)
    check_arrays(arrays, source)
    provenance = {
        "command": command,
        "note": note,
        "versions": {"numpy": np.__version__},
        "data_sha256": _digest(arrays),
    }
    logits = arrays["logits"]
    width = next((int(arrays[name].shape[-1]) for name in ("features", "weight") if name in arrays), None)
    dtype = _stored_dtype(arrays, features, source)
    heads = (arrays["weight"], arrays["bias"]) if "weight" in arrays else None
    with CacheWriter(
        out,
        task=task_of(task, classes, metric, int(logits.shape[2])),
        split=split,
        model=Model(model, None, int(logits.shape[0]), width),
        heads=heads,
        feature_dtype=dtype,
        shard_rows=shard_rows,
        provenance=provenance,
    ) as writer:
        for rows in writer.pending(int(logits.shape[1])):
            for start in range(rows.start, rows.stop, BLOCK_ROWS):
                block = slice(start, min(start + BLOCK_ROWS, rows.stop))
                per_layer = {name: arrays[name][:, block] for name in ("features", "offset_norm") if name in arrays}
                ids = {"ids": arrays["ids"][block]} if "ids" in arrays else {}
                try:
                    writer.add(labels=arrays["labels"][block], logits=logits[:, block], **per_layer, **ids)
                except InputError as error:
                    raise InputError(f"{source}: {error}") from None


def _digest(arrays: Arrays) -> str:
    """A hash of all arrays, so that an interrupted import never goes on with other data."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
        for layer in array if array.ndim > 1 else [array]:
            for start in range(0, max(len(layer), 1), DIGEST_ROWS):
                digest.update(np.ascontiguousarray(layer[start : start + DIGEST_ROWS]).data)
    return digest.hexdigest()


def _stored_dtype(arrays: Arrays, requested: str | None, source: Path) -> FeatureDtype | None:
    if requested is None or "features" not in arrays:
        if requested not in (None, "same"):
            raise InputError(f"{source}: expected features to store as {requested}, found none")
        return None
    if requested == "same":
        return "float16" if arrays["features"].dtype == np.float16 else "float32"
    if requested not in ("float16", "bfloat16", "float32"):
        raise InputError(f"expected features float16, bfloat16, float32, same or none, found {requested!r}")
    return requested  # type: ignore[return-value]
