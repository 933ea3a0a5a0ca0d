"""``--executor``: who does the work of a verb."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    from exitbench.executors.executor import Executor

ExecutorOption = Annotated[
    str, typer.Option("--executor", help="Who works: local, dask, tcp://HOST:PORT or FILE.py:FUNCTION.")
]


def chosen_executor(name: str, jobs: int | None, default_jobs: int, modules: Sequence[str] = ()) -> Executor:
    """The executor of the option, to be used as a context; a cluster is described in one line on standard error."""
    from exitbench.executors.named_executor import LOCAL, named_executor

    executor = named_executor(name, jobs, default_jobs, modules)
    with ExitStack() as stack:
        stack.push(executor.__exit__)  # of what is interrupted before its caller has it
        if name != LOCAL:
            echo(f"executor: {executor.description}", err=True)
        stack.pop_all()
    return executor
