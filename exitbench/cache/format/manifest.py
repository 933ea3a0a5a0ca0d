"""The manifest of a cache: its values, its JSON form, and the checks before anything else is read.

``manifest.schema.json`` beside this file is the published form; every manifest is validated against
it, so the schema and the code cannot drift apart. Imports nothing heavy: ``exitbench list caches``
reads manifests only.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any, Literal, cast

from exitbench.cache.format.files import child, file_bytes
from exitbench.errors import InputError, one_line

SCHEMA_VERSION = 1
MANIFEST = "manifest.json"
LARGEST_MANIFEST = 16 * 2**20
MOST_SHARDS = 10_000
"""Opening one takes a fraction of a millisecond, so that this many take seconds; 40 million rows in default shards."""

FeatureDtype = Literal["float16", "bfloat16", "float32"]
Metric = Literal["accuracy", "f1"]


@dataclass(frozen=True)
class Task:
    """What was asked: ``metric`` is ``accuracy``, or ``f1`` (of class 1) for MRPC and QQP."""

    name: str
    classes: tuple[str, ...]
    metric: Metric = "accuracy"


@dataclass(frozen=True)
class Model:
    """The network that answered: ``layers`` is M; ``width`` is N, or None without heads and features."""

    name: str
    revision: str | None
    layers: int
    width: int | None
    pooling: str | None = None
    pooler: str | None = None


@dataclass(frozen=True)
class FileEntry:
    """A file of the cache and the sha256 of its bytes."""

    file: str
    sha256: str


@dataclass(frozen=True)
class ShardEntry:
    """One shard: labels, ids, logits and offset norms in ``file``, features in a file of their own."""

    rows: int
    file: str
    sha256: str
    features: FileEntry | None = None


@dataclass(frozen=True)
class Provenance:
    """Where the numbers come from; fixed when a collection first starts."""

    started: str
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    device: str = "cpu"
    dtype: str = "float32"
    seed: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Manifest:
    """Everything ``manifest.json`` says."""

    complete: bool
    task: Task
    split: str
    model: Model
    rows: int
    feature_dtype: FeatureDtype | None
    heads: FileEntry | None
    shards: tuple[ShardEntry, ...]
    provenance: Provenance
    extra_provenance: tuple[tuple[str, Any], ...] = ()

    def with_shards(self, shards: tuple[ShardEntry, ...], *, complete: bool) -> Manifest:
        """The same manifest for these shards, rows counted anew."""
        return replace(self, shards=shards, rows=sum(shard.rows for shard in shards), complete=complete)

    @property
    def files(self) -> tuple[FileEntry, ...]:
        """Every file that the manifest lists, heads first, each shard before its features."""
        entries = [] if self.heads is None else [self.heads]
        for shard in self.shards:
            entries.append(FileEntry(shard.file, shard.sha256))
            entries += [] if shard.features is None else [shard.features]
        return tuple(entries)

    def to_json(self) -> str:
        """The text of ``manifest.json``: always the same bytes for the same values."""
        value = asdict(self)
        value["provenance"] |= dict(value.pop("extra_provenance"))
        return json.dumps({"schema": SCHEMA_VERSION, **value}, indent=1, ensure_ascii=False) + "\n"


@cache
def schema() -> dict[str, Any]:
    """The published JSON schema of a manifest."""
    text = (package_files("exitbench.cache.format") / "manifest.schema.json").read_text(encoding="utf-8")
    return cast(dict[str, Any], json.loads(text))


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    return Draft202012Validator(schema())


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
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise InputError(f"{path}: expected schema version {SCHEMA_VERSION}, found {_short(version)}")
    shards = value.get("shards")
    if isinstance(shards, list) and len(shards) > MOST_SHARDS:
        raise InputError(f"{path}: expected at most {MOST_SHARDS:,} shards, found {len(shards):,}")
    _check_schema(value, path)
    manifest = _build(value)
    _check_sums(manifest, path)
    return manifest


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _short(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _check_schema(value: dict[str, Any], path: Path) -> None:
    from jsonschema.exceptions import best_match

    try:
        error = best_match(_validator().iter_errors(value))
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
    )


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
