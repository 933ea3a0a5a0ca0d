"""Runs over many caches: a terminal that stays one screen, a page that grows with the caches and has an end."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import Any

import pytest

from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.across_caches.average_errors import AveragedCache
from exitbench.benchmarks.run.across_caches.averages import averages
from exitbench.executors.local_pool import Workers
from exitbench.reports.figures.catalogue import figures_of
from exitbench.reports.page.chart_data import Charts
from exitbench.reports.page.explorer import Explorer
from exitbench.reports.page.page import write_page
from exitbench.reports.page.page_room import PAGE_BYTES, PageRoom
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_summary import SCREEN_LINES, compact_table, summary_lines, verdict_lines
from exitbench.reports.write_views import write_views
from tests.support.command_line import exit_code
from tests.support.many_caches import TWENTY, many_run, run_many
from tests.support.page_reader import data_of, read_page

LONG_SCREEN = 60
"""Lines of table, notes and verdict together."""


@pytest.fixture(scope="module")
def forty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """2 models x 4 tasks x 5 seeds."""
    return many_run(tmp_path_factory, 2, 4)


@pytest.fixture(scope="module")
def ten(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 model x 2 tasks x 5 seeds."""
    return many_run(tmp_path_factory, 1, 2)


def terminal(path: Path) -> list[str]:
    run = FinishedRun(path)
    return [*summary_lines(run), *verdict_lines(run)]


def pages(path: Path, out: Path) -> tuple[int, Any]:
    """The size of a run's page, and what its scripts read of the tables."""
    write_page([path], out)
    (run,) = data_of(read_page(out), "tables")["runs"]
    return out.stat().st_size, run


@pytest.mark.long
def test_the_terminal_shows_averages_and_says_where_the_rest_is(forty: Path) -> None:
    lines = terminal(forty)
    assert len(lines) <= LONG_SCREEN
    run = FinishedRun(forty)
    assert any(line.split() == ["m0", "m1"] for line in lines)
    (rest,) = [line for line in lines if "more columns" in line]
    assert int(rest.split()[0]) == len(compact_table(run).columns) - 1 - 2
    assert not any("s0-dev" in line for line in lines[: len(run.entries) + 3])


@pytest.mark.long
def test_a_run_whose_tasks_fit_a_screen_shows_all_of_them(ten: Path) -> None:
    lines = terminal(ten)
    assert len(lines) <= LONG_SCREEN and not any("more columns" in line for line in lines)
    assert all(any(cache.name in line for line in lines) for cache in FinishedRun(ten).caches)


@pytest.mark.long
def test_columns_beyond_a_screen_are_left_out_even_where_nothing_is_averaged(forty: Path) -> None:
    lines = summary_lines(FinishedRun(forty), 50)
    assert len(lines) <= SCREEN_LINES


@pytest.mark.long
def test_a_page_grows_no_faster_than_its_caches(ten: Path, forty: Path, tmp_path: Path) -> None:
    small, large = (pages(path, tmp_path / "page.html")[0] for path in (ten, forty))
    assert large < PAGE_BYTES
    assert large / 40 <= small / 10


