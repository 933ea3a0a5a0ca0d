"""Ctrl-C in a verb: one line that says what is left, and exit code 130."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from exitbench.cli.terminal import echo

STOPPED = 130
"""Exit code of a program that Ctrl-C ended, as shells have it."""


@contextmanager
def stopping(line: str = "stopped") -> Iterator[None]:
    """End with 130 when the block, or the function below it, is interrupted; ``line`` is printed unless it is empty."""
    try:
        yield
    except KeyboardInterrupt:
        if line:
            echo(line, err=True)
        raise typer.Exit(STOPPED) from None
