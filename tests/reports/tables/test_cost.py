"""Costs are shown where ``exitbench cost`` left its file, with the published figures beside them."""

import shutil
from pathlib import Path

import pytest

from exitbench.benchmarks.measures.cost_file import Cost, TimedSignal, Timing, write_cost
from exitbench.benchmarks.measures.network_cost import Shape, encoder_block, operations, parameter_table
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.table import Table
from tests.support.table_runs import small_run

TIMED = TimedSignal("cap", "CAP", 0.012, 0.011, 0.0134, 6.5, 5.0, 8.0, 6.4)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Table]:
    folder: Path = tmp_path_factory.mktemp("cost") / "run"
    shutil.copytree(small_run(tmp_path_factory), folder)
    shape = Shape()
    cost = Cost(
        "bert-base",
        shape,
        tuple(operations(shape, [2])),
        tuple(parameter_table(shape, [2])),
        Timing({"device": "cpu", "rounds": 5}, (TIMED,)),
    )
    write_cost(folder, cost)
    return {table.name: table for table in tables_of(FinishedRun(folder)) if table.topic == "costs"}


def test_a_run_without_a_cost_file_has_no_cost_table(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert not [table for table in tables_of(FinishedRun(small_run(tmp_path_factory))) if table.topic == "costs"]


def test_operations_stand_beside_the_published_figure(tables: dict[str, Table]) -> None:
    encoder = next(row for row in tables["cost-operations"].rows if row.cells[0].text == "encoder")
    assert encoder.cells[3].value == encoder_block(Shape())
    assert encoder.cells[3].text == encoder.cells[5].text == "1813.5M"


def test_every_count_is_in_the_cost_file(tables: dict[str, Table]) -> None:
    counts = {float(part.parameters) for part in parameter_table(Shape(), [2])}
    assert {number.value for number in tables["cost-parameters"].numbers()} == counts


def test_times_have_intervals_and_their_setting(tables: dict[str, Table]) -> None:
    table = tables["cost-time"]
    time, overhead, published = table.rows[0].cells[1:]
    assert (time.value, time.low, time.high) == (12.0, 11.0, 13.4)
    assert (overhead.text, overhead.interval, published.text) == ("6.5", "[5.0, 8.0]", "6.4")
    assert "device cpu" in table.notes[0]
