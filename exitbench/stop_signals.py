"""Signals that stop the program, put off for a moment: between making something and knowing that it must be removed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


@contextmanager
def deferred_stops() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP wait until the block has ended; only for blocks that take milliseconds.

    Python answers signals in its main thread; in any other there is nothing to put off. Blocking them instead would not
    do: the system gives a blocked signal to another thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        waiting.append(number)

    before = {number: signal.getsignal(number) for number in STOPS}
    answered = {number: handler for number, handler in before.items() if callable(handler)}
    try:
        for number in answered:
            signal.signal(number, note)
        yield
    finally:
        for number, handler in reversed(answered.items()):
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])
