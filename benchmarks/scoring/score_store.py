"""The scores of all signals on one cache, in memory or as plain files, ready to be measured.

Samples are put in the order of their ids, so that nothing afterwards can depend on the order of rows. A
signal that learns has one set of scores per part it was fitted on (its *variant*); all others have one.

As files, a folder holds ``meta.json`` and, per role (``test``; ``calibration`` for the held-out protocol), ``ids``,
``labels``, ``predictions`` and one ``scores`` file per configuration and variant, all ``.npy``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import mapped_array
from exitbench.benchmarks.scoring.configuration import Configuration, signal_scores
from exitbench.benchmarks.scoring.outcomes import Measure, Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores

Role = Literal["test", "calibration"]
ARRAYS = ("ids", "labels", "predictions")
FAILED = "failed"
"""A file that says that not all signals could be scored, so that these scores are not for another run."""
PLAIN = "plain"
"""The variant of a signal that learns nothing."""


@dataclass(frozen=True, eq=False)
class Samples:
    """The answers of one network on one set of samples, ordered by id; ``predictions`` [layers, samples].

    ``labels`` [samples] are the answers that count as right: labels, or what the last layer says, as the target is.
    ``groups`` [samples] say which samples belong together, where they do.
    """

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    metric: str
    costs: tuple[float, ...] | None = None
    groups: NDArray[np.int64] | None = None

    @property
    def size(self) -> int:
        return len(self.ids)

    @property
    def depth(self) -> int:
        return int(self.predictions.shape[0])

    @property
    def measure(self) -> Measure:
        """The task's own score."""
        return "f1" if self.metric == "f1" else "accuracy"

    @cached_property
    def outcomes(self) -> Outcomes:
        return Outcomes.of_task(self.predictions, self.labels, self.metric, self.costs)

    @property
    def units(self) -> NDArray[np.int64]:
        """What folds and resamples draw, [samples]: the group of each sample, else the sample itself, by its id."""
        return self.ids if self.groups is None else self.groups


class ScoresKey(NamedTuple):
    """Which scores: the position of a configuration, what it was fitted on, and the samples' role."""

    configuration: int
    variant: str
    role: Role


Scores = NDArray[np.float64]


class ScoreStore(Protocol):
    """Where scores [layers - 1, samples] are kept: a dictionary, or files."""

    def __getitem__(self, key: ScoresKey, /) -> Scores: ...
    def __setitem__(self, key: ScoresKey, values: Scores, /) -> None: ...


