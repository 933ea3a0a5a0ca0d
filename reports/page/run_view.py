"""What the page shows of one run: the first screen, the alerts, and the tables that open on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from exitbench.benchmarks.results.vocabulary import AVERAGE
from exitbench.reports.formats.all_formats import formatted
from exitbench.reports.page.explorer import signal_looks
from exitbench.reports.page.forest import Forest, forest_of
from exitbench.reports.page.page_room import PageRoom, by_network, by_question, first_networks, group_names
from exitbench.reports.page.table_data import named_table, shown_text, table_data
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import figure_name
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.run_data.provenance import SourceRows, task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.per_task import task_name, task_table
from exitbench.reports.tables.table import TOPICS, Cell, Table
from exitbench.reports.tables.table_parts import BEST_NOTE, MARK_NOTES
from exitbench.reports.verdict.alert import Alert, plural
from exitbench.reports.verdict.alerts import alerts_of
from exitbench.reports.verdict.lead_table import lead_table
from exitbench.reports.verdict.main_column import MainColumn, main_column
from exitbench.reports.verdict.setting import network_line, protocol_line
from exitbench.reports.verdict.standings import Standings
from exitbench.reports.verdict.verdict import RunVerdict, Sentence, verdict_of

FIRST_SHARE, TABLES_SHARE, TASKS_SHARE, DOWNLOADS_SHARE = 0.5, 0.5, 0.3, 1.0
"""How much of a page's free room the tables of tasks may take, one network of every model and task; then the questions'
tables; then the tables of all other networks; and last, when curves and charts are drawn, all other formats."""


@dataclass(frozen=True)
class RunContent:
    """A run with its tables."""

    run: FinishedRun
    tables: Sequence[Table]


def content_of(run: FinishedRun) -> RunContent:
    """All tables of a run."""
    return RunContent(run, tables_of(run))


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

    @property
    def sentences(self) -> Sequence[Sentence]:
        return self.verdict.sentences

    @property
    def errors(self) -> list[Alert]:
        """What went wrong, which the verdict says, too."""
        return [alert for alert in self.alerts if alert.severity == "error"]

    @property
    def care(self) -> list[tuple[str, str]]:
        """Where the alerts stand, and how many there are; nothing where there are none."""
        counts = self.alert_counts
        return [(self.prefix, f"{self.name}: {counts}" if self.name else counts)] if counts else []

    @property
    def alert_counts(self) -> str:
        """How many alerts of each kind, in words; empty where there are none."""
        counts = Counter(alert.severity for alert in self.alerts)
        return ", ".join(plural(counts[kind], kind) for kind in ("error", "caution", "note") if counts[kind])

    @cached_property
    def column(self) -> MainColumn | None:
        return main_column(self.standings)

    @cached_property
    def lead(self) -> Table | None:
        """The table of the first screen; None for a run without results."""
        return None if self.column is None else lead_table(self.column)

    @property
    def lead_notes(self) -> list[str]:
        """What the columns and marks of the first table mean; all its notes stand below it among the details."""
        if self.lead is None:
            return []
        short = {*MARK_NOTES.values(), BEST_NOTE}
        return [self.lead.notes[0], *(note for note in self.lead.notes if note in short)]

    @cached_property
    def forest(self) -> Forest | None:
        """The picture of the first screen; None where nothing was tested."""
        return None if self.column is None else forest_of(self.column, self.run.subject)

    @property
    def network_line(self) -> str:
        return network_line(self.run)

    @property
    def protocol_line(self) -> str:
        return protocol_line(self.run, self.verdict.protocol)

    @cached_property
    def tables(self) -> list[Table]:
        """What opens on demand by question: the first screen's table with all its notes, then the run's others."""
        return [*([] if self.lead is None else [self.lead]), *self.content.tables]

    @cached_property
    def leading(self) -> list[str]:
        """The protocols that caches are read under first."""
        return list(dict.fromkeys(self.run.leading_protocol([cache]) for cache in self.run.caches))

    def task_table(self, cache: CacheMetadata) -> Table:
        """The table of one task."""
        return task_table(self.run, cache, self.run.leading_protocol([cache]))

    def data(self, room: PageRoom) -> dict[str, Any]:
        """What scripts build tables from, as far as a page has room for it; of the others what they are called."""
        names = [named_table(table) | self._of_table(table) for table in self.tables]
        tasks_named = [self._of_task(cache) | {"named": task_name(cache)} for cache in self.run.caches]
        looks = signal_looks(self.run)
        room.spend([names, tasks_named, looks])
        in_turn = by_question(self.tables, self.leading, f"differences-{AVERAGE}")
        first, others = first_networks(self.run.caches)
        tasks = room.kept(FIRST_SHARE, ((cache.name, partial(self._task, cache)) for cache in first))
        tables = room.kept(TABLES_SHARE, ((number, partial(self._table, self.tables[number])) for number in in_turn))
        tasks |= room.kept(TASKS_SHARE, ((cache.name, partial(self._task, cache)) for cache in by_network(others)))
        return {
            "name": shown_text(self.name),
            "leading": self.leading,
            "signals": looks,
            "tables": [named | tables.get(number, {}) for number, named in enumerate(names)],
            "tasks": [named | tasks.get(named["cache"], {}) for named in tasks_named],
        }

    def texts(self, data: Mapping[str, Any], room: PageRoom) -> dict[str, dict[str, str]]:
        """The formats of the tables in ``data`` that can be downloaded, by name, as far as a page has room for them."""
        whole = {table["name"] for table in data["tables"] if "rows" in table}
        tables = [partial(texts_of, table) for table in self.tables if table.name in whole]
        names = [table.name for table in self.tables if table.name in whole]
        for cache, task in zip(self.run.caches, data["tasks"], strict=True):
            if "table" in task:
                names.append(task["table"]["name"])
                tables.append(partial(self._task_texts, cache))
        return room.kept(DOWNLOADS_SHARE, zip(names, tables, strict=True))

    def _of_table(self, table: Table) -> dict[str, Any]:
        return {"topic": table.topic, "model": shown_text(table.model)}

    def _of_task(self, cache: CacheMetadata) -> dict[str, Any]:
        """What a task is called, by what it is chosen, and the figures that show what its charts do."""
        protocol = self.run.leading_protocol([cache])
        return {
            "title": shown_text(task_with_model(self.run, cache)),
            "cache": cache.name,
            "group": list(map(shown_text, group_names(self.run, cache))),
            **{kind: figure_name(self.run, kind, cache, protocol) for kind in ("risk", "scores")},
        }

    def _table(self, table: Table) -> dict[str, Any]:
        return table_data(table, self.source.origin)

    def _task(self, cache: CacheMetadata) -> dict[str, Any]:
        return {"intro": shown_text(intro(cache)), "table": self._table(self.task_table(cache))}

    def _task_texts(self, cache: CacheMetadata) -> Mapping[str, str]:
        return texts_of(self.task_table(cache))


def texts_of(table: Table) -> Mapping[str, str]:
    """A table in every format."""
    return formatted(table.whole()).texts


def intro(cache: CacheMetadata) -> str:
    """What a task is, in a sentence."""
    judged = "F1 of class 1" if cache.is_f1 else "accuracy"
    classes = ", ".join(cache.classes[:12]) + (", …" if len(cache.classes) > 12 else "")
    return (
        f"{cache.model}, {cache.layers} layers; {cache.rows:,} rows of the {cache.split} split; "
        f"{len(cache.classes)} classes: {classes}; judged by {judged}."
    )


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


@dataclass(frozen=True)
class PageTopic:
    """A question, and how many tables answer it."""

    key: str
    question: str
    tables: int


def topics_of(tables: Sequence[Table]) -> list[PageTopic]:
    """The questions that have an answer, in order."""
    counts = Counter(table.topic for table in tables)
    return [PageTopic(key, question, counts[key]) for key, question in TOPICS.items() if counts[key]]
