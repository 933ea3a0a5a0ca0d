"""Ctrl-C in a verb: one line that says what is left, and exit code 130; SIGTERM and SIGHUP take the same way."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from exitbench.cli.terminal import echo

STOPPED = 130
"""Exit code of a program that Ctrl-C ended, as shells have it; also after SIGTERM and SIGHUP."""

PAUSE = 0.02
"""Seconds until a signal that came at a bad moment is sent again."""

LONGEST_IMPORT = 60.0
"""Seconds that a stop waits for imports to end: torch from a slow disk, on a machine with other work, takes many."""

OTHER_STOPS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""What batch systems, service managers and closed terminals send; Windows has no SIGHUP."""


@contextmanager
def stopping(line: str = "stopped") -> Iterator[None]:
    """End with 130 when the block, or the function below it, is interrupted; ``line`` is printed unless it is empty."""
    try:
        yield
    except KeyboardInterrupt:
        if line:
            echo(line, err=True)
        raise typer.Exit(STOPPED) from None


@contextmanager
def stopped_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in the block, so that workers and temporary folders go with it.

    Only the first one does: what sends a second one seconds later must not interrupt the tidying up. A signal that the
    caller has ignored, as ``nohup`` does, stays ignored. One that comes amid an import, SIGINT too, waits for its end.
    One that comes as the block ends has nothing left to stop.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, *OTHER_STOPS)}
    answered = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
    deadline: float | None = None
    waiting = over = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal deadline, waiting
        if over:
            return
        deadline = deadline or time.monotonic() + LONGEST_IMPORT
        if is_importing(frame) and time.monotonic() < deadline:
            if not waiting:
                waiting = True
                threading.Timer(PAUSE, again, (number,)).start()
            return
        for other in answered:
            if other in OTHER_STOPS:
                signal.signal(other, lambda *_: None)
        raise KeyboardInterrupt

    def again(number: int) -> None:
        nonlocal waiting
        waiting = False
        send_to_main_thread(number)

    with lost_interrupts_repeated():
        for number in answered:
            signal.signal(number, stop)
        try:
            yield
        finally:
            over = True
            for number, handler in answered.items():
                signal.signal(number, handler)


def is_importing(frame: FrameType | None) -> bool:
    """Whether a frame belongs to a module that an import statement is loading.

    Libraries in C++ end the process, or forget the interrupt, when one arrives while they are imported.
    """
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


def send_to_main_thread(number: int) -> None:
    """Send a signal where Python answers it, so that it also ends a sleep there; Windows knows no such way."""
    if sys.platform == "win32":
        signal.raise_signal(number)
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, number)


@contextmanager
def lost_interrupts_repeated() -> Iterator[None]:
    """Send SIGINT once more where Python lost an interrupt.

    An exception in a destructor or in the callback of a weak reference is printed and forgotten; an interrupt that
    arrives there would stop nothing.
    """
    hook = sys.unraisablehook

    def repeat(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is not KeyboardInterrupt:
            hook(lost)
        elif signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            # Not at once: this may still be inside the destructor.
            threading.Timer(PAUSE, signal.raise_signal, (signal.SIGINT,)).start()

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        sys.unraisablehook = hook
