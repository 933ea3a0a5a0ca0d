"""Units of work over processes: plain values go out, files come back, one failure stops nothing else.

A unit is a frozen dataclass of paths, texts and numbers; what it makes it leaves in its own folder, so
that a finished unit need not be done again. A folder counts as finished once ``done.json`` is there,
which is written last. Nothing here knows what the work is, so that another executor can take its place.

The files in a unit's folder are scratch: written plainly and without fsync, since the caller removes them at the
end, and what a killed process has written is not lost. Only a crash of the machine can lose it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnContext, SpawnProcess
from pathlib import Path
from typing import Any, Protocol

from exitbench.errors import InputError, one_line

DONE = "done.json"
LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""Where the libraries below numpy and torch look for their number of threads."""
SAFE_PATH = "PYTHONSAFEPATH"
"""With this in its environment, Python does not put the current folder on a new process's search path."""


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


def perform(unit: Unit) -> Failure | None:
    """Do one unit unless it is done already; an exception becomes a :class:`Failure`."""
    if is_done(unit):
        return None
    try:
        unit.folder.mkdir(parents=True, exist_ok=True)
        unit.work()
        (unit.folder / DONE).write_text(json.dumps({"label": unit.label}) + "\n", encoding="utf-8")
    except InputError as error:
        return Failure(unit.label, str(error))
    except Exception as error:  # whatever a plug-in raises must not stop the other units
        return Failure(unit.label, f"{type(error).__name__}: {one_line(error)}")
    return None


def digest(values: Mapping[str, Any]) -> str:
    """A short name for a unit's folder: the same inputs, the same name."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def get_ready(modules: Sequence[str]) -> None:
    """What a worker does first: leave Ctrl-C to the parent and import what its units will need.

    A terminal sends Ctrl-C to all processes; only the first one answers it, and the others go with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in modules:
        importlib.import_module(module)


def one_thread_per_process() -> None:
    """Before numpy is loaded: processes are the parallelism, also in the children, which read this as they start."""
    for library in LIBRARIES:
        os.environ.setdefault(library, "1")


@contextmanager
def safe_path() -> Iterator[None]:
    """Processes that are started inside do not import from the current folder, which may be a stranger's cache.

    The search path that they are given afterwards is the one of this process.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[SAFE_PATH]
        else:
            os.environ[SAFE_PATH] = before


class _SafeProcess(SpawnProcess):
    def start(self) -> None:
        with safe_path():
            super().start()


class _SafeContext(SpawnContext):
    Process = _SafeProcess


class Workers:
    """``jobs`` processes kept over several stages, or this very process when ``jobs`` is 1.

    ``modules`` are imported by each process as it starts; :meth:`start` makes it start before there is work.
    """

    def __init__(self, jobs: int = 1, modules: Sequence[str] = ()) -> None:
        if jobs < 1:
            raise InputError(f"expected at least one job, found {jobs}")
        self.jobs = jobs
        self._modules = tuple(modules)
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._pool is None:
            return
        if kind is not None:
            # Nobody wants the work of these any more, and a user with a mistyped signal should not wait for their
            # imports; what a unit leaves half done has no ``done.json``. Python 3.14 calls this terminate_workers().
            for process in list(self._pool._processes.values()):
                process.terminate()
        self._pool.shutdown(cancel_futures=True)

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
        open_units = [unit for unit in units if not is_done(unit)]
        for unit in units:
            if is_done(unit):
                finished(unit)
        outcomes: dict[Path, Failure | None] = {}
        futures: dict[Future[Failure | None], Unit] = {}
        if self.jobs == 1 or len(open_units) < 2:
            for unit in open_units:
                outcomes[unit.folder] = perform(unit)
                finished(unit)
        else:
            pool = self._running_pool()
            futures = {pool.submit(perform, unit): unit for unit in open_units}

        def wait() -> list[Failure]:
            for future in as_completed(futures):
                unit = futures[future]
                try:
                    outcomes[unit.folder] = future.result()
                except BrokenProcessPool:
                    outcomes[unit.folder] = Failure(unit.label, "its worker process ended unexpectedly")
                    self._pool = None
                finished(unit)
            return [failure for unit in open_units if (failure := outcomes[unit.folder]) is not None]

        return wait

    def _running_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            one_thread_per_process()
            with safe_path():  # multiprocessing starts a process of its own, which keeps track of semaphores
                self._pool = ProcessPoolExecutor(self.jobs, _SafeContext(), get_ready, (self._modules,))
        return self._pool
