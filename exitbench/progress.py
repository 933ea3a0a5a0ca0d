"""The progress bar of every long verb: on standard error, silent when that is no terminal."""

from __future__ import annotations

import multiprocessing
import sys
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

from exitbench.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress


class ProgressBar:
    """A context manager around rich's bar: what is done, a note (the loss, the unit at work), the time left.

    ``visible=False`` is for all processes but the first; ``transient`` takes the bar away at the end. A bar inside
    another one, or in a worker process, stays silent: a terminal has room for one.
    """

    shown: ClassVar[int] = 0
    """How many bars of this process are on the screen."""

    def __init__(self, title: str, total: int, *, done: int = 0, visible: bool = True, transient: bool = False) -> None:
        self.visible = visible
        alone = ProgressBar.shown == 0 and multiprocessing.parent_process() is None
        self._bar = self._make_bar(transient) if visible and alone and sys.stderr.isatty() else None
        if self._bar is not None:
            self._task = self._bar.add_task(title, total=total, completed=done, note="")

    @staticmethod
    def _make_bar(transient: bool) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=Console(stderr=True),
            transient=transient,
        )

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Count ``steps`` more; a ``note`` replaces the one before."""
        if self._bar is None:
            return
        if note is None:
            self._bar.update(self._task, advance=steps)
        else:
            self._bar.update(self._task, advance=steps, note=printable(note))

    def print_line(self, line: str) -> None:
        """Print a line that stays, above the bar."""
        if self._bar is not None:
            self._bar.console.print(printable(line), highlight=False, soft_wrap=True, markup=False)
        elif self.visible:
            sys.stderr.write(f"{printable(line)}\n")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            ProgressBar.shown += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            ProgressBar.shown -= 1
