"""The executor of a cluster: units over the workers of a Dask scheduler that see the same files.

The scheduler gives a unit whose worker is gone to another one, and what the system refused (a full disk, a file server
that did not answer) is tried again, too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from exitbench.errors import InputError, one_line
from exitbench.executors.attempt import Refusal, answer_or_error, perform_anywhere, remove_attempts
from exitbench.executors.executor import Answer, Ended
from exitbench.executors.own_cluster import end_cluster, end_workers, started_cluster, without_log
from exitbench.executors.same_package import package_digest
from exitbench.executors.unit import Failure, Unit, failure_of, is_done
from exitbench.progress import ProgressBar

if TYPE_CHECKING:
    from distributed import Client, Future

RETRIES = 2
"""How often a unit that the system refused is tried again."""
PATIENCE = 60.0
"""Seconds to wait for a scheduler, and for its first worker."""
SILENCE = 5.0
"""Seconds to wait without a word."""
LOST_EACH_TIME = "the workers that were given this ended unexpectedly, one after another: did they have enough memory?"
OTHERS = "expected the workers to have the same exitbench as this process, found"
MISSING = "expected the package 'distributed' for this executor, found none: pip install 'exitbench[dask]'"


class DaskCluster:
    """The workers behind a Dask client; ``owned`` is the cluster that ends with this executor, if any."""

    def __init__(self, client: Client, owned: Any = None) -> None:
        self._client, self._owned = client, owned
        self._futures: dict[str, tuple[Future, Unit, int]] = {}
        """What is being done, and how often it is tried again where the system refuses it."""
        self._ended: SimpleQueue[str] = SimpleQueue()
        self._suspects: deque[Unit] = deque()
        """What lost its workers, perhaps only because it was given to them beside something that ended them."""
        try:
            self._require_workers()
        except BaseException:
            self.close()
            raise

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
        workers = len(self._client.nthreads())
        shown = f", dashboard at {self._client.dashboard_link}" if has_dashboard() else ""
        return f"{workers} {'worker' if workers == 1 else 'workers'}{self._of_scheduler}{shown}"

    @property
    def _of_scheduler(self) -> str:
        scheduler = self._client.scheduler
        return "" if scheduler is None else f" of {scheduler.address}"

    def start(self) -> None:
        """Nothing: the workers run already."""

    def hand_out(self, unit: Unit) -> None:
        """Give a unit to the scheduler."""
        self._submit(unit)

    def _submit(self, unit: Unit, retries: int = RETRIES) -> None:
        key = f"{unit.label} {uuid.uuid4().hex}"
        future = self._client.submit(perform_anywhere, unit, key=key, pure=False)
        self._futures[key] = (future, unit, retries)
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
                key = self._next_key() if wait else self._ended.get(block=False)
            except Empty:
                break
            wait = False
            if key in self._futures:
                future, unit, retries = self._futures.pop(key)
                if self._was_lost(future):
                    self._suspects.append(unit)
                elif isinstance(outcome := self._outcome(future, unit), Refusal) and retries:
                    self._submit(unit, retries - 1)
                else:
                    ended.append((unit, outcome))
        return ended

    def _alone(self, unit: Unit, retries: int = RETRIES) -> Ended:
        """Do a unit with no other beside it; if it loses its workers again, it has failed."""
        self._submit(unit)
        ((own, (future, *_)),) = self._futures.items()
        while self._next_key() != own:
            pass
        self._futures.clear()
        if self._was_lost(future):
            remove_attempts(unit)
            return unit, Failure(unit.label, LOST_EACH_TIME)
        if isinstance(outcome := self._outcome(future, unit), Refusal) and retries:
            return self._alone(unit, retries - 1)
        return unit, outcome

    def _next_key(self) -> str:
        """The key of what has ended, once something has; one line on standard error while there is no worker."""
        said = False
        while True:
            try:
                return self._ended.get(timeout=SILENCE)
            except Empty:
                with suppress(OSError):  # of a scheduler that is gone, which ends everything in a moment
                    if not said and not self._client.nthreads():
                        said = True
                        say(f"no worker is left{self._of_scheduler}: waiting for another one")

    def _was_lost(self, future: Future) -> bool:
        from distributed import KilledWorker

        return future.status == "error" and isinstance(future.exception(), KilledWorker)

    def _outcome(self, future: Future, unit: Unit) -> Failure | None:
        if future.status == "finished":
            if is_done(unit):  # an answer lies with the worker, which may be gone by now
                return None
            failure = future.result()
            assert failure is None or isinstance(failure, Failure)
            return failure
        if future.status != "error":  # cancelled: the scheduler has gone, or somebody has told it to forget this
            raise InputError(
                f"expected the scheduler to do {unit.label}, found that it is gone or gave it up "
                f"({future.status}); the same command goes on where this one was"
            )
        return failure_of(unit, future.exception())

    def call_each(self, function: Callable[..., Answer], calls: Sequence[tuple[Any, ...]]) -> list[Answer]:
        """Call a function with each of some arguments on the workers; the first exception is raised."""
        from distributed import KilledWorker

        futures = [self._client.submit(answer_or_error, function, *arguments, pure=False) for arguments in calls]
        answers: list[Answer] = []
        for future in futures:
            try:
                answer, error = future.result()
            except KilledWorker as lost:
                raise InputError(f"expected an answer of the cluster, found that {LOST_EACH_TIME}") from lost
            if error is not None:
                raise error
            answers.append(answer)
        return answers

    def ask_all(self, function: Callable[..., Answer], *arguments: Any) -> list[Answer]:
        """The answers of all workers that are there now."""
        try:
            return list(self._client.run(function, *arguments).values())
        except InputError:
            raise
        except Exception as error:  # Dask wraps what it could not even load in exceptions of no kind
            raise InputError(f"{OTHERS}: {one_line(error)}") from error

    def stop(self) -> None:
        """Take back what was handed out; a worker ends the unit that it is at, whose files nobody looks at."""
        waiting = [future for future, *_ in self._futures.values()]
        self._futures.clear()
        self._suspects.clear()
        if waiting and self._client.status == "running":
            self._client.cancel(waiting, force=True)

    def close(self) -> None:
        """Let go of the cluster, and end it where it is this executor's own: at once, and without a word of Dask's."""
        with without_log():
            if self._owned is not None:
                end_workers(self._owned)
            self._client.close()
            if self._owned is not None:
                end_cluster(self._owned)
                for _, unit, _ in self._futures.values():
                    remove_attempts(unit)

    def __enter__(self) -> DaskCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and self._owned is None:
            self.stop()
        self.close()

    def _require_workers(self) -> None:
        """Raise InputError where no worker comes, or one has another exitbench than this process."""
        try:
            try:
                self._client.wait_for_workers(1, timeout=min(SILENCE, PATIENCE))
            except TimeoutError:
                say(f"no worker{self._of_scheduler} yet: waiting for {PATIENCE:.0f} s")
                self._client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise InputError(f"expected a scheduler with workers, found none within {PATIENCE:.0f} s") from error
        if any(digest != package_digest() for digest in self.ask_all(package_digest)):
            raise InputError(f"{OTHERS} another one")


def say(line: str) -> None:
    """A line on standard error, above whatever bar is there."""
    ProgressBar("", 1).print_line(line)


def connected(address: str) -> DaskCluster:
    """The cluster whose scheduler listens at an address such as ``tcp://10.0.0.1:8786``."""
    require_distributed()
    from distributed import Client

    try:
        try:
            require_answer(address, min(SILENCE, PATIENCE))
        except OSError:
            say(f"no scheduler at {address} yet: waiting for {PATIENCE:.0f} s")
            require_answer(address, PATIENCE)
        client = Client(address, timeout=PATIENCE)
    except (OSError, ValueError, TypeError) as error:  # the last where TLS is asked for and not set up
        raise InputError(f"expected a Dask scheduler at {address}, found none: {one_line(error)}") from error
    return DaskCluster(client)


def require_answer(address: str, seconds: float) -> None:
    """Raise OSError unless something at an address speaks Dask's language within so many seconds.

    A client would wait for ever for the first word of what takes a connection and says nothing.
    """
    from distributed.comm import connect
    from distributed.security import Security
    from distributed.utils import LoopRunner

    async def greet() -> None:
        arguments = Security().get_connection_args("client")
        try:
            comm = await asyncio.wait_for(connect(address, timeout=seconds, **arguments), seconds)
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {seconds:.0f} s") from error
        await comm.close()

    LoopRunner().run_sync(greet)


def local_cluster(jobs: int) -> DaskCluster:
    """A cluster of ``jobs`` processes on this machine, which only this machine can reach."""
    require_distributed()
    from distributed import Client

    cluster = started_cluster(jobs)
    try:
        client = Client(cluster)
    except BaseException:
        end_cluster(cluster)
        raise
    return DaskCluster(client, owned=cluster)


def has_dashboard() -> bool:
    """Whether bokeh, which Dask draws its dashboard with, is installed."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


def require_distributed() -> None:
    """Raise InputError where the extra is not installed."""
    from importlib.util import find_spec

    if find_spec("distributed") is None:
        raise InputError(MISSING)
