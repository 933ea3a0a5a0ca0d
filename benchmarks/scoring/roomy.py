"""Arrays that grow with the samples: large ones lie in temporary files, and so does whatever is made of them.

A :class:`RoomyArray` is an array as any other, but a large result (of arithmetic, of picking, of sorting) gets a file
of its own instead of memory, block by block where NumPy would take as much again. So what bounds a unit's memory is the
memory budget and not the samples: the system takes pages of files back when it needs them. Small results are plain
arrays, and on a cache whose arrays are all small none of this happens. Numbers are the same either way.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from exitbench.errors import InputError
from exitbench.memory_budget import memory_budget

SHARE = 512
"""An array that takes more than this part of the memory budget lies in a file."""
HELD = 8
"""Pages of such files are given back after as many bytes were made as this part of the budget has."""
BLOCK = 1 << 18
"""Elements that are picked, searched or copied at a time."""

MOST_FILES = 1 << 14
"""Open files that a process asks for, where the system lets it have them."""

Kind = TypeVar("Kind", bound=np.generic)


def is_large(size: int) -> bool:
    """Whether so many bytes should not be held in memory."""
    return size * SHARE > memory_budget() and hasattr(os, "posix_fallocate")


class _Pages:
    """The mappings whose pages may be in memory, and how much was made since they were last given back."""

    def __init__(self) -> None:
        self.mappings: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self.made = 0

    def add(self, mapping: mmap.mmap, size: int) -> None:
        self.mappings.add(mapping)
        self.made += size
        if self.made * HELD > memory_budget() and hasattr(mmap, "MADV_DONTNEED"):
            self.made = 0
            for each in self.mappings:
                each.madvise(mmap.MADV_DONTNEED)  # the files keep what was written


pages = _Pages()


def no_room(size: int, error: OSError) -> InputError:
    """What to say where the disk is full."""
    return InputError(
        f"expected room for {size / 1e6:.0f} MB in {tempfile.gettempdir()}, found: {error}; "
        "set TMPDIR, or give more --memory"
    )


@cache
def more_open_files() -> None:
    """Let this process have as many open files as it may: a mapping keeps its own."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(hard, MOST_FILES) if hard != resource.RLIM_INFINITY else MOST_FILES
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array to be filled, in a file without a name where it is large. Raises InputError where there is no room."""
    kind = np.dtype(dtype)
    count = shape if isinstance(shape, int) else math.prod(shape)
    size = count * kind.itemsize
    if not is_large(size) or not size:
        return np.empty(shape, kind)
    more_open_files()
    try:
        with tempfile.TemporaryFile(buffering=0) as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here, and a signal later
            mapping = mmap.mmap(file.fileno(), size)
    except OSError as error:
        raise no_room(size, error) from error
    pages.add(mapping, size)
    return np.frombuffer(mapping, kind, count).reshape(shape).view(RoomyArray)


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """The same full of zeros."""
    made = empty(shape, dtype)
    if not isinstance(made, RoomyArray):  # a new file has nothing else
        made.fill(0)
    return made


def full(shape: int | tuple[int, ...], value: Any, dtype: DTypeLike) -> NDArray[Any]:
    """The same full of a value."""
    made = empty(shape, dtype)
    made.fill(value)
    return made


def arange(stop: int, start: int = 0) -> NDArray[np.int64]:
    """The whole numbers from ``start`` on below ``stop``."""
    made = empty(stop - start, np.int64)
    for some in blocks(len(made)):
        made[some] = np.arange(start + some.start, start + some.stop)
    return made


def roomy(array: NDArray[Kind]) -> NDArray[Kind]:
    """The array, marked so that what is made of it is roomy, where it is large."""
    return array.view(RoomyArray) if is_large(array.nbytes) and not isinstance(array, RoomyArray) else array


def mapped_array(path: Path) -> NDArray[Any]:
    """The array in a file, memory-mapped: what is not read takes no memory, and what was read can be let go."""
    stored = np.load(path, mmap_mode="r")
    pages.add(stored._mmap, 0)
    return roomy(np.asarray(stored))


def lies_in_a_file(array: NDArray[Any]) -> bool:
    """Whether an array's memory is a mapped file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


