"""``exitbench table``: a table of a run in the format that is asked for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.options.out_option import ForceOption, refuse_out
from exitbench.cli.terminal import column_lines, echo, terminal_console


class TableFormat(StrEnum):
    """What a table can be written as."""

    LATEX = "latex"
    CSV = "csv"
    MD = "md"
    PARQUET = "parquet"


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN_DIR", help="The folder of a finished run.", show_default=False)],
    name: Annotated[
        str | None, typer.Argument(help="A table, or how its name begins; none lists all.", show_default=False)
    ] = None,
    formats: Annotated[
        list[TableFormat] | None,
        typer.Option("--format", help="As a file of this format; may be repeated.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The file to write; default: in tables/ of the run's folder.", show_default=False),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All tables, in every format unless --format is given.")] = False,
    force: ForceOption = False,
) -> None:
    """Print a table of a run, or write it to a file; without a name, list all there are.

    Nothing is computed again: a table shows what the result files hold. Name and beginning (`main` for
    `main-cross-fit`) both do, a beginning under the most cautious protocol.

    **Examples**

    `exitbench table out/published`

    `exitbench table out/published main --format latex --out paper/main.tex`

    `exitbench table out/published --all`
    """
    from exitbench.errors import InputError

    if every and name is not None:
        raise InputError(f"--all makes every table: expected no name beside it, found {name!r}")
    if out is not None and (name is None or formats is None or len(formats) != 1):
        raise InputError("--out is one file: expected a name and one --format beside it")

    from exitbench.atomic_files import write_whole
    from exitbench.reports.asked_views import TABLE_ENDINGS, table_file, view_named, write_tables
    from exitbench.reports.run_data.finished_run import FinishedRun
    from exitbench.reports.tables.all_tables import tables_called, tables_of
    from exitbench.reports.tables.per_task import task_tables

    finished = FinishedRun(run)
    tables = [*tables_of(finished), *task_tables(finished)] if name is None else tables_called(finished, name)
    if every:
        paths = write_tables(finished, tables, formats or list(TABLE_ENDINGS))
        echo(f"{len(paths)} files in {paths[0].parent}" if paths else f"{run} has no tables")
    elif name is None:
        echo(*column_lines(("name", "table"), [(table.name, table.title) for table in tables]))
    elif formats is None:
        from exitbench.reports.formats.terminal import LEGEND, fitting_parts, terminal_table

        table = view_named(finished, tables, name, "table").whole()
        console = terminal_console()
        for part in fitting_parts(table, console.width):
            console.print(terminal_table(part))
        echo(*table.notes, LEGEND)
    elif out is not None:
        table = view_named(finished, tables, name, "table")
        refuse_out(out, force=force)
        write_whole(out, [table_file(table, formats[0])])
        echo(str(out))
    else:
        echo(*map(str, write_tables(finished, [view_named(finished, tables, name, "table")], formats)))
