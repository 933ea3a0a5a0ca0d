"""The rows of ``samples.parquet``: every sample's exit, answer and whether it is right, at some operating points.

As rows, with all their texts, they take a kilobyte for each sample; kept are the exit layers, and rows are made a group
at a time, when they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.scratch_space import mappings
from exitbench.benchmarks.arrays.set_aside import set_aside
from exitbench.benchmarks.results.files import GROUP_ROWS
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import columns_table, table_of
from exitbench.benchmarks.scoring.score_store import Samples


class SampleReadings:
    """Readings of the same samples; iterating gives their rows in tables of :data:`GROUP_ROWS`, the last one shorter.

    Without any reading it gives one table without rows.
    """

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self._readings: list[tuple[dict[str, Any], NDArray[np.int32]]] = []

    def add(self, columns: Mapping[str, Any], point: OperatingPoint, exits: NDArray[np.int64]) -> None:
        """Take in the layers [samples] at which samples exit at one operating point."""
        self._readings.append(({**columns, "operating_point": point.text}, set_aside(exits.astype(np.int32))))

    def __iter__(self) -> Iterator[pa.Table]:
        begun: list[pa.Table] = []
        free = GROUP_ROWS
        for columns, exits in self._readings:
            start = 0
            while start < self.samples.size:
                stop = min(start + free, self.samples.size)
                begun.append(self._rows(columns, exits[start:stop], slice(start, stop)))
                free -= stop - start
                start = stop
                if free == 0:
                    yield pa.concat_tables(begun)
                    begun, free = [], GROUP_ROWS
                    mappings.relieve()
        if begun or not self._readings:
            yield pa.concat_tables([table_of("samples", []), *begun])

    def _rows(self, columns: Mapping[str, Any], exits: NDArray[np.int32], rows: slice) -> pa.Table:
        samples = self.samples
        labels = samples.labels[rows]
        answers = samples.predictions[:, rows][exits - 1, np.arange(len(exits))]
        return columns_table(
            "samples",
            {
                **columns,
                "id": samples.ids[rows],
                "group": None if samples.groups is None else samples.groups[rows],
                "exit_layer": exits,
                "prediction": answers.astype(np.int32),
                "label": labels.astype(np.int32),
                "right": answers == labels,
            },
            len(exits),
        )
