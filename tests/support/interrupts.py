"""Ctrl-C and other signals for a program under test, and what of its processes is left."""

import signal
import subprocess
import time
from pathlib import Path

import pytest


def interrupt(
    running: subprocess.Popen[str], seconds: float = 60, number: signal.Signals = signal.SIGINT
) -> tuple[int, str]:
    """Send a signal; the exit code and the text on standard error. A program that does not answer is killed."""
    assert running.stderr is not None
    running.send_signal(number)
    try:
        code = running.wait(seconds)
    except subprocess.TimeoutExpired:
        running.kill()
        pytest.fail(f"expected an answer to {number.name} within {seconds:g} seconds, found none")
    with running.stderr as stream:
        return code, stream.read()


def gone(process: int, seconds: float) -> bool:
    """Whether a process ends within some seconds; one that only waits to be reaped has ended."""
    end = time.monotonic() + seconds
    while True:
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state in "ZX":
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)


def children(process: int) -> set[int]:
    """All processes below a process."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    below, new = set(), {process}
    while new := {child for child, parent in parents.items() if parent in new} - below:
        below |= new
    return below
