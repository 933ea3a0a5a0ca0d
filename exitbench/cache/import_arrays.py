"""A cache from anybody's arrays: an ``.npz`` file, or a folder of ``.npy`` files larger than memory."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.cache.format.manifest import COST_UNITS, SPLIT_ROLES, FeatureDtype, Model, Output, Task
from exitbench.cache.format.tasks import TASKS
from exitbench.cache.given_arrays import Arrays, by_layer, check_arrays, doubts, open_arrays, output_array_names
from exitbench.cache.writer import CacheWarning, CacheWriter
from exitbench.errors import InputError, did_you_mean

BLOCK_ROWS = 1024
DIGEST_ROWS = 4096


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
    role: str = "test",
    cost_unit: str = "relative",
    descriptions: Mapping[str, str] | None = None,
) -> None:
    """Write the arrays in ``source`` as a cache at ``out``.

    ``features`` is the dtype to store: ``same`` keeps the array's own (float64 becomes float32), None
    makes a compact cache, whose offset norms are still computed from the features and heads.
    ``descriptions`` say what the extra outputs are, by name. What looks mistaken is a CacheWarning.
    """
    for name, value, allowed in (("role", role, SPLIT_ROLES), ("cost unit", cost_unit, COST_UNITS)):
        if value not in allowed:
            raise InputError(
                f"expected the {name} {', '.join(allowed)}, found {value!r}.{did_you_mean(value, allowed)}"
            )
    arrays = open_arrays(source)
    check_arrays(arrays, source)
    for doubt in doubts(arrays):
        warnings.warn(f"{source}: {doubt}", CacheWarning, stacklevel=2)
    provenance = {
        "command": command,
        "note": note,
        "versions": {"numpy": np.__version__},
        "data_sha256": _digest(arrays),
        **({} if "bias" in arrays else {"no_heads": "imported without weight and bias"}),
    }
    logits = arrays["logits"]
    width = next((int(arrays[name].shape[-1]) for name in ("features", "weight") if name in arrays), None)
    layered = {name: by_layer(arrays, name) for name in ("features", "weight")}
    widths = [int(array.shape[-1]) for array in layered["features"] or layered["weight"]] or None
    heads = (
        (arrays["weight"] if "weight" in arrays else layered["weight"], arrays["bias"]) if "bias" in arrays else None
    )
    with CacheWriter(
        out,
        task=task_of(task, classes, metric, int(logits.shape[2])),
        split=split,
        model=Model(model, None, int(logits.shape[0]), width),
        heads=heads,
        feature_dtype=_stored_dtype(arrays, features, source),
        shard_rows=shard_rows,
        provenance=provenance,
        costs=[float(cost) for cost in arrays["costs"]] if "costs" in arrays else None,
        cost_unit=cost_unit,  # type: ignore[arg-type]
        widths=widths,
        outputs=_outputs(arrays, descriptions or {}),
        groups="groups" in arrays,
        labelled="labels" in arrays,
        role=role,  # type: ignore[arg-type]
    ) as writer:
        for rows in writer.pending(int(logits.shape[1])):
            for start in range(rows.start, rows.stop, BLOCK_ROWS):
                block = slice(start, min(start + BLOCK_ROWS, rows.stop))
                try:
                    writer.add(**_batch(arrays, layered["features"], block))
                except InputError as error:
                    raise InputError(f"{source}: {error}") from None


def _batch(arrays: Arrays, features: list[NDArray[Any]], block: slice) -> dict[str, Any]:
    """Some rows of every array, as the writer takes them; ``features`` layer by layer where there are such."""
    batch: dict[str, Any] = {name: arrays[name][block] for name in ("labels", "ids", "groups") if name in arrays}
    batch |= {name: arrays[name][:, block] for name in ("logits", "features", "offset_norm") if name in arrays}
    if features:
        batch["features"] = [array[block] for array in features]
    return batch | {"outputs": {name: arrays[f"outputs.{name}"][:, block] for name in output_array_names(arrays)}}


def _outputs(arrays: Arrays, descriptions: Mapping[str, str]) -> list[Output]:
    names = output_array_names(arrays)
    for name in descriptions:
        if name not in names:
            listed = ", ".join(names) or "none"
            raise InputError(
                f"expected a description of the outputs {listed}, found {name!r}.{did_you_mean(name, names)}"
            )
    outputs = []
    for name in names:
        shape = arrays[f"outputs.{name}"].shape
        outputs.append(Output(name, int(shape[2]) if len(shape) == 3 else None, descriptions.get(name, "")))
    return outputs


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
    given = [arrays["features"]] if "features" in arrays else by_layer(arrays, "features")
    if requested is None or not given:
        if requested not in (None, "same"):
            raise InputError(f"{source}: expected features to store as {requested}, found none")
        return None
    if requested == "same":
        return "float16" if all(array.dtype == np.float16 for array in given) else "float32"
    if requested not in ("float16", "bfloat16", "float32"):
        raise InputError(f"expected features float16, bfloat16, float32, same or none, found {requested!r}")
    return requested  # type: ignore[return-value]
