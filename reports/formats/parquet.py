"""A table as Parquet for a program: numbers as numbers, texts as they are, title and notes in the file's metadata."""

from __future__ import annotations

import io
import json
import math

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from exitbench.reports.formats.records import PlainColumn, plain_columns
from exitbench.reports.tables.table import Table


def parquet_table(table: Table) -> bytes:
    """The columns of the CSV, and a first one ``kind`` that sets bounds apart from signals; null where nothing is."""
    kinds = PlainColumn("kind", is_number=False, values=[row.kind for row in table.rows])
    names: list[str] = []
    arrays = []
    for column in (kinds, *plain_columns(table)):
        same = names.count(column.name)
        names.append(f"{column.name} ({same + 1})" if same else column.name)
        # Where the results have no number, they say NaN; outside of Python a null is what everybody reads as none.
        values = [None if isinstance(value, float) and math.isnan(value) else value for value in column.values]
        arrays.append(pa.array(values, type=pa.float64() if column.is_number else pa.string()))
    about = {"title": table.title, "question": table.question, "notes": json.dumps(table.notes)}
    file = io.BytesIO()
    pq.write_table(pa.table(arrays, names=names).replace_schema_metadata(about), file)
    return file.getvalue()
