"""The table of what can be promised shows the certified speed-ups of the files."""

import pandas as pd
import pytest

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.stored_rows import PlainRows
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.promises import promise_tables
from tests.support.table_runs import small_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(small_run(tmp_path_factory))


def test_every_cell_is_a_row_of_the_files(run):
    results = pd.read_parquet(run.path / "results.parquet")
    stored = results[results.measure == "certified_speed_up"]
    assert set(stored.protocol) == {"certified"}
    (table, *_) = promise_tables(run)
    assert table.notes[0].startswith("Protocol: certified. Half of the rows chose")
    assert len(table.columns) == 1 + 2 * len(run.groups[0].caches)
    values = {value for value in stored.value if value == value}
    shown = [cell for row in table.rows for cell in row.cells[1:]]
    assert len(shown) == len(stored[stored.model == run.groups[0].model])
    for cell in shown:
        assert cell.numbers[0].value in values if cell.numbers else cell.status == "undefined" and cell.reason


def test_it_says_that_nothing_is_promised_of_f1(run):
    (table, *_) = promise_tables(run)
    assert any("F1 is no mean over rows" in note for note in table.notes) == any(
        cache.is_f1 for cache in run.groups[0].caches
    )
    assert any("exitbench threshold --guarantee" in note for note in table.notes)


def test_a_run_without_promises_has_no_such_table(run, monkeypatch):
    certified = {key for key, row in run.rows.items() if row.measure == "certified_speed_up"}
    kept = {key: row for key, row in run.rows.items() if key not in certified}
    monkeypatch.setitem(run.__dict__, "rows", PlainRows(kept))
    assert not [table for table in tables_of(run) if table.topic == "promises"]
