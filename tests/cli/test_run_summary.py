"""What ``run`` prints: one table of all tasks that nothing wraps, and the verdict as the last word."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.cache import synthetic_cache
from exitbench.reports.formats.plain_text import LONGEST_NAME, cells_wide, folded, table_lines
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_summary import compact_table, summary_lines, verdict_lines
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label
from tests.support.command_line import QUICK, exit_code
from tests.support.page_runs import hostile_run, main_run
from tests.support.table_runs import three_rows


@pytest.mark.e2e
def test_averages_come_first_and_signals_and_both_bounds_are_rows(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(main_run(tmp_path_factory))
    table = compact_table(run)
    assert [(column.group, column.title) for column in table.columns[1:]] == [
        ("base", "AVG"),
        ("base", "SST-2"),
        ("base", "MRPC F1"),
        ("tiny", "MNLI"),
    ]
    names = [row.cells[0].text for row in table.rows]
    assert names[: len(run.entries)] == [entry.text for entry in run.entries]
    assert names[len(run.entries) : len(run.entries) + 2] == ["Fixed layer", "Final layer"]
    assert max(map(cells_wide, names[len(run.entries) :])) <= LONGEST_NAME  # only signals' names are ever folded
    assert names[-1] == "Smallest difference, one pair"
    shown = {row.cells[0].text: row.cells[2] for row in table.rows}
    sst2 = run.caches[0]
    for entry in run.entries:
        rows = [row for row in run.rows.values() if row.cache == sst2.name and row.measure == sst2.measure]
        (row,) = [
            row
            for row in rows
            if (row.signal, row.parameters) == (entry.signal, entry.parameters)
            and (row.protocol, row.operating_point.text, row.decisions) == ("cross-fit", "speed_up=2", "")
        ]
        assert shown[entry.text].numbers[0].key == row.key


@pytest.mark.e2e
@pytest.mark.parametrize("width", [60, 100])
def test_no_line_of_a_summary_is_wider_than_the_terminal(tmp_path_factory: pytest.TempPathFactory, width: int) -> None:
    for path in (main_run(tmp_path_factory), hostile_run(tmp_path_factory), three_rows(tmp_path_factory)):
        run = FinishedRun(path)
        lines = [*summary_lines(run, width), *verdict_lines(run, width)]
        assert lines and max(map(cells_wide, lines)) <= width


def test_columns_that_do_not_fit_follow_below_with_the_names_again() -> None:
    columns = (TableColumn("Signal"), *(TableColumn(f"task {n}", measure="score") for n in range(12)))
    rows = tuple(TableRow((label("x" * 50), *(Cell(f"{n}.5{mark}") for n in range(12)))) for mark in ("", "*"))
    table = Table(name="t", title="T", question="?", topic="main", columns=columns, rows=rows)
    lines = table_lines(table, 60)
    assert max(map(cells_wide, lines)) <= 60
    assert [number for number in range(12) if any(f"task {number}" in line for line in lines)] == list(range(12))
    assert sum(line.startswith("x" * LONGEST_NAME) for line in lines) > len(rows)
    assert lines.count("  " + "x" * (50 - LONGEST_NAME)) == sum(line.startswith("x" * LONGEST_NAME) for line in lines)


@settings(max_examples=200)
@given(st.text("ab1=|,[] 日", min_size=1, max_size=120))
def test_a_long_name_is_folded_and_nothing_of_it_is_lost(name: str) -> None:
    lines = folded(name, LONGEST_NAME)
    assert max(map(cells_wide, lines)) <= LONGEST_NAME
    assert "".join(lines).replace(" ", "") == name.replace(" ", "")


def test_a_name_that_is_one_sign_too_long_is_folded_too() -> None:
    assert folded("a" * 33, 32) == ["a" * 32, "  a"]
    assert folded("a" * 31 + "日", 32) == ["a" * 31, "  日"]
    assert folded("a" * 30 + ",bc", 32) == ["a" * 30 + ",", "  bc"]


def test_names_that_begin_alike_are_told_apart() -> None:
    names = [f"f-pabee[divergence=mean-entropy,patience={patience}]" for patience in (1, 2)]
    rows = tuple(TableRow((label(name), Cell("81.5"))) for name in names)
    columns = (TableColumn("Signal"), TableColumn("task", measure="score"))
    lines = table_lines(Table(name="t", title="T", question="?", topic="main", columns=columns, rows=rows), 60)
    assert lines[-4:] == [
        "f-pabee[divergence=mean-entropy,  81.5",
        "  patience=1]",
        "f-pabee[divergence=mean-entropy,  81.5",
        "  patience=2]",
    ]


def test_a_models_name_stands_once_over_its_columns_and_names_give_way_to_keep_them_side_by_side() -> None:
    groups = [("model-of-twelve", "AVG"), ("model-of-twelve", "RTE"), ("six", "AVG"), ("six", "SST-2")]
    columns = (TableColumn("Signal"), *(TableColumn(title, group=group, measure="score") for group, title in groups))
    rows = tuple(
        TableRow((label(name), Cell("78.9", best=True), Cell("63.9"), Cell("79.3"), Cell("83.2")))
        for name in ("cap[alpha=0.01|0.1|1|10,center=true]", "nsp")
    )
    table = Table(name="t", title="T", question="?", topic="main", columns=columns, rows=rows)
    assert table_lines(table, 54) == [
        "T",
        "                          model-of-twelve  six",
        "                            AVG       RTE   AVG  SST-2",
        "cap[alpha=0.01|0.1|1|10,  78.9*      63.9  79.3   83.2",
        "  center=true]",
        "nsp                       78.9*      63.9  79.3   83.2",
    ]
    lines = table_lines(table, 62)
    assert lines[3].startswith("cap[alpha=0.01|0.1|1|10,center=  78.9*"), "names as wide as there is room for"
    # With no room for the shortest names columns follow below, each with its model.
    assert sum("six" in line for line in table_lines(table, 40)) == 2


def test_an_interval_is_shown_where_there_is_room(tmp_path_factory: pytest.TempPathFactory) -> None:
    table = compact_table(FinishedRun(three_rows(tmp_path_factory)))
    interval = next(cell.interval for row in table.rows for cell in row.cells if cell.interval)
    assert interval in "\n".join(table_lines(table, 200))
    assert interval not in "\n".join(table_lines(table, 30))


@pytest.mark.e2e
def test_the_verdict_is_the_last_thing_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=60, layers=4, width=4)
    options = [option if option != "deebert" else "deebert,nsp" for option in QUICK]
    assert exit_code("run", cache, *options, "--out", tmp_path / "out", "--verbose") == 0
    lines = capsys.readouterr().out.splitlines()
    start = max(number for number, line in enumerate(lines) if line.startswith("Verdict: "))
    assert all(line.startswith("  ") for line in lines[start + 1 :])
    assert f"results in {tmp_path / 'out'}, report in {tmp_path / 'out' / 'report.html'}" in lines[:start]
    assert any("prem." in line for line in lines[:start]), "a table of the task"
    assert (tmp_path / "out" / "report.html").exists()
    assert {entry.text for entry in FinishedRun(tmp_path / "out").entries} == {"deebert", "nsp"}
    views = ["report.html", "tables"]
    assert exit_code("run", cache, *QUICK, "--out", tmp_path / "bare", "--no-report") == 0
    assert not any((tmp_path / "bare" / view).exists() for view in views)
    lines = capsys.readouterr().out.splitlines()
    assert f"results in {tmp_path / 'bare'}" in lines
    assert not any("report" in line for line in itertools.takewhile(lambda line: "Verdict" not in line, lines))
