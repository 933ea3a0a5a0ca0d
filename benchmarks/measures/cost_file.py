"""The cost of a network as files: three CSV tables for people, and ``cost.json`` for reports.

A report shows what it finds here; it counts and times nothing itself.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exitbench.atomic_files import write_text
from exitbench.benchmarks.measures.network_cost import Operations, Parameters, Shape
from exitbench.cache.format.files import file_bytes
from exitbench.errors import InputError
from exitbench.output_folder import claimed

COST_FILE = "cost.json"
SCHEMA = 1


@dataclass(frozen=True)
class TimedSignal:
    """The measured time of one contender (a signal, or the plain network) with exits that nothing reaches.

    ``seconds`` is the median time of one batch with its interval; ``overhead`` is the median, over rounds, of the
    time above the plain network's in the same round, in percent. ``published_overhead`` is the paper's, or ``None``.
    """

    signal: str
    title: str
    seconds: float
    seconds_low: float
    seconds_high: float
    overhead: float
    overhead_low: float
    overhead_high: float
    published_overhead: float | None = None


@dataclass(frozen=True)
class Timing:
    """One interleaved run: its setting (device, batch size, tokens, rounds, level, ...) and a row per contender."""

    setting: dict[str, Any]
    rows: tuple[TimedSignal, ...]


@dataclass(frozen=True)
class TimedRequests:
    """One way of answering requests, with exits or without: percentiles of a request's seconds, requests a second.

    ``speed_up`` is the full network's time over its own, with an interval where there were several rounds.
    """

    way: str
    batch_size: int
    requests: int
    mean_layers: float
    p50: float
    p95: float
    p99: float
    per_second: float
    speed_up: float
    speed_up_low: float | None
    speed_up_high: float | None


@dataclass(frozen=True)
class RequestTiming:
    """One interleaved run of requests: its setting and a row per way of answering and batch size."""

    setting: dict[str, Any]
    rows: tuple[TimedRequests, ...]


@dataclass(frozen=True)
class Cost:
    """All tables of one network; ``timing`` and ``requests`` are ``None`` where nothing was timed."""

    network: str
    shape: Shape
    operations: tuple[Operations, ...]
    parameters: tuple[Parameters, ...]
    timing: Timing | None = None
    requests: RequestTiming | None = None


def write_cost(directory: Path, cost: Cost) -> list[Path]:
    """Write ``operations.csv``, ``parameters.csv``, ``timing.csv``, ``requests.csv`` (if timed), last ``cost.json``.

    Raises InputError for a folder that is neither empty nor exitbench's own.
    """
    tables: dict[str, Sequence[Any]] = {"operations": cost.operations, "parameters": cost.parameters}
    if cost.timing is not None:
        tables["timing"] = cost.timing.rows
    if cost.requests is not None:
        tables["requests"] = cost.requests.rows
    texts = {f"{name}.csv": _csv(rows) for name, rows in tables.items()}
    record = {"schema": SCHEMA, **dataclasses.asdict(cost)}
    texts[COST_FILE] = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    with claimed(directory) as folder:
        folder.begin("cost", [COST_FILE, *(name for name in texts if name != COST_FILE)])
        for name, text in texts.items():
            write_text(directory / name, text)
    return [directory / name for name in texts]


def read_cost(directory: Path) -> Cost | None:
    """The cost that :func:`write_cost` wrote to a directory; ``None`` where there is no ``cost.json``."""
    path = directory / COST_FILE
    if not path.exists():
        return None
    try:
        record = json.loads(file_bytes(path))
        if record["schema"] != SCHEMA:
            raise InputError(f"{path}: expected schema {SCHEMA}, found {record['schema']}")
        timing, requests = record["timing"], record.get("requests")
        return Cost(
            record["network"],
            Shape(**record["shape"]),
            tuple(Operations(**row) for row in record["operations"]),
            tuple(Parameters(**row) for row in record["parameters"]),
            None if timing is None else Timing(timing["setting"], tuple(TimedSignal(**row) for row in timing["rows"])),
            None
            if requests is None
            else RequestTiming(requests["setting"], tuple(TimedRequests(**row) for row in requests["rows"])),
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: expected what `exitbench cost --out` writes, found: {error}") from error


def _csv(rows: Sequence[Any]) -> str:
    """Frozen dataclasses of one kind as CSV; an empty cell for ``None``."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(rows[0])]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([getattr(row, name) for name in names] for row in rows)
    return text.getvalue()
