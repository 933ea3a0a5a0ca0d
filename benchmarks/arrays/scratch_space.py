"""Memory for arrays that grow with the samples: where an array is large, a temporary file without a name, mapped.

So the memory budget bounds a unit's memory and not the samples: the system takes pages of files back when it needs
them, and this module gives them back by itself.
"""

from __future__ import annotations

import ctypes
import io
import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from exitbench.errors import InputError
from exitbench.memory_budget import memory_budget

SHARE = 256
"""An array that takes more than this part of the memory budget lies in a file."""
HELD = 0.6
"""Pages of files are given back where the process has more than this share of the budget in memory."""
LOOKED = 32
"""Whether they do is looked at after as many bytes were made as this part of the budget has."""
PIECE = 1 << 17
"""Bytes that are written at a time: many more at once take several times as long."""
IDLE = 2
"""Files that wait for another array take at most so many budgets: of the disk, since their pages are given back."""
BLOCK = 1 << 18
"""Elements that are picked, searched or copied at a time."""
BLOCKS = 4
"""After so many blocks were read it is looked at, too."""

MOST_FILES = 1 << 14
"""Open files that a process asks for, where the system lets it have them."""


def largest_in_memory() -> int:
    """The most bytes of an array that is held in memory."""
    return memory_budget() // SHARE


def is_large(size: int) -> bool:
    """Whether so many bytes should not be held in memory."""
    return size > largest_in_memory() and hasattr(os, "pwrite")


@cache
def heap_trimmer() -> Callable[[int], int] | None:
    """The function of the C library that gives free memory back to the system, where there is one."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # not glibc
        return None
    return trim


def give_back_heap() -> None:
    """Give free memory back: arrays of a few megabytes lie among others, and their room is kept when they are gone."""
    trim = heap_trimmer()
    if trim is not None:
        trim(0)


def resident_bytes() -> int:
    """What this process has in memory, pages of files included; the whole budget where nobody says."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE
    except OSError:  # not Linux
        return memory_budget()


class Mappings:
    """The mapped files of this process: those whose pages may be in memory, and those that wait for their next array.

    A file that was used before costs a fraction of a new one, whose every page the system has to make.
    """

    def __init__(self) -> None:
        self.mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self.used: dict[int, weakref.ref[NDArray[Any]]] = {}
        self.idle: dict[int, list[mmap.mmap]] = {}
        self.idle_bytes = self.made = 0

    def add(self, mapping: mmap.mmap) -> None:
        """Take in a mapping."""
        self.mapped.add(mapping)

    def count(self, size: int) -> None:
        """Count bytes that were made, and sometimes look whether pages should be given back."""
        self.made += size
        if self.made * LOOKED > memory_budget():
            self.made = 0
            self.relieve()

    def relieve(self) -> None:
        """Give pages of files back where the budget is nearly used; the files keep what was written."""
        if hasattr(mmap, "MADV_DONTNEED") and resident_bytes() > HELD * memory_budget():
            for each in self.mapped:
                each.madvise(mmap.MADV_DONTNEED)
            give_back_heap()

    def waiting(self, room: int) -> mmap.mmap | None:
        """The smallest mapping that waits and has this room, if it is not twice as large."""
        fitting = [size for size, mappings in self.idle.items() if mappings and room <= size <= 2 * room]
        if not fitting:
            return None
        self.idle_bytes -= min(fitting)
        return self.idle[min(fitting)].pop()

    def array(self, count: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """An array of so many elements in a file, which serves another one once nobody uses this one any more."""
        room = rounded_up(count * kind.itemsize)
        mapping = self.waiting(room)
        if mapping is None:
            with unbuffered_file() as file:
                # A full disk is an error here, and would be a signal later. And a page that a mapping is the first to
                # meet takes ten times as long as one that was written before.
                for start in range(0, room, PIECE):
                    write_pieces(file, memoryview(NOTHING)[: room - start])
                mapping = mmap.mmap(file.fileno(), room)
            self.add(mapping)
        room = len(mapping)
        self.count(room)
        array = np.frombuffer(mapping, kind, count)
        number = id(array)  # every view of it keeps it alive

        def free(_: object) -> None:
            del self.used[number]
            if self.idle_bytes + room <= IDLE * memory_budget():
                self.idle.setdefault(room, []).append(mapping)
                self.idle_bytes += room

        self.used[number] = weakref.ref(array, free)
        return array


mappings = Mappings()
"""One per process."""


def rounded_up(size: int) -> int:
    """A size with room for others that are nearly as large.

    >>> rounded_up(1_000_000) <= 1_125_000, rounded_up(1_000_000) == rounded_up(1_040_000)
    (True, True)
    """
    step = 1 << max(size.bit_length() - 4, 12)
    return -(-size // step) * step


NOTHING = bytes(PIECE)


def unbuffered_file() -> io.FileIO:
    """A temporary file without a name."""
    return tempfile.TemporaryFile(buffering=0)


def write_pieces(file: io.FileIO, data: memoryview) -> None:
    """Write bytes where a file stands, which has no buffer."""
    for start in range(0, len(data), PIECE):
        left = data[start : start + PIECE]
        while left:  # a disk that is nearly full takes a part
            left = left[file.write(left) :]


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


def room_for(shape: int | tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """A plain array to be filled, in a file without a name where it is large; InputError where there is no room."""
    kind = np.dtype(dtype)
    count = shape if isinstance(shape, int) else math.prod(shape)
    size = count * kind.itemsize
    if not is_large(size) or not size:
        return np.empty(shape, kind)
    more_open_files()
    try:
        return mappings.array(count, kind).reshape(shape)
    except OSError as error:
        raise no_room(size, error) from error


def lies_in_a_file(array: NDArray[Any]) -> bool:
    """Whether an array's memory is a mapped file."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base.obj if isinstance(base, memoryview) else base, mmap.mmap)


def element_blocks(count: int) -> Iterator[slice]:
    """So many elements, :data:`BLOCK` at a time."""
    for number, start in enumerate(range(0, count, BLOCK), start=1):
        yield slice(start, min(start + BLOCK, count))
        if number % BLOCKS == 0:
            mappings.relieve()
