"""``exitbench figure``: a figure of a run, drawn for paper."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from exitbench.cli.ctrl_c import stopping
from exitbench.cli.options.executor_option import ExecutorOption, chosen_executor
from exitbench.cli.options.out_option import ForceOption, refuse_out
from exitbench.cli.terminal import column_lines, echo


class FigureFormat(StrEnum):
    """What a figure can be written as."""

    PDF = "pdf"
    SVG = "svg"
    PNG = "png"


@stopping("stopped; the figures that were asked for are not there")
def command(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of a finished run.", show_default=False)],
    name: Annotated[
        str | None, typer.Argument(help="A figure, or how its name begins; none lists all.", show_default=False)
    ] = None,
    formats: Annotated[
        list[FigureFormat] | None,
        typer.Option("--format", help="Default: pdf, with --all every one; may be repeated.", show_default=False),
    ] = None,
    width: Annotated[
        Literal["column", "text"], typer.Option(help="As wide as a column (85 mm) or as the text (175 mm).")
    ] = "text",
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write; default: in figures/ of the run's folder.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All figures.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes for --all; default: one per core.", show_default=False)
    ] = None,
    executor: ExecutorOption = "local",
    force: ForceOption = False,
) -> None:
    """Draw a figure of a run in the size it is printed in; without a name, list all there are.

    Nothing is computed again: a figure shows what the result files hold, in the colours of the report. A figure goes
    into a paper as it is, unscaled: its text is 7 points high in a column and 8 across the page.

    **Examples**

    `exitbench figure out/published`

    `exitbench figure out/published trade-off-mpnet-base-rte-dev --width column --out paper/rte.pdf`

    `exitbench figure out/published --all --format svg`
    """
    from exitbench.errors import InputError

    if every and name is not None:
        raise InputError(f"--all draws every figure: expected no name beside it, found {name!r}")
    if out is not None and (name is None or len(formats or [FigureFormat.PDF]) != 1):
        raise InputError("--out is one file: expected a name and at most one --format beside it")

    from exitbench.atomic_files import write_whole
    from exitbench.executors.local_pool import Workers
    from exitbench.reports.asked_views import FIGURE_FORMATS, figure_files, view_named, write_figures
    from exitbench.reports.figures.catalogue import figures_of
    from exitbench.reports.run_data.finished_run import FinishedRun

    finished = FinishedRun(run)
    figures = figures_of(finished)
    if every:
        with chosen_executor(executor, jobs, os.cpu_count() or 1) as workers:
            paths = write_figures(finished, figures, formats or list(FIGURE_FORMATS), width, workers)
        echo(f"{len(paths)} files in {paths[0].parent}" if paths else f"{run} has no figures")
    elif name is None:
        echo(*column_lines(("name", "figure"), [(figure.name, figure.title) for figure in figures]))
    elif out is not None:
        figure = view_named(finished, figures, name, "figure")
        kind = (formats or [FigureFormat.PDF])[0]
        refuse_out(out, force=force)
        write_whole(out, [figure_files(finished, figure, [kind], width)[kind]])
        echo(str(out))
    else:
        figure = view_named(finished, figures, name, "figure")
        echo(*map(str, write_figures(finished, [figure], formats or [FigureFormat.PDF], width, Workers())))
