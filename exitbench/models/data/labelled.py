"""Labelled texts from disk or hub: GLUE's TSV files, CSV, JSON lines, or a dataset of the hub.

Everything is checked here, with the file and line in the message, so that nothing downstream meets an
empty text or a label without a class.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from exitbench.errors import InputError, did_you_mean, one_line
from exitbench.models.data.glue import TaskFormat, require_format

HUB_DATASET = "nyu-mll/glue"


@dataclass(frozen=True)
class Examples:
    """Texts of one split, with pairs where the task compares two; labels count classes from 0.

    ``ids`` are numbers of the samples, ``groups`` say which rows belong together; both where a column has them.
    """

    texts: Sequence[str]
    pairs: Sequence[str] | None
    labels: Sequence[int] | None
    classes: tuple[str, ...]
    ids: Sequence[int] | None = None
    groups: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def sample(self, rows: int | None, seed: int) -> Examples:
        """At most ``rows`` examples drawn with ``seed``, in their own order; all of them for ``None``."""
        if rows is None or rows >= len(self):
            return self
        drawn = sorted(random.Random(seed).sample(range(len(self)), rows))  # noqa: S311
        return Examples(
            [self.texts[row] for row in drawn],
            None if self.pairs is None else [self.pairs[row] for row in drawn],
            None if self.labels is None else [self.labels[row] for row in drawn],
            self.classes,
            None if self.ids is None else [self.ids[row] for row in drawn],
            None if self.groups is None else [self.groups[row] for row in drawn],
        )


@dataclass(frozen=True)
class Columns:
    """The names of the columns of somebody's own CSV or JSON lines; without ``label`` the texts have none."""

    text: str
    text_pair: str | None
    label: str | None
    id: str | None = None
    group: str | None = None

    @property
    def needed(self) -> list[str]:
        """The columns that every row must have."""
        return [name for name in (self.text, self.text_pair, self.label, self.id, self.group) if name]


def own_columns(text: str | None, text_pair: str | None, label: str | None) -> Columns | None:
    """The columns of somebody's own data, or ``None`` when none is named; a text needs its label."""
    if text is None and label is None and text_pair is None:
        return None
    if text is None or label is None:
        raise InputError(f"expected both --text and --label for your own data, found --text {text} --label {label}")
    return Columns(text, text_pair, label)


def collected_columns(
    text: str | None, text_pair: str | None, label: str | None, sample_id: str | None, group: str | None
) -> Columns | None:
    """The columns of data to collect from: without a label where nobody knows it, with ids and groups if named."""
    if text is None:
        if named := [name for name in (text_pair, label, sample_id, group) if name is not None]:
            raise InputError(f"expected --text too, for the column {named[0]!r} of your own data, found none")
        return None
    return Columns(text, text_pair, label, sample_id, group)


def load_examples(
    task: str,
    split: str,
    data_dir: Path | None,
    columns: Columns | None = None,
    classes: tuple[str, ...] | None = None,
) -> Examples:
    """One split of a task.

    With ``columns``, ``<split>.csv`` or ``<split>.jsonl`` in ``data_dir``; the classes are the labels
    found there, in order, unless ``classes`` (those of a trained model) are given. Without, one of the
    tasks known by name, from its TSV file in ``data_dir`` or, without a folder, from the hub.
    """
    if columns is not None:
        if data_dir is None:
            raise InputError("expected --data-dir with the CSV or JSON lines that --text and --label name, found none")
        return _own_examples(data_dir, split, columns, classes)
    task_format = require_format(task)
    if data_dir is None:
        return _hub_examples(task_format, split)
    path = _glue_file(task_format, split, data_dir)
    records = _tab_separated(path)
    return _checked(
        records, str(path), Columns(task_format.text, task_format.text_pair, task_format.label), task_format.classes
    )


def _glue_file(task: TaskFormat, split: str, data_dir: Path) -> Path:
    names = [f"{split}.tsv"]
    if split == "dev" and task.dev_file not in names:
        names.append(task.dev_file)
    # Either the task's own folder or the folder of all tasks; the specific one first, since files of
    # another task may lie directly in the given folder.
    folders = [data_dir / task.folder, data_dir / task.name, data_dir]
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    raise InputError(
        f"expected {names[0]} of {task.name} in {data_dir} or {data_dir / task.folder}, found no such file"
    )


