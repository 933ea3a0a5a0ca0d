"""The executor of a cluster: units over the workers of a Dask scheduler that see the same files.

The scheduler gives a unit whose worker is gone to another one. A worker that was only out of reach may still be writing
then, so each attempt has a folder of its own, which gets the unit's name once it is whole: whoever comes second finds
the work done. What the system refused (a full disk, a file server that did not answer) is tried on another worker, too.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from exitbench.errors import InputError, one_line
from exitbench.executors.executor import Answer, Ended
from exitbench.executors.unit import Failure, Unit, failure_of, is_done, work_and_sign
from exitbench.executors.worker_processes import LIBRARIES, SAFE_PATH

if TYPE_CHECKING:
    from distributed import Client, Future

RETRIES = 2
"""How often a unit that the system refused is tried again."""
PATIENCE = 60.0
"""Seconds to wait for a scheduler, and for its first worker."""
LOST_EACH_TIME = "the workers that were given this ended unexpectedly, one after another"
LOOPBACK = "127.0.0.1"
MISSING = "expected the package 'distributed' for this executor, found none: pip install 'exitbench[dask]'"


class DaskCluster:
    """The workers behind a Dask client; ``owned`` is the cluster that ends with this executor, if any."""

    def __init__(self, client: Client, owned: Any = None) -> None:
        self._client, self._owned = client, owned
        self._futures: dict[str, tuple[Future, Unit]] = {}
        self._ended: SimpleQueue[str] = SimpleQueue()
        self._suspects: deque[Unit] = deque()
        """What lost its workers, perhaps only because it was given to them beside something that ended them."""
        self._require_workers()

    @property
    def jobs(self) -> int:
        """The threads of all workers that are there now."""
        return sum(self._client.nthreads().values())

    @property
    def is_remote(self) -> bool:
        """A scheduler's workers may be anywhere."""
        return True

    @property
    def description(self) -> str:
        """The cluster in one line: how many workers, where, and the address of the dashboard where there is one."""
        workers, scheduler = len(self._client.nthreads()), self._client.scheduler
        address = "" if scheduler is None else f" of {scheduler.address}"
        shown = f", dashboard at {self._client.dashboard_link}" if has_dashboard() else ""
        return f"{workers} {'worker' if workers == 1 else 'workers'}{address}{shown}"

    def start(self) -> None:
        """Nothing: the workers run already."""

    def hand_out(self, unit: Unit) -> None:
        """Give a unit to the scheduler."""
        self._submit(unit)

    def _submit(self, unit: Unit) -> None:
        key = f"{unit.label} {uuid.uuid4().hex}"
        future = self._client.submit(perform_anywhere, unit, key=key, retries=RETRIES, pure=False)
        self._futures[key] = (future, unit)
        future.add_done_callback(lambda done: self._ended.put(done.key))

    def ended(self, *, wait: bool) -> list[Ended]:
        """The units that have ended since the last call, each told once; with ``wait`` at least one."""
        ended = self._collect(wait=False)
        while wait and not ended:
            ended = self._collect(wait=True) if self._futures else [self._alone(self._suspects.popleft())]
        return ended

    def _collect(self, *, wait: bool) -> list[Ended]:
        ended: list[Ended] = []
        while self._futures:
            try:
                key = self._ended.get(block=wait)
            except Empty:
                break
            wait = False
            if key in self._futures:
                future, unit = self._futures.pop(key)
                if self._was_lost(future):
                    self._suspects.append(unit)
                else:
                    ended.append((unit, self._outcome(future, unit)))
        return ended

    def _alone(self, unit: Unit) -> Ended:
        """Do a unit with no other beside it; if it loses its workers again, it has failed."""
        from distributed import wait

        self._submit(unit)
        ((future, _),) = self._futures.values()
        wait(future)
        self._futures.clear()
        return unit, Failure(unit.label, LOST_EACH_TIME) if self._was_lost(future) else self._outcome(future, unit)

    def _was_lost(self, future: Future) -> bool:
        from distributed import KilledWorker

        return future.status == "error" and isinstance(future.exception(), KilledWorker)

    def _outcome(self, future: Future, unit: Unit) -> Failure | None:
        if future.status == "finished":
            failure = future.result()
            assert failure is None or isinstance(failure, Failure)
            return failure
        if future.status != "error":  # cancelled: the scheduler has gone, or somebody has told it to forget this
            raise InputError(f"expected the scheduler to do {unit.label}, found that it gave it up ({future.status})")
        return failure_of(unit, future.exception())

    def call_each(self, function: Callable[..., Answer], calls: Sequence[tuple[Any, ...]]) -> list[Answer]:
        """Call a function with each of some arguments on the workers; the first exception is raised."""
        from distributed import KilledWorker

        futures = [self._client.submit(function, *arguments, pure=False) for arguments in calls]
        try:
            return [future.result() for future in futures]
        except KilledWorker as error:
            raise InputError(f"expected an answer of the cluster, found that {LOST_EACH_TIME}") from error

    def ask_all(self, function: Callable[..., Answer], *arguments: Any) -> list[Answer]:
        """The answers of all workers that are there now."""
        try:
            return list(self._client.run(function, *arguments).values())
        except (ImportError, AttributeError) as error:
            raise InputError(
                f"expected the workers to have the same exitbench as this process, found: {one_line(error)}"
            ) from error

    def stop(self) -> None:
        """Take back what was handed out; a worker ends the unit that it is at, whose files nobody looks at."""
        waiting = [future for future, _ in self._futures.values()]
        self._futures.clear()
        self._suspects.clear()
        if waiting and self._client.status == "running":
            self._client.cancel(waiting, force=True)

    def close(self) -> None:
        """Let go of the cluster, and end it where it is this executor's own."""
        self._client.close()
        if self._owned is not None:
            self._owned.close()

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.stop()
        self.close()

    def _require_workers(self) -> None:
        try:
            self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            self.close()
            raise InputError(f"expected a scheduler with workers, found none within {PATIENCE:.0f} s") from error