class RoomyArray(np.ndarray[Any, Any]):
    """An array whose large results lie in temporary files; results that are small are plain arrays."""

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: Any, *inputs: Any, out: tuple[Any, ...] | None = None, **options: Any
    ) -> Any:
        given = [_plain(value) for value in inputs]
        options = {name: _plain(value) for name, value in options.items()}
        calculate = getattr(ufunc, method)
        if out is not None:
            calculate(*given, out=tuple(map(_plain, out)), **options)
            return out[0] if len(out) == 1 else out
        if (method == "__call__" and ufunc.signature is None) or method == "accumulate":
            several = given if method == "__call__" else given[:1]
            shape = np.broadcast_shapes(*map(np.shape, several))
            made = [empty(shape, kind) for kind in _kinds(calculate, given, several, options)]
            if any(isinstance(each, RoomyArray) for each in made):
                calculate(*given, out=tuple(map(_plain, made)), **options)
                return made[0] if len(made) == 1 else tuple(made)
        return _marked(calculate(*given, **options))

    def __array_function__(self, function: Any, types: Any, given: Any, options: Any) -> Any:
        own = FUNCTIONS.get(function)
        made = None if own is None else own(*given, **options)
        return super().__array_function__(function, types, given, options) if made is None else made

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, np.ndarray) or (
            isinstance(index, tuple) and any(isinstance(each, np.ndarray) for each in index)
        ):
            return picked(_plain(self), index)
        return super().__getitem__(index)

    def take(self, indices: ArrayLike, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        if self.ndim == 1 and out is None and np.ndim(indices):
            return picked(_plain(self), np.asarray(indices))
        return _marked(_plain(self).take(_plain(indices), axis, out, mode))

    def astype(self, dtype: DTypeLike, *given: Any, **options: Any) -> Any:
        if is_large(self.size * np.dtype(dtype).itemsize) and not given:
            if self.dtype == dtype and not options.get("copy", True):
                return self
            made = empty(self.shape, dtype)
            np.copyto(_plain(made), _plain(self), casting="unsafe")
            return made
        return _marked(_plain(self).astype(dtype, *given, **options))

    def copy(self, order: Any = "C") -> Any:
        made = empty(self.shape, self.dtype)
        np.copyto(_plain(made), _plain(self))
        return made

    def flatten(self, order: Any = "C") -> Any:
        return self.copy().reshape(-1)

    def argsort(self, axis: Any = -1, kind: Any = None, order: Any = None, **options: Any) -> Any:
        values = _plain(self)
        if values.ndim == 2 and axis in (1, -1):
            made = empty(values.shape, np.intp)
            for row, ordered in zip(values, made, strict=True):
                ordered[:] = order_of(row, kind)
            return made
        return order_of(values, kind) if values.ndim == 1 else values.argsort(axis, kind)

    def searchsorted(self, values: Any, side: Any = "left", sorter: Any = None) -> Any:
        return searched(self, values, side, sorter)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, RoomyArray) else value


def _marked(result: Any) -> Any:
    return roomy(result) if isinstance(result, np.ndarray) else result


def blocks(count: int) -> Iterator[slice]:
    """So many elements, :data:`BLOCK` at a time."""
    for start in range(0, count, BLOCK):
        yield slice(start, min(start + BLOCK, count))


def _kinds(
    calculate: Callable[..., Any], given: Sequence[Any], arrays: Sequence[Any], options: dict[str, Any]
) -> list[np.dtype[Any]]:
    """The kinds of numbers of a result, from the same calculation with no or one number."""
    few = [np.zeros(min(value.ndim, 1), value.dtype) if isinstance(value, np.ndarray) else value for value in arrays]
    with np.errstate(all="ignore"):
        made = calculate(*few, **{name: options[name] for name in ("dtype", "casting") if name in options})
    return [np.asarray(each).dtype for each in (made if isinstance(made, tuple) else (made,))]


def picked(array: NDArray[Any], index: Any) -> Any:
    """``array[index]``, some at a time where that is large; the ways of picking that grow with the samples."""
    parts = tuple(_plain(part) for part in (index if isinstance(index, tuple) else (index,)))
    if len(parts) > 1 and isinstance(parts[0], int | np.integer):
        return picked(array[parts[0]], parts[1:])
    masks = len(parts) == 1 and parts[0].dtype == bool and parts[0].shape == array.shape
    if masks and array.flags.c_contiguous and parts[0].flags.c_contiguous:
        values, mask = array.reshape(-1), parts[0].reshape(-1)
        made, filled = empty(int(np.count_nonzero(mask)), array.dtype), 0
        for some in blocks(len(mask)):
            block = values[some][mask[some]]
            made[filled : filled + len(block)] = block
            filled += len(block)
        return made
    if array.ndim == 2 and len(parts) == 1 and parts[0].ndim == 1:
        rows = np.flatnonzero(parts[0]) if parts[0].dtype == bool else parts[0]
        if len(rows) <= len(array):
            made = empty((len(rows), array.shape[1]), array.dtype)
            for number, row in enumerate(rows):
                made[number] = array[row]
            return made
    if array.ndim == 2 and len(parts) == 2 and parts[0] == slice(None) if isinstance(parts[0], slice) else False:
        columns = np.asarray(flat_true(parts[1])) if parts[1].dtype == bool else parts[1]
        if columns.ndim == 1:
            made = empty((len(array), len(columns)), array.dtype)
            for row, filled_row in zip(array, made, strict=True):
                for some in blocks(len(columns)):
                    filled_row[some] = row[columns[some]]
            return made
    if len(parts) == array.ndim and all(_is_list(part) and len(part) == len(parts[0]) for part in parts):
        made = empty(len(parts[0]), array.dtype)
        for some in blocks(len(parts[0])):
            made[some] = array[tuple(part[some] for part in parts)]
        return made
    return _marked(array[parts])


