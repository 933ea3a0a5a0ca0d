"""Arrays that grow with the samples: large ones lie in temporary files, and so does whatever is made of them.

A :class:`RoomyArray` is an array as any other, but a large result (of arithmetic, of picking, of sorting) gets a file
of its own instead of memory, block by block where NumPy would take as much again. Small results are plain arrays, and
on a cache whose arrays are all small none of this happens. Numbers are the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from exitbench.benchmarks.arrays import blockwise
from exitbench.benchmarks.arrays.scratch_space import element_blocks, is_large, mappings, room_for

Kind = TypeVar("Kind", bound=np.generic)


def empty(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """An array to be filled, in a file without a name where it is large. Raises InputError where there is no room."""
    return roomy(room_for(shape, dtype))


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """The same full of zeros."""
    return full(shape, 0, dtype)


def full(shape: int | tuple[int, ...], value: Any, dtype: DTypeLike) -> NDArray[Any]:
    """The same full of a value."""
    made = empty(shape, dtype)
    made.fill(value)
    return made


def arange(stop: int, start: int = 0) -> NDArray[np.int64]:
    """The whole numbers from ``start`` on below ``stop``."""
    made = empty(stop - start, np.int64)
    for some in element_blocks(len(made)):
        made[some] = np.arange(start + some.start, start + some.stop)
    return made


def roomy(array: NDArray[Kind]) -> NDArray[Kind]:
    """The array, marked so that what is made of it is roomy, where it is large."""
    return array.view(RoomyArray) if is_large(array.nbytes) and not isinstance(array, RoomyArray) else array


def mapped_array(path: Path) -> NDArray[Any]:
    """The array in a file, memory-mapped: what is not read takes no memory, and what was read can be let go."""
    stored = np.load(path, mmap_mode="r")
    mappings.add(stored._mmap)
    return roomy(np.asarray(stored))


def elements_at(array: NDArray[Kind], index: NDArray[Any]) -> NDArray[Kind]:
    """``array[index]`` by a mask or a list of whole numbers, which may be roomy where the array is not."""
    return roomy(blockwise.picked_elements(_plain(array), (_plain(index),)))


def flat_true(mask: NDArray[np.bool_]) -> NDArray[np.intp]:
    """The positions in a mask that are true, flattened, ascending."""
    return roomy(blockwise.true_positions(_plain(mask)))


def order_of(values: NDArray[Any], kind: Any = None) -> NDArray[np.intp]:
    """The order that sorts ``values`` [samples], NaN last."""
    return roomy(blockwise.sorting_order(_plain(values), kind))


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
            return _marked(
                blockwise.picked_elements(
                    _plain(self), tuple(map(_plain, index if isinstance(index, tuple) else (index,)))
                )
            )
        return super().__getitem__(index)

    def take(self, indices: ArrayLike, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        if self.ndim == 1 and out is None and np.ndim(indices):
            return self[np.asarray(indices)]
        return _marked(_plain(self).take(_plain(indices), axis, out, mode))

    def astype(self, dtype: Any, *given: Any, **options: Any) -> Any:
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
                ordered[:] = blockwise.sorting_order(row, kind)
            return made
        return order_of(values, kind) if values.ndim == 1 else values.argsort(axis, kind)

    def searchsorted(self, values: Any, side: Any = "left", sorter: Any = None) -> Any:
        return _searched(self, values, side, sorter)


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, RoomyArray) else value


def _marked(result: Any) -> Any:
    return roomy(result) if isinstance(result, np.ndarray) else result


def _kinds(
    calculate: Callable[..., Any], given: Sequence[Any], arrays: Sequence[Any], options: dict[str, Any]
) -> list[np.dtype[Any]]:
    """The kinds of numbers of a result, from the same calculation with no or one number."""
    few = [np.zeros(min(value.ndim, 1), value.dtype) if isinstance(value, np.ndarray) else value for value in arrays]
    with np.errstate(all="ignore"):
        made = calculate(*few, **{name: options[name] for name in ("dtype", "casting") if name in options})
    return [np.asarray(each).dtype for each in (made if isinstance(made, tuple) else (made,))]


def _searched(among: Any, wanted: Any, side: Any = "left", sorter: Any = None) -> Any:
    return _marked(blockwise.searched(_plain(among), _plain(wanted), side, sorter))


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
    np.searchsorted: _searched,
    np.empty_like: _empty_like,
    np.zeros_like: _filled_like(0),
    np.ones_like: _filled_like(1),
    np.full_like: _full_like,
}
"""Functions that take memory of their own where NumPy has no other way to say where a result goes."""
