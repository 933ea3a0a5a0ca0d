"""How worker processes start and end: one thread each, nothing from the current folder, gone with their parent."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing.context import SpawnContext, SpawnProcess

from exitbench.executors.pandas_later import load_pandas_later
from exitbench.executors.set_aside import OWN_PROCESS

LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""Where the libraries below numpy and torch look for their number of threads."""
SAFE_PATH = "PYTHONSAFEPATH"
"""With this in its environment, Python does not put the current folder on a new process's search path."""


def new_pool(jobs: int, modules: Sequence[str]) -> ProcessPoolExecutor:
    """Processes that start anew, with nothing of this one but its environment."""
    one_thread_per_process()
    in_main_thread = threading.current_thread() is threading.main_thread()
    ready = partial(get_ready, tuple(modules), kernel=in_main_thread)
    with safe_path():  # multiprocessing starts a process of its own, which keeps track of semaphores
        return ProcessPoolExecutor(jobs, _SafeContext(), ready)


def get_ready(modules: Sequence[str], *, kernel: bool) -> None:
    """What a worker does first: end with its parent, leave Ctrl-C to it, and import what its units will need.

    A terminal sends Ctrl-C to all processes; only the first one answers it, and the others go with it.
    Pandas comes only where a unit makes a frame; a run's units make none.
    """
    OWN_PROCESS.begin()
    end_with_parent(kernel=kernel)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in modules:
        importlib.import_module(module)
    if "pyarrow" in sys.modules:
        load_pandas_later()


def end_with_parent(*, kernel: bool) -> None:
    """End this process when its parent has ended, also when that was before this call.

    A thread waits for the end of a pipe that only the parent holds open, so it needs no signal, no polling and no
    parent that cleans up. With ``kernel`` Linux is asked as well, which ends a worker that never gives up Python's
    lock (a regular expression, say). Linux counts the thread that started a process as its parent: ``kernel`` is for
    parents that do so in their main thread.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if kernel and sys.platform == "linux":
        import ctypes

        PR_SET_PDEATHSIG = 1
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, name="end with parent", daemon=True).start()


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
