"""``exitbench check``: has a number moved?"""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.fit_cache_option import FitCacheOption, fit_cache
from exitbench.cli.options.executor_option import ExecutorOption, chosen_executor
from exitbench.cli.options.memory_option import MemoryOption, use_memory
from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    from exitbench.benchmarks.suites.suite import Suite


class Format(StrEnum):
    """How the outcome is printed."""

    terminal = "terminal"
    github = "github"
    markdown = "markdown"
    junit = "junit"


def command(
    suite: Annotated[
        str | None,
        typer.Argument(
            metavar="SUITE",
            help="A suite, by name or TOML file; none: every suite that comes with a baseline.",
            show_default=False,
        ),
    ] = None,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    no_fit_cache: FitCacheOption = False,
    baseline: Annotated[
        Path | None,
        typer.Option(
            help="The baseline; default: that of the suite, or beside a TOML file of your own, ending in .csv.",
            show_default=False,
        ),
    ] = None,
    target: TargetOption = None,
    update: Annotated[bool, typer.Option("--update", help="Show what moved, then rewrite the baseline.")] = False,
    format_: Annotated[Format, typer.Option("--format", help="What to print.")] = Format.terminal,
    jobs: Annotated[int | None, typer.Option(help="Processes; default: one per core.", show_default=False)] = None,
    executor: ExecutorOption = "local",
    memory: MemoryOption = None,
) -> None:
    """Compute a suite again and print only what is not as in its baseline; exit code 1 if anything moved.

    A move is shown with its tolerance and the standard error of the number. New rows, missing rows, and caches or
    signals that are missing or fail, count as moves.

    **Examples**

    `exitbench check`

    `exitbench check smoke --format github`

    `exitbench check my-suite.toml --signals-dir my-signals --update`
    """
    fit_cache(off=no_fit_cache)
    use_memory(memory)
    from exitbench.errors import InputError
    from exitbench.executors.worker_processes import one_thread_per_process

    one_thread_per_process()
    suites = suites_with_baselines(suite, baseline)
    if target is not None:
        if update and baseline is None:
            raise InputError("expected --baseline beside --target and --update, or a suite's own baseline would change")
        suites = [(checked.asking(target=target_name(target)), file) for checked, file in suites]

    from exitbench.benchmarks.baselines.check_suite import check_suite
    from exitbench.cli.formats.check_formats import FORMATS, markdown
    from exitbench.cli.signals_option import load

    load(signals_dir)  # a folder that is not there is the caller's mistake, not a number that moved
    with chosen_executor(executor, jobs, os.cpu_count() or 1) as workers:
        outcomes = [
            check_suite(checked, file, directories=signals_dir or (), executor=workers, must_exist=not update)
            for checked, file in suites
        ]
    echo(*FORMATS[format_](outcomes).split("\n"))
    step_summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if format_ is Format.github and step_summary:
        with Path(step_summary).open("a", encoding="utf-8") as page:
            page.write(markdown(outcomes) + "\n")
    if update:
        for outcome in outcomes:
            if not outcome.problems:
                outcome.update()
                echo(f"wrote {outcome.file}", err=True)
    if any(outcome.problems or (outcome.moves and not update) for outcome in outcomes):
        raise typer.Exit(1)


def suites_with_baselines(name: str | None, baseline: Path | None) -> list[tuple[Suite, Path]]:
    """The suites to check, each with the file of its baseline."""
    from exitbench.benchmarks.suites.suite_file import known_suites, load_suite
    from exitbench.errors import InputError
    from exitbench.places import BASELINES

    if name is not None:
        default = BASELINES / f"{name}.csv" if name in known_suites() else Path(name).with_suffix(".csv")
        return [(load_suite(name), baseline or default)]
    if baseline is not None:
        raise InputError("--baseline belongs to one suite; name it: exitbench check SUITE --baseline FILE")
    files = sorted(BASELINES.glob("*.csv"))
    if not files:
        raise InputError(f"no baseline in {BASELINES}; exitbench check SUITE --update writes one")
    return [(load_suite(file.stem), file) for file in files]
