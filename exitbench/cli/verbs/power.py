"""``exitbench power``: the smallest difference a cache, a suite or a run can show, and what it takes to show one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import column_lines, echo, echo_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from exitbench.benchmarks.run.detectable_differences import DetectableDifference

SIGNALS = ("deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap")
"""The paper's signals with their defaults: a parameter that is chosen in-sample could not be tested."""


def command(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CACHE_SUITE_OR_RUN",
            help="Caches and suites, by name or path, or folders of finished runs; none: the paper suite.",
            show_default=False,
        ),
    ] = None,
    difference: Annotated[
        float | None, typer.Option(help="Also the rows and seeds that show this many points.", show_default=False)
    ] = None,
    speed_up: Annotated[
        float | None, typer.Option(help="Instead of the suite's primary speed-up.", show_default=False)
    ] = None,
    signals: Annotated[
        list[str] | None, typer.Option(help="Instead of the paper's signals; may be repeated.", show_default=False)
    ] = None,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    target: TargetOption = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples behind the errors.", min=2)] = 200,
    seed: Annotated[int, typer.Option(help="Seed of the resamples.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON list instead of lines.")] = False,
) -> None:
    """Say how small a difference between signals could be shown, for the score at a speed-up and for DIS.

    The smallest true difference that the paired test claims at 5% in four cases of five: for one pair by itself, and
    with Holm's adjustment for the largest of all pairs. Of a finished run it is read from its results; caches and
    suites are measured in-sample with the paper's signals.

    **Examples**

    `exitbench power mpnet-base-sst2-dev`

    `exitbench power mpnet-base-rte-dev --difference 1.0`

    `exitbench power out/published --difference 0.5 --json`
    """
    from exitbench.benchmarks.results.files import RunFiles
    from exitbench.benchmarks.run.detectable_differences import detectable_differences
    from exitbench.errors import InputError

    if difference is not None and not 0 < difference < 100:
        raise InputError(f"expected points between 0 and 100 for --difference, found {difference:g}")
    named = targets or ["paper"]
    runs = [word for word in named if (Path(word) / "run.json").is_file()]
    others = [word for word in named if word not in runs]
    if runs and (signals or speed_up is not None):
        raise InputError(f"--signals and --speed-up are for caches and suites, found the finished run {runs[0]}")
    columns = [column for word in runs for column in detectable_differences(RunFiles(Path(word)))]
    if others:
        asked = tuple(signals or SIGNALS)
        options = {"resamples": resamples, "seed": seed, "target": target_name(target)}
        columns += measured(others, asked, signals_dir or [], speed_up, options)
    if as_json:
        echo_json([column.to_json(difference) for column in columns])
    else:
        echo(*power_lines(columns, difference))


def measured(
    targets: Sequence[str],
    signals: tuple[str, ...],
    signals_dirs: list[Path],
    speed_up: float | None,
    options: Mapping[str, object],
) -> list[DetectableDifference]:
    """What caches and suites can show, from a run that is not kept."""
    from exitbench.benchmarks.baselines.scratch_folder import scratch_folder
    from exitbench.benchmarks.run.detectable_differences import detectable_differences
    from exitbench.benchmarks.run.run_suite import run_suite
    from exitbench.cli.signals_option import load
    from exitbench.cli.verbs.run import suites_of
    from exitbench.errors import InputError

    load(signals_dirs)  # for its warnings
    columns: list[DetectableDifference] = []
    for suite in suites_of(list(targets)):
        primary = suite.questions.primary_speed_up if speed_up is None else speed_up
        changes = {name: value for name, value in options.items() if value is not None}
        lean = suite.with_signals(signals).asking(
            protocols=("in-sample",),
            speed_ups=(primary,),
            primary_speed_up=primary,
            rates_speed_up=primary,
            losses=(),
            thresholds={},
            **changes,
        )
        with scratch_folder() as folder:
            outcome = run_suite(
                lean, folder / "run", directories=signals_dirs, tables=("results", "pairs"), arguments=["power"]
            )
            if outcome.failures:
                raise InputError(f"{outcome.failures[0].label}: {outcome.failures[0].reason}")
            columns += detectable_differences(outcome.files)
    return columns


def power_lines(columns: Sequence[DetectableDifference], difference: float | None) -> list[str]:
    """The columns for a reader, one table for each cache and average."""
    from itertools import groupby

    from exitbench.benchmarks.run.detectable_differences import heading_of
    from exitbench.benchmarks.statistics.power import POWER

    if not columns:
        return ["nothing can be compared here: no two signals differ in a score at the speed-up or in DIS"]
    lines = []
    headings = ["smallest difference, in points", "one pair", "all pairs"]
    if difference is not None:
        headings += [f"rows for {difference:g}", f"networks for {difference:g}"]
    for heading, group in groupby(columns, key=heading_of):
        rows = [column_cells(column, difference) for column in group]
        lines += [heading, *(f"  {line}" for line in column_lines(headings, rows, range(1, len(headings))))]
    claims = [
        f"A true difference of this size is claimed at 5% in {POWER:.0%} of cases: by one test, or with Holm's "
        "adjustment as the largest of all pairs."
    ]
    if difference is not None:
        claims.append(
            f"For {difference:g}: rows with as many networks, networks for each task on as many rows, for one pair by "
            "the normal law. never: what more of them leaves is larger. ?: one network cannot tell how networks differ."
        )
    return lines + claims


def column_cells(column: DetectableDifference, difference: float | None) -> list[str]:
    """One column of the results as a line: what it is about, what it can show, what showing a difference takes."""
    about = f"DIS, layer {column.layer}" if column.measure == "dis" else f"score at {at(column.operating_point)}"
    cells = [about, f"{column.one_pair:.2f}", f"{column.all_pairs:.2f}"]
    if difference is not None:
        rows = column.rows_needed(difference)
        networks = column.networks_needed(difference)
        cells.append("never" if rows is None else f"{rows:,}")
        cells.append("?" if column.spread == 0 else "never" if networks is None else f"{networks:,}")
    return cells


def at(operating_point: str) -> str:
    """A speed-up as it is printed.

    >>> at("speed_up=2")
    '2×'
    """
    return f"{operating_point.removeprefix('speed_up=')}×"