def _is_list(part: Any) -> bool:
    """Whether a part of an index is a list of whole numbers."""
    return isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind in "iu"


def flat_true(mask: Any) -> NDArray[np.intp]:
    """The positions in a mask that are true, flattened, ascending."""
    flat = _plain(mask).reshape(-1)
    made, filled = empty(int(np.count_nonzero(flat)), np.intp), 0
    for some in blocks(len(flat)):
        block = np.flatnonzero(flat[some])
        made[filled : filled + len(block)] = block + some.start
        filled += len(block)
    return made


def searched(sorted_values: Any, values: Any, side: Any = "left", sorter: Any = None) -> Any:
    """Where each of the ``values`` would have to stand among the sorted ones."""
    among, wanted = _plain(sorted_values), _plain(values)
    if np.ndim(wanted) != 1 or sorter is not None:
        return _marked(np.searchsorted(among, wanted, side, sorter))
    made = empty(len(wanted), np.intp)
    for some in blocks(len(wanted)):
        made[some] = np.searchsorted(among, wanted[some], side)
    return made


def order_of(values: NDArray[Any], kind: Any = None) -> NDArray[np.intp]:
    """The order that sorts ``values`` [samples], NaN last: parts that lie one above the other are sorted by themselves.

    A value that a part begins with is not sorted at all, however often it is there.
    """
    if not is_large(8 * len(values)):
        return np.asarray(np.argsort(values, kind=kind))
    parts = 16 * len(values) * SHARE // max(memory_budget(), 1) + 1
    drawn = np.sort(values[:: max(len(values) // (64 * min(parts, 1 << 12)), 1)])
    limits = np.unique(drawn[32:-1:64])
    limits = limits[~np.isnan(limits)]

    def part_of(some: slice) -> NDArray[np.intp]:
        """Twice the number of limits below a value, and one more where it is a limit."""
        here = values[some]
        return np.asarray(np.searchsorted(limits, here) + np.searchsorted(limits, here, "right"))

    counts = np.zeros(2 * len(limits) + 1, dtype=np.int64)
    for some in blocks(len(values)):
        counts += np.bincount(part_of(some), minlength=len(counts))
    ends = np.cumsum(counts)
    filled, order = ends - counts, empty(len(values), np.intp)
    for some in blocks(len(values)):
        here = part_of(some)
        by_part = np.argsort(here, kind="stable")
        positions, here = by_part + some.start, here[by_part]
        starts = np.flatnonzero(np.concatenate([[True], here[1:] != here[:-1]]))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(here)], strict=True):
            part = here[start]
            order[filled[part] : filled[part] + stop - start] = positions[start:stop]
            filled[part] += stop - start
    for start, stop in zip((ends - counts)[::2].tolist(), ends[::2].tolist(), strict=True):
        positions = np.asarray(order[start:stop])
        order[start:stop] = positions[np.argsort(values[positions], kind=kind)]
    return order


def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, **options: Any) -> Any:
    several = [_plain(np.asanyarray(array)) for array in arrays]
    if out is not None or axis != 0 or options.get("dtype") is not None:
        return _marked(np.concatenate(several, axis, None if out is None else _plain(out), **options))
    made = empty((sum(map(len, several)), *several[0].shape[1:]), np.result_type(*several))
    np.concatenate(several, out=_plain(made))
    return made


def _where(condition: Any, *values: Any) -> Any:
    if len(values) != 2:
        return None
    given = [_plain(condition), *map(_plain, values)]
    few = [np.zeros(0, value.dtype) if isinstance(value, np.ndarray) and value.ndim else value for value in given]
    made = empty(np.broadcast_shapes(*map(np.shape, given)), np.where(*few).dtype)
    np.copyto(_plain(made), given[2])
    np.copyto(_plain(made), given[1], where=given[0])
    return made


def _empty_like(array: Any, dtype: Any = None, **options: Any) -> Any:
    return empty(np.shape(array), array.dtype if dtype is None else dtype)


def _filled_like(value: Any) -> Callable[..., Any]:
    def like(array: Any, dtype: Any = None, **options: Any) -> Any:
        made = _empty_like(array, dtype)
        made.fill(value)
        return made

    return like


def _full_like(array: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    return _filled_like(fill_value)(array, dtype)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.concatenate: _concatenate,
    np.where: _where,
    np.flatnonzero: flat_true,
    np.searchsorted: searched,
    np.empty_like: _empty_like,
    np.zeros_like: _filled_like(0),
    np.ones_like: _filled_like(1),
    np.full_like: _full_like,
}
"""Functions that take memory of their own where NumPy has no other way to say where a result goes."""
