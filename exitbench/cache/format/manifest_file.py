"""Reading a manifest: nothing of it is believed before the published schema and its own sums hold.

``manifest.schema.json`` (version 1) and ``manifest.2.schema.json`` beside this file are the published forms; every
manifest is validated against that of its version, so the schemas and the code cannot drift apart. Imports nothing
heavy: ``exitbench list caches`` reads manifests only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, cast

from exitbench.cache.format.files import child, file_bytes
from exitbench.cache.format.manifest import (
    MANIFEST,
    FileEntry,
    Manifest,
    Model,
    Output,
    Provenance,
    ShardEntry,
    Task,
)
from exitbench.errors import InputError, one_line

SCHEMAS = {1: "manifest.schema.json", 2: "manifest.2.schema.json"}
LARGEST_MANIFEST = 16 * 2**20
MOST_SHARDS = 10_000
"""Opening one takes a fraction of a millisecond, so that this many take seconds; 40 million rows in default shards."""


@cache
def schema(version: int) -> dict[str, Any]:
    """The published JSON schema of a manifest of this version."""
    text = (package_files("exitbench.cache.format") / SCHEMAS[version]).read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))


@cache
def _validator(version: int) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    return extend(Draft202012Validator, {"pattern": _matches})(schema(version))  # type: ignore[no-untyped-call]


def _matches(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[Any]:
    """JSON Schema means the very end by ``$``; Python also lets a line feed follow, as in the name ``lte\\n``."""
    from jsonschema import ValidationError

    if isinstance(instance, str) and not re.search(pattern.replace("$", r"\Z"), instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def read_manifest(directory: Path) -> Manifest:
    """The manifest of the cache in ``directory``, complete or not; any defect is an InputError."""
    if not directory.is_dir():
        other = "a file" if directory.exists() else "nothing"
        raise InputError(f"{directory}: expected a cache directory, found {other}")
    if not (directory / MANIFEST).exists():
        raise InputError(f"{directory}: not a cache: expected a file {MANIFEST}, found none")
    path = child(directory, MANIFEST)
    size = path.stat().st_size
    if size > LARGEST_MANIFEST:
        raise InputError(f"{path}: expected a manifest of at most {LARGEST_MANIFEST:,} bytes, found {size:,}")
    return parse_manifest(file_bytes(path), path)


def parse_manifest(text: bytes, path: Path) -> Manifest:
    """The manifest in ``text``; ``path`` is named in errors."""
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # half a surrogate pair could never be printed
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON, found something else ({one_line(error)})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, found {type(value).__name__}")
    version = value.get("schema")
    if not isinstance(version, int) or isinstance(version, bool) or version not in SCHEMAS:
        raise InputError(f"{path}: expected schema version {' or '.join(map(str, SCHEMAS))}, found {_short(version)}")
    shards = value.get("shards")
    if isinstance(shards, list) and len(shards) > MOST_SHARDS:
        raise InputError(f"{path}: expected at most {MOST_SHARDS:,} shards, found {len(shards):,}")
    _check_schema(value, version, path)
    manifest = _build(value)
    _check_sums(manifest, path)
    _check_layers(manifest, path)
    return manifest


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_schema(value: dict[str, Any], version: int, path: Path) -> None:
    from jsonschema.exceptions import best_match

    try:
        error = best_match(_validator(version).iter_errors(value))
    except RecursionError:
        raise InputError(f"{path}: expected a flat JSON object, found one nested too deeply") from None
    if error is None:
        return
    key = ".".join(str(part) for part in error.absolute_path) or "the manifest"
    if key == "model.layers" and error.validator == "minimum":
        raise InputError(f"{path}: expected at least 2 layers, found {_short(error.instance)}")
    if key == "task.classes" and error.validator == "minItems":
        raise InputError(f"{path}: expected at least 2 classes, found {len(error.instance)}")
    if error.validator == "pattern" and key.endswith("file"):
        raise InputError(
            f"{path}: expected at {key} a plain file name ending in .safetensors, found {_short(repr(error.instance))}"
        )
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        raise InputError(f"{path}: expected a key {missing[0]!r} in {key}, found none")
    if error.validator == "additionalProperties":
        allowed = error.schema.get("properties", {})
        unknown = sorted(set(error.instance) - set(allowed))
        raise InputError(f"{path}: expected in {key} only {', '.join(allowed)}, found {_short(unknown[0])!r} too")
    rule = f"{error.validator} {_short(json.dumps(error.validator_value))}"
    raise InputError(f"{path}: expected {key} to satisfy {rule}, found {_short(error.instance)}")


def _file(value: dict[str, Any] | None) -> FileEntry | None:
    return None if value is None else FileEntry(value["file"], value["sha256"])


def _build(value: dict[str, Any]) -> Manifest:
    provenance = dict(value["provenance"])
    listed = {name: provenance.pop(name) for name in Provenance.__dataclass_fields__}
    return Manifest(
        complete=value["complete"],
        task=Task(value["task"]["name"], tuple(value["task"]["classes"]), value["task"]["metric"]),
        split=value["split"],
        model=Model(**{key: _whole(item) for key, item in value["model"].items()}),
        rows=int(value["rows"]),
        feature_dtype=value["feature_dtype"],
        heads=_file(value["heads"]),
        shards=tuple(
            ShardEntry(int(shard["rows"]), shard["file"], shard["sha256"], _file(shard.get("features")))
            for shard in value["shards"]
        ),
        provenance=Provenance(**listed),
        extra_provenance=tuple(sorted(provenance.items())),
        labelled=value.get("labelled", True),
        target=value.get("target", "labels"),
        split_role=value.get("split_role", "test"),
        groups=value.get("groups", False),
        costs=_tuple(value.get("costs"), float),
        cost_unit=value.get("cost_unit", "relative"),
        widths=_tuple(value.get("widths"), int),
        outputs=tuple(
            Output(**{key: _whole(item) for key, item in output.items()}) for output in value.get("outputs", [])
        ),
        derived=value.get("derived"),
    )


def _tuple(values: list[Any] | None, kind: Any) -> tuple[Any, ...] | None:
    return None if values is None else tuple(map(kind, values))


def _whole(value: Any) -> Any:
    """JSON Schema calls 12.0 an integer; so does this."""
    return int(value) if isinstance(value, float) else value


def _check_sums(manifest: Manifest, path: Path) -> None:
    total = sum(shard.rows for shard in manifest.shards)
    if total != manifest.rows:
        raise InputError(f"{path}: expected the shards' rows to add up to {manifest.rows}, found {total}")
    names: set[str] = set()
    for entry in manifest.files:
        if entry.file in names:
            raise InputError(f"{path}: expected every file to be listed once, found {entry.file} twice")
        names.add(entry.file)
    with_features = sum(shard.features is not None for shard in manifest.shards)
    expected = len(manifest.shards) if manifest.feature_dtype else 0
    if with_features != expected:
        raise InputError(
            f"{path}: expected {expected} feature files (feature_dtype is {manifest.feature_dtype}),"
            f" found {with_features}"
        )
    if manifest.complete and manifest.rows == 0:
        raise InputError(f"{path}: expected at least one row, found none")


def _check_layers(manifest: Manifest, path: Path) -> None:
    """What version 2 says layer by layer, or about the samples' labels, must fit the rest."""
    layers = manifest.model.layers
    for name, values in (("costs", manifest.costs), ("widths", manifest.widths)):
        if values is not None and len(values) != layers:
            raise InputError(f"{path}: expected {layers} {name}, one for each layer, found {len(values)}")
    check_costs(manifest.costs, str(path))
    if manifest.widths is not None and manifest.model.width is not None:
        raise InputError(f"{path}: expected model.width null beside widths, found {manifest.model.width}")
    names = [output.name for output in manifest.outputs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{path}: expected every output once, found {twice!r} twice")
    if not manifest.labelled and manifest.target != "final":
        raise InputError(f"{path}: expected the target final in a cache without labels, found {manifest.target}")


def check_costs(costs: Sequence[float] | None, source: str) -> None:
    """Costs of exiting layer by layer are finite, above 0 and never fall: a later layer contains the earlier ones."""
    if costs is None:
        return
    for layer, cost in enumerate(costs, 1):
        if not math.isfinite(cost) or cost <= 0:
            raise InputError(f"{source}: expected costs above 0, found {cost:g} at layer {layer}")
        if layer > 1 and cost < costs[layer - 2]:
            raise InputError(
                f"{source}: expected costs that never fall from layer to layer (they are cumulative), "
                f"found {cost:g} at layer {layer} after {costs[layer - 2]:g}"
            )
