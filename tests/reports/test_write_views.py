"""All views of a run in one call: complete, repeatable, and nothing left over from before."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.cli.app import main
from exitbench.errors import InputError
from exitbench.output_folder import INVENTORY
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.write_views import write_views
from tests.support.page_reader import read_page
from tests.support.table_runs import contested_run, small_run, three_rows

pytestmark = pytest.mark.long


def exit_code(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def viewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("views") / "run"
    shutil.copytree(small_run(tmp_path_factory), folder)
    write_views(FinishedRun(folder))
    return folder


def test_a_run_gets_a_page_and_the_main_tables_with_an_index_and_no_figure(viewed: Path) -> None:
    names = {f"{table}.{ending}" for table in ("main", "loss", "dis") for ending in ("csv", "md", "tex")}
    assert {path.name for path in (viewed / "tables").iterdir()} == {*names, "index.md"}
    index = (viewed / "tables" / "index.md").read_text()
    for table in tables_of(FinishedRun(viewed)):
        assert (f"({table.name}.md)" in index) != (f"`{table.name}`" in index), table.name
    assert not (viewed / "figures").exists()
    assert (viewed / "report.html").stat().st_size > 10_000


@pytest.mark.process
def test_nothing_that_draws_is_loaded_for_the_views_of_a_run(viewed: Path, tmp_path: Path) -> None:
    shutil.copytree(viewed, tmp_path / "run")
    script = (
        "import sys; from pathlib import Path\n"
        "from exitbench.reports.write_views import write_views\n"
        "from exitbench.reports.run_data.finished_run import FinishedRun\n"
        f"write_views(FinishedRun(Path({str(tmp_path / 'run')!r})))\n"
        "print(sorted({'matplotlib', 'seaborn', 'PIL'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "[]\n"


def test_views_leave_the_result_files_alone(viewed: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    original = small_run(tmp_path_factory)
    for name in ("run.json", *(f"{table}.parquet" for table in SCHEMAS)):
        assert (viewed / name).read_bytes() == (original / name).read_bytes()
    assert {path.name for path in viewed.iterdir() if path.name.startswith(".")} == {INVENTORY}


def test_the_same_views_are_made_again_and_old_files_go(viewed: Path, tmp_path: Path) -> None:
    again = tmp_path / "run"
    shutil.copytree(viewed, again)
    inventory = json.loads((again / INVENTORY).read_text())
    inventory["files"]["views"] += ["tables/stale.csv", "figures/stale.svg"]
    (again / INVENTORY).write_text(json.dumps(inventory))
    (again / "tables" / "stale.csv").write_text("old")
    (again / "figures").mkdir()
    (again / "figures" / "stale.svg").write_text("old")
    write_views(FinishedRun(again))
    assert contents(again) == contents(viewed)


def test_a_run_in_which_everything_failed_still_has_a_page(viewed: Path, tmp_path: Path) -> None:
    empty = tmp_path / "run"
    empty.mkdir()
    record = json.loads((viewed / "run.json").read_text())
    record |= {"complete": False, "failures": [{"label": "cache: scores", "reason": "it broke"}]}
    (empty / "run.json").write_text(json.dumps(record))
    import pyarrow.parquet as pq

    for name in SCHEMAS:
        pq.write_table(pq.read_table(viewed / f"{name}.parquet").slice(0, 0), empty / f"{name}.parquet")
    write_views(FinishedRun(empty))
    assert "it broke" in (empty / "report.html").read_text(encoding="utf-8")


def test_a_damaged_cost_file_is_refused_before_anything_is_taken_away(viewed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(viewed, folder)
    (folder / "cost.json").write_text("{")
    before = contents(folder)
    with pytest.raises(InputError, match=r"cost\.json"):
        write_views(FinishedRun(folder))
    assert contents(folder) == before


@pytest.mark.parametrize("name", ["pairs", "curves", "histograms", "risk_coverage"])
def test_a_damaged_result_file_is_refused_before_anything_is_made(
    viewed: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(viewed, folder)
    file = folder / f"{name}.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    before = contents(folder)
    monkeypatch.setattr("exitbench.reports.write_views.content_of", None)
    with pytest.raises(InputError, match=rf"{name}\.parquet: expected a parquet file"):
        write_views(FinishedRun(folder))
    assert contents(folder) == before


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        write_views(FinishedRun(tmp_path))


@pytest.mark.e2e
def test_the_verb_puts_several_runs_on_one_page(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny, other = tmp_path / "a tiny run", tmp_path / "another run"
    shutil.copytree(three_rows(tmp_path_factory), tiny)
    shutil.copytree(contested_run(tmp_path_factory), other)
    assert exit_code("report", str(tiny), str(other), "--out", str(tmp_path / "both")) == 0
    assert (tiny / "tables").is_dir()
    assert (other / "tables").is_dir()
    headings = {heading.text for heading in read_page(tmp_path / "both" / "report.html").all("h2")}
    assert {"a tiny run", "another run"} <= headings
    assert "both" in capsys.readouterr().out


def test_the_same_run_twice_is_refused(viewed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("report", str(viewed), str(viewed)) == 2
    assert "same folder twice" in capsys.readouterr().err
