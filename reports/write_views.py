"""Everything that is made from a finished run's result files: tables, findings, figures, and the page, in that order.

The page is taken away first and written last, so that a folder with a page has all its views. Other files in ``tables``
and ``figures`` stay: only what the folder's inventory lists is replaced.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from exitbench.atomic_files import move_files, write_text
from exitbench.benchmarks.measures.cost_file import read_cost
from exitbench.benchmarks.run.run_suite import UNITS
from exitbench.errors import InputError
from exitbench.output_folder import VIEWS, claimed
from exitbench.progress import ProgressBar
from exitbench.reports.figures.catalogue import ReportFigure, figures_of
from exitbench.reports.findings.findings import findings
from exitbench.reports.formats.all_formats import formatted
from exitbench.reports.page.page import Page
from exitbench.reports.page.run_view import RunContent
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.workers import Failure, Workers, is_done

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
    Raises InputError when a figure could not be drawn (the other views are there by then, without a page): the disk is
    full, a worker was killed.
    """
    workers = workers or Workers()
    # What is damaged is refused before anything is drawn or taken away.
    read_cost(run.path)
    run.files.require("results", "pairs", "curves", "histograms", "risk_coverage")
    with claimed(run.path) as folder, scratch(run.path / UNFINISHED, workers):
        folder.begin(VIEWS, ())
        if run.record["complete"]:
            shutil.rmtree(run.path / UNITS, ignore_errors=True)  # left by a run that was killed after its last word
        figures = figures_of(run)
        with figures_drawn(run, figures, workers) as drawn:
            tables = [formatted(table) for table in tables_of(run)]
            text = findings(run)
            page = Page([RunContent(run, tables)])
        texts = {f"{table.table.name}.{ending}": text for table in tables for ending, text in table.texts.items()}
        names = [PAGE, *(f"{TABLES}/{name}" for name in texts), *(f"{FIGURES}/{file.name}" for file in drawn.files)]
        folder.begin(VIEWS, names if text is None else [*names, FINDINGS])
        with staged(run.path / TABLES) as stage:
            for name, content in texts.items():
                (stage / name).write_bytes(content.encode())
        with staged(run.path / FIGURES) as stage:
            for file in drawn.files:
                file.replace(stage / file.name)
        if text is not None:
            write_text(run.path / FINDINGS, text)
        if drawn.failures:
            reasons = "; ".join(f"{failure.label}: {failure.reason}" for failure in drawn.failures)
            raise InputError(f"{run.path}: the page could not be made: {reasons}")
        page.write(run.path / PAGE)


@contextmanager
def scratch(folder: Path, workers: Workers) -> Iterator[None]:
    """Take ``folder`` away before the block and after it, however it ends."""
    shutil.rmtree(folder, ignore_errors=True)  # what a killed process left
    try:
        yield
    except BaseException:
        workers.stop()  # or they go on drawing into the folder
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def staged(target: Path) -> Iterator[Path]:
    """A scratch folder whose files move into ``target`` when the block ends."""
    stage = target.parent / UNFINISHED / f"{target.name} ready"
    stage.mkdir(parents=True)
    yield stage
    move_files(stage, target)


@dataclass
class DrawnFigures:
    """The files of figures, still under ``.views``, and the figures that could not be drawn."""

    files: list[Path] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)


@contextmanager
def figures_drawn(run: FinishedRun, figures: Sequence[ReportFigure], workers: Workers) -> Iterator[DrawnFigures]:
    """Have all figures drawn while the block goes on; when it ends, what it was given holds the outcome."""
    drawn = DrawnFigures()
    units = [FigureUnit(run.path / UNFINISHED / figure.name, run.path, figure) for figure in figures]
    with ProgressBar("figures", len(units), transient=True) as bar:
        wait = workers.begin(units, lambda unit: bar.advance(note=unit.label))
        yield drawn
        drawn.failures = wait()
    whole = filter(is_done, units)
    drawn.files = [unit.folder / f"{unit.figure.name}.{ending}" for unit in whole for ending in ("svg", "png")]
