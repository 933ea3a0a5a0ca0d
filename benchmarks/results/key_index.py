"""Where rows with some key stand in a result file: twelve bytes a row, where a dictionary of keys takes hundreds."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.results.coded_columns import CodedColumn

Key = tuple[Hashable, ...]
MOST = 2**62
"""Combinations that one whole number tells apart."""


class KeyIndex:
    """The positions of rows by their values in some columns, which together are one whole number.

    A key may leave out the last columns: it stands for all rows that have its values in the first ones.
    """

    def __init__(self, columns: Sequence[CodedColumn]) -> None:
        self._columns = columns
        self._seen: dict[int, NDArray[np.int64]] = {}
        """Where a column would make the numbers too large: the different ones before it, which their ranks replace."""
        together, most = np.zeros(len(columns[0].codes), dtype=np.int64), 1
        for number, column in enumerate(columns):
            if most * len(column.values) >= MOST:
                self._seen[number], together = np.unique(together, return_inverse=True)
                most = len(self._seen[number])
            together = together * len(column.values) + column.codes
            most *= len(column.values)
        order = np.argsort(together, kind="stable")
        self._order = order.astype(np.int32 if len(order) <= np.iinfo(np.int32).max else np.int64)
        self._sorted = together[order]

    def __getitem__(self, key: Key) -> int:
        """The position of the last row with this key, as in a dictionary."""
        positions = self.positions(key)
        if not len(positions):
            raise KeyError(key)
        return int(positions[-1])

    def positions(self, key: Key) -> NDArray[np.integer[Any]]:
        """The positions of all rows with this key, in the order of the file."""
        first, end = np.searchsorted(self._sorted, self._numbers_of(key))
        return np.sort(self._order[first:end])

    def first_positions(self) -> NDArray[np.integer[Any]]:
        """The first row of every key, in the order of the file."""
        starts = np.flatnonzero(np.diff(self._sorted, prepend=-1))
        return np.sort(self._order[starts])

    def _numbers_of(self, key: Key) -> tuple[int, int]:
        """The numbers that rows with a key have: from the first on, and below the second."""
        low, high = 0, 1
        for number, column in enumerate(self._columns):
            if number in self._seen:
                low, high = np.searchsorted(self._seen[number], (low, high)).tolist()
            if number >= len(key):
                low, high = low * len(column.values), high * len(column.values)
                continue
            code = column.code_of.get(key[number])
            if code is None or high == low:
                return 0, 0
            low = low * len(column.values) + code
            high = low + 1
        return low, high
