"""What an executor is, and units over one: each is handed out as soon as those that it rests on have ended.

An executor takes units and tells which have ended; it knows nothing of their order. This module knows the order and
nothing of processes, so that a pool of this machine and a cluster do the same work in the same way.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from exitbench.executors.unit import Failure, Unit, is_whole, perform

Answer = TypeVar("Answer")
Ended = tuple[Unit, Failure | None]
"""A unit that has ended, and why it failed, if it did."""


class Executor(Protocol):
    """Processes that do units, here or on other machines that see the same files.

    A context manager: left by an exception, it ends the work that it was given. Used from one thread, by one caller at
    a time: what one has handed out has ended before the next one asks.
    """

    @property
    def jobs(self) -> int:
        """How many units are done at the same time."""

    @property
    def description(self) -> str:
        """Who works, and where, in a few words."""

    @property
    def is_remote(self) -> bool:
        """Whether the processes are none of this one's children: they may see other files, and have other code."""

    def start(self) -> None:
        """Let the processes get ready while this one does something else."""

    def hand_out(self, unit: Unit) -> None:
        """Have a unit done, sooner or later. One whose process is lost is tried again before it has failed."""

    def ended(self, *, wait: bool) -> list[Ended]:
        """The units that have ended since the last call, each told once; with ``wait`` at least one.

        To be called with ``wait`` only while a unit is open.
        """

    def call_each(self, function: Callable[..., Answer], calls: Sequence[tuple[Any, ...]]) -> list[Answer]:
        """Call a function with each of some arguments, and wait for the answers; the first exception is raised.

        Where :attr:`is_remote` is false this process does it.
        """

    def ask_all(self, function: Callable[..., Answer], *arguments: Any) -> list[Answer]:
        """The answers of all processes there are now; where :attr:`is_remote` is false, of this one."""

    def stop(self) -> None:
        """Give up what was handed out; what a unit leaves half done has no ``done.json``."""

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...


@dataclass(frozen=True)
class Step:
    """A unit among others, done once the units in the folders ``after`` have ended.

    Unless it is ``wanted`` by then it is passed over without a word: what it rests on has failed. ``here`` keeps it in
    this process.
    """

    unit: Unit
    after: tuple[Path, ...] = ()
    wanted: Callable[[], bool] = lambda: True
    here: bool = False


def perform_all(executor: Executor, units: Sequence[Unit], finished: Callable[[Unit], None]) -> list[Failure]:
    """Do units that do not rest on each other; failures in the order of the units."""
    return Performance(executor, [Step(unit) for unit in units], finished).wait()


class Performance:
    """Steps that are being done: whatever can be handed out is, from the first moment on.

    ``finished`` is called after each unit that was done, has failed or was done already. What an earlier start has left
    whole is not done again.
    """

    def __init__(self, executor: Executor, steps: Sequence[Step], finished: Callable[[Unit], None]) -> None:
        self._executor, self._steps, self._finished = executor, list(steps), finished
        self._outcomes: dict[Path, Failure | None] = {}
        self._open = {step.unit.folder for step in steps}
        self._waiting: dict[Path, list[Step]] = {}
        self._missing: dict[Path, int] = {}
        self._here: deque[Step] = deque()
        self._handed_out = 0
        whole = [step for step in steps if is_whole(step.unit)]
        done = {step.unit.folder for step in whole}
        others = [step for step in steps if step.unit.folder not in done]
        for step in others:  # so that from here on a folder says that its unit was begun
            shutil.rmtree(step.unit.folder, ignore_errors=True)
        for parent in {step.unit.folder.parent for step in others}:
            parent.mkdir(parents=True, exist_ok=True)
        for step in whole:
            self._end(step.unit, None)
        for step in others:
            open_before = [folder for folder in step.after if folder in self._open]
            for folder in open_before:
                self._waiting.setdefault(folder, []).append(step)
            self._missing[step.unit.folder] = len(open_before)
            if not open_before:
                self._begin(step)

    def wait(self) -> list[Failure]:
        """Do what is left; the failures in the order of the steps."""
        while self._open:
            if self._here:
                unit = self._here.popleft().unit
                self._end(unit, perform(unit))
            if self._handed_out:
                for unit, failure in self._executor.ended(wait=not self._here):
                    self._handed_out -= 1
                    self._end(unit, failure)
        outcomes = (self._outcomes.get(step.unit.folder) for step in self._steps)
        return [failure for failure in outcomes if failure is not None]

    def _begin(self, step: Step) -> None:
        if not step.wanted():
            self._close(step.unit)
        elif step.here:
            self._here.append(step)
        else:
            self._handed_out += 1
            self._executor.hand_out(step.unit)

    def _end(self, unit: Unit, failure: Failure | None) -> None:
        self._outcomes[unit.folder] = failure
        self._finished(unit)
        self._close(unit)

    def _close(self, unit: Unit) -> None:
        """Begin whatever waited for this unit last."""
        self._open.discard(unit.folder)
        for step in self._waiting.pop(unit.folder, []):
            self._missing[step.unit.folder] -= 1
            if not self._missing[step.unit.folder]:
                self._begin(step)
