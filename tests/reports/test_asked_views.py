"""Tables and figures by name: found by how they begin, written where they are wanted, listed in the inventory."""

import io
import json
import math
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.errors import InputError
from exitbench.executors.local_pool import Workers
from exitbench.output_folder import INVENTORY
from exitbench.reports.asked_views import table_file, view_named, write_figures
from exitbench.reports.figures.catalogue import figures_of
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.per_task import task_tables
from exitbench.reports.write_views import write_views
from tests.support.command_line import exit_code
from tests.support.page_runs import main_run
from tests.support.table_runs import small_run


@pytest.fixture
def run_dir(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Path:
    return Path(shutil.copytree(small_run(tmp_path_factory), tmp_path / "run"))


def listed(folder: Path) -> list[str]:
    names: list[str] = json.loads((folder / INVENTORY).read_text())["files"]["asked"]
    return names


def test_without_a_name_every_table_and_figure_is_listed(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("table", run_dir) == exit_code("figure", run_dir) == 0
    lines = capsys.readouterr().out.splitlines()
    run = FinishedRun(run_dir)
    names = [line.split()[0] for line in lines]
    assert names == [
        "name",
        *(table.name for table in (*tables_of(run), *task_tables(run))),
        "name",
        *(figure.name for figure in figures_of(run)),
    ]


@pytest.mark.long
def test_a_beginning_means_the_view_under_the_leading_protocol(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = FinishedRun(main_run(tmp_path_factory))
    tables = tables_of(run)
    assert view_named(run, tables, "main-base", "table").name == "main-base-cross-fit"
    assert view_named(run, tables, "main-base-in-sample", "table").protocol == "in-sample"
    with pytest.raises(InputError, match=r"'main' is the beginning of 4 tables: main-base-in-sample, main-tiny"):
        view_named(run, tables, "main", "table")
    with pytest.raises(InputError, match=r"'mian-base-cross-fit' is no table .* mean main-base-cross-fit"):
        view_named(run, tables, "mian-base-cross-fit", "table")


def test_a_table_goes_into_the_folder_of_the_run_or_to_a_file(run_dir: Path, tmp_path: Path) -> None:
    assert exit_code("table", run_dir, "dis", "--format", "latex", "--format", "csv") == 0
    assert sorted(listed(run_dir)) == ["tables/dis.csv", "tables/dis.tex"]
    table = next(table for table in tables_of(FinishedRun(run_dir)) if table.name == "dis")
    assert (run_dir / "tables" / "dis.csv").read_bytes() == table_file(table, "csv")
    mine = tmp_path / "mine.tex"
    assert exit_code("table", run_dir, "dis", "--format", "latex", "--out", mine) == 0
    assert mine.read_bytes() == (run_dir / "tables" / "dis.tex").read_bytes()
    assert not (run_dir / ".views").exists()


def test_a_table_without_a_format_is_printed(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name for path in run_dir.iterdir()}
    assert exit_code("table", run_dir, "dis") == 0
    printed = capsys.readouterr().out
    assert "DeeBERT" in printed and "DIS" in printed
    assert {path.name for path in run_dir.iterdir()} == before


def test_every_table_comes_in_every_format(run_dir: Path) -> None:
    assert exit_code("table", run_dir, "--all") == 0
    run = FinishedRun(run_dir)
    tables = [*tables_of(run), *task_tables(run)]
    names = {f"{table.name}.{ending}" for table in tables for ending in ("csv", "md", "tex", "parquet")}
    assert {path.name for path in (run_dir / "tables").iterdir()} == names


@pytest.mark.process
def test_every_figure_comes_in_every_format_from_two_processes(run_dir: Path) -> None:
    run = FinishedRun(run_dir)
    figures = [figure for figure in figures_of(run) if figure.spec.kind in ("trade-off", "rates")]
    paths = write_figures(run, figures, ["svg", "png"], "column", Workers())
    contents = {path.name: path.read_bytes() for path in paths}
    assert exit_code("figure", run_dir, "--all", "--width", "column", "--jobs", 2) == 0
    made = {path.name: path.read_bytes() for path in (run_dir / "figures").iterdir()}
    assert made.keys() == {f"{figure.name}.{kind}" for figure in figures_of(run) for kind in ("pdf", "svg", "png")}
    assert made.items() >= contents.items()
    assert not (run_dir / ".views").exists()


def test_a_parquet_table_holds_the_numbers_of_the_table(run_dir: Path) -> None:
    for table in tables_of(FinishedRun(run_dir)):
        read = pq.read_table(io.BytesIO(table_file(table, "parquet")))
        assert read.schema.metadata[b"title"].decode() == table.title
        assert read.num_rows == len(table.rows)
        numbers = [value for column in read.itercolumns() for value in column.to_pylist() if isinstance(value, float)]
        shown = [
            value
            for row in table.rows
            for cell in row.cells
            for value in (cell.low, cell.high, *(number.value for number in cell.numbers))
            if value is not None and not math.isnan(value)
        ]
        assert sorted(numbers) == sorted(shown), table.name


def test_a_file_of_the_user_is_not_replaced(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run_dir / "tables").mkdir()
    (run_dir / "tables" / "dis.tex").write_text("mine")
    assert exit_code("table", run_dir, "dis", "--format", "latex") == 2
    assert "expected no such file, or one that exitbench wrote" in capsys.readouterr().err
    assert (run_dir / "tables" / "dis.tex").read_text() == "mine"


@pytest.mark.e2e
def test_what_was_asked_for_stays_with_a_report_and_goes_with_a_new_run(tmp_path: Path) -> None:
    suite = suite_of_caches([synthetic_cache(tmp_path / "cache", rows=40, layers=3, width=4)])
    suite = suite.with_signals(("deebert",)).asking(protocols=("in-sample",), resamples=2)
    run_suite(suite, tmp_path / "run")
    run = FinishedRun(tmp_path / "run")
    assert exit_code("table", tmp_path / "run", "dis", "--format", "parquet") == 0
    write_views(run)
    assert (tmp_path / "run" / "tables" / "dis.parquet").exists()
    run_suite(suite, tmp_path / "run", force=True)
    assert not (tmp_path / "run" / "tables").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["table", "RUN", "nothing-like-it"], "is no table of"),
        (["figure", "RUN", "trade-of"], "is no figure of"),
        (["table", "RUN", "dis", "--all"], "expected no name beside it"),
        (["figure", "RUN", "dis", "--all"], "expected no name beside it"),
        (["table", "RUN", "dis", "--out", "x.tex"], "expected a name and one --format"),
        (["figure", "RUN", "--out", "x.pdf"], "expected a name and at most one --format"),
        (["table", "RUN", "dis", "--format", "latex", "--out", "nowhere/x.tex"], "the folder nowhere does not exist"),
        (["figure", "RUN", "dis", "--width", "page"], "column"),
    ],
    ids=lambda words: " ".join(words[:4]) if isinstance(words, list) else None,
)
def test_a_wrong_wish_is_refused_in_a_line(
    words: list[str], line: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    run_dir = small_run(tmp_path_factory)
    before = sorted(path.name for path in run_dir.iterdir())
    assert exit_code(*(run_dir if word == "RUN" else word for word in words)) == 2
    assert line in capsys.readouterr().err
    assert sorted(path.name for path in run_dir.iterdir()) == before
