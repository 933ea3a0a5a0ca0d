"""Ratios of two ways to do a thing, inside one run: rounds take turns, medians are compared.

Times are processor seconds of this process, all threads together, unless a row says otherwise: on a machine that
others use too, the clock on the wall mostly tells how long one waited for a core.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Work = Callable[[], object]
Clock = Callable[[], float]


@dataclass(frozen=True)
class Measured:
    """A ratio, and in words what it was made of: times, sizes, what was extrapolated."""

    value: float
    detail: str


@dataclass(frozen=True)
class Ratio:
    """How many times longer ``first`` takes than ``second``; both are median seconds."""

    first: float
    second: float

    @property
    def value(self) -> float:
        return self.first / self.second

    @property
    def times(self) -> str:
        """Both times, to be read beside the ratio."""
        return f"{duration(self.first)} / {duration(self.second)}"

    def measured(self, *more: str) -> Measured:
        """The ratio with its times and whatever else is to be said."""
        return Measured(self.value, "; ".join((self.times, *more)))


def duration(seconds: float) -> str:
    """Seconds in the unit people would use.

    >>> duration(0.0123), duration(75.0), duration(4e-5)
    ('12.3 ms', '75 s', '40 µs')
    """
    for size, unit in ((3600.0, "h"), (1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def seconds(work: Work, clock: Clock = time.process_time) -> float:
    """The time one call takes, by default processor time."""
    start = clock()
    work()
    return clock() - start


def ratio(first: Work, second: Work, rounds: int = 7, clock: Clock = time.process_time) -> Ratio:
    """Run both in turn, ``rounds`` times after one warm-up each, so that a busy machine disturbs both alike."""
    first()
    second()
    return in_turn(lambda: seconds(first, clock), lambda: seconds(second, clock), rounds)


def in_turn(first: Clock, second: Clock, rounds: int) -> Ratio:
    """Two functions that return the seconds they took, in turn; every other round begins with the second."""
    taken: tuple[list[float], list[float]] = [], []
    for turn in range(rounds):
        for side in ((0, 1), (1, 0))[turn % 2]:
            taken[side].append((first, second)[side]())
    return Ratio(statistics.median(taken[0]), statistics.median(taken[1]))


@dataclass(frozen=True)
class Child:
    """A finished process: seconds by the clock, and processor seconds of it and the processes it waited for."""

    wall: float
    processor: float


def child(command: Sequence[str], expected: int = 0) -> Child:
    """Run a program to its end, its output thrown away; raises CalledProcessError unless it ends as ``expected``."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        complaint = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    if process.returncode != expected:
        raise subprocess.CalledProcessError(process.returncode, list(command), stderr=complaint)
    return Child(wall, usage.ru_utime + usage.ru_stime)
