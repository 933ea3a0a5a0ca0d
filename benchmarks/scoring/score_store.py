"""What stage one leaves for stage two: the scores of all signals on one cache, as plain files.

Samples are put in the order of their ids, so that nothing afterwards can depend on the order of rows. A
signal that learns has one set of scores per part it was fitted on (its *variant*); all others have one.

A folder holds ``meta.json`` and, per side (``test``; ``calibration`` for the held-out protocol), ``ids``,
``labels``, ``predictions`` and one ``scores`` file per configuration and variant, all ``.npy``.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.scoring.configuration import Configuration, signal_scores
from exitbench.benchmarks.scoring.outcomes import Measure, Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores

Side = Literal["test", "calibration"]
ARRAYS = ("ids", "labels", "predictions")
PLAIN = "plain"
"""The variant of a signal that learns nothing."""


@dataclass(frozen=True, eq=False)
class Samples:
    """The answers of one network on one set of samples, ordered by id."""

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    predictions: NDArray[np.int64]
    metric: str

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
        return Outcomes.of(self.predictions, self.labels, 1 if self.metric == "f1" else None)


class ScoredCache:
    """A folder of scores, read lazily; arrays are memory-mapped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        self.cache: str = meta["cache"]
        self.model: str = meta["model"]
        self.task: str = meta["task"]
        self.split: str = meta["split"]
        self.metric: str = meta["metric"]
        self.configurations = tuple(
            Configuration(**{**one, "integers": None if one["integers"] is None else tuple(one["integers"])})
            for one in meta["configurations"]
        )

    def samples(self, side: Side = "test") -> Samples:
        """The samples that are scored (``test``), or those that everything is chosen on (``calibration``)."""
        if side not in self._samples:
            ids, labels, predictions = (np.load(self.folder / f"{side}-{name}.npy") for name in ARRAYS)
            self._samples[side] = Samples(ids, labels, predictions, self.metric)
        return self._samples[side]

    @cached_property
    def _samples(self) -> dict[Side, Samples]:
        return {}

    def scores(self, configuration: int, variant: str = PLAIN, side: Side = "test") -> SignalScores:
        """The scores of a configuration; ``variant`` says what a signal that learns was fitted on."""
        facts = self.configurations[configuration]
        name = scores_file(configuration, variant if facts.learns else PLAIN, side)
        return signal_scores(facts, np.load(self.folder / name, mmap_mode="r"))


def scores_file(configuration: int, variant: str, side: Side) -> str:
    """The name of a file of scores within its folder."""
    return f"{side}-scores-{configuration:03d}-{variant}.npy"


def save_samples(folder: Path, side: Side, samples: Samples) -> None:
    """Write the arrays of one side."""
    for name in ARRAYS:
        np.save(folder / f"{side}-{name}.npy", getattr(samples, name))


def save_scores(folder: Path, configuration: int, variant: str, side: Side, values: NDArray[np.float64]) -> None:
    """Write the scores [layers - 1, samples] of one configuration, samples already ordered by id."""
    np.save(folder / scores_file(configuration, variant, side), values)


def save_meta(folder: Path, facts: Mapping[str, str], configurations: Sequence[Configuration]) -> None:
    """Write ``meta.json``: the names of cache, model, task, split and metric, and the configurations."""
    record: dict[str, Any] = {**facts, "configurations": [dataclasses.asdict(one) for one in configurations]}
    (folder / "meta.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