def _tab_separated(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Rows by line number. GLUE's files quote nothing: a quotation mark is part of the text."""
    with path.open(encoding="utf-8-sig", newline="\n") as lines:
        header = next(lines, "").rstrip("\r\n").split("\t")
        for number, line in enumerate(lines, start=2):
            cells = line.rstrip("\r\n").split("\t")
            if len(cells) < len(header):
                raise InputError(f"expected {len(header)} columns in {path} line {number}, found {len(cells)}")
            yield number, dict(zip(header, cells, strict=False))


def _own_examples(data_dir: Path, split: str, columns: Columns, classes: tuple[str, ...] | None) -> Examples:
    for suffix, read in ((".csv", _comma_separated), (".jsonl", _json_lines), (".json", _json_lines)):
        path = data_dir / f"{split}{suffix}"
        if path.is_file():
            return _checked(read(path), str(path), columns, classes)
    raise InputError(f"expected {split}.csv or {split}.jsonl in {data_dir}, found neither")


def _comma_separated(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.DictReader(lines)
        for record in reader:
            yield reader.line_num, {name: value or "" for name, value in record.items() if name is not None}


def _json_lines(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"expected one JSON object a line in {path}, found on line {number}: {error}"
                ) from error
            if not isinstance(record, dict):
                raise InputError(
                    f"expected one JSON object a line in {path}, found on line {number}: {line.strip()[:40]}"
                )
            yield number, {name: "" if value is None else str(value) for name, value in record.items()}


def _checked(
    records: Iterable[tuple[int, dict[str, str]]], source: str, columns: Columns, classes: tuple[str, ...] | None
) -> Examples:
    texts: list[str] = []
    pairs: list[str] = []
    labels: list[str] = []
    lines: list[int] = []
    numbers: dict[str, list[int]] = {name: [] for name in (columns.id, columns.group) if name}
    for line, record in records:
        for column in columns.needed:
            if column not in record:
                near = did_you_mean(column, record)
                raise InputError(f"expected a column {column!r} in {source}, found {', '.join(record)}.{near}")
            if not record[column].strip():
                kind = "label" if column == columns.label else "number" if column in numbers else "text"
                raise InputError(f"expected a {kind} in column {column!r} of {source} line {line}, found nothing")
        texts.append(record[columns.text].strip())
        if columns.text_pair:
            pairs.append(record[columns.text_pair].strip())
        if columns.label:
            labels.append(record[columns.label].strip())
        for column, values in numbers.items():
            values.append(_whole_number(record[column], column, source, line))
        lines.append(line)
    if not texts:
        raise InputError(f"expected at least one row in {source}, found none")
    if columns.label is None and classes is None:
        raise InputError(f"expected the classes of unlabelled texts in {source}, found neither labels nor classes")
    order = classes if classes is not None else _classes_of(labels, source)
    class_numbers = [_class_number(label, order, source, line) for label, line in zip(labels, lines, strict=False)]
    return Examples(
        texts,
        pairs if columns.text_pair else None,
        class_numbers if columns.label else None,
        order,
        numbers.get(columns.id or ""),
        numbers.get(columns.group or ""),
    )


def _whole_number(text: str, column: str, source: str, line: int) -> int:
    try:
        return int(text)
    except ValueError:
        raise InputError(
            f"expected a whole number in column {column!r} of {source} line {line}, found {text.strip()[:40]!r}"
        ) from None


def _classes_of(labels: Sequence[str], source: str) -> tuple[str, ...]:
    """The different labels in a stable order: by number where all are numbers, else by name."""
    classes = set(labels)
    if len(classes) < 2:
        raise InputError(f"expected at least two different labels in {source}, found only {classes.pop()!r}")
    if all(label.lstrip("-").isdecimal() for label in classes):
        return tuple(sorted(classes, key=int))
    return tuple(sorted(classes))


def _class_number(label: str, classes: tuple[str, ...], source: str, line: int) -> int:
    if label in classes:
        return classes.index(label)
    # GLUE writes some tasks' classes as numbers; a name always wins over a number.
    if label.isdecimal() and int(label) < len(classes):
        return int(label)
    raise InputError(f"expected a label out of {', '.join(classes)} in {source} line {line}, found {label!r}")


def _hub_examples(task: TaskFormat, split: str) -> Examples:
    import datasets

    hub_split = task.hub_dev if split == "dev" else split
    try:
        rows = datasets.load_dataset(HUB_DATASET, task.name, split=hub_split)
    except Exception as error:
        # The library raises many kinds, from its own to those of three network stacks.
        raise InputError(
            f"expected {task.name} ({hub_split}) from the hub, or --data-dir with its TSV files;"
            f" found: {one_line(error)}"
        ) from error
    columns = Columns(task.hub_text, task.hub_text_pair, "label")
    records = ((index, {name: str(value) for name, value in row.items()}) for index, row in enumerate(rows))
    return _checked(records, f"{HUB_DATASET}/{task.name} ({hub_split})", columns, task.classes)
