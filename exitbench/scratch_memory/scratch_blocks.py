"""The memory of NumPy's large arrays: the process's own while that is little, else a mapped file without a name.

What lies in a file the system can take back and read again. How much the process has is looked at whenever a file is
made and fifty times a second beside: near the budget, all that is resident of files is let go. So a process that works
with arrays far larger than its budget stays near it, at the price of reading again what it uses again.
"""

from __future__ import annotations

import _thread
import ctypes
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from exitbench.memory_budget import memory_budget
from exitbench.stop_signals import deferred_stops

LARGE = 1 << 20
"""Bytes of an array from which on it is counted, and may lie in a file."""
OWN_SHARE = 0.5
"""The part of what there is for arrays that large ones take in memory before files are made."""
RESIDENT_SHARE = 0.85
"""The part of it beyond which files are let go, since a little more is read until somebody looks again."""
LEAST_SHARE = 0.5
"""The part of the budget that there is for arrays, even where the process's libraries leave less of it."""
PAUSE = 0.02
"""Seconds between two looks."""
STATUS = Path("/proc/self/statm")

READ_MAPPINGS: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
"""Mapped files that are only read, whose pages may be let go with those of the blocks."""


class ScratchBlocks:
    """Memory for NumPy, large blocks of it in files as soon as those in memory take their share of the budget."""

    def __init__(self) -> None:
        c = ctypes.CDLL(None)
        self._malloc, self._calloc, self._realloc, self._free = c.malloc, c.calloc, c.realloc, c.free
        self._malloc.restype = self._calloc.restype = self._realloc.restype = ctypes.c_void_p
        self._malloc.argtypes = [ctypes.c_size_t]
        self._calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
        self._realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        self._free.argtypes, self._free.restype = [ctypes.c_void_p], None
        self._files: dict[int, tuple[mmap.mmap, Any]] = {}
        self._own: dict[int, int] = {}
        self._own_bytes = 0
        self._libraries = resident_bytes()
        self.refused: OSError | None = None
        """Why there was no file for the last array that got no memory."""
        self.made = 0
        """How many files there have been."""

    def allocate(self, size: int) -> int:
        """Memory of ``size`` bytes."""
        return self._given(size, lambda: self._malloc(size) or 0)

    def allocate_zeros(self, size: int) -> int:
        """The same, of zeros."""
        return self._given(size, lambda: self._calloc(max(size, 1), 1) or 0)

    def change(self, address: int, size: int) -> int:
        """The memory at ``address`` with another size, elsewhere if need be."""
        if address not in self._files and address not in self._own:
            return self._realloc(address, size) or 0
        before = len(self._files[address][0]) if address in self._files else self._own[address]
        moved = self.allocate(size)
        if moved:
            ctypes.memmove(moved, address, min(before, size))
            self.give_back(address)
        return moved

    def give_back(self, address: int) -> None:
        """Take the memory at ``address`` back."""
        if address in self._files or address in self._own:
            uninterrupted(lambda: self._take_back(address))
        elif address:
            self._free(address)

    def let_go(self) -> None:
        """Let go what is resident of files, if the process has more than the budget; files keep what they hold."""
        if resident_bytes() > self._libraries + RESIDENT_SHARE * self._for_arrays():
            for mapping in [*(mapping for mapping, _ in self._files.values()), *READ_MAPPINGS]:
                with suppress(ValueError):  # closed meanwhile
                    mapping.madvise(mmap.MADV_DONTNEED)

    def watch(self, ended: threading.Event) -> None:
        """Let go what is resident of files again and again, until the event is set."""
        while not ended.wait(PAUSE):
            self.let_go()

    def _for_arrays(self) -> float:
        """What the libraries leave of the budget, in bytes."""
        budget = memory_budget()
        return max(budget - self._libraries, LEAST_SHARE * budget)

    def _given(self, size: int, own: Callable[[], int]) -> int:
        if size < LARGE:
            return own()
        return uninterrupted(lambda: self._large(size, own)) or 0

    def _large(self, size: int, own: Callable[[], int]) -> int:
        if self._own_bytes + size > OWN_SHARE * self._for_arrays():
            return self._in_file(size)
        address = own()
        if address:
            self._own[address] = size
            self._own_bytes += size
        return address

    def _in_file(self, size: int) -> int:
        """Memory in a file of its own, which is gone with it; 0 where there is no room."""
        self.let_go()
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk must show here: later it ends the process
                mapping = mmap.mmap(file.fileno(), size)
        except OSError as error:
            self.refused = error
            return 0
        mapping.madvise(mmap.MADV_DONTFORK)  # a child would write into its parent's arrays
        first = ctypes.c_char.from_buffer(mapping)
        address = ctypes.addressof(first)
        self._files[address] = mapping, first
        self.made += 1
        return address

    def _take_back(self, address: int) -> None:
        if address in self._own:
            self._own_bytes -= self._own.pop(address)
            self._free(address)
        elif address in self._files:
            mapping, first = self._files.pop(address)
            del first
            mapping.close()


def resident_bytes() -> int:
    """The memory that this process has, the pages of mapped files included."""
    return int(STATUS.read_text("ascii").split()[1]) * mmap.PAGESIZE


def uninterrupted(work: Callable[[], Any]) -> Any:
    """What the work returns; a stop that comes meanwhile comes again later.

    NumPy cannot be told of it here, and what is half done here would end the process.
    """
    results: list[Any] = []
    try:
        with deferred_stops():
            results.append(work())
    except KeyboardInterrupt:
        threading.Timer(PAUSE, _thread.interrupt_main).start()
    return results[0] if results else work()
