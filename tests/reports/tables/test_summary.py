"""The summary of a task shows the values of the result file, and fits a terminal of 80 columns."""

import io

import pytest
from rich.console import Console

from exitbench.reports.formats.terminal import terminal_table
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.per_task import summary_table
from tests.support.table_runs import small_run


def test_every_number_of_the_summary_is_a_row_of_the_results(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(small_run(tmp_path_factory))
    (cache,) = run.caches
    table = summary_table(run, cache, "in-sample")
    assert [column.measure for column in table.columns[1:]] == [
        "dis",
        "dis",
        "premature_rate",
        "delayed_rate",
        "accuracy",
        "speed_up",
    ]
    assert [row.cells[0].text for row in table.rows] == [
        "deebert",
        "pabee",
        "cap[alpha=0.1|1]",
        "Fixed layer",
        "Smallest difference shown, one pair",
        "Smallest difference shown, all pairs",
    ]
    for row in table.rows:
        for column, cell in zip(table.columns[1:], row.cells[1:], strict=True):
            for number in cell.numbers:
                result = run.rows[number.key]
                assert (result.signal, result.measure, result.value) == (row.signal, column.measure, number.value)


def test_the_summary_fits_eighty_columns(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(small_run(tmp_path_factory))
    console = Console(file=io.StringIO(), width=80)
    console.print(terminal_table(summary_table(run, run.caches[0], "in-sample")))
    assert isinstance(console.file, io.StringIO)
    assert "…" not in console.file.getvalue()
