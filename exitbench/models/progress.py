"""A progress bar on standard error: what is done, the loss, the time left; silent when nobody watches."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class ProgressBar:
    """A context manager around rich's bar; ``visible=False`` for all processes but the first."""

    def __init__(self, title: str, total: int, done: int = 0, visible: bool = True) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.visible = visible
        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
            disable=not (visible and console.is_terminal),
        )
        self.task = self.bar.add_task(title, total=total, completed=done, note="")

    def advance(self, steps: int = 1, note: str | None = None) -> None:
        """Count ``steps`` more; a ``note`` (the loss) replaces the one before."""
        if note is None:
            self.bar.update(self.task, advance=steps)
        else:
            self.bar.update(self.task, advance=steps, note=note)

    def say(self, line: str) -> None:
        """Print a line that stays, above the bar."""
        if self.visible:
            self.bar.console.print(line, highlight=False, soft_wrap=True, markup=False)

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
