"""Who is writing here now? A lock on an open file or folder, which ends with the process however it ends."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

ATTEMPTS = 100
"""How often somebody else may finish between the opening and the locking of a file."""


def lock(descriptor: int) -> bool:
    """Lock an open file until it is closed; False where another has it. A disk without locks counts as free."""
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


def lock_name(path: Path, opened: Callable[[], int]) -> int | None:
    """The locked descriptor of what has the name ``path``, which ``opened`` opens or makes; None where another has it.

    Whoever had the lock may have renamed or removed what was opened: then it is opened again.
    """
    for _ in range(ATTEMPTS):
        descriptor = opened()
        if not lock(descriptor):
            os.close(descriptor)
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)
    return None
