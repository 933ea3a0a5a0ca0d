"""What takes memory of its own in NumPy, for arrays that may lie in files: picking, searching, sorting, some at a time.

Arguments and results are plain arrays; :mod:`exitbench.benchmarks.arrays.roomy_array` has the same for roomy ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.scratch_space import element_blocks, largest_in_memory, room_for
from exitbench.memory_budget import memory_budget

SORTED = 16
"""An order that takes less than this part of the memory budget is made at once: it is gone, or in a file, soon."""


def picked_elements(array: NDArray[Any], index: tuple[Any, ...]) -> NDArray[Any]:
    """``array[index]`` for the ways of picking that grow with the samples: by masks and by lists of whole numbers."""
    if len(index) > 1 and isinstance(index[0], int | np.integer):
        return picked_elements(array[index[0]], index[1:])
    if len(index) == 1 and index[0].dtype == bool and index[0].shape == array.shape:
        return where_true(array, index[0])
    if array.ndim == 2 and len(index) == 1 and index[0].ndim == 1 and len(index[0]) <= len(array):
        return picked_rows(array, np.flatnonzero(index[0]) if index[0].dtype == bool else index[0])
    if array.ndim == 2 and len(index) == 2 and isinstance(index[0], slice) and index[0] == slice(None):
        return picked_columns(array, true_positions(index[1]) if index[1].dtype == bool else index[1])
    if len(index) == array.ndim and all(is_list(part) and len(part) == len(index[0]) for part in index):
        made = room_for(len(index[0]), array.dtype)
        for some in element_blocks(len(made)):
            made[some] = array[tuple(part[some] for part in index)]
        return made
    return np.asarray(array[index])


def is_list(part: Any) -> bool:
    """Whether a part of an index is a list of whole numbers."""
    return isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "iu"


def where_true(array: NDArray[Any], mask: NDArray[np.bool_]) -> NDArray[Any]:
    """The elements at which a mask of the same shape is true, in the order of the flattened array."""
    values, flat = array.reshape(-1), mask.reshape(-1)
    made, filled = room_for(int(np.count_nonzero(flat)), array.dtype), 0
    for some in element_blocks(len(flat)):
        block = values[some][flat[some]]
        made[filled : filled + len(block)] = block
        filled += len(block)
    return made


def picked_rows(array: NDArray[Any], rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Some rows of an array, of which there are few."""
    made = room_for((len(rows), array.shape[1]), array.dtype)
    for number, row in enumerate(rows):
        made[number] = array[row]
    return made


def picked_columns(array: NDArray[Any], columns: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Some columns of an array, of which there are many."""
    made = room_for((len(array), len(columns)), array.dtype)
    for row, filled in zip(array, made, strict=True):
        for some in element_blocks(len(columns)):
            filled[some] = row[columns[some]]
    return made


def true_positions(mask: Any) -> NDArray[np.intp]:
    """The positions in a mask that are true, flattened, ascending."""
    flat = mask.reshape(-1)
    made, filled = room_for(int(np.count_nonzero(flat)), np.intp), 0
    for some in element_blocks(len(flat)):
        block = np.flatnonzero(flat[some])
        made[filled : filled + len(block)] = block + some.start
        filled += len(block)
    return made


def searched(among: Any, wanted: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Where each of the ``wanted`` values would have to stand ``among`` the sorted ones."""
    if np.ndim(wanted) != 1 or sorter is not None:
        return np.searchsorted(among, wanted, side, sorter)
    made = room_for(len(wanted), np.intp)
    for some in element_blocks(len(wanted)):
        made[some] = np.searchsorted(among, wanted[some], side)
    return made


def sorting_order(values: NDArray[Any], kind: Any = None) -> NDArray[np.intp]:
    """The order that sorts ``values`` [samples], NaN last: parts that lie one above the other are sorted by themselves.

    A value that a part begins with is not sorted at all, however often it is there.
    """
    if 8 * len(values) * SORTED <= memory_budget():
        order = room_for(len(values), np.intp)
        order[:] = np.argsort(values, kind=kind)
        return order
    parts = 16 * len(values) // max(largest_in_memory(), 1) + 1
    drawn = np.sort(values[:: max(len(values) // (64 * min(parts, 1 << 12)), 1)])
    limits = np.unique(drawn[32:-1:64])
    limits = limits[~np.isnan(limits)]

    def part_of(some: slice) -> NDArray[np.intp]:
        """Twice the number of limits below a value, and one more where it is a limit."""
        here = values[some]
        return np.asarray(np.searchsorted(limits, here) + np.searchsorted(limits, here, "right"))

    counts = np.zeros(2 * len(limits) + 1, dtype=np.int64)
    for some in element_blocks(len(values)):
        counts += np.bincount(part_of(some), minlength=len(counts))
    ends = np.cumsum(counts)
    filled, order = ends - counts, room_for(len(values), np.intp)
    for some in element_blocks(len(values)):
        here = part_of(some)
        by_part = np.argsort(here, kind="stable")
        positions, here = by_part + some.start, here[by_part]
        starts = np.flatnonzero(np.concatenate([[True], here[1:] != here[:-1]]))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(here)], strict=True):
            part = here[start]
            order[filled[part] : filled[part] + stop - start] = positions[start:stop]
            filled[part] += stop - start
    for start, stop in zip((ends - counts)[::2].tolist(), ends[::2].tolist(), strict=True):
        positions = order[start:stop].copy()
        order[start:stop] = positions[np.argsort(values[positions], kind=kind)]
    return order


def save_blockwise(path: Path, array: NDArray[Any]) -> None:
    """Write what ``np.save`` writes, without all pages of an array in memory at once."""
    whole = np.ascontiguousarray(array).view(np.ndarray)
    flat = whole.reshape(-1)
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(whole))
        for some in element_blocks(len(flat)):
            file.write(flat[some].data)
