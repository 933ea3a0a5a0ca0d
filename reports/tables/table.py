"""A table as a value: what is shown in each cell, where the number comes from, and how sure it is.

CSV, Markdown, LaTeX, HTML and the terminal are formats of the same :class:`Table`. A number that is shown carries the
file and the key of the row it was read from, so that any format can be compared with the result files cell by cell.
No text in here is escaped: each format escapes for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from exitbench.reports.run_data.numbers import Number

RowKind = Literal["signal", "bound", "published", "average", "other", "foot"]


MARKS = {"unmatched": "†", "unreliable": "‡", "degenerate": "§", "no-exit": "¶"}
"""Signs of the statuses under which a number is still shown."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a text, and the numbers that the text is made of (none for a label or an empty cell).

    ``text`` is the whole cell without its interval, such as ``92.1 (1.99×)``. ``tied`` is also true for the
    best itself. ``status`` is one of ``results.status.Status``, ``missing`` for a cell that the run has
    no row for, or empty for a label; ``reason`` says why it is not ``ok``; ``notes`` are for a reader who
    hovers: samples, the threshold, the chosen parameters.
    """

    text: str
    numbers: tuple[Number, ...] = ()
    best: bool = False
    tied: bool = False
    status: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()

    @property
    def value(self) -> float | None:
        """What the cell sorts by; None for a label and where there is no number."""
        return self.numbers[0].value if self.numbers else None

    @property
    def mark(self) -> str:
        """A sign for a number that is to be read with care, explained below the table."""
        return MARKS.get(self.status, "")

    @property
    def low(self) -> float | None:
        return self.numbers[0].low if self.numbers else None

    @property
    def high(self) -> float | None:
        return self.numbers[0].high if self.numbers else None

    @property
    def interval(self) -> str:
        """The interval of the first number, or an empty text."""
        return self.numbers[0].interval if self.numbers else ""

    @property
    def key(self) -> tuple[Any, ...]:
        """The key of the first number's row, empty for a label."""
        return self.numbers[0].key if self.numbers else ()


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column. ``group`` is the heading it shares with its neighbours (a task), ``measure`` the entry of the
    glossary that defines what stands below (empty for labels), ``better`` the direction for sorting."""

    title: str
    group: str = ""
    measure: str = ""
    better: Literal["higher", "lower", ""] = ""

    @property
    def is_label(self) -> bool:
        return not self.measure


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row; bounds, averages and published rows are set apart from measured signals by ``kind``."""

    cells: tuple[Cell, ...]
    kind: RowKind = "signal"
    signal: str = ""


@dataclass(frozen=True)
class Table:
    """A table with its title, the question it answers, and the notes below it.

    ``name`` is a file name without ending (``dis-in-sample``); ``topic`` one of :data:`TOPICS`; ``protocol``
    and ``model`` are empty where the table spans several.
    """

    name: str
    title: str
    question: str
    topic: str
    columns: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    protocol: str = ""
    model: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"table {self.name}: {len(row.cells)} cells in a row of {len(self.columns)} columns")

    def whole(self) -> Table:
        """The table with all its cells in memory."""
        return self

    def numbers(self) -> Iterator[Number]:
        """Every number that the table shows, row by row."""
        for row in self.rows:
            for cell in row.cells:
                yield from cell.numbers

    @property
    def groups(self) -> list[tuple[str, int]]:
        """The shared headings with the number of columns below each, in order; all empty without any."""
        headings: list[tuple[str, int]] = []
        for column in self.columns:
            if headings and headings[-1][0] == column.group and column.group:
                headings[-1] = (column.group, headings[-1][1] + 1)
            else:
                headings.append((column.group, 1))
        return headings

    @property
    def is_grouped(self) -> bool:
        return any(column.group for column in self.columns)


class LaterTable(Table):
    """A table whose cells are made when somebody reads them: ``made`` gives the whole table.

    A run over hundreds of caches has a thousand tables, of which a page shows a hundred. Whoever reads several of its
    parts asks for :meth:`whole` once.
    """

    def __init__(
        self, made: Callable[[], Table], *, name: str, title: str, question: str, topic: str, protocol: str, model: str
    ) -> None:
        own = {"name": name, "title": title, "question": question, "topic": topic, "protocol": protocol, "model": model}
        for field, value in {**own, "_made": made}.items():
            object.__setattr__(self, field, value)  # as a frozen dataclass does it

    def whole(self) -> Table:
        """The table with all its cells in memory."""
        table: Table = self._made()  # type: ignore[attr-defined]
        return table

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        return self.whole().columns

    @property
    def rows(self) -> tuple[TableRow, ...]:
        return self.whole().rows

    @property
    def notes(self) -> tuple[str, ...]:
        return self.whole().notes


TOPICS = {
    "main": "How much accuracy is left near the wanted speed-up?",
    "loss": "How fast may it get within a given loss?",
    "promises": "What can be promised?",
    "dis": "Does the signal rank right predictions above wrong ones?",
    "rates": "Does it exit too early or too late?",
    "parameters": "What do the parameters change?",
    "thresholds": "What does sharing one threshold cost?",
    "learning": "Is learning worth it?",
    "pairs": "Which differences can be claimed?",
    "across": "Does it hold over tasks and networks?",
    "backbones": "Does it hold for another backbone?",
    "systems": "Which systems of the paper's main table are here?",
    "costs": "What does it cost?",
}
"""The questions a report is sorted by, in its order."""


def label(text: str, *notes: str) -> Cell:
    """A cell with a name in it."""
    return Cell(text, notes=notes)


def missing(reason: str) -> Cell:
    """A cell for which the run has no number."""
    return Cell("–", status="missing", reason=reason)