def perform_anywhere(unit: Any) -> Failure | None:
    """Do one unit in a folder of this attempt, and give that its name unless another attempt was faster.

    Raises OSError and MemoryError, which another machine may not meet; any other exception is a :class:`Failure`.
    """
    if is_done(unit):
        return None
    attempt = replace(unit, folder=unit.folder.with_name(f".{unit.folder.name}.{uuid.uuid4().hex[:8]}"))
    try:
        # Not its parents: a run that has been given up takes them away.
        attempt.folder.mkdir()
        work_and_sign(attempt)
        try:
            attempt.folder.rename(unit.folder)
        except OSError:
            if not is_done(unit):
                raise
    except (OSError, MemoryError):
        raise
    except Exception as error:  # whatever a plug-in raises must not stop the other units
        return failure_of(unit, error)
    finally:
        shutil.rmtree(attempt.folder, ignore_errors=True)
    return None


def connected(address: str) -> DaskCluster:
    """The cluster whose scheduler listens at an address such as ``tcp://10.0.0.1:8786``."""
    require_distributed()
    from distributed import Client

    try:
        return DaskCluster(Client(address, timeout=PATIENCE))
    except (OSError, ValueError) as error:
        raise InputError(f"expected a Dask scheduler at {address}, found none: {one_line(error)}") from error


def local_cluster(jobs: int) -> DaskCluster:
    """A cluster of ``jobs`` processes on this machine, which only this machine can reach."""
    require_distributed()
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=jobs,
        threads_per_worker=1,
        processes=True,
        host=LOOPBACK,
        # Any free port: without bokeh there is a page of numbers all the same.
        dashboard_address=f"{LOOPBACK}:0",
        # As in the workers of a local pool: one thread each, and nothing from the current folder.
        env={**{library: os.environ.get(library, "1") for library in LIBRARIES}, SAFE_PATH: "1"},
    )
    return DaskCluster(Client(cluster), owned=cluster)


def has_dashboard() -> bool:
    """Whether bokeh, which Dask draws its dashboard with, is installed."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


def require_distributed() -> None:
    """Raise InputError where the extra is not installed."""
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise InputError(MISSING)
