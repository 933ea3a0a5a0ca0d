"""Rows of a result file by their texts, against pandas."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from exitbench.reports.page.grouped_columns import grouped_columns

SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("cache", "signal", "kind")]
    + [("value", pa.float64()), ("exits", pa.list_(pa.int32()))]
)


def frame() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    values = draw.normal(size=90)
    values[draw.integers(0, 90, 9)] = np.nan
    lists = [[int(number), int(number) + 1, 7] for number in draw.integers(0, 9, 90)]
    return pd.DataFrame(
        {
            "cache": draw.choice(["b", "a", "c"], 90),
            "signal": draw.choice(["x", "y"], 90),
            "kind": draw.choice(["point", "band"], 90),
            "value": values,
            "exits": [row if present else None for row, present in zip(lists, draw.random(90) < 0.7, strict=True)],
        }
    )


def test_groups_are_those_of_pandas_in_the_order_of_the_file() -> None:
    rows = frame()
    # Two chunks, as a file of several row groups has.
    table = pa.concat_tables(
        [pa.Table.from_pandas(part, SCHEMA, preserve_index=False) for part in (rows[:40], rows[40:])]
    )
    grouped = grouped_columns(table, ("cache", "signal"))
    expected = dict(list(rows.groupby(["cache", "signal"], sort=False)))
    assert list(grouped.rows_of) == list(expected)
    for key, part in expected.items():
        positions = grouped.rows_of[key]
        assert positions.tolist() == part.index.tolist()
        np.testing.assert_array_equal(grouped.numbers("value", positions), part["value"])
        assert grouped.is_text("kind", positions, "band").tolist() == (part["kind"] == "band").tolist()
        assert not grouped.is_text("kind", positions, "none such").any()
        full = part[part["exits"].notna()]
        if len(full) < len(part):
            assert grouped.lists("exits", positions) is None
        stored = grouped.lists("exits", full.index.to_numpy())
        assert stored is not None and stored.tolist() == [list(row) for row in full["exits"]]


@pytest.mark.parametrize("names", [("cache",), ("cache", "signal")])
def test_a_file_without_rows_has_no_groups(names: tuple[str, ...]) -> None:
    schema = pa.schema([("cache", pa.string()), ("signal", pa.string())])
    assert grouped_columns(schema.empty_table(), names).rows_of == {}
