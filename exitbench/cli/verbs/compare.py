"""``exitbench compare``: what differs between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.terminal import cell_text, echo_json, terminal_console

if TYPE_CHECKING:
    from rich.console import Console

    from exitbench.reports.compare_runs import Comparison
    from exitbench.reports.paired_points import Paired


def command(
    run_a: Annotated[Path, typer.Argument(metavar="RUN_A", help="Folder of a run.")],
    run_b: Annotated[Path, typer.Argument(metavar="RUN_B", help="Folder of the run to compare it with.")],
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Also operating points that do not differ.")] = False,
    limit: Annotated[int, typer.Option(help="Most rows of the table of other numbers.", min=0)] = 40,
    signals: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="One signal of the first run with another of the second.", show_default=False),
    ] = None,
) -> None:
    """Say what differs between two runs over the same caches, or between two signals, with paired tests.

    Every signal is compared with itself in the other run; with --signals one signal with another, also of the same run.
    Differences of the task score are those of the stored answers, second less first, with a 95% interval. Answers are
    compared sample by sample with McNemar's exact test, exit layers with a sign test, both by whole groups where a
    cache has groups; p-values are adjusted by Holm's method. Runs over caches with different hashes, or towards
    different targets, are refused. Comparing ends with exit code 0, whether or not anything differs.

    **Examples**

    `exitbench compare out/before out/after`

    `exitbench compare out/before out/after --json`

    `exitbench compare out/mine out/published --signals margin,cap`
    """
    from exitbench.reports.compare_runs import compare_runs

    comparison = compare_runs(run_a, run_b, signal_of_each(signals))
    if as_json:
        echo_json(comparison.to_json())
        return
    console = terminal_console()
    print_paired(console, comparison, every=every)
    print_moved(console, comparison, limit)
    for name, only in ((comparison.run_a, comparison.only_a), (comparison.run_b, comparison.only_b)):
        if only:
            console.print(cell_text(f"only in {name}: {', '.join(only)}"))
    console.print(cell_text(conclusion(comparison)))


def signal_of_each(text: str | None) -> tuple[str, str] | None:
    """The two signals of the option, one for each run; None where it was not given."""
    from exitbench.cli.signals_option import separate_signals
    from exitbench.errors import InputError

    if text is None:
        return None
    names = separate_signals([text])
    if len(names) != 2 or not all(names):
        raise InputError(f"expected two signals such as margin,cap for --signals, found {text!r}")
    return names[0], names[1]


def print_paired(console: Console, comparison: Comparison, *, every: bool) -> None:
    """The operating points sample by sample, a table for each cache and protocol."""
    from rich import box
    from rich.table import Table

    from exitbench.reports.run_data.numbers import p_text

    rows = [pair for pair in comparison.paired if every or pair.differs]
    for cache, protocol in dict.fromkeys((pair.cache, pair.protocol) for pair in rows):
        title = cell_text(f"{cache}, {protocol}: answers and exits in pairs")
        table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
        table.add_column("signal", overflow="fold", min_width=7)
        table.add_column("at", no_wrap=True)
        for name in ("score", "difference", "only right", "p", "speed-up", "earlier", "p"):
            table.add_column(name, justify="right", no_wrap=True)
        for pair in rows:
            if (pair.cache, pair.protocol) == (cache, protocol):
                table.add_row(
                    cell_text(both(pair.signal_a, pair.signal_b)),
                    cell_text(pair.point.short),
                    f"{pair.score_a:.1f} → {pair.score_b:.1f}",
                    difference_text(pair),
                    f"{pair.only_a_right} : {pair.only_b_right}",
                    p_text(pair.p_right_adjusted),
                    f"{pair.speed_up_a:.2f} → {pair.speed_up_b:.2f}",
                    f"{pair.earlier_in_a} : {pair.earlier_in_b}",
                    p_text(pair.p_exit_adjusted),
                )
        console.print(table)
    if rows:
        console.print(cell_text(f"A → B, B less A, and A : B with A = {comparison.run_a}, B = {comparison.run_b}"))


def difference_text(pair: Paired) -> str:
    """The difference of two task scores with its interval, as many digits as that allows."""
    from exitbench.reports.run_data.numbers import number

    shown = number(pair.difference, pair.low, pair.high)
    sign = "" if shown.text.startswith("-") or not shown.text.strip("0.") else "+"
    return f"{sign}{shown.text} {shown.interval}".strip()


def print_moved(console: Console, comparison: Comparison, limit: int) -> None:
    """Numbers without a paired test, the most moved first."""
    from rich import box
    from rich.table import Table

    if not comparison.moved or not limit:
        return
    moved = sorted(comparison.moved, key=lambda number: -abs((number.b or 0.0) - (number.a or 0.0)))
    title = "Other numbers that moved (no paired test: runs keep no samples of them)"
    table = Table(title=title, box=box.SIMPLE, padding=(0, 1, 0, 0))
    for name in ("cache", "protocol", "signal", "at", "layer", "measure"):
        table.add_column(name, overflow="fold")
    for name in ("A", "B"):
        table.add_column(name, justify="right", no_wrap=True)
    for number in moved[:limit]:
        layer = "" if number.layer is None else str(number.layer)
        names = (number.cache, number.protocol, both(number.signal_a, number.signal_b), number.point.text, layer)
        values = ["–" if value is None else f"{value:.4g}" for value in (number.a, number.b)]
        table.add_row(*map(cell_text, (*names, f"{number.measure} {number.decisions}".strip())), *values)
    console.print(table)
    if len(moved) > limit:
        console.print(f"and {len(moved) - limit} more; --limit or --json shows them")


def both(first: str, second: str) -> str:
    """One text for an entry that may have other parameters in the other run."""
    return first if first == second else f"{first} → {second}"


def conclusion(comparison: Comparison) -> str:
    """One sentence on what was found."""
    from exitbench.benchmarks.results.vocabulary import SIGNIFICANCE, is_claimed

    if comparison.identical:
        return (
            f"no difference: {len(comparison.paired)} operating points and {comparison.same} other numbers are the same"
        )
    claimed = sum(is_claimed(pair.p_right_adjusted) for pair in comparison.paired)
    differing = sum(pair.differs for pair in comparison.paired)
    return (
        f"{differing} of {len(comparison.paired)} operating points differ, {claimed} of them in how many answers are "
        f"right (adjusted p of at most {SIGNIFICANCE}); {len(comparison.moved)} other numbers moved, "
        f"{comparison.same} are the same"
    )
