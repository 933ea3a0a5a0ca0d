"""Tables and rows by name, and every number they show against the result files."""

import csv
import math
from pathlib import Path

import pandas as pd

from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import ACROSS_KEY, KEY, PAIR_KEY
from exitbench.places import PUBLISHED
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.table import Table, TableRow


def short_name(tables: list[Table], start: str) -> Table:
    return next(table for table in tables if table.name.startswith(start))


def row_of(table: Table, name: str) -> TableRow:
    return next(row for row in table.rows if row.cells[0].text == name)


def indexed(path: Path, key: tuple[str, ...]) -> dict[tuple[object, ...], dict[str, object]]:
    frame = pd.read_parquet(path)
    records = {}
    for record in frame.to_dict("records"):
        layer = record["layer"]
        record["operating_point"] = operating_point(record["operating_point"])
        record["layer"] = None if layer is None or math.isnan(layer) else int(layer)
        records[tuple(record[name] for name in key)] = record
    return records


def check_numbers(run: FinishedRun, tables: list[Table]) -> int:
    """Every number of the tables against the files; how many there were."""
    results, pairs = indexed(run.path / "results.parquet", KEY), indexed(run.path / "pairs.parquet", PAIR_KEY)
    across = {tuple(str(row[name]) for name in ACROSS_KEY): row["value"] for row in run.files.across()}
    count = 0
    for table in tables:
        for shown in table.numbers():
            if shown.source == "results":
                row = results[shown.key]
                assert shown.value == row["value"]
                for side, name in ((shown.low, "low"), (shown.high, "high")):
                    assert side == row[name] or (side is None and math.isnan(row[name]))
            elif shown.source == "pairs":
                row = pairs[shown.key]
                assert abs(shown.value) == abs(row[shown.column])
            elif shown.source == "across":
                assert shown.value == across[tuple(map(str, shown.key))]
            else:
                file, line = shown.key
                with (PUBLISHED / file).open() as lines:
                    record = list(csv.DictReader(lines))[line - 2]
                assert shown.value == float(record[shown.column])
            count += 1
    return count
