"""Arrays with a value for every sample that a unit needs again later: large ones lie in temporary files until then.

A unit holds such arrays for every configuration, fold and deal of folds, far more than it works with at a time. They
are written one after another into files without a name, each mapped once, so that hundreds of them need few open files;
a file is gone when no array in it is used any more.
"""

from __future__ import annotations

import mmap
import os
import weakref
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import roomy
from exitbench.benchmarks.arrays.scratch_space import (
    is_large,
    lies_in_a_file,
    mappings,
    no_room,
    unbuffered_file,
    write_pieces,
)

MANY = 64
"""So many arrays wait for each that is worked with: here, one is large that takes this part of a large one's room."""
FILE_BYTES = 1 << 28
"""Bytes of a file, unless one array needs more."""

Kind = TypeVar("Kind", bound=np.generic)


class ScratchFile:
    """A file without a name that arrays are written to, and its mapping, from which they are read."""

    def __init__(self, size: int) -> None:
        self.size, self.used = size, 0
        self.file = unbuffered_file()
        self.file.truncate(size)
        self.mapping = mmap.mmap(self.file.fileno(), size, prot=mmap.PROT_READ)
        mappings.add(self.mapping)
        weakref.finalize(self, self.file.close)

    def write(self, array: NDArray[Kind]) -> NDArray[Kind]:
        """The array again, read-only, from the file."""
        self.file.seek(self.used)
        write_pieces(self.file, np.ascontiguousarray(array).data.cast("B"))
        offset = self.file.tell()
        stored = np.frombuffer(self.mapping, array.dtype, array.size, self.used).reshape(array.shape)
        self.used = -(-offset // 64) * 64
        return stored


class SetAside:
    """The file that is written to at present; those before it belong to their arrays."""

    def __init__(self) -> None:
        self.file: ScratchFile | None = None
        self.process = os.getpid()

    def __call__(self, array: NDArray[Kind]) -> NDArray[Kind]:
        """An array that is not written to any more: as it is, or read-only from a file where it is large.

        One that has a file of its own and needs it stays there. Raises InputError where there is no room.
        """
        if not is_large(MANY * array.nbytes) or (2 * array.nbytes > FILE_BYTES and lies_in_a_file(array)):
            return array
        try:
            forked = self.process != os.getpid()  # then the file is still its parent's, too
            if self.file is None or forked or self.file.used + array.nbytes > self.file.size:
                self.process = os.getpid()
                self.file = ScratchFile(max(FILE_BYTES, array.nbytes))
            mappings.count(array.nbytes)
            return roomy(self.file.write(array))
        except OSError as error:
            raise no_room(array.nbytes, error) from error


set_aside = SetAside()
"""One per process."""
