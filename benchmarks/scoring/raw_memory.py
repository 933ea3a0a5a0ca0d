"""Who asks a tensor for its memory: whatever writes past torch, which counts its own writes only, must do so first.

An array, ``.data``, the storage, an address or a DLPack capsule is handed out by one of few names of ``torch.Tensor``.
While somebody watches, each of them first calls the watchers, who then take their copies. Code that asks for nothing
pays nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

METHODS = ("numpy", "untyped_storage", "data_ptr", "__dlpack__")
"""``__array__`` goes through the first of them, older names of the storage through the second."""

_watchers: list[Callable[[], None]] = []
_own: dict[str, Any] = {}
"""What ``torch.Tensor`` itself held under a watched name; what it inherits is not here."""
_lock = threading.Lock()


@contextmanager
def memory_watched(asked: Callable[[], None]) -> Iterator[None]:
    """Call ``asked``, in the block, each time before any tensor hands out its memory, in whatever thread that is."""
    with _lock:
        if not _watchers:
            _begin()
        _watchers.append(asked)
    try:
        yield
    finally:
        with _lock:
            _watchers.remove(asked)
            if not _watchers:
                _end()


def _begin() -> None:
    for name in (*METHODS, "data"):
        if name in vars(torch.Tensor):
            _own[name] = vars(torch.Tensor)[name]
        setattr(torch.Tensor, name, _watched_data() if name == "data" else _watched_method(name))


def _end() -> None:
    for name in (*METHODS, "data"):
        if name in _own:
            setattr(torch.Tensor, name, _own.pop(name))
        else:
            delattr(torch.Tensor, name)


def _tell() -> None:
    for asked in tuple(_watchers):
        asked()


def _watched_method(name: str) -> Any:
    given = getattr(torch.Tensor, name)

    def method(self: torch.Tensor, *values: Any, **named: Any) -> Any:
        _tell()
        return given(self, *values, **named)

    return method


def _watched_data() -> property:
    given: Any = getattr(torch.Tensor, "data")  # noqa: B009 - a type checker takes it for a tensor

    def read(self: torch.Tensor) -> Any:
        _tell()
        return given.__get__(self)

    def replace(self: torch.Tensor, value: torch.Tensor) -> None:
        _tell()
        given.__set__(self, value)

    return property(read, replace)
