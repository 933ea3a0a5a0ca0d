"""NumPy's memory handler (NEP 49) from Python: who gives arrays their memory, for as long as a block of code runs.

NumPy asks a handler for the memory of every array and gives it back to the same one. Its C interface is called by its
place in the table that NumPy exports, which is part of its binary interface and never moves.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

import numpy as np

SET_HANDLER = 304
"""The place of ``PyDataMem_SetHandler`` in the table; it takes a capsule and returns the one before."""

ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
ALLOCATE_ZEROS = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
CHANGE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
GIVE_BACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
CAPSULE_NAME = b"mem_handler"


class Handler(ctypes.Structure):
    """``PyDataMem_Handler``, version 1."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("allocate", ALLOCATE),
        ("allocate_zeros", ALLOCATE_ZEROS),
        ("change", CHANGE),
        ("give_back", GIVE_BACK),
    )


class Memory(Protocol):
    """What a handler does; addresses are numbers, 0 says that there is no memory."""

    def allocate(self, size: int) -> int: ...
    def allocate_zeros(self, size: int) -> int: ...
    def change(self, address: int, size: int) -> int: ...
    def give_back(self, address: int) -> None: ...


Kind = TypeVar("Kind", bound=Memory)


class NumpyHandler(Generic[Kind]):
    """A handler that asks ``memory``. Arrays may outlive it, so what NumPy calls of it is never taken away."""

    def __init__(self, name: str, memory: Kind) -> None:
        self.memory = memory
        self._handler = Handler(
            name.encode(),
            1,
            None,
            ALLOCATE(lambda _, size: memory.allocate(size)),
            ALLOCATE_ZEROS(lambda _, count, size: memory.allocate_zeros(count * size)),
            CHANGE(lambda _, address, size: memory.change(address or 0, size)),
            GIVE_BACK(lambda _, address, _size: memory.give_back(address or 0)),
        )
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._capsule = make(ctypes.addressof(self._handler), CAPSULE_NAME, None)
        for kept in (self._handler, self._capsule):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
        atexit.register(self._rest)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Let it give memory to the arrays that this thread makes in the block."""
        set_handler = numpy_function(SET_HANDLER)
        before = set_handler(self._capsule)
        try:
            yield
        finally:
            set_handler(before)

    def _rest(self) -> None:
        """Give nothing back any more: the process ends, and Python may be gone before the last array is."""
        self._handler.give_back = ctypes.cast(ctypes.CDLL(None).getpid, GIVE_BACK)


def numpy_function(number: int) -> Callable[[object], object]:
    """A function of NumPy's C interface, by its number in the table, from a Python object to a Python object."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = pointer(np._core.multiarray._ARRAY_API, None)
    address = ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[number]
    return ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(address)
