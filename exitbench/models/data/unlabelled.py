"""Texts without labels, as a service gets them: plain lines, CSV, TSV or JSON lines, from a file or a pipe.

Rows are checked as they are read, with source and line in the message; one row in, one answer out.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, TextIO, get_args

from exitbench.errors import InputError, did_you_mean
from exitbench.models.data.glue import FORMATS

Kind = Literal["text", "csv", "tsv", "jsonl"]

KINDS: Mapping[str, Kind] = {
    "": "text",
    ".txt": "text",
    ".text": "text",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
"""What a file holds, by the end of its name."""

NEWLINES: Mapping[Kind, str | None] = {"text": None, "csv": "", "tsv": "\n", "jsonl": "\n"}
"""How each kind ends its lines, as :func:`open` wants to know it; a CSV cell may hold a line break."""


@dataclass(frozen=True)
class TextColumns:
    """The columns that hold the text and, where two texts are compared, the second one."""

    text: str
    pair: str | None = None


@dataclass(frozen=True)
class TextSource:
    """Where texts come from: a file, or standard input (``path`` ``-``), and how they are written there."""

    path: Path
    kind: Kind
    columns: TextColumns | None

    @property
    def is_pipe(self) -> bool:
        return str(self.path) == "-"

    @property
    def name(self) -> str:
        return "standard input" if self.is_pipe else str(self.path)

    def rows(self, blank: list[int] | None = None) -> Iterator[tuple[str, str | None]]:
        """Text and second text (or ``None``) of every row, stripped; an InputError at the first empty one.

        A blank line of a pipe is passed over, and its number added to ``blank`` where that is given.
        """
        with self._open() as stream:
            columns = self.columns or TextColumns("")
            try:
                for line, record in READERS[self.kind](stream, self.name):
                    if self.is_pipe and blank is not None and not any(cell.strip() for cell in record.values()):
                        blank.append(line)
                        continue
                    first = self._cell(record, columns.text, line)
                    yield first, None if columns.pair is None else self._cell(record, columns.pair, line)
            except UnicodeDecodeError as error:
                raise InputError(f"expected UTF-8 text in {self.name}, found other bytes: {error.reason}") from error
            except csv.Error as error:
                raise InputError(f"expected CSV in {self.name}, found: {error}") from error

    @contextmanager
    def _open(self) -> Iterator[TextIO]:
        try:
            source: BinaryIO = sys.stdin.buffer if self.is_pipe else self.path.open("rb")
        except OSError as error:
            problem = "no such file" if isinstance(error, FileNotFoundError) else str(error.strerror).lower()
            raise InputError(f"expected a file of texts at {self.path}, found {problem}") from error
        stream = io.TextIOWrapper(source, encoding="utf-8-sig", newline=NEWLINES[self.kind])
        try:
            yield stream
        finally:
            # Standard input is the process's own and stays open.
            opened = stream.detach()
            if not self.is_pipe:
                opened.close()

    def _cell(self, record: Mapping[str, str], column: str, line: int) -> str:
        if column not in record:
            near = did_you_mean(column, record)
            raise InputError(f"expected a column {column!r} in {self.name}, found {', '.join(record)}.{near}")
        text = record[column].strip()
        if not text:
            location = f" in column {column!r}" if column else ""
            raise InputError(f"expected a text{location} on line {line} of {self.name}, found nothing")
        return text


def text_source(
    path: Path, *, task: str = "", kind: str = "auto", text: str | None = None, text_pair: str | None = None
) -> TextSource:
    """How to read ``path``: its kind by its name unless given, its columns those of ``task`` unless given.

    ``task`` is the one the model was trained on; where it compares two texts, both columns are needed.
    """
    if kind not in {"auto", *get_args(Kind)}:
        near = did_you_mean(kind, get_args(Kind))
        raise InputError(f"expected --input-format auto, {', '.join(get_args(Kind))}, found {kind!r}.{near}")
    if kind == "auto":
        suffix = "" if str(path) == "-" else path.suffix.lower()
        if suffix not in KINDS:
            raise InputError(
                f"expected a file that ends in {', '.join(filter(None, KINDS))}, or --input-format, found {path.name}"
            )
        kind = KINDS[suffix]
    task_format = FORMATS.get(task)
    needs_pair = task_format is not None and task_format.text_pair is not None
    if kind == "text":
        if text is not None or text_pair is not None:
            raise InputError("--text and --text-pair name columns, and plain text has none: give CSV, TSV or JSONL")
        if needs_pair:
            raise InputError(f"expected CSV, TSV or JSON lines, since {task} compares two texts, found plain text")
        return TextSource(path, "text", None)
    columns = TextColumns(text, text_pair) if text is not None else None
    if columns is None and task_format is not None:
        columns = TextColumns(task_format.text, text_pair or task_format.text_pair)
    if columns is None:
        raise InputError(f"expected --text with the column that holds the text, found none for a {kind} input")
    if needs_pair and columns.pair is None:
        raise InputError(f"expected --text-pair too, since {task} compares two texts, found --text alone")
    return TextSource(path, kind, columns)  # type: ignore[arg-type]


def plain_lines(stream: TextIO, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Every line as the one cell of a column without a name."""
    for number, line in enumerate(stream, start=1):
        yield number, {"": line}


def comma_separated(stream: TextIO, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV stream with a header, by line number."""
    reader = csv.DictReader(stream)
    for record in reader:
        yield reader.line_num, {column: value or "" for column, value in record.items() if column is not None}


def tab_separated(stream: TextIO, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a TSV stream with a header; nothing is quoted, as in GLUE's files."""
    header = next(stream, "").rstrip("\r\n").split("\t")
    for number, line in enumerate(stream, start=2):
        cells = line.rstrip("\r\n").split("\t")
        if not line.strip():
            cells = [""] * len(header)
        if len(cells) < len(header):
            raise InputError(f"expected {len(header)} columns on line {number} of {name}, found {len(cells)}")
        yield number, dict(zip(header, cells, strict=False))


def json_lines(stream: TextIO, name: str) -> Iterator[tuple[int, dict[str, str]]]:
    """The objects of a stream with one JSON object a line; blank lines are passed over."""
    for number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"expected a JSON object on line {number} of {name}, found: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"expected a JSON object on line {number} of {name}, found {line.strip()[:40]}")
        yield number, {column: "" if value is None else str(value) for column, value in record.items()}


READERS = {"text": plain_lines, "csv": comma_separated, "tsv": tab_separated, "jsonl": json_lines}
