"""One run, or several side by side, as a single HTML file that needs nothing but itself.

The page is a view: every number in it was read from a result file and says from which row
(``data-key="run/file/row/column"``). Without scripts it is complete but for the explorer.
"""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from exitbench.atomic_files import make_directory, write_text
from exitbench.reports.figures.catalogue import ReportFigure, figures_of
from exitbench.reports.formats.csv import csv_table
from exitbench.reports.formats.latex import latex_table
from exitbench.reports.formats.markdown import markdown_table
from exitbench.reports.page.data_url import data_url
from exitbench.reports.page.explorer import explorer_data
from exitbench.reports.run_data.finished_run import CacheMetadata, FinishedRun
from exitbench.reports.run_data.glossary import DECISIONS, GLOSSARY
from exitbench.reports.run_data.names import slug
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.run_data.provenance import SourceRows, place_title
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.per_task import task_table
from exitbench.reports.tables.table import TOPICS, Cell, Table
from exitbench.reports.verdict.alerts import Alert, alerts_of
from exitbench.reports.verdict.standings import Standings
from exitbench.reports.verdict.verdict import RunVerdict, verdict_of

EXPLORER_CHARACTERS = 1_200_000
"""How much JSON the explorers of a page may hold; packed, about a third of it counts towards the page."""


def to_repeat(arguments: Iterable[str]) -> str:
    """The command without what changes no result, so that the same results make the same page.

    >>> to_repeat(["exitbench", "run", "my suite.toml", "--jobs", "4", "--seed", "1", "--out=here", "--force"])
    "exitbench run 'my suite.toml' --seed 1"
    """
    words, kept = iter(arguments), []
    for word in words:
        if word in {"--jobs", "--out"}:
            next(words, None)
        elif word not in {"--force", "--debug"} and not word.startswith(("--jobs=", "--out=")):
            kept.append(word)
    return shlex.join(kept)


@dataclass(frozen=True)
class ShownTable:
    """A table at its place on the page."""

    id: str
    run: int
    table: Table

    @property
    def bodies(self) -> Iterator[tuple[str, list[Any]]]:
        """Rows of one kind after another, so that sorting never mixes bounds into signals."""
        kinds = list(dict.fromkeys(row.kind for row in self.table.rows))
        return ((kind, [row for row in self.table.rows if row.kind == kind]) for kind in kinds)

    @property
    def starts(self) -> set[int]:
        """The columns with which a shared heading begins."""
        found, place = set(), 0
        for heading, span in self.table.groups:
            if heading or self.table.is_grouped:
                found.add(place)
            place += span
        return found - {0}

    @property
    def remarks(self) -> list[str]:
        """Why cells are to be read with care, for readers who cannot hover."""
        found: dict[str, None] = {}
        for row in self.table.rows:
            for column, cell in zip(self.table.columns, row.cells, strict=True):
                if cell.reason and cell.status in ("unmatched", "unreliable"):
                    where = ", ".join(filter(None, (row.cells[0].text, column.group, column.title)))
                    found[f"{where}: {cell.reason}"] = None
        return list(found)


@dataclass(frozen=True)
class ShownFigure:
    """A drawn figure at its place on the page; ``address`` is its picture as a data: URL."""

    id: str
    figure: ReportFigure
    address: Markup


@dataclass(frozen=True)
class TaskView:
    """One task of one run: its facts, its table, its figures."""

    anchor: str
    title: str
    cache: CacheMetadata
    table: ShownTable
    figures: tuple[ShownFigure, ...]


class RunView:
    """Everything that the page shows of one run."""

    def __init__(self, number: int, run: FinishedRun, name: str) -> None:
        self.number, self.name, self.run = number, name, run
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
        return [self.shown(table) for table in tables_of(self.run)]

    @cached_property
    def task_tables(self) -> list[ShownTable]:
        """A table per task, in the suite's order."""
        return [self.shown(task_table(self.run, cache, self.verdict.protocol)) for cache in self.run.caches]

    @cached_property
    def tasks(self) -> list[TaskView]:
        """What there is about each task, in the suite's order."""
        found = []
        for cache, shown in zip(self.run.caches, self.task_tables, strict=True):
            mine = [one for one in self.figures if one.figure.cache == cache.name]
            mine.sort(key=lambda one: one.figure.protocol != self.verdict.protocol)
            title = place_title(self.run, cache)
            found.append(
                TaskView(
                    anchor=f"{self.prefix}{shown.table.name}",
                    title=title,
                    cache=cache,
                    table=shown,
                    figures=tuple(mine),
                )
            )
        return found

    @cached_property
    def figures(self) -> list[ShownFigure]:
        """The figures that have been drawn."""
        found = []
        for figure in figures_of(self.run):
            file = self.run.path / "figures" / f"{figure.name}.svg"
            if file.is_file():
                address = data_url(file.read_text(encoding="utf-8"))
                found.append(ShownFigure(f"{self.prefix}figure-{slug(figure.name)}", figure, address))
        return found

    def shown(self, table: Table) -> ShownTable:
        return ShownTable(f"{self.prefix}table-{slug(table.name)}", self.number, table)


