"""Baseline tables: the numbers a suite gave when they were approved, as sorted CSV files that a diff can show.

A file has the key columns of ``results.parquet``, ``value`` and ``tolerance``. It holds the numbers of the metric
tables and the values at fixed thresholds, without intervals, since those depend on the number of resamples. An
operating point ``tau=median`` has one more row, its ``threshold``: being a cached score, it shows a changed formula
even where the order of the samples, and so every other number, stays the same. Values have nine significant digits;
an undefined one is an empty cell. How large a tolerance is and why: :func:`tolerance_of`.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exitbench.atomic_files import make_directory, write_text
from exitbench.benchmarks.results.operating_point import OperatingPoint, at_threshold, operating_point
from exitbench.benchmarks.results.schema import KEY, Row
from exitbench.benchmarks.results.vocabulary import DETECTABLE, EXIT_RATES, MEDIAN
from exitbench.errors import InputError

COLUMNS = (*KEY, "value", "tolerance")
DIGITS = 9
THRESHOLD = "threshold"
"""The measure of a row that pins the threshold of an operating point."""

ROUNDING = 1e-6
"""Tolerance of what counts decide: twice what rounding a value for the file can change; relative for a threshold."""

ONE_PAIR = 1000.0
"""Over n squared: about what one of all pairs weighs, in points, when one answer in nine is wrong."""

RANKED = frozenset({"dis", "tied_share", "aurc", "excess_aurc", "area"})
"""Measures that depend on the order of all samples, not only on which samples pass one threshold."""

Key = tuple[str | int | OperatingPoint | None, ...]
"""A row's values in the columns of ``KEY``; the layer is a number or ``None``."""


@dataclass(frozen=True)
class Pinned:
    """What a baseline says of one number; NaN where the number is undefined."""

    value: float
    tolerance: float


Baseline = Mapping[Key, Pinned]


@dataclass(frozen=True)
class Move:
    """A number that is not what the baseline says; ``None`` means that there is no such row."""

    key: Key
    was: float | None
    now: float | None
    tolerance: float
    std_err: float = math.nan

    @property
    def kind(self) -> str:
        """``new``, ``missing`` or ``moved``."""
        return "new" if self.was is None else "missing" if self.now is None else "moved"

    @property
    def difference(self) -> float:
        """Now minus then; NaN when one of the two is no number."""
        return math.nan if self.was is None or self.now is None else self.now - self.was

    @property
    def beyond_error(self) -> bool | None:
        """Whether the move is larger than the number's standard error; ``None`` when there is none to compare."""
        if math.isnan(self.difference) or not math.isfinite(self.std_err):
            return None
        return abs(self.difference) > self.std_err

    @property
    def entry(self) -> tuple[str, str, str]:
        """(cache, protocol, signal with its parameters): what a reader looks for first."""
        named = dict(zip(KEY, self.key, strict=True))
        cache = named["cache"] or f"average of {named['model']} {named['split']}"
        parameters = f"[{named['parameters']}]" if named["parameters"] else ""
        return str(cache), str(named["protocol"]), f"{named['signal']}{parameters}"

    @property
    def question(self) -> str:
        """The measure and its operating point, such as ``premature_rate, speed_up=4, all``."""
        named = dict(zip(KEY, self.key, strict=True))
        layer = "" if named["layer"] is None else f"layer {named['layer']}"
        return ", ".join(
            str(part) for part in (named["measure"], named["operating_point"], layer, named["decisions"]) if part
        )


def pinned_rows(rows: Iterable[Row]) -> Iterator[Row]:
    """The results that belong in a baseline, and a row for each threshold that is a cached score.

    Left out are the exit rates of single layers, which no table prints, those at further speed-ups, where layers have
    none, which only the explorer shows, and the differences that could be shown, standard errors by another name.
    """
    every_row = list(rows)
    rates_at = {
        row.operating_point
        for row in every_row
        if row.measure in EXIT_RATES and row.layer is not None and row.operating_point.kind == "speed_up"
    }
    for row in every_row:
        if row.signal == DETECTABLE:
            continue
        further = row.operating_point.kind == "speed_up" and rates_at and row.operating_point not in rates_at
        if row.measure not in EXIT_RATES or (row.layer is None and not further):
            yield row
        if row.operating_point == at_threshold(MEDIAN) and row.measure == "speed_up" and row.threshold is not None:
            yield row._replace(measure=THRESHOLD, value=row.threshold, std_err=math.nan)


def tolerance_of(row: Row) -> float:
    """How far a number may move before that means something.

    Scores are float64 computed from cached float32 values, so another CPU or thread count changes their last digits
    only, which cannot move a count unless two scores of one signal agree in about twelve digits. What counts decide
    therefore has to agree to rounding, far below the weight of one sample. A measure of the whole order sees every
    such near tie, wherever it lies, so it may move by about one pair of samples.
    """
    if row.measure == THRESHOLD:
        return float(f"{max(ROUNDING * abs(row.value), 1e-12):.0e}")
    return float(f"{max(ROUNDING, ONE_PAIR / row.n**2):.0e}") if row.measure in RANKED and row.n else ROUNDING


