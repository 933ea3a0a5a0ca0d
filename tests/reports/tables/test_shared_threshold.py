"""The table of what sharing one threshold costs shows what the files hold, and exists only where it was asked for."""

import json

import pandas as pd
import pytest

from exitbench.reports.formats.all_formats import formatted
from exitbench.reports.page.page import write_page
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.shared_threshold import gain_cell, shared_threshold_tables
from tests.support.page_reader import data_of, read_page
from tests.support.table_runs import per_layer_run, small_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(per_layer_run(tmp_path_factory))


def table_of(run: FinishedRun, protocol: str):
    (table,) = [table for table in shared_threshold_tables(run) if table.protocol == protocol]
    return table


def test_every_entry_with_continuous_thresholds_has_three_rows(run):
    names = [row.cells[0].text for row in table_of(run, "cross-fit").rows]
    assert names.pop() == "Fixed layer"
    assert names == [
        f"{signal}, {kind}"
        for signal in ("DeeBERT", "CAP")
        for kind in ("one threshold", "exit quotas", "greedy search")
    ]


def test_scores_and_differences_are_those_of_the_files(run):
    results, pairs = pd.read_parquet(run.path / "results.parquet"), pd.read_parquet(run.path / "pairs.parquet")
    table = table_of(run, "cross-fit")
    shown = 0
    for row, kind in zip(table.rows[:3], ("shared", "quota", "greedy"), strict=True):
        for column, cache in ((1, "sst2"), (3, "mrpc"), (5, "")):
            name = f"normalize=false,thresholds={kind}"
            stored = results[
                (results.cache == cache)
                & (results.protocol == "cross-fit")
                & (results.parameters == name)
                & (results.operating_point == "speed_up=1.5")
            ]
            score, gain = row.cells[column], row.cells[column + 1]
            if score.numbers:
                assert score.value in set(stored.value)
            tested = pairs[(pairs.cache == cache) & (pairs.protocol == "cross-fit") & (pairs.parameters_a == name)]
            assert len(tested) == bool(gain.numbers)
            if gain.numbers:
                shown += 1
                assert gain.value == tested.difference.item()
                assert gain.numbers[1].value == tested.p_adjusted.item()
    assert shown


def test_in_sample_differences_have_no_p_value_and_no_mark(run):
    table = table_of(run, "in-sample")
    gains = [cell for row in table.rows for cell in row.cells[2::2] if cell.numbers]
    assert gains
    assert not any(cell.best or cell.tied or "p" in cell.text for cell in gains)
    assert any("flatters" in note for note in table.notes)


def test_a_difference_that_was_not_tested_says_why(run):
    assert "miss the speed-up" in gain_cell({}, ("cap", "thresholds=quota"), ("cap", "thresholds=shared")).reason
    assert gain_cell({}, ("cap", "a"), ("cap", "a")).text == "·"


def test_the_tables_of_signals_know_the_shared_threshold_only(run):
    for table in tables_of(run):
        if table.topic != "thresholds":
            assert not any("thresholds=" in cell.text for row in table.rows for cell in row.cells)
            assert not any("thresholds=" in str(number.key) for number in table.numbers())


@pytest.mark.long
def test_the_table_is_on_the_page_and_in_every_format(run, tmp_path):
    table = table_of(run, "cross-fit")
    texts = formatted(table).texts
    assert all("greedy search" in text for text in texts.values())
    write_page([run.path], tmp_path / "page.html")
    page = read_page(tmp_path / "page.html")
    assert "What does sharing one threshold cost?" in page.all("main")[0].text
    titles = [table["title"] for table in data_of(page, "tables")["runs"][0]["tables"]]
    assert any(title.startswith("What sharing one threshold costs near 1.5×") for title in titles)


def test_a_signal_with_integer_thresholds_is_left_out_with_its_reason(run):
    (note,) = json.loads((run.path / "run.json").read_text())["notes"]
    assert note.startswith("pabee: no per-layer thresholds, a signal with integer thresholds has too few")


def test_a_run_that_did_not_ask_has_no_such_table(tmp_path_factory):
    assert shared_threshold_tables(FinishedRun(small_run(tmp_path_factory))) == []