class ScoreFiles:
    """Scores as ``.npy`` files of one folder, memory-mapped when they are read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, key: ScoresKey) -> Scores:
        return mapped_array(self._path(key))

    def __setitem__(self, key: ScoresKey, values: Scores) -> None:
        np.save(self._path(key), values)

    def _path(self, key: ScoresKey) -> Path:
        return self.folder / f"{key.role}-scores-{key.configuration:03d}-{key.variant}.npy"


@dataclass(frozen=True, eq=False)
class ScoredCache:
    """One cache with the scores of all configurations, on the test samples and, if there are any, calibration ones.

    ``target`` says what a right answer is; ``trained_on``, the samples of which roles the network was trained on.
    """

    cache: str
    model: str
    task: str
    split: str
    metric: str
    configurations: tuple[Configuration, ...]
    samples_by_role: Mapping[Role, Samples]
    score_store: ScoreStore
    target: str = "labels"
    trained_on: tuple[Role, ...] = ()

    def samples(self, role: Role = "test") -> Samples:
        """The samples that are scored (``test``), or those that everything is chosen on (``calibration``)."""
        return self.samples_by_role[role]

    def scores(self, number: int, variant: str = PLAIN, role: Role = "test") -> SignalScores:
        """The scores of a configuration; ``variant`` says what a signal that learns was fitted on."""
        configuration = self.configurations[number]
        key = ScoresKey(number, variant if configuration.learns else PLAIN, role)
        return signal_scores(configuration, self.score_store[key])

    @property
    def key_columns(self) -> dict[str, Any]:
        """The columns of the result files that say which cache a row is about."""
        return {"cache": self.cache, "model": self.model, "task": self.task, "split": self.split}


def save_scored_cache(folder: Path, scored: ScoredCache) -> None:
    """Write everything but the scores, which are in the folder already."""
    for role, samples in scored.samples_by_role.items():
        for name in ARRAYS:
            np.save(folder / f"{role}-{name}.npy", getattr(samples, name))
        if samples.groups is not None:
            np.save(folder / f"{role}-groups.npy", samples.groups)
    record: dict[str, Any] = {
        **scored.key_columns,
        "metric": scored.metric,
        "roles": {
            role: {"costs": samples.costs, "groups": samples.groups is not None}
            for role, samples in scored.samples_by_role.items()
        },
        "target": scored.target,
        "trained_on": list(scored.trained_on),
        "configurations": [dataclasses.asdict(configuration) for configuration in scored.configurations],
    }
    (folder / "meta.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if any(configuration.problem and not configuration.left_out for configuration in scored.configurations):
        (folder / FAILED).touch()


def has_failed_signals(folder: Path) -> bool:
    """Whether a signal failed when the scores in a folder were made."""
    return (folder / FAILED).exists()


def lacking_signals(folder: Path) -> list[str]:
    """Why some signals were left out of the scores in a folder: a line for all that read what the cache lacks."""
    unread: dict[str, list[Configuration]] = {}
    for configuration in stored_configurations(folder):
        if configuration.cannot_run:
            unread.setdefault(configuration.lacks or configuration.problem, []).append(configuration)
    return [
        f"signals {', '.join(dict.fromkeys(each.text for each in several))} read {lacks}"
        if len(several) > 1 and several[0].lacks
        else several[0].problem
        for lacks, several in unread.items()
    ]


def left_out_signals(folder: Path) -> set[str]:
    """The texts of the signals that have no scores in a folder although nothing failed."""
    return {configuration.text for configuration in stored_configurations(folder) if configuration.left_out}


def stored_configurations(folder: Path) -> tuple[Configuration, ...]:
    """The configurations of the scores in a folder."""
    record = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return configurations_of(record["configurations"])


def head_remarks(folder: Path) -> list[str]:
    """Where heads leave a signal no score, or little to see, a line for each signal and remark."""
    record = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    layers: dict[tuple[str, str], dict[int, None]] = {}
    for configuration in configurations_of(record["configurations"]):
        for layer, note in configuration.head_notes:
            layers.setdefault((configuration.signal, note), {})[layer] = None
    return [
        f"signal {signal} on cache {record['cache']}, layer {', '.join(map(str, numbers))}: {note}"
        for (signal, note), numbers in layers.items()
    ]


def load_scored_cache(folder: Path) -> ScoredCache:
    """What :func:`save_scored_cache` and :class:`ScoreFiles` wrote to a folder."""
    record = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    samples: dict[Role, Samples] = {
        role: Samples(
            metric=record["metric"],
            costs=None if held["costs"] is None else tuple(held["costs"]),
            groups=mapped_array(folder / f"{role}-groups.npy") if held["groups"] else None,
            **{name: mapped_array(folder / f"{role}-{name}.npy") for name in ARRAYS},
        )
        for role, held in record["roles"].items()
    }
    return ScoredCache(
        cache=record["cache"],
        model=record["model"],
        task=record["task"],
        split=record["split"],
        metric=record["metric"],
        configurations=configurations_of(record["configurations"]),
        samples_by_role=samples,
        score_store=ScoreFiles(folder),
        target=record["target"],
        trained_on=tuple(record["trained_on"]),
    )


def configurations_of(records: Sequence[Mapping[str, Any]]) -> tuple[Configuration, ...]:
    """Configurations from their JSON form, where tuples are lists."""
    return tuple(
        Configuration(
            **{
                **record,
                "integers": None if record["integers"] is None else tuple(record["integers"]),
                "unscored": tuple((protocol, layer, reason) for protocol, layer, reason in record["unscored"]),
                "fits": tuple((variant, parameters, rows) for variant, parameters, rows in record["fits"]),
                "head_notes": tuple((layer, note) for layer, note in record["head_notes"]),
            }
        )
        for record in records
    )
