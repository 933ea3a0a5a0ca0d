"""Stopping on request: the first Ctrl-C (or SIGTERM) is noted, a second one is immediate."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """A context manager that turns a signal into ``made``, for the loop inside to end at a good place.

    Outside the main thread signals cannot be taken and are left as they are.
    """

    def __init__(self) -> None:
        self.made = False
        self.before: dict[signal.Signals, Any] = {}

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signals."""
        if self.made:
            raise KeyboardInterrupt
        self.made = True

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self.before = {number: signal.signal(number, self.note) for number in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)
