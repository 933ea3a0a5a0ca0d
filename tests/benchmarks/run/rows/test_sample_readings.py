"""The rows of ``samples.parquet``, made a group at a time: the same as a loop over samples writes down."""

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from exitbench.benchmarks.results.files import join_tables, write_parts
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import ENTRY_COLUMNS, SCHEMAS
from exitbench.benchmarks.run.rows import sample_readings
from exitbench.benchmarks.run.rows.sample_readings import SampleReadings
from exitbench.benchmarks.scoring.score_store import Samples

ROWS, READINGS = 7, 3


def readings(groups: bool) -> tuple[SampleReadings, Samples, list[np.ndarray]]:
    rng = np.random.default_rng(3)
    samples = Samples(
        ids=np.arange(100, 100 + ROWS),
        labels=rng.integers(0, 3, ROWS),
        predictions=rng.integers(0, 3, (4, ROWS)),
        metric="accuracy",
        groups=np.arange(ROWS) // 2 if groups else None,
    )
    made = SampleReadings(samples)
    exits = [rng.integers(1, 5, ROWS) for _ in range(READINGS)]
    for number, layers in enumerate(exits):
        made.add({name: f"{name} {number}" for name in ENTRY_COLUMNS}, at_speed_up(number + 1.5), layers)
    return made, samples, exits


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("group_rows", [1, 4, 7, 10, 1000])
def test_rows_are_those_of_a_loop_whatever_the_size_of_a_group(
    groups: bool, group_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_readings, "GROUP_ROWS", group_rows)
    made, samples, exits = readings(groups)
    tables = list(made)
    assert all(len(table) == group_rows for table in tables[:-1]) and 0 < len(tables[-1]) <= group_rows
    expected: list[dict[str, object]] = []
    for number, layers in enumerate(exits):
        for row in range(ROWS):
            answer = int(samples.predictions[layers[row] - 1, row])
            expected.append(
                {name: f"{name} {number}" for name in ENTRY_COLUMNS}
                | {
                    "operating_point": f"speed_up={number + 1.5:g}",
                    "id": 100 + row,
                    "group": row // 2 if groups else None,
                    "exit_layer": int(layers[row]),
                    "prediction": answer,
                    "label": int(samples.labels[row]),
                    "right": answer == int(samples.labels[row]),
                }
            )
    assert pa.concat_tables(tables).to_pylist() == expected


def test_no_reading_is_a_table_without_rows() -> None:
    samples = Samples(np.arange(2), np.zeros(2, np.int64), np.zeros((2, 2), np.int64), "accuracy")
    (table,) = SampleReadings(samples)
    assert table.schema == SCHEMAS["samples"] and len(table) == 0


def test_groups_are_written_and_joined_as_they_are(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("parts")
    made, _, _ = readings(groups=True)
    empty = Samples(np.arange(2), np.zeros(2, np.int64), np.zeros((2, 2), np.int64), "accuracy")
    write_parts(folder / "a.parquet", "samples", made)
    write_parts(folder / "none.parquet", "samples", SampleReadings(empty))
    write_parts(folder / "b.parquet", "samples", made)
    join_tables(folder / "all.parquet", "samples", [folder / f"{name}.parquet" for name in ("a", "none", "b")])
    rows = pa.concat_tables(made).to_pylist()
    assert pq.read_table(folder / "all.parquet").to_pylist() == [*rows, *rows]
