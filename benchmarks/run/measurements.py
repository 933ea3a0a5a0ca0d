"""What stage two hands to stage three: the rows of one signal, its figure data, and its entries with their resamples.

In memory for notebooks, as files between the processes of a run; both give the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.blockwise import save_blockwise
from exitbench.benchmarks.arrays.roomy_array import mapped_array
from exitbench.benchmarks.arrays.scratch_space import is_large
from exitbench.benchmarks.results.files import read_parquet, write_part, write_parts
from exitbench.benchmarks.results.operating_point import OperatingPoint, operating_point
from exitbench.benchmarks.results.schema import Row, rows_of, rows_table, table_of
from exitbench.benchmarks.statistics.crossed_errors import ErrorSource

Array = NDArray[np.float64]
Question = tuple[OperatingPoint, int | None, str, str]
"""The columns ``operating_point``, ``layer``, ``decisions`` and ``measure``: what makes a column of a table."""

ARRAYS = ("certainty", "cost", "score", "cost_resampled", "score_resampled", "area_deals")
EXACT = ("exact_cost", "exact_score")


def question_of(row: Row) -> Question:
    """The part of a row's key that makes it a column of a table."""
    return row.operating_point, row.layer, row.decisions, row.measure


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparedEntry:
    """One entry under one protocol: its resampled values, and the arrays behind its ranking and its area.

    ``resampled`` are [resamples] each; ``certainty`` [layers - 1, samples]; ``cost`` and ``score`` are the band's,
    [costs] and [costs, resamples]; the exact curve [points] exists in-sample only. ``deals`` are the values of every
    deal of folds, [deals], where there are several; ``area_deals`` the areas of all but the first. ``fit_errors`` are
    the errors that come from fitting, ``influence`` [samples] what each sample adds to the error of a score near a
    speed-up. ``chose`` says that its parameters were chosen among several, which leaves it without influence values.
    """

    protocol: str
    signal: str
    parameters: str
    reason: str
    resampled: dict[Question, Array]
    certainty: Array
    cost: Array
    score: Array
    cost_resampled: Array
    score_resampled: Array
    area_deals: Array = field(default_factory=lambda: np.zeros(0))
    deals: dict[Question, Array] = field(default_factory=dict)
    fit_errors: dict[Question, float] = field(default_factory=dict)
    influence: dict[Question, Array] = field(default_factory=dict)
    exact_cost: Array | None = None
    exact_score: Array | None = None
    chose: bool = False


class Measurements(Protocol):
    """The results of one signal's entries on one cache."""

    @property
    def rows(self) -> list[Row]: ...

    @property
    def pairs(self) -> Sequence[Mapping[str, Any]]:
        """Tests within the signal's own entries, not adjusted yet: per-layer thresholds against the shared one."""

    def entries(self, protocol: str) -> list[ComparedEntry]:
        """The entries that are compared under one protocol."""


@dataclass(frozen=True, eq=False)
class MeasuredSignal:
    """Measurements in memory; ``figure_data`` are tables by the name of their file, each in parts.

    ``sources`` are what errors come from (see ``average_errors``), where the cache's rows are another's too.
    """

    rows: list[Row]
    figure_data: Mapping[str, Iterable[pa.Table]]
    compared: Sequence[ComparedEntry]
    pairs: Sequence[dict[str, Any]] = ()
    sources: Mapping[Any, ErrorSource] = field(default_factory=dict)

    def entries(self, protocol: str) -> list[ComparedEntry]:
        return [entry for entry in self.compared if entry.protocol == protocol]


def written(questions: Iterable[Question]) -> list[list[Any]]:
    """Questions as JSON has them."""
    return [[point.text, layer, decisions, measure] for point, layer, decisions, measure in questions]


def read_back(questions: Iterable[Sequence[Any]]) -> list[Question]:
    """Questions from JSON."""
    return [(operating_point(text), layer, decisions, measure) for text, layer, decisions, measure in questions]


def save_measurements(folder: Path, measured: MeasuredSignal) -> None:
    """Write measurements as the files that :class:`SavedMeasurements` reads."""
    write_part(folder / "results.parquet", rows_table(measured.rows))
    for name, tables in measured.figure_data.items():
        write_parts(folder / f"{name}.parquet", name, tables)
    if measured.pairs:
        write_part(folder / "pairs.parquet", table_of("pairs", measured.pairs))
    arrays: dict[str, Any] = {}
    index = []
    for number, entry in enumerate(measured.compared):
        for name in (*ARRAYS, *(EXACT if entry.exact_cost is not None else ())):
            arrays[f"{number}-{name}"] = getattr(entry, name)
        stacks = (("resampled", entry.resampled), ("deals", entry.deals), ("influence", entry.influence))
        for name, by_question in stacks:
            arrays[f"{number}-{name}"] = np.stack([*by_question.values()]) if by_question else np.zeros((0, 0))
        index.append(
            {
                "protocol": entry.protocol,
                "signal": entry.signal,
                "parameters": entry.parameters,
                "reason": entry.reason,
                "chose": entry.chose,
                "questions": written(entry.resampled),
                "deal_questions": written(entry.deals),
                "influence_questions": written(entry.influence),
                "fit_questions": written(entry.fit_errors),
                "fit_errors": list(entry.fit_errors.values()),
            }
        )
    for name in [name for name, array in arrays.items() if is_large(array.nbytes)]:
        save_blockwise(array_file(folder, name), arrays.pop(name))  # a file of its own can be mapped
    np.savez(folder / "compared.npz", **arrays)
    (folder / "compared.json").write_text(json.dumps(index) + "\n", encoding="utf-8")


def array_file(folder: Path, name: str) -> Path:
    """Where a large array of the entries lies."""
    return folder / f"compared-{name}.npy"


@dataclass(frozen=True)
class SavedMeasurements:
    """Measurements in a folder; arrays are read one protocol at a time."""

    folder: Path

    @cached_property
    def rows(self) -> list[Row]:
        return rows_of(read_parquet(self.folder / "results.parquet"))

    @property
    def pairs(self) -> list[dict[str, Any]]:
        file = self.folder / "pairs.parquet"
        return list(read_parquet(file).to_pylist()) if file.exists() else []

    def entries(self, protocol: str) -> list[ComparedEntry]:
        index = json.loads((self.folder / "compared.json").read_text(encoding="utf-8"))
        with np.load(self.folder / "compared.npz") as arrays:

            def stored(name: str) -> Array | None:
                large = array_file(self.folder, name)
                return mapped_array(large) if large.exists() else arrays.get(name)

            return [
                _entry(record, number, stored) for number, record in enumerate(index) if record["protocol"] == protocol
            ]


def _entry(record: Mapping[str, Any], number: int, stored: Callable[[str], Array | None]) -> ComparedEntry:
    arrays: dict[str, Any] = {
        name: stored(f"{number}-{name}") for name in (*ARRAYS, *EXACT, "resampled", "deals", "influence")
    }
    return ComparedEntry(
        protocol=record["protocol"],
        signal=record["signal"],
        parameters=record["parameters"],
        reason=record["reason"],
        chose=record["chose"],
        resampled=dict(zip(read_back(record["questions"]), arrays.pop("resampled"), strict=True)),
        deals=dict(zip(read_back(record["deal_questions"]), arrays.pop("deals"), strict=True)),
        fit_errors=dict(zip(read_back(record["fit_questions"]), record["fit_errors"], strict=True)),
        influence=dict(zip(read_back(record["influence_questions"]), arrays.pop("influence"), strict=True)),
        **arrays,
    )
