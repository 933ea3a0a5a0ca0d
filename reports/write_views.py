"""What a run's folder shows without being asked: the main tables with an index, the findings, and the page.

The page is taken away first and written last, so that a folder with a page has all its views. Other files in ``tables``
stay: only what the folder's inventory lists is replaced. Any other table, and every figure, is made by
:mod:`exitbench.reports.asked_views`.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from exitbench import atomic_files
from exitbench.atomic_files import make_directory, move_files, reason, write_text
from exitbench.benchmarks.measures.cost_file import read_cost
from exitbench.errors import InputError
from exitbench.output_folder import DRAFTS, UNITS, VIEWS, claimed
from exitbench.reports.findings.findings import findings
from exitbench.reports.formats.all_formats import FORMATS
from exitbench.reports.main_tables import main_tables, table_index
from exitbench.reports.page.page import Page
from exitbench.reports.page.run_view import content_of
from exitbench.reports.run_data.finished_run import FinishedRun

PAGE, FINDINGS, TABLES, INDEX = "report.html", "findings.md", "tables", "index.md"


def write_views(run: FinishedRun) -> None:
    """Write the main tables and ``report.html`` into a run's folder, in place of what was there.

    A run whose suite asks for findings also gets ``findings.md``.
    """
    # What is damaged is refused before anything is made or taken away.
    read_cost(run.path)
    run.files.require("results", "pairs", "curves", "histograms", "risk_coverage")
    with claimed(run.path) as folder:
        folder.begin(VIEWS, ())
        if run.record["complete"]:
            shutil.rmtree(run.path / UNITS, ignore_errors=True)  # left by a run that was killed after its last word
        content = content_of(run)
        text = findings(run)
        page = Page([content]).text()
        tables = content.tables
        texts = {
            f"{table.name}.{ending}": text_of(table)
            for table in main_tables(run, tables)
            for ending, text_of in FORMATS.items()
        }
        texts[INDEX] = table_index(run, tables)
        names = [PAGE, *(f"{TABLES}/{name}" for name in texts)]
        folder.begin(VIEWS, names if text is None else [*names, FINDINGS])
        write_tables_together(run.path, texts)
        if text is not None:
            write_text(run.path / FINDINGS, text)
        write_text(run.path / PAGE, page)


def write_tables_together(path: Path, texts: Mapping[str, str]) -> None:
    """Write files into the folder of tables: made apart, then flushed together, since each waits for the disk."""
    scratch = path / DRAFTS
    try:
        atomic_files.disk.remove(scratch)  # what a killed process left
        stage = scratch / TABLES
        make_directory(stage)
        for name, text in texts.items():
            (stage / name).write_bytes(text.encode())
        move_files(stage, path / TABLES)
    except OSError as error:
        raise InputError(f"{path / TABLES}: cannot be written: {reason(error)}") from error
    finally:
        with suppress(OSError):  # the next call removes it
            atomic_files.disk.remove(scratch)