def cell_parts(cell: Cell) -> list[str | Number]:
    """A cell's text cut at its numbers. Raises ValueError when a number is not in the text."""
    parts: list[str | Number] = []
    rest = cell.text
    for one in cell.numbers:
        before, found, rest = rest.partition(one.text)
        if not found:
            raise ValueError(f"cell {cell.text!r} does not show its number {one.text!r}")
        parts += [before, one] if before else [one]
    return [*parts, rest] if rest else parts


def cell_hint(cell: Cell) -> str:
    """What hovering adds to a cell: its reason and its notes, each once."""
    return "; ".join(filter(None, dict.fromkeys((cell.reason, *cell.notes))))


def packed(data: Any) -> str:
    """Data as compressed JSON in base64: a fifth of the size, and no sign in it can end a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def downloads(tables: Sequence[ShownTable]) -> dict[str, dict[str, str]]:
    """The other spellings of every table, by its place."""
    return {
        one.id: {"csv": csv_table(one.table), "tex": latex_table(one.table), "md": markdown_table(one.table)}
        for one in tables
    }


def write_page(run_dirs: Sequence[Path], out: Path) -> None:
    """Write the page of one run, or of several side by side, to the file ``out``; whole or not at all."""
    Page([FinishedRun(path) for path in run_dirs]).write(out)


def run_names(run_dirs: Sequence[Path]) -> list[str]:
    """What to call each run: nothing for one alone, otherwise its folder, numbered where folders share a name."""
    if len(run_dirs) == 1:
        return [""]
    names = [Path(path).resolve().name for path in run_dirs]
    return [f"{name} ({number + 1})" if names.count(name) > 1 else name for number, name in enumerate(names)]


class Page:
    """The page of one run, or of several side by side; figures are the last thing it looks for."""

    def __init__(self, runs: Sequence[FinishedRun]) -> None:
        names = run_names([run.path for run in runs])
        self.views = [RunView(number, run, name) for number, (run, name) in enumerate(zip(runs, names, strict=True))]

    def prepare(self) -> None:
        """Make everything that needs no figure, so that figures can be drawn meanwhile."""
        self._data  # noqa: B018 - kept once it was asked for

    @cached_property
    def _data(self) -> dict[str, str]:
        """What scripts read, packed: the explorers' curves and the other spellings of all tables."""
        tables = [one for view in self.views for one in (*view.tables, *view.task_tables)]
        budget = EXPLORER_CHARACTERS // len(self.views)
        explorers = [{"run": view.name, **explorer_data(view.run, budget)} for view in self.views]
        return {"explorer": packed(explorers), "downloads": packed(downloads(tables))}

    def text(self) -> str:
        """The page as text; equal results give equal text."""
        environment = Environment(
            loader=PackageLoader("exitbench.reports.page"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        loader = environment.loader
        assert loader is not None

        def source(name: str) -> Markup:
            return Markup(loader.get_source(environment, name)[0])  # noqa: S704 - our own sheet and scripts

        def origin(run: int, number: Number) -> str:
            where = self.views[run].source.origin(number)
            return f"{run}/{where}" if where else ""

        context: Mapping[str, Any] = {
            "views": self.views,
            "title": " and ".join(dict.fromkeys(str(view.run.suite["name"]) for view in self.views)),
            "topics": topics_of(self.views),
            "glossary": GLOSSARY,
            "decisions": DECISIONS,
            **self._data,
            "source": source,
            "origin": origin,
            "parts": cell_parts,
            "hint_of": cell_hint,
            "slug": slug,
        }
        environment.filters["to_repeat"] = to_repeat
        return environment.get_template("page.html.j2").render(context)

    def write(self, out: Path) -> None:
        """Write the page to the file ``out``; whole or not at all."""
        text = self.text()
        make_directory(out.parent)
        write_text(out, text)


@dataclass(frozen=True)
class Topic:
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


def topics_of(views: Sequence[RunView]) -> list[Topic]:
    """The questions that have an answer, in order; several runs stand below one another in each."""
    leading = {view.verdict.protocol for view in views}
    found = []
    for key, question in TOPICS.items():
        tables = [one for view in views for one in view.tables if one.table.topic == key]
        drawn = [one for view in views for one in view.figures if one.figure.topic == key]
        figures = tuple(one for one in drawn if not one.figure.cache)
        by_task = tuple(one for one in drawn if one.figure.cache)
        first = tuple(one for one in tables if not one.table.protocol or one.table.protocol in leading)
        rest: dict[str, list[ShownTable]] = {}
        for one in tables:
            if one not in first:
                rest.setdefault(one.table.protocol, []).append(one)
        if tables or drawn:
            others = tuple((protocol, tuple(group)) for protocol, group in rest.items())
            found.append(
                Topic(key=key, question=question, tables=first, others=others, figures=figures, by_task=by_task)
            )
    return found
