"""What learning gained: sizes of fits and gains over the largest probability are those of the result files."""

import pandas as pd
import pytest

from exitbench.reports.formats.all_formats import formatted
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.learning import NO_REFERENCE, learned_gain_cell, learning_tables, reference_entry
from exitbench.reports.verdict.learning import learning_lines
from tests.support.table_runs import learned_run, small_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(learned_run(tmp_path_factory))


@pytest.fixture(scope="module")
def pairs(run: FinishedRun) -> pd.DataFrame:
    frame = pd.read_parquet(run.path / "pairs.parquet")
    plain = {"signal_a": "right-tool", "parameters_a": "temperature=none", "signal_b": "meta"}
    chosen = (frame[list(plain)] == pd.Series(plain)).all(axis=1)
    return frame[chosen].set_index(["cache", "operating_point", "layer", "measure"])


def test_a_row_for_each_task_and_an_average_of_every_signal_that_was_fitted(run: FinishedRun) -> None:
    (table,) = learning_tables(run)
    entries = [("meta", "Meta (CATs)"), ("right-tool", "Right-Tool [temperature=fitted]")]
    expected = [(signal, title, task) for signal, title in entries for task in ("SST-2", "MRPC", "AVG")]
    rows = [row for row in table.rows if row.kind != "foot"]
    assert [(row.signal, row.cells[0].text, row.cells[1].text) for row in rows] == expected
    assert table in tables_of(run)


def test_sizes_are_those_of_the_folds_and_gains_those_of_the_pairs(run: FinishedRun, pairs: pd.DataFrame) -> None:
    (table,) = learning_tables(run)
    seen = 0
    for row, cache in zip(table.rows[:3], ("sst2", "mrpc", ""), strict=True):
        _, _, parameters, rows, *gains = row.cells
        if cache:
            assert rows.value == 300 * 4 / 5  # means over the folds, which together leave out each row once
            assert parameters.value is not None
            assert parameters.value > 3
        questions = [("speed_up=1.5", None, "accuracy"), ("", None, "area"), ("", 1, "dis"), ("", 2, "dis")]
        for cell, (point, layer, measure) in zip(gains, questions, strict=True):
            stored = pairs[
                (pairs.index.get_level_values("cache") == cache)
                & (pairs.index.get_level_values("operating_point") == point)
                & (pairs.index.get_level_values("measure") == measure)
            ]
            if layer is not None:
                stored = stored[stored.index.get_level_values("layer") == layer]
            assert bool(cell.numbers) == bool(len(stored))
            if cell.numbers:
                (expected,) = stored.to_dict("records")
                assert cell.value == pytest.approx(-expected["difference"])
                assert (cell.low, cell.high) == pytest.approx((-expected["high"], -expected["low"]))
                assert cell.numbers[1].value == expected["p_adjusted"]
                seen += 1
    assert seen >= 6


def test_the_foot_has_the_smallest_gain_that_could_be_shown_on_each_task(run: FinishedRun) -> None:
    (table,) = learning_tables(run)
    frame = pd.read_parquet(run.path / "results.parquet")
    smallest = frame[(frame["signal"] == "detectable") & (frame["parameters"] == "adjusted")]
    feet = [row for row in table.rows if row.kind == "foot"]
    assert [row.cells[1].text for row in feet] == ["SST-2", "MRPC"]
    for row, cache in zip(feet, ("sst2", "mrpc"), strict=True):
        own = smallest[smallest["cache"] == cache].set_index(["operating_point", "measure"])
        _, _, _, _, score, area, *dis = row.cells
        assert score.value == own.loc[("speed_up=1.5", "accuracy"), "value"].item()
        assert area.value == own.loc[("", "area"), "value"].item()
        layers = own.loc[("", "dis")].set_index("layer")["value"]
        assert [cell.value for cell in dis] == [layers[1], layers[2]]
    assert any("smallest" in note.lower() for note in table.notes)


def test_the_table_is_there_in_every_format_with_its_intervals(run: FinishedRun) -> None:
    (table,) = learning_tables(run)
    for name, text in formatted(table).texts.items():
        assert "240" in text, name
        assert all(word in text.replace("\\", "") for word in ("parameters", "SST-2")), name


def test_the_terminal_says_parameters_rows_and_gain_in_one_line(run: FinishedRun) -> None:
    lines = learning_lines(run)
    assert [line.partition(" (")[0] for line in lines] == ["meta", "right-tool[temperature=fitted]"]
    for line in lines:
        assert "fitted on 240 rows; against Right-Tool" in line
        assert "of 2 tasks" in line or "not tested" in line


def test_gains_are_counted_from_the_plain_form(run: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> None:
    entry = reference_entry(run)
    assert entry is not None
    assert entry.text == "right-tool"
    without = FinishedRun(small_run(tmp_path_factory))
    assert reference_entry(without) is None
    assert learning_tables(without) == []
    assert learning_lines(without) == []
    assert learned_gain_cell({}, ("meta", ""), None).reason == NO_REFERENCE
