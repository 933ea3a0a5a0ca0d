"""``exitbench test-signal``: the conformance checks, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.terminal import cell_text, terminal_console

if TYPE_CHECKING:
    from exitbench.signals import ExitSignal
    from exitbench.signals.conformance import Outcome


def command(
    signal: Annotated[
        str, typer.Argument(help="A signal's key, with parameters or without, or a file.", show_default=False)
    ],
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
) -> None:
    """Run the checks that every signal must pass.

    A signal is looked at with its default parameters and at each value of its grids and choices; a text such as
    `cap[alpha=3]` names one setting. Exceptions that it declares are shown with their reasons. Ends with 1 when a check
    fails.

    **Examples**

    `exitbench test-signal cap`

    `exitbench test-signal my-signals/my_margin.py`

    `exitbench test-signal margin --signals-dir my-signals`
    """
    from collections import Counter

    from exitbench.cli.loading.declared_names import refuse_unknown_names

    if not signal.endswith(".py"):
        refuse_unknown_names([signal], signals_dir or [])
    from exitbench.signals.conformance import run_checks

    console = terminal_console()
    failed = 0
    for title, subject in _subjects(signal, signals_dir or []):
        outcomes = run_checks(subject)
        console.print(_table(title, outcomes))
        count = Counter(outcome.status for outcome in outcomes)
        console.print(f"{count['pass']} passed, {count['exception']} declared exceptions, {count['fail']} failed")
        failed += count["fail"]
    if failed:
        raise typer.Exit(1)


def _subjects(signal: str, directories: list[Path]) -> list[tuple[str, ExitSignal | type[ExitSignal]]]:
    """What to check, with a title each: the signals of a file, one class, or one setting of it."""
    from exitbench.cli.signals_option import load
    from exitbench.errors import InputError
    from exitbench.signals.registry.discovery import signals_in

    if signal.endswith(".py"):
        if not Path(signal).is_file():
            raise InputError(f"expected a Python file with a signal, found none at {signal}")
        return [(signal_class.name, signal_class) for signal_class in signals_in(signal)]
    registry = load(directories)
    if "[" in signal:
        return [(setting.text, setting) for setting in registry.expand(signal)]
    return [(signal, registry.get(signal))]


def _table(title: str, outcomes: list[Outcome]) -> object:
    """One row per check: its name, the verdict, and why."""
    from rich.table import Table

    colours = {"pass": "green", "exception": "yellow", "fail": "bold red"}
    table = Table(title=cell_text(title), title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in ("check", "result", "detail"):
        table.add_column(column, no_wrap=column != "detail", overflow="fold")
    for outcome in outcomes:
        status = cell_text(outcome.status, style=colours[outcome.status])
        table.add_row(outcome.check.replace("_", " "), status, cell_text(outcome.detail))
    return table
