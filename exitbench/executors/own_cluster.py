"""A Dask cluster of processes of this machine: only it can reach them, and Ctrl-C is left to whoever started them."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from typing import Any

from exitbench.errors import InputError
from exitbench.executors.worker_processes import LIBRARIES, SAFE_PATH

LOOPBACK = "127.0.0.1"
STARTING = 120.0
"""Seconds that the processes may take to start, on a crowded machine."""


def started_cluster(jobs: int) -> Any:
    """A cluster of ``jobs`` processes that are there; what an interrupt leaves half started is ended."""
    from distributed import LocalCluster

    resource_tracker.ensure_running()  # begun by a thread that starts workers, it would let interrupts through there
    with interrupts_kept_from_threads():
        cluster = LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            processes=True,
            host=LOOPBACK,
            # Any free port: without bokeh there is a page of numbers all the same.
            dashboard_address=f"{LOOPBACK}:0",
            # As in the workers of a local pool: one thread each, and nothing from the current folder.
            env={**{library: os.environ.get(library, "1") for library in LIBRARIES}, SAFE_PATH: "1"},
        )
    try:
        cluster.scale(jobs)
        cluster.wait_for_workers(jobs, timeout=STARTING)
    except BaseException as error:
        end_cluster(cluster)
        if isinstance(error, TimeoutError):
            raise InputError(
                f"expected {jobs} worker processes to start within {STARTING:.0f} s, found less"
            ) from error
        raise
    return cluster


def end_cluster(cluster: Any) -> None:
    """End a cluster at once, and without a word of Dask's."""
    with without_log():
        end_workers(cluster)
        with suppress(TimeoutError):  # the system is slow to take the processes away: they are dead
            cluster.close()


def end_workers(cluster: Any) -> None:
    """End the processes of a cluster: Dask asks each to close first and, after seconds, loses its patience."""
    for nanny in cluster.workers.values():
        process = nanny.pid
        nanny.close_gracefully(reason="exitbench has ended")  # so that it starts no other
        if process is not None:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)


@contextmanager
def interrupts_kept_from_threads() -> Iterator[None]:
    """Threads that are started inside, and the processes that they start, never see Ctrl-C.

    A terminal sends it to all processes; the one that was started by the user answers for all. Windows knows no masks.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def without_log() -> Iterator[None]:
    """Without Dask's records of what is cut off when a client or a cluster ends.

    Not by the level of its handlers, which a cluster that closes sets to what it was before the cluster.
    """
    handlers = list(logging.getLogger("distributed").handlers)
    for handler in handlers:
        handler.addFilter(no_record)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(no_record)


def no_record(record: logging.LogRecord) -> bool:
    """A filter that lets nothing through."""
    return False
