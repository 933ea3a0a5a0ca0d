"""Where in the result files a shown number stands, so that every number on a page can name its row."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

from exitbench.benchmarks.results.key_index import Key
from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import ACROSS_KEY, KEY, PAIR_KEY
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.stored_rows import PlainPairs, StoredPairs

KEYS: Mapping[str, Sequence[str]] = {"results": KEY, "pairs": PAIR_KEY, "across": ACROSS_KEY}
Pair = Mapping[str, Any]
"""One row of ``pairs.parquet``; an absent layer is None."""
Name = tuple[str, str]
"""Signal and parameters of an entry."""


def key_part(name: str, value: Any) -> Hashable:
    """One part of a key as the rows have it; a layer that is absent (NaN in a frame) is None.

    An operating point may be given as its text, which is also what two equal ones have in common.
    """
    if name == "layer":
        return None if value is None or math.isnan(value) else int(value)
    return operating_point(str(value)) if name == "operating_point" else str(value)


def key_of(names: Sequence[str], row: Mapping[str, Any]) -> tuple[Hashable, ...]:
    """The key of a row, with the parts that ``names`` lists."""
    return tuple(key_part(name, row[name]) for name in names)


def task_with_model(run: FinishedRun, cache: CacheMetadata) -> str:
    """A task as a sentence calls it: with its model where the run has several."""
    title = run.task_title(cache)
    return f"{title} with {cache.model}" if len(run.groups) > 1 else title


def is_turned(number: Number, pair: Pair) -> bool:
    """Whether a difference is shown as second minus first; where it is zero, its interval tells."""
    value, low = pair[number.column], number.low
    if number.column != "difference" or number.value != -value:
        return False
    return bool(value != 0 or (low is not None and low == -pair["high"] and low != pair["low"]))


class SourceRows:
    """The rows of one run's results, pairs and statistics across tasks by key and by position."""

    def __init__(self, run: FinishedRun) -> None:
        self.run = run

    @property
    def pairs(self) -> PlainPairs | StoredPairs:
        """Every row of ``pairs.parquet`` in the order of the file."""
        return self.run.pair_rows

    def origin(self, number: Number) -> str:
        """Where a number was read: ``file/row/column``, rows from 0; empty for numbers of no result file.

        A minus before the column says that the number is shown with the other sign.
        """
        names = KEYS.get(number.source)
        if names is None:
            return ""
        row = self._position(number.source, tuple(map(key_part, names, number.key)))
        sign = "-" if number.source == "pairs" and is_turned(number, self.pairs[row]) else ""
        return f"{number.source}/{row}/{sign}{number.column}"

    def _position(self, source: str, key: Key) -> int:
        if source == "results":
            return self.run.rows.position(key)
        return self.pairs.position(key) if source == "pairs" else self._across[key]

    @cached_property
    def _across(self) -> dict[Key, int]:
        return {key_of(ACROSS_KEY, row): position for position, row in enumerate(self.run.across)}
