"""The exits of live traffic, read from what ``exitbench infer`` wrote: CSV or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from exitbench.errors import InputError

LARGEST = 2**27
"""Characters of a log: millions of answers, but not a device that never ends."""

Exit = tuple[int, float | None]
"""Exit layer, from 1, and the score there; none at the last layer."""


def logged_exits(path: Path, layers: int) -> Iterator[Exit]:
    """Every row's exit, in the order of the log; ``-`` reads standard input."""
    name = "standard input" if str(path) == "-" else str(path)
    try:
        if str(path) == "-":
            text = sys.stdin.read(LARGEST + 1)
        else:
            with path.open(encoding="utf-8", newline="") as stream:  # a pipe is welcome too
                text = stream.read(LARGEST + 1)
    except OSError as error:
        raise InputError(f"expected a log of answers at {path}, found {str(error.strerror).lower()}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"expected UTF-8 text in {name}, found other bytes: {error.reason}") from error
    if len(text) > LARGEST:
        raise InputError(f"expected at most {LARGEST:,} characters in {name}, found more")
    records = json_records(text, name) if text.lstrip().startswith("{") else csv_records(text, name)
    for line, record in records:
        yield exit_of(record, line, name, layers)


def csv_records(text: str, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of a CSV text with a header, by line."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        if not {"exit_layer", "score"} <= set(reader.fieldnames or ()):
            columns = reader.fieldnames or "nothing"
            raise InputError(f"expected the columns exit_layer and score in {name}, found {columns}")
        for record in reader:
            yield reader.line_num, record
    except csv.Error as error:
        raise InputError(f"expected CSV in {name}, found: {error}") from error


def json_records(text: str, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The objects of JSON lines, by line; blank ones are passed over."""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"expected a JSON object on line {number} of {name}, found: {error}") from error
        if not isinstance(record, dict):
            raise InputError(f"expected a JSON object on line {number} of {name}, found {type(record).__name__}")
        yield number, record


def exit_of(record: Mapping[str, Any], line: int, name: str, layers: int) -> Exit:
    """Layer and score of one record."""
    layer, score = record.get("exit_layer"), record.get("score")
    try:
        number = int(str(layer))
        value = None if score in (None, "") else float(str(score))
    except ValueError:
        raise InputError(
            f"expected a layer and a score on line {line} of {name}, found {layer!r} and {score!r}"
        ) from None
    if not 1 <= number <= layers or (value is None) != (number == layers) or (value and not math.isfinite(value)):
        raise InputError(
            f"expected an exit layer 1..{layers} with a score, the last without, on line {line} of {name}, "
            f"found {layer!r} and {score!r}"
        )
    return number, value
