"""The executor of this machine: a pool of processes, or this very process.

A worker whose parent is gone ends at once, whatever ended the parent. A unit whose worker died (killed by the system
for its memory, crashed in a library) is tried once more in a process of its own; only then has it failed.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from queue import Empty, SimpleQueue
from typing import Any

from exitbench.errors import InputError
from exitbench.executors.executor import Answer, Ended
from exitbench.executors.unit import Failure, Unit, is_done, perform
from exitbench.executors.worker_processes import new_pool

MOST_JOBS = 4096
LOST = "its worker process ended unexpectedly, twice"


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
        self._own: deque[Unit] = deque()
        """What this process is to do itself."""
        self._futures: dict[Future[Failure | None], Unit] = {}
        self._ended: SimpleQueue[Future[Failure | None]] = SimpleQueue()
        self._lost: list[Unit] = []
        self._suspects: deque[Unit] = deque()
        """What was at work when a process ended: one of them may have ended it."""
        self._fruitless = False
        """Whether the last processes ended before they began anything."""

    @property
    def description(self) -> str:
        """How many processes there are."""
        return f"{self.jobs} {'process' if self.jobs == 1 else 'processes'} of this machine"

    @property
    def is_remote(self) -> bool:
        """They are this process's children."""
        return False

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
        self._own.clear()
        self._suspects.clear()
        self._lost.clear()
        self._futures.clear()
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.terminate()  # Python 3.14 calls this terminate_workers()
            self._pool.shutdown(cancel_futures=True)
            self._pool = None

    def start(self) -> None:
        """Let the processes import while this one does something else."""
        if self.jobs > 1:
            self._running_pool().submit(int)  # a pool starts a process for a task that finds none idle

    def hand_out(self, unit: Unit) -> None:
        """Have a unit done by the pool; without other processes :meth:`ended` does it."""
        if self.jobs == 1:
            self._own.append(unit)
            return
        try:
            future = self._running_pool().submit(perform, unit)
        except BrokenProcessPool as error:  # a process ended just now, or while it had nothing to do
            future = Future()
            future.set_exception(error)
        self._futures[future] = unit
        future.add_done_callback(self._ended.put)

    def ended(self, *, wait: bool) -> list[Ended]:
        """The units that have ended since the last call, each told once; with ``wait`` at least one."""
        ended = self._collect(wait=False)
        while wait and not ended:
            if self._futures:
                ended = self._collect(wait=True)
            elif self._own:
                unit = self._own.popleft()
                ended = [(unit, perform(unit))]
            else:
                unit = self._suspects.popleft()
                ended = [(unit, perform_alone(unit, self._modules))]
        return ended

    def call_each(self, function: Callable[..., Answer], calls: Sequence[tuple[Any, ...]]) -> list[Answer]:
        """Call a function here, with each of some arguments."""
        return [function(*arguments) for arguments in calls]

    def ask_all(self, function: Callable[..., Answer], *arguments: Any) -> list[Answer]:
        """The answer of this process, whose children know nothing else."""
        return [function(*arguments)]

    def _collect(self, *, wait: bool) -> list[Ended]:
        """What the pool has done by now, or with ``wait`` at least one thing it has to say."""
        ended: list[Ended] = []
        while self._futures:
            try:
                future = self._ended.get(block=wait)
            except Empty:
                break
            wait = False
            unit = self._futures.pop(future, None)
            if unit is None:  # of a pool that was stopped
                continue
            try:
                ended.append((unit, future.result()))
                self._fruitless = False
            except BrokenProcessPool:
                self._lost.append(unit)
        if self._lost and not self._futures:  # a broken pool gives up all that it had
            ended += self._try_again()
        return ended

    def _try_again(self) -> list[Ended]:
        """Hand out anew what a broken pool had not begun; what had ended by then without hope."""
        if self._pool is not None:
            self._pool.shutdown()  # its other processes are ended first, so that none works on what is tried again
            self._pool = None
        lost, self._lost = self._lost, []
        begun = [unit for unit in lost if unit.folder.exists()]
        others = [unit for unit in lost if unit not in begun]
        if self._fruitless and not begun:  # processes that end before they begin anything will not do better
            return [(unit, Failure(unit.label, LOST)) for unit in others]
        self._fruitless = not begun
        self._suspects += begun
        for unit in others:
            self.hand_out(unit)
        return []

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
