"""Units of work over processes: plain values go out, files come back, one failure stops nothing else.

A unit is a frozen dataclass of paths, texts and numbers; what it makes it leaves in its own folder, so
that a finished unit need not be done again. A folder counts as finished once ``done.json`` is there,
which is written last. Nothing here knows what the work is, so that another executor can take its place.

The files in a unit's folder are scratch: written plainly and without fsync, since the caller removes them at the
end, and what a killed process has written is not lost. A crash of the machine can lose it, so ``done.json`` has a
checksum of every file, and a unit of an earlier start is compared with them before it is taken for finished.

A worker whose parent is gone ends at once, whatever ended the parent. A unit whose worker died (killed by the system
for its memory, crashed in a library) is tried once more in a process of its own; only then has it failed.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from exitbench.errors import InputError, one_line
from exitbench.worker_processes import new_pool

DONE = "done.json"
BLOCK = 2**20
MOST_JOBS = 4096
LOST = "its worker process ended unexpectedly, twice"


class Unit(Protocol):
    """A piece of work: picklable, with a folder of its own and a label people can read."""

    @property
    def folder(self) -> Path: ...
    @property
    def label(self) -> str: ...

    def work(self) -> None:
        """Do it, leaving all results in :attr:`folder`."""


@dataclass(frozen=True)
class Failure:
    """A unit that did not finish, and why, in one line."""

    label: str
    reason: str


def is_done(unit: Unit) -> bool:
    """Whether a unit's folder holds its finished work."""
    return (unit.folder / DONE).is_file()


def is_whole(unit: Unit) -> bool:
    """Whether a unit is done and its files are what they were when it was."""
    try:
        record = json.loads((unit.folder / DONE).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("files") == checksums(unit.folder)


def checksums(folder: Path) -> dict[str, int]:
    """CRC-32 of every file in a unit's folder, by name."""
    sums = {}
    for file in sorted(folder.iterdir()):
        if file.name != DONE and file.is_file():
            sums[file.name] = 0
            with file.open("rb", buffering=0) as stream:
                while block := stream.read(BLOCK):
                    sums[file.name] = zlib.crc32(block, sums[file.name])
    return sums


def perform(unit: Unit) -> Failure | None:
    """Do one unit unless it is done already; an exception becomes a :class:`Failure`."""
    if is_done(unit):
        return None
    try:
        unit.folder.mkdir(parents=True, exist_ok=True)
        unit.work()
        record = {"label": unit.label, "files": checksums(unit.folder)}
        (unit.folder / DONE).write_text(json.dumps(record) + "\n", encoding="utf-8")
    except InputError as error:
        return Failure(unit.label, str(error))
    except Exception as error:  # whatever a plug-in raises must not stop the other units
        return Failure(unit.label, f"{type(error).__name__}: {one_line(error)}")
    return None


def digest(values: Mapping[str, Any]) -> str:
    """A short name for a unit's folder: the same inputs, the same name."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Workers:
    """``jobs`` processes kept over several stages, or this very process when ``jobs`` is 1.

    ``modules`` are imported by each process as it starts; :meth:`start` makes it start before there is work.
    """

    def __init__(self, jobs: int = 1, modules: Sequence[str] = ()) -> None:
        if not 1 <= jobs <= MOST_JOBS:
            raise InputError(f"expected between 1 and {MOST_JOBS:,} jobs, found {jobs:,}")
        self.jobs = jobs
        self._modules = tuple(modules)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            # Nobody wants the work of these any more, and a user with a mistyped signal should not wait for their
            # imports.
            self.stop()
        elif self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def stop(self) -> None:
        """End the processes amid their work: what a unit leaves half done has no ``done.json``."""
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.terminate()  # Python 3.14 calls this terminate_workers()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def start(self) -> None:
        """Let the processes import while this one does something else."""
        if self.jobs > 1:
            self._running_pool().submit(int)  # a pool starts a process for a task that finds none idle

    def run(self, units: Sequence[Unit], finished: Callable[[Unit], None]) -> list[Failure]:
        """Do all units; failures in the order of the units. ``finished`` is called after each one."""
        return self.begin(units, finished)()

    def begin(self, units: Sequence[Unit], finished: Callable[[Unit], None]) -> Callable[[], list[Failure]]:
        """Hand out all units, and return what waits for them and gives the failures.

        Without other processes the units are done before this returns.
        """
        whole = {unit.folder for unit in units if is_whole(unit)}
        open_units = [unit for unit in units if unit.folder not in whole]
        for unit in units:
            if unit.folder in whole:
                finished(unit)
        for unit in open_units:  # so that from here on a folder says that its unit was begun
            shutil.rmtree(unit.folder, ignore_errors=True)
        outcomes: dict[Path, Failure | None] = {}
        if self.jobs == 1 or len(open_units) < 2:
            for unit in open_units:
                outcomes[unit.folder] = perform(unit)
                finished(unit)
            handed_out: dict[Future[Failure | None], Unit] = {}
        else:
            handed_out = self._hand_out(open_units)

        def wait() -> list[Failure]:
            lost = self._collect(handed_out, outcomes, finished)
            suspects: list[Unit] = []
            fruitless = False
            while lost:
                begun = [unit for unit in lost if unit.folder.exists()]
                suspects += begun
                lost = [unit for unit in lost if unit not in begun]
                if fruitless and not begun:  # processes that end before they begin anything will not do better
                    outcomes.update({unit.folder: Failure(unit.label, LOST) for unit in lost})
                    break
                fruitless = not begun
                lost = self._collect(self._hand_out(lost), outcomes, finished)
            for unit in suspects:
                outcomes[unit.folder] = perform_alone(unit, self._modules)
                finished(unit)
            return [failure for unit in open_units if (failure := outcomes[unit.folder]) is not None]

        return wait

    def _hand_out(self, units: Sequence[Unit]) -> dict[Future[Failure | None], Unit]:
        futures: dict[Future[Failure | None], Unit] = {}
        for unit in units:
            try:
                future = self._running_pool().submit(perform, unit)
            except BrokenProcessPool as error:  # a process ended just now, or while it had nothing to do
                future = Future()
                future.set_exception(error)
            futures[future] = unit
        return futures

    def _collect(
        self,
        futures: Mapping[Future[Failure | None], Unit],
        outcomes: dict[Path, Failure | None],
        finished: Callable[[Unit], None],
    ) -> list[Unit]:
        """Wait for units; those that were lost because a process of the pool ended, in their order."""
        lost: set[Path] = set()
        for future in as_completed(futures):
            unit = futures[future]
            try:
                outcomes[unit.folder] = future.result()
                finished(unit)
            except BrokenProcessPool:
                lost.add(unit.folder)
        if lost and self._pool is not None:
            self._pool.shutdown()  # its other processes are ended first, so that none works on what is tried again
            self._pool = None
        return [unit for unit in futures.values() if unit.folder in lost]

    def _running_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = new_pool(self.jobs, self._modules)
        return self._pool


def perform_alone(unit: Unit, modules: Sequence[str]) -> Failure | None:
    """:func:`perform` in a new process with no other beside it, which may end without harm to anything else."""
    if is_done(unit):  # its process ended after the work and before the answer
        return None
    shutil.rmtree(unit.folder, ignore_errors=True)
    with new_pool(1, modules) as pool:
        try:
            return pool.submit(perform, unit).result()
        except BrokenProcessPool:
            return Failure(unit.label, LOST)
