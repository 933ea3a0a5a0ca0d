"""``exitbench site``: a static gallery of runs with a leaderboard."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.loading.garbage_collection import search_garbage_rarely
from exitbench.cli.terminal import echo


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN_DIR", help="Folders of finished runs.")],
    out: Annotated[Path, typer.Option(help="The folder of the site, empty or one that this verb made.")] = Path(
        "out/site"
    ),
) -> None:
    """Write a static site: a leaderboard over runs, and each run's page, ready for GitHub Pages.

    Signals of runs that share caches (by content) stand in one table, with tests that are paired on the same rows; runs
    that share nothing have a table of their own. Nothing is loaded from another host, and links are relative, so that
    the folder works from a disk as well as under any address.

    **Examples**

    `exitbench site out/published out/mine --out site`

    `exitbench site out/* --out site`
    """
    from exitbench.benchmarks.results.files import RunFiles
    from exitbench.errors import InputError
    from exitbench.output_folder import refuse_foreign
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.reports.site import INDEX, write_site

    search_garbage_rarely()
    if len({run.resolve() for run in runs}) < len(runs):
        raise InputError("expected different runs, found the same folder twice")
    refuse_foreign(out)  # before anything is made
    for run in runs:
        if not RunFiles(run).record.get("complete"):
            echo(f"{run} is incomplete: its pages show what is there", err=True)
    lines = write_site([FinishedRun(run) for run in runs], out)
    echo(f"site in {out / INDEX}", *lines)
