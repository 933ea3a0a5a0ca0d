"""The tables and figures that a user asks for by name: found among all of a run's, made, and written.

Without another place they go into ``tables/`` and ``figures/`` of the run's folder, whose inventory lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar

from exitbench import atomic_files
from exitbench.atomic_files import make_directory, move_files
from exitbench.errors import InputError, did_you_mean
from exitbench.executors.executor import Executor, perform_all
from exitbench.output_folder import ASKED, DRAFTS, claimed
from exitbench.progress import ProgressBar
from exitbench.reports.figures.catalogue import ReportFigure
from exitbench.reports.formats.all_formats import FORMATS
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.table import Table

TABLES, FIGURES = "tables", "figures"
TABLE_ENDINGS = {"latex": "tex", "csv": "csv", "md": "md", "parquet": "parquet"}
FIGURE_FORMATS = ("pdf", "svg", "png")


class View(Protocol):
    """A table or a figure: what it is called, and the protocol it is of."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def protocol(self) -> str: ...


AnyView = TypeVar("AnyView", bound=View)


def view_named(run: FinishedRun, views: Sequence[AnyView], name: str, what: str) -> AnyView:
    """The table or figure of this name; its beginning is enough where one view under the leading protocol has it."""
    exact = next((view for view in views if view.name == name), None)
    if exact is not None:
        return exact
    begun = [view for view in views if view.name.startswith(f"{name}-")]
    leading = [view for view in begun if view.protocol in ("", run.leading_protocol())]
    if len(leading) == 1:
        return leading[0]
    if begun:
        raise InputError(f"{name!r} is the beginning of {len(begun)} {what}s: {', '.join(view.name for view in begun)}")
    near = did_you_mean(name, [view.name for view in views])
    raise InputError(f"{name!r} is no {what} of {run.path}.{near} `exitbench {what} {run.path}` lists all")


def table_file(table: Table, kind: str) -> bytes:
    """The content of a table's file; ``kind`` is a key of :data:`TABLE_ENDINGS`."""
    table = table.whole()
    if kind == "parquet":
        from exitbench.reports.formats.parquet import parquet_table

        return parquet_table(table)
    return FORMATS[TABLE_ENDINGS[kind]](table).encode()


def write_tables(run: FinishedRun, tables: Sequence[Table], kinds: Sequence[str]) -> list[Path]:
    """Write tables into the run's folder in each of ``kinds``; their paths."""
    contents = {f"{table.name}.{TABLE_ENDINGS[kind]}": table_file(table, kind) for table in tables for kind in kinds}
    with asked_files(run, TABLES, list(contents)) as stage:
        for name, content in contents.items():
            (stage / name).write_bytes(content)
    return [run.path / TABLES / name for name in contents]


@dataclass(frozen=True)
class FigureUnit:
    """One figure for any worker process: plain values only."""

    folder: Path
    run_dir: Path
    figure: ReportFigure
    kinds: tuple[str, ...]
    width: str

    @property
    def label(self) -> str:
        return f"figure {self.figure.name}"

    def work(self) -> None:
        run = run_of(self.run_dir, (self.run_dir / "run.json").stat().st_mtime_ns)
        for kind, content in figure_files(run, self.figure, self.kinds, self.width).items():
            (self.folder / f"{self.figure.name}.{kind}").write_bytes(content)


@lru_cache(maxsize=1)
def run_of(path: Path, stamp: int) -> FinishedRun:
    """A run, kept for the next figure of the same process; ``stamp`` tells one run in a folder from the next."""
    return FinishedRun(path)


def figure_files(run: FinishedRun, figure: ReportFigure, kinds: Sequence[str], width: str) -> Mapping[str, bytes]:
    """The content of a figure's file for each of ``kinds``, of :data:`FIGURE_FORMATS`."""
    from exitbench.reports.figures.drawing.render import render  # seconds to import, and only for those who draw

    return render(run, figure, kinds, width)


def write_figures(
    run: FinishedRun, figures: Sequence[ReportFigure], kinds: Sequence[str], width: str, executor: Executor
) -> list[Path]:
    """Draw figures into the run's folder in each of ``kinds``; their paths.

    Raises InputError when one could not be drawn (none is moved into the folder then): the disk is full, a worker was
    killed.
    """
    names = [f"{figure.name}.{kind}" for figure in figures for kind in kinds]
    with asked_files(run, FIGURES, names) as stage:
        units = [
            FigureUnit(run.path / DRAFTS / f"of {figure.name}", run.path, figure, tuple(kinds), width)
            for figure in figures
        ]
        with ProgressBar("figures", len(units), transient=True) as bar, stopped_on_error(executor):
            failures = perform_all(executor, units, lambda unit: bar.advance(note=unit.label))
        if failures:
            raise InputError("; ".join(f"{failure.label}: {failure.reason}" for failure in failures))
        for unit in units:
            for kind in kinds:
                name = f"{unit.figure.name}.{kind}"
                (unit.folder / name).replace(stage / name)
    return [run.path / FIGURES / name for name in names]


@contextmanager
def stopped_on_error(executor: Executor) -> Iterator[None]:
    """End the work when the block fails, or it goes on drawing into a folder that is gone."""
    try:
        yield
    except BaseException:
        executor.stop()
        raise


@contextmanager
def asked_files(run: FinishedRun, folder_name: str, names: Sequence[str]) -> Iterator[Path]:
    """A scratch folder whose files move into a folder of the run when the block ends; listed before they do."""
    scratch = run.path / DRAFTS
    with claimed(run.path) as folder:
        atomic_files.disk.remove(scratch)  # what a killed process left
        try:
            stage = scratch / folder_name
            make_directory(stage)
            yield stage
            folder.add(ASKED, [f"{folder_name}/{name}" for name in names])
            move_files(stage, run.path / folder_name)
        finally:
            with suppress(OSError):  # the next call removes it
                atomic_files.disk.remove(scratch)