def baseline_of(rows: Iterable[Row], previous: Baseline | None = None) -> Baseline:
    """The baseline that results make; a row that ``previous`` has keeps its tolerance, which a person may have set."""
    baseline = {}
    for row in pinned_rows(rows):
        kept = (previous or {}).get(row.key)
        value = float(number_text(row.value) or math.nan)
        baseline[row.key] = Pinned(value, kept.tolerance if kept else tolerance_of(row))
    return baseline


def moves(baseline: Baseline, rows: Sequence[Row]) -> list[Move]:
    """What differs between a baseline and results, sorted: numbers out of tolerance, new rows, missing rows."""
    now = {row.key: row for row in pinned_rows(rows)}
    changes = []
    for key in sorted({*baseline, *now}, key=sort_key):
        expected, row = baseline.get(key), now.get(key)
        if expected is None and row is not None:
            changes.append(Move(key, None, row.value, tolerance_of(row)))
        elif expected is not None and row is None:
            changes.append(Move(key, expected.value, None, expected.tolerance))
        elif expected is not None and row is not None and not agree(expected, row.value):
            changes.append(Move(key, expected.value, row.value, expected.tolerance))
    return changes


def agree(expected: Pinned, value: float) -> bool:
    """Whether a value is the expected one; an undefined value agrees with an undefined value only."""
    if math.isnan(expected.value) or math.isnan(value):
        return math.isnan(expected.value) and math.isnan(value)
    return abs(value - expected.value) <= expected.tolerance


def with_errors(changes: Iterable[Move], rows: Iterable[Row]) -> list[Move]:
    """The moves with the standard errors of the same numbers in ``rows``."""
    errors = {row.key: row.std_err for row in rows}
    return [replace(move, std_err=errors.get(move.key, math.nan)) for move in changes]


def sort_key(key: Key) -> tuple[tuple[int, str], ...]:
    """Orders keys column by column; layers as numbers, an absent one first."""
    return tuple((0, str(part)) if isinstance(part, str | OperatingPoint) else (part or -1, "") for part in key)


def write_baseline(path: Path, baseline: Baseline) -> None:
    """Write a baseline, sorted, whole or not at all."""
    make_directory(path.parent)
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(COLUMNS)
    for key in sorted(baseline, key=sort_key):
        pinned = baseline[key]
        cells = ["" if part is None else str(part) for part in key]
        writer.writerow([*cells, number_text(pinned.value), f"{pinned.tolerance:g}"])
    write_text(path, table.getvalue())


def number_text(value: float) -> str:
    """A number with nine significant digits and no needless zeros; nothing for NaN.

    >>> number_text(92.0), number_text(0.12345678912), number_text(float("nan"))
    ('92', '0.123456789', '')
    """
    return "" if math.isnan(value) else f"{value:.{DIGITS}g}"


def read_baseline(path: Path) -> Baseline:
    """The baseline in a file; raises InputError that names the line for anything that is not one."""
    if not path.is_file():
        raise InputError(f"no baseline at {path}; --update writes it")
    baseline: dict[Key, Pinned] = {}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = next(reader, [])
            if tuple(header) != COLUMNS:
                shown = ",".join(header) or "an empty file"
                raise InputError(f"{path} is not a baseline: expected the columns {','.join(COLUMNS)}, found {shown}")
            for number, cells in _numbered(reader):
                key, pinned = parse_line(cells, f"{path}, line {number}")
                if key in baseline:
                    raise InputError(f"{path}, line {number}: the same key is on an earlier line")
                baseline[key] = pinned
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a CSV file: {error}") from None
    return baseline


def parse_line(cells: Sequence[str], where: str) -> tuple[Key, Pinned]:
    """Key and numbers of one line of a baseline; ``where`` begins the message of an InputError."""
    if len(cells) != len(COLUMNS):
        raise InputError(f"{where}: expected {len(COLUMNS)} cells, found {len(cells)}")
    line = dict(zip(COLUMNS, cells, strict=True))
    try:
        layer = int(line["layer"]) if line["layer"] else None
        point = operating_point(line["operating_point"])
        pinned = Pinned(float(line["value"]) if line["value"] else math.nan, float(line["tolerance"]))
    except ValueError:
        shown = ", ".join(repr(line[name]) for name in ("operating_point", "layer", "value", "tolerance"))
        raise InputError(
            f"{where}: expected an operating point such as speed_up=2, and numbers as layer, value and tolerance, "
            f"found {shown}"
        ) from None
    if not 0 <= pinned.tolerance < math.inf:
        raise InputError(f"{where}: a tolerance is a number from 0, found {line['tolerance']}")
    typed: dict[str, str | int | OperatingPoint | None] = {**line, "layer": layer, "operating_point": point}
    return tuple(typed[name] for name in KEY), pinned


def _numbered(reader: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not blank with their number in the file; no cell of a baseline spans lines."""
    yield from ((number, cells) for number, cells in enumerate(reader, start=2) if cells)
