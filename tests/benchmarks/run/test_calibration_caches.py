"""Calibration caches by convention: held-out by default where there is one, and marks for rows the network has seen."""

from pathlib import Path

import pytest

from exitbench.benchmarks.results.vocabulary import TRAINING_ROWS
from exitbench.benchmarks.suites.suite_file import calibration_caches, load_suite, suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.verdict.alerts import alerts_of
from exitbench.reports.verdict.learning import learning_lines
from tests.support.command_line import exit_code

SIZE = {"rows": 90, "layers": 4, "width": 6, "compact": True, "model": "m"}


@pytest.fixture
def caches(tmp_path: Path) -> tuple[Path, Path]:
    """Two development caches, one of which has a calibration cache of rows that its network was trained on."""
    first = synthetic_cache(tmp_path / "m-a-dev", task="a", **SIZE)
    synthetic_cache(tmp_path / "m-a-calibration", task="a", split="train", seed=5, role="train", **SIZE)
    return first, synthetic_cache(tmp_path / "m-b-dev", task="b", seed=1, **SIZE)


def test_a_calibration_cache_is_found_by_its_name(caches: tuple[Path, Path], tmp_path: Path) -> None:
    assert calibration_caches(caches) == {caches[0]: tmp_path / "m-a-calibration"}
    (tmp_path / "m-b-calibration").mkdir()
    assert calibration_caches(caches) == {caches[0]: tmp_path / "m-a-calibration"}, "a folder that is no cache"
    assert calibration_caches([tmp_path / "m-a-calibration"]) == {}


def test_held_out_is_the_default_where_there_is_one_and_cross_fit_elsewhere(caches: tuple[Path, Path]) -> None:
    suite = suite_of_caches(caches)
    assert suite.questions_of(caches[0]).protocols == ("in-sample", "held-out")
    assert suite.questions_of(caches[1]).protocols == ("in-sample", "cross-fit")
    assert suite.to_json()["protocols"] == ["in-sample", "held-out", "cross-fit"]
    asked = suite.asking(protocols=("cross-fit",))
    assert asked.questions_of(caches[0]).protocols == ("cross-fit",)


@pytest.mark.long
def test_a_run_measures_all_signals_of_a_cache_under_its_protocol_and_marks_what_was_fitted_on_training_rows(
    caches: tuple[Path, Path], tmp_path: Path
) -> None:
    words = ["--signals", "deebert", "--signals", "right-tool[temperature=fitted]", "--resamples", "10", "--jobs", "1"]
    assert exit_code("run", *caches, *words, "--speed-ups", "2", "--out", tmp_path / "out") == 0
    run = FinishedRun(tmp_path / "out")
    signals = {entry.signal for entry in run.entries}
    protocols = {
        (row.cache, row.signal, row.protocol)
        for row in run.rows.values()
        if row.measure == "dis" and row.signal in signals and row.cache
    }
    assert protocols == {
        (cache, signal, protocol)
        for cache, own in (("m-a-dev", "held-out"), ("m-b-dev", "cross-fit"))
        for signal in ("deebert", "right-tool")
        for protocol in ("in-sample", own)
    }
    marked = {
        (row.cache, row.signal, row.protocol) for row in run.rows.values() if TRAINING_ROWS in row.reason and row.cache
    }
    assert marked == {("m-a-dev", "right-tool", "held-out")}
    page = (tmp_path / "out/report.html").read_text()
    assert "fitted on rows that the network was trained on" in page
    note = "Fitted on rows that the network was trained on: Right-Tool."
    noted = {(table.protocol, note in table.notes) for table in tables_of(run) if table.topic in ("main", "learning")}
    assert noted == {("held-out", True), ("cross-fit", False), ("in-sample", False)}
    (line,) = (line for line in learning_lines(run) if "trained on" in line)
    assert "parameters fitted on 90 rows that the network was trained on" in line
    assert [run.leading_protocol([cache]) for cache in run.caches] == ["held-out", "cross-fit"]
    assert {(row.protocol, row.task) for row in run.rows.values() if not row.cache} == {("in-sample", "average")}
    shown = {(table.protocol, column.title) for table in tables_of(run) for column in table.columns}
    assert ("held-out", "a") in shown
    assert ("cross-fit", "b") in shown
    assert not {("held-out", "b"), ("cross-fit", "a")} & shown, "no table has a column of another protocol's cache"
    assert not [alert for alert in alerts_of(run) if alert.kind == "missing"]
    assert "All this is held-out; b is cross-fit." in page


def test_a_suite_finds_the_calibration_caches_that_it_does_not_name(caches: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        """
name = "mine"
caches = ["m-a-dev"]
signals = ["deebert"]
layers = [2]
speed_ups = [2.0]
primary_speed_up = 2.0
protocols = ["held-out"]
resamples = 10
seed = 0
"""
    )
    suite = load_suite(tmp_path / "mine.toml")
    assert suite.held_out == {tmp_path / "m-a-dev": tmp_path / "m-a-calibration"}
