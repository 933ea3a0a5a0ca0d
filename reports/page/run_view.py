"""What the page shows of one run: its tables and figures with their ids, by task and by question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from markupsafe import Markup

from exitbench.reports.figures.catalogue import ReportFigure, figures_of
from exitbench.reports.formats.all_formats import FormattedTable, formatted
from exitbench.reports.page.data_url import data_url
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import slug
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.run_data.provenance import SourceRows, task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.per_task import task_table
from exitbench.reports.tables.table import TOPICS, Cell, Table
from exitbench.reports.verdict.alert import Alert
from exitbench.reports.verdict.alerts import alerts_of
from exitbench.reports.verdict.standings import Standings
from exitbench.reports.verdict.verdict import RunVerdict, verdict_of


@dataclass(frozen=True)
class ShownTable:
    """A table on the page, with its ``id`` there and its texts in the formats that can be downloaded."""

    id: str
    run: int
    table: Table
    texts: Mapping[str, str]

    @property
    def bodies(self) -> Iterator[tuple[str, list[Any]]]:
        """Rows of one kind after another, so that sorting never mixes bounds into signals."""
        kinds = list(dict.fromkeys(row.kind for row in self.table.rows))
        return ((kind, [row for row in self.table.rows if row.kind == kind]) for kind in kinds)

    @property
    def starts(self) -> set[int]:
        """The columns with which a shared heading begins."""
        columns, column = set(), 0
        for heading, span in self.table.groups:
            if heading or self.table.is_grouped:
                columns.add(column)
            column += span
        return columns - {0}

    @property
    def remarks(self) -> list[str]:
        """Why cells are to be read with care, for readers who cannot hover."""
        remarks: dict[str, None] = {}
        for row in self.table.rows:
            for column, cell in zip(self.table.columns, row.cells, strict=True):
                if cell.reason and cell.mark:
                    where = ", ".join(filter(None, (row.cells[0].text, column.group, column.title)))
                    remarks[f"{where}: {cell.reason}"] = None
        return list(remarks)


@dataclass(frozen=True)
class ShownFigure:
    """A drawn figure on the page; ``address`` is its SVG as a data: URL."""

    id: str
    figure: ReportFigure
    address: Markup


@dataclass(frozen=True)
class TaskView:
    """One task of one run: its metadata, its table, its figures."""

    anchor: str
    title: str
    cache: CacheMetadata
    table: ShownTable
    figures: tuple[ShownFigure, ...]


@dataclass(frozen=True)
class RunContent:
    """A run with what was made of it for the page: tables in their formats, and its figures."""

    run: FinishedRun
    tables: Sequence[FormattedTable]
    figures: Sequence[ReportFigure]


def content_of(run: FinishedRun) -> RunContent:
    """All tables and figures of a run."""
    return RunContent(run, [formatted(table) for table in tables_of(run)], figures_of(run))


class RunView:
    """Everything that the page shows of one run; ``name`` is empty where the page has no other."""

    def __init__(self, number: int, content: RunContent, name: str) -> None:
        self.number, self.name, self.content = number, name, content
        self.run = content.run
        self.source = SourceRows(self.run)
        self.standings = Standings(self.source)

    @property
    def prefix(self) -> str:
        return f"run{self.number}-" if self.name else ""

    @cached_property
    def verdict(self) -> RunVerdict:
        return verdict_of(self.standings)

    @cached_property
    def alerts(self) -> list[Alert]:
        return alerts_of(self.run)

    @cached_property
    def tables(self) -> list[ShownTable]:
        return [self.shown(table) for table in self.content.tables]

    @cached_property
    def task_tables(self) -> list[ShownTable]:
        """A table per task, in the suite's order."""
        return [
            self.shown(formatted(task_table(self.run, cache, self.run.leading_protocol([cache]))))
            for cache in self.run.caches
        ]

    @cached_property
    def tasks(self) -> list[TaskView]:
        """What there is about each task, in the suite's order."""
        views = []
        for cache, shown in zip(self.run.caches, self.task_tables, strict=True):
            own = [figure for figure in self.figures if figure.figure.cache == cache.name]
            first = [figure for figure in own if figure.figure.protocol == shown.table.protocol]
            figures = [*first, *(figure for figure in own if figure not in first)]
            title = task_with_model(self.run, cache)
            views.append(
                TaskView(
                    anchor=f"{self.prefix}{shown.table.name}",
                    title=title,
                    cache=cache,
                    table=shown,
                    figures=tuple(figures),
                )
            )
        return views

    @cached_property
    def figures(self) -> list[ShownFigure]:
        """The figures that have been drawn."""
        shown = []
        for figure in self.content.figures:
            file = self.run.path / "figures" / f"{figure.name}.svg"
            if file.is_file():
                address = data_url(file.read_text(encoding="utf-8"))
                shown.append(ShownFigure(f"{self.prefix}figure-{slug(figure.name)}", figure, address))
        return shown

    def shown(self, formatted_table: FormattedTable) -> ShownTable:
        table = formatted_table.table
        return ShownTable(f"{self.prefix}table-{slug(table.name)}", self.number, table, formatted_table.texts)


def cell_parts(cell: Cell) -> list[str | Number]:
    """A cell's text cut at its numbers. Raises ValueError when a number is not in the text."""
    parts: list[str | Number] = []
    rest = cell.text
    for number in cell.numbers:
        before, separator, rest = rest.partition(number.text)
        if not separator:
            raise ValueError(f"cell {cell.text!r} does not show its number {number.text!r}")
        parts += [before, number] if before else [number]
    return [*parts, rest] if rest else parts


def cell_hint(cell: Cell) -> str:
    """What hovering adds to a cell: its reason and its notes, each once."""
    return "; ".join(filter(None, dict.fromkeys((cell.reason, *cell.notes))))


@dataclass(frozen=True)
class PageTopic:
    """One question with the tables and figures that answer it.

    ``others`` are the tables of the protocols that the verdict is not read under, by protocol; ``by_task`` are figures
    that stand with their task and are only named here.
    """

    key: str
    question: str
    tables: tuple[ShownTable, ...]
    others: tuple[tuple[str, tuple[ShownTable, ...]], ...]
    figures: tuple[ShownFigure, ...]
    by_task: tuple[ShownFigure, ...]


def topics_of(views: Sequence[RunView]) -> list[PageTopic]:
    """The questions that have an answer, in order; several runs stand below one another in each."""
    leading = {view.run.leading_protocol([cache]) for view in views for cache in view.run.caches}
    topics = []
    for key, question in TOPICS.items():
        tables = [table for view in views for table in view.tables if table.table.topic == key]
        drawn = [figure for view in views for figure in view.figures if figure.figure.topic == key]
        figures = tuple(figure for figure in drawn if not figure.figure.cache)
        by_task = tuple(figure for figure in drawn if figure.figure.cache)
        first = tuple(table for table in tables if not table.table.protocol or table.table.protocol in leading)
        rest: dict[str, list[ShownTable]] = {}
        for table in tables:
            if table not in first:
                rest.setdefault(table.table.protocol, []).append(table)
        if tables or drawn:
            others = tuple((protocol, tuple(group)) for protocol, group in rest.items())
            topics.append(
                PageTopic(key=key, question=question, tables=first, others=others, figures=figures, by_task=by_task)
            )
    return topics