@pytest.mark.long
def test_a_full_page_keeps_its_limit_and_names_what_it_left_out(
    forty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, everything = pages(forty, tmp_path / "whole.html")
    assert all("rows" in table for table in everything["tables"])
    assert all("table" in task for task in everything["tasks"])
    data_bytes = len("".join(re.findall(r'id="data-\w+">([^<]*)<', (tmp_path / "whole.html").read_text("utf-8"))))
    limit = whole - data_bytes * 2 // 3
    monkeypatch.setattr("exitbench.reports.page.page.PAGE_BYTES", limit)
    size, data = pages(forty, tmp_path / "page.html")
    assert limit / 2 < size <= limit
    explorer = data_of(read_page(tmp_path / "page.html"), "explorer")[0]["tasks"]
    charts = data_of(read_page(tmp_path / "page.html"), "charts")[0]
    assert [len(part) for part in (data["tasks"], data["tables"], explorer)] == [
        40,
        len(everything["tables"]),
        40,
    ], "what is left out still has its name"
    left_out = [task["named"] for task in data["tasks"] if "table" not in task]
    left_out += [table["name"] for table in data["tables"] if "rows" not in table]
    figures = {figure.name for figure in figures_of(FinishedRun(forty))}
    without = [task for task in explorer if "curves" not in task]
    assert without and len(without) < 40 and {task["figure"] for task in without} <= figures
    assert len(charts) < 40
    assert {task[kind] for task in data["tasks"] for kind in ("risk", "scores")} <= figures
    for name in [*left_out, "task-m1-t3-s4-dev"]:
        assert exit_code("table", forty, name) == 0, name
    assert "m1-t3-s4-dev" in capsys.readouterr().out


@pytest.mark.long
def test_a_page_without_room_reads_the_curves_of_a_few_caches(forty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exitbench.benchmarks.results.rows_by_cache.AHEAD", 2)
    monkeypatch.setattr("exitbench.reports.page.explorer.JUDGED_TASKS", 4)
    run = FinishedRun(forty)
    explorer, charts = Explorer(run), Charts(run)
    assert not any("curves" in task for task in explorer.data(10**6, PageRoom(0))["tasks"])
    assert charts.data(PageRoom(0)) == {}
    for file, name in (
        (explorer._curves, "curves"),
        (explorer._histograms, "histograms"),
        (charts._histograms, "histograms"),
        (charts._risks, "risk_coverage"),
    ):
        assert 0 < file.rows_read < run.files.count(name) / 3, name
    assert len(explorer.tasks) == 40


@pytest.mark.long
def test_a_figure_of_a_cache_reads_that_cache_and_the_next(forty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exitbench.benchmarks.results.rows_by_cache.AHEAD", 2)
    run = FinishedRun(forty)
    frame = run.frame_of("curves", run.caches[7])
    assert set(frame["cache"]) == {run.caches[7].name} and run.frame_of("curves", run.caches[7]) is frame
    assert len(frame) <= run._by_cache["curves"].rows_read < run.files.count("curves") / 10


@pytest.mark.long
def test_a_full_page_has_a_table_of_every_model_and_task_before_a_second_seed(
    forty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exitbench.reports.page.run_view.TASKS_SHARE", 0.0005)
    _, data = pages(forty, tmp_path / "page.html")
    kept = [task["cache"] for task in data["tasks"] if "table" in task]
    assert 8 <= len(kept) < 40
    assert {name[:5] for name in kept} == {f"m{model}-t{task}" for model in range(2) for task in range(4)}


@pytest.mark.long
def test_tasks_are_grouped_by_model_task_and_seed(forty: Path, tmp_path: Path) -> None:
    _, data = pages(forty, tmp_path / "page.html")
    groups = {task["cache"]: task["group"] for task in data["tasks"]}
    assert groups["m1-t2-s3-dev"] == ["m1", "t2", "seed 3"]
    assert len({tuple(group) for group in groups.values()}) == 40


class CountedPair(dict[str, Any]):
    """A row of pairs that counts how often it is read."""

    reads = 0

    def __getitem__(self, name: str) -> Any:
        CountedPair.reads += 1
        return super().__getitem__(name)


def averaged(models: int) -> tuple[list[Row], list[AveragedCache], list[dict[str, Any]]]:
    """Rows and pairs of two signals on three tasks of so many models."""
    rows, pairs, caches = [], [], []
    for model in range(models):
        for task in range(3):
            name = f"m{model}-t{task}"
            caches.append(AveragedCache(name, f"m{model}", f"t{task}", "dev", "accuracy"))
            shared = {"cache": name, "model": f"m{model}", "task": f"t{task}", "split": "dev", "protocol": "in-sample"}
            at = {"operating_point": "speed_up=2", "layer": None, "decisions": "", "measure": "accuracy"}
            for signal, value in (("a", 80.0 + model), ("b", 70.0 + task)):
                point = {**at, "operating_point": operating_point("speed_up=2")}
                row = Row(**shared, signal=signal, parameters="", **point)
                rows.append(row._replace(value=value, std_err=1.0, n=100, status="ok"))
            names = {"signal_a": "a", "parameters_a": "", "signal_b": "b", "parameters_b": ""}
            pairs.append({**shared, **at, **names, "std_err": 1.0, "difference": 1.0, "n": 100, "status": "ok"})
    return rows, caches, pairs


def test_averaging_reads_every_pair_equally_often_however_many_caches_there_are() -> None:
    reads = {}
    for models in (2, 8, 32):
        rows, caches, pairs = averaged(models)
        CountedPair.reads = 0
        means, tests = averages(rows, [CountedPair(pair) for pair in pairs], caches, [("a", ""), ("b", "")])
        assert len(means) >= 2 * (models + 3) and len(tests) == models + 3
        reads[models] = CountedPair.reads / len(pairs)
    assert reads[2] == reads[8] == reads[32]


def test_averages_of_many_groups_are_those_of_each_group_alone() -> None:
    rows, caches, pairs = averaged(4)
    means, _ = averages(rows, pairs, caches, [("a", ""), ("b", "")])
    for model in range(4):
        values = [
            mean.value
            for mean in means
            if (mean.model, mean.task, mean.signal) == (f"m{model}", "average", "a") and not math.isnan(mean.value)
        ]
        assert values == [80.0 + model]


@pytest.mark.slow
def test_numbers_and_views_take_no_longer_for_a_cache_where_there_are_four_times_as_many(tmp_path: Path) -> None:
    seconds: dict[str, list[float]] = {"numbers": [], "views": []}
    for models, tasks in ((1, 3), (3, 4)):  # 15 and 60 caches
        start = time.process_time()
        path = run_many(tmp_path / f"{models}-{tasks}", models, tasks, TWENTY)
        middle = time.process_time()
        write_views(FinishedRun(path))
        seconds["numbers"].append(middle - start)
        seconds["views"].append(time.process_time() - middle)
    ratios = {what: more / fewer for what, (fewer, more) in seconds.items()}
    assert max(ratios.values()) <= 5, (ratios, seconds)


@pytest.mark.slow
def test_500_caches_x_20_signals_end_in_one_screen_and_5_mb(tmp_path: Path) -> None:
    with Workers(2) as workers:
        path = run_many(tmp_path, 10, 10, TWENTY, workers)
    lines = terminal(path)
    assert len(lines) <= LONG_SCREEN
    run = FinishedRun(path)
    assert len(run.caches) == 500 and len(run.entries) == 20
    write_views(run)
    page = path / "report.html"
    assert page.stat().st_size <= PAGE_BYTES
    (data,) = data_of(read_page(page), "tables")["runs"]
    assert len(data["tasks"]) == 500
    assert sum("table" in task for task in data["tasks"]) >= 100, "one network of each model and task at least"
    assert {table["topic"] for table in data["tables"] if "rows" in table} == {
        table["topic"] for table in data["tables"]
    }, "every question has a table"
    assert re.search(r"10 models|and 6 more models", page.read_text(encoding="utf-8"))
