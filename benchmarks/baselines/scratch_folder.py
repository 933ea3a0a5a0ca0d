"""Where runs lie that are not kept: ``check`` and ``power`` read their results and take the folder away."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from exitbench.stop_signals import deferred_stops

SCRATCH = "exitbench-scratch-"
"""The temporary folders begin with this and the number of their process."""


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A temporary folder that is removed however the block ends, and at whatever step an interrupt comes."""
    remove_abandoned()
    folder: Path | None = None
    try:
        with deferred_stops():
            folder = Path(tempfile.mkdtemp(prefix=f"{SCRATCH}{os.getpid()}-"))
        yield folder
        shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def remove_abandoned() -> None:
    """Take away the folders of processes that were killed, which could not do so themselves: their process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{SCRATCH}*"):
        owner = folder.name.removeprefix(SCRATCH).partition("-")[0]
        if owner.isdecimal() and not is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def is_alive(process: int) -> bool:
    """Whether a process of this number runs, whoever it belongs to."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's process, or a system that cannot say
        return True
    return True
