"""Work on a large cache with NumPy's arrays inside the memory budget, whatever the work does."""

from __future__ import annotations

import mmap
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np
from numpy.typing import NDArray

from exitbench.errors import InputError, one_line
from exitbench.memory_budget import memory_budget
from exitbench.scratch_memory.numpy_handler import NumpyHandler
from exitbench.scratch_memory.scratch_blocks import READ_MAPPINGS, ScratchBlocks

BYTES_PER_SCORE = 384
"""What measuring a signal holds at most for each of its scores: sorted exits, running sums, folds. Seen: 190 with 12
layers, 350 with 3, where what is kept for each row counts more."""
LIBRARIES_SHARE = 0.5
"""The part of the budget that is left to libraries, and to what is no array of NumPy's."""


@cache
def scratch_handler() -> NumpyHandler[ScratchBlocks]:
    """The one of this process."""
    return NumpyHandler("exitbench", ScratchBlocks())


@contextmanager
def arrays_within_budget(scores: int) -> Iterator[None]:
    """Let NumPy's arrays of the block keep to the memory budget, where ``scores``, layers x samples, may need more.

    Only on Linux, which alone says what is resident. Work that fits anyway is left as it is: a handler written in
    Python costs a microsecond for every array.
    """
    if scores * BYTES_PER_SCORE <= LIBRARIES_SHARE * memory_budget() or sys.platform != "linux":
        yield
        return
    handler, ended = scratch_handler(), threading.Event()
    watch = threading.Thread(target=handler.memory.watch, args=(ended,), name="memory budget", daemon=True)
    watch.start()
    handler.memory.refused = None
    try:
        with handler.in_use():
            yield
    except MemoryError as error:
        if handler.memory.refused is None:
            raise
        raise InputError(
            f"expected room in {tempfile.gettempdir()} for arrays beyond the memory budget, found: "
            f"{handler.memory.refused} ({one_line(error)}); set TMPDIR, or give more --memory"
        ) from error
    finally:
        ended.set()
        watch.join()


def read_mapping(array: NDArray[np.generic]) -> None:
    """Let the pages of a memory-mapped array that nobody writes to go when the budget is passed."""
    mapping = getattr(array, "_mmap", None)
    if isinstance(mapping, mmap.mmap):
        READ_MAPPINGS.add(mapping)
