"""Everything that is made from a finished run's result files: tables, findings, figures, and the page, in that order.

The page is taken away first and written last, so that a folder with a page has all its views.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from exitbench.atomic_files import whole_folder, write_text
from exitbench.progress import ProgressBar
from exitbench.reports.figures.catalogue import ReportFigure, figures_of
from exitbench.reports.findings.findings import findings
from exitbench.reports.formats.all_formats import FormattedTable, formatted
from exitbench.reports.page.page import Page
from exitbench.reports.page.run_view import RunContent
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.workers import Failure, Workers

PAGE, FINDINGS = "report.html", "findings.md"
TABLES, FIGURES, UNFINISHED = "tables", "figures", ".views"


@dataclass(frozen=True)
class FigureUnit:
    """One figure for any worker process: plain values only."""

    folder: Path
    run_dir: Path
    figure: ReportFigure

    @property
    def label(self) -> str:
        return f"figure {self.figure.name}"

    def work(self) -> None:
        from exitbench.reports.figures.render import draw  # seconds to import, and only for those who draw

        draw(self.run_dir, self.figure, self.folder)


def write_views(run: FinishedRun, workers: Workers | None = None) -> None:
    """Write ``tables/``, ``figures/`` and ``report.html`` into a run's folder, in place of what was there.

    While ``workers`` draw the figures, this process makes everything else. A run whose suite asks for findings also
    gets ``findings.md``.
    Raises RuntimeError when a figure could not be drawn (the other views are there by then, without a page).
    """
    (run.path / PAGE).unlink(missing_ok=True)
    figures = figures_of(run)
    with figures_drawn(run, figures, workers or Workers()) as failures:
        tables = [formatted(table) for table in tables_of(run)]
        write_tables(tables, run.path / TABLES)
        write_findings(run)
        page = Page([RunContent(run, tables, figures)])
        page.prepare()
    if failures:
        raise RuntimeError("; ".join(f"{failure.label}: {failure.reason}" for failure in failures))
    page.write(run.path / PAGE)


def write_findings(run: FinishedRun) -> None:
    """Write the findings, or take away old ones where the run has none."""
    text = findings(run)
    if text is None:
        (run.path / FINDINGS).unlink(missing_ok=True)
    else:
        write_text(run.path / FINDINGS, text)


def write_tables(tables: Sequence[FormattedTable], folder: Path) -> None:
    """Every table in every format; files of tables that are no more are taken away."""
    with whole_folder(folder) as temporary:
        for formatted_table in tables:
            for ending, text in formatted_table.texts.items():
                (temporary / f"{formatted_table.table.name}.{ending}").write_bytes(text.encode())


@contextmanager
def figures_drawn(run: FinishedRun, figures: Sequence[ReportFigure], workers: Workers) -> Iterator[list[Failure]]:
    """Have all figures drawn while the block goes on; when it ends, the list holds those that could not be."""
    failures: list[Failure] = []
    unfinished = run.path / UNFINISHED
    for folder in (run.path / FIGURES, unfinished):
        shutil.rmtree(folder, ignore_errors=True)
    units = [FigureUnit(unfinished / figure.name, run.path, figure) for figure in figures]
    with ProgressBar("figures", len(units), transient=True) as bar:
        wait = workers.begin(units, lambda unit: bar.advance(note=unit.label))
        yield failures
        failures += wait()
    with whole_folder(run.path / FIGURES) as temporary:
        for unit in units:
            for ending in ("svg", "png"):
                drawn = unit.folder / f"{unit.figure.name}.{ending}"
                if drawn.is_file():
                    drawn.replace(temporary / drawn.name)
    shutil.rmtree(unfinished, ignore_errors=True)
