"""Standard output and standard error that never stop a verb: closed, full, or in an encoding that lacks a sign.

What a verb computes is worth more than what it prints: hours of a run must not be lost because the reader of a pipe
went away. A stream that cannot be written any more is remembered and everything further is dropped.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO


class LenientStream:
    """A text stream whose ``write`` and ``flush`` never fail; ``error`` is what happened first."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self.error: OSError | None = None
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        if self.error is None:
            try:
                self._stream.write(text)
            except (OSError, ValueError) as error:
                self._lost(error)
        return len(text)

    def flush(self) -> None:
        if self.error is None:
            try:
                self._stream.flush()
            except (OSError, ValueError) as error:
                self._lost(error)

    def _lost(self, error: OSError | ValueError) -> None:
        # A closed Python stream raises ValueError.
        self.error = error if isinstance(error, OSError) else OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        # What is still in the stream's buffer must not fail once more when Python ends.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def output_lost() -> bool:
    """Whether standard output cannot be written any more, so that a verb without an end may stop."""
    return isinstance(sys.stdout, LenientStream) and sys.stdout.error is not None


@contextmanager
def lenient_streams() -> Iterator[LenientStream]:
    """Standard output and standard error as :class:`LenientStream` inside the block; gives that of standard output."""
    _occupy_closed_descriptors()
    before = sys.stdout, sys.stderr
    output, errors = (LenientStream(stream or open(os.devnull, "w")) for stream in before)  # noqa: PTH123, SIM115
    sys.stdout, sys.stderr = output, errors
    try:
        yield output
    finally:
        output.flush()
        errors.flush()
        sys.stdout, sys.stderr = before


def _occupy_closed_descriptors() -> None:
    """Give descriptors 0 to 2 to the null device where the caller closed them, or a result file might become one."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free descriptor, which is this one
