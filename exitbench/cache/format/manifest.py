"""The manifest of a cache: its values and their JSON form.

Version 2 says more than version 1: extra outputs, costs, a width for every exit, groups, a target, missing labels and
what the rows were used for. A manifest that needs none of it is written as version 1, which older readers know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

MANIFEST = "manifest.json"

FeatureDtype = Literal["float16", "bfloat16", "float32"]
Metric = Literal["accuracy", "f1"]
Target = Literal["labels", "final"]
"""What a right answer is: it equals the label, or it agrees with the last layer."""

TARGETS: tuple[Target, ...] = ("labels", "final")
SplitRole = Literal["test", "calibration", "train"]
"""What the rows were used for: scored only, used to choose and fit, or seen by the network when it was trained."""

SPLIT_ROLES: tuple[SplitRole, ...] = ("test", "calibration", "train")
CostUnit = Literal["relative", "operations", "milliseconds"]
COST_UNITS: tuple[CostUnit, ...] = ("relative", "operations", "milliseconds")


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
class Output:
    """An extra output of the network at every layer: [layers, samples], or [layers, samples, ``size``].

    ``description`` says what it is, ``training`` which training made it.
    """

    name: str
    size: int | None = None
    description: str = ""
    training: str = ""


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
    """Everything ``manifest.json`` says; from ``labelled`` on, what only version 2 says.

    ``costs`` [layers] is the cumulative cost of exiting at each layer, ``None`` for layer over depth. ``widths``
    [layers] are the feature widths of the exits where each has its own. ``derived`` says how, and from which
    caches, this one was computed.
    """

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
    labelled: bool = True
    target: Target = "labels"
    split_role: SplitRole = "test"
    groups: bool = False
    costs: tuple[float, ...] | None = None
    cost_unit: CostUnit = "relative"
    widths: tuple[int, ...] | None = None
    outputs: tuple[Output, ...] = ()
    derived: Mapping[str, Any] | None = None

    @property
    def no_heads(self) -> str:
        """Why there are no heads, in a few words; empty where there are, or nobody wrote it down."""
        known = self.derived if self.derived is not None else dict(self.extra_provenance)
        reason = known.get("no_heads")
        return reason if self.heads is None and isinstance(reason, str) else ""

    @property
    def version(self) -> int:
        """The version of the format that this manifest needs: 1 unless it says something that only 2 can."""
        later = (part for part in fields(self) if part.name in VERSION_2)
        return 2 if any(getattr(self, part.name) != part.default for part in later) else 1

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
        if self.version == 1:
            value = {name: part for name, part in value.items() if name not in VERSION_2}
        return json.dumps({"schema": self.version, **value}, indent=1, ensure_ascii=False) + "\n"


VERSION_2 = ("labelled", "target", "split_role", "groups", "costs", "cost_unit", "widths", "outputs", "derived")
"""The keys that version 1 does not have."""
