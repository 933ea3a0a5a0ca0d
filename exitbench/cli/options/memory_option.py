"""``--memory``: how much memory each process may use for what need not be in memory."""

from __future__ import annotations

from typing import Annotated

import typer

MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        help="Memory per process for what grows with the rows, such as 2GB (the default).",
        show_default=False,
    ),
]


def use_memory(text: str | None) -> None:
    """Set the budget where the option was given."""
    from exitbench.memory_budget import set_memory_budget

    if text is not None:
        set_memory_budget(text)
