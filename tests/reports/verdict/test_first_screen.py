"""What the first screen says: a sorted table, a forest plot, who is missing, and what the networks are."""

from __future__ import annotations

import pandas as pd
import pytest

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.reports.page.forest import Scale, forest_of
from exitbench.reports.run_data.conformance_result import ConformanceResult
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import SourceRows
from exitbench.reports.tables.table import TableRow
from exitbench.reports.verdict.absences import why_absent
from exitbench.reports.verdict.lead_table import conformance, lead_table
from exitbench.reports.verdict.main_column import MainColumn, main_column, reference_of
from exitbench.reports.verdict.setting import network_line, protocol_line, seeds, training
from exitbench.reports.verdict.standings import Standings
from exitbench.signals.conformance import CHECKS
from exitbench.signals.registry.discovery import load_registry
from tests.support.page_runs import main_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(main_run(tmp_path_factory))


@pytest.fixture(scope="module")
def column(run: FinishedRun) -> MainColumn:
    column = main_column(Standings(SourceRows(run)))
    assert column is not None
    return column


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return pd.read_parquet(main_run(tmp_path_factory) / "results.parquet")


def rows_of(column: MainColumn, kind: str) -> list[TableRow]:
    return [row for row in lead_table(column).rows if row.kind == kind]


def test_the_column_is_the_first_models_average_near_the_primary_speed_up(column: MainColumn) -> None:
    assert (column.group.model, column.protocol, column.point) == ("base", "cross-fit", at_speed_up(2.0))
    assert column.is_average and column.measure == "mean_accuracy_f1"


def test_signals_are_sorted_by_score_and_those_without_come_last(column: MainColumn, results: pd.DataFrame) -> None:
    values = [row.cells[1].value for row in rows_of(column, "signal")]
    scored = [value for value in values if value is not None]
    assert scored == sorted(scored, reverse=True) and len(values) == 8
    assert values[len(scored) :] == [None] * (8 - len(scored))
    stored = results.query(
        "cache == '' and model == 'base' and protocol == 'cross-fit' and operating_point == 'speed_up=2' "
        "and measure == 'mean_accuracy_f1' and best.notna()",
        engine="python",
    )
    assert scored == sorted(stored["value"], reverse=True)


def test_the_full_network_and_the_smallest_difference_stand_below(column: MainColumn, results: pd.DataFrame) -> None:
    bounds = {row.cells[0].text: row.cells[1] for row in rows_of(column, "bound")}
    final = results.query(
        "cache == '' and model == 'base' and protocol == 'cross-fit' and signal == 'final' "
        "and measure == 'mean_accuracy_f1'"
    )
    assert bounds["Final layer"].value == final["value"].item()
    feet = rows_of(column, "foot")
    assert [row.cells[0].text for row in feet] == ["Smallest difference, one pair", "Smallest difference, all pairs"]
    assert all(row.cells[1].value > 0 for row in feet)


def test_a_certified_speed_up_over_several_tasks_is_the_least_and_the_most(
    column: MainColumn, results: pd.DataFrame
) -> None:
    promised = results.query(
        "model == 'base' and measure == 'certified_speed_up' and operating_point == 'harm=2' and signal == 'e-lang'"
    )["value"].dropna()
    row = next(row for row in rows_of(column, "signal") if row.signal == "e-lang")
    cell = row.cells[-3]
    assert not promised.empty
    assert [number.value for number in cell.numbers] == sorted({promised.min(), promised.max()})


def test_the_picture_shows_paired_differences_from_the_familiar_signal(column: MainColumn, run: FinishedRun) -> None:
    forest = forest_of(column)
    assert forest is not None and forest.title.startswith("Each signal less Right-Tool")
    pairs = pd.read_parquet(run.path / "pairs.parquet").query(
        "cache == '' and model == 'base' and protocol == 'cross-fit' and operating_point == 'speed_up=2' "
        "and measure == 'mean_accuracy_f1'"
    )
    to_reference = pairs[(pairs["signal_a"] == "right-tool") | (pairs["signal_b"] == "right-tool")]
    assert len(forest.rows) == len(to_reference)
    values = [row.difference.value for row in forest.rows]
    signs = to_reference["signal_b"].eq("right-tool").map({True: 1, False: -1})
    assert values == sorted(signs * to_reference["difference"], reverse=True)
    for row in forest.rows:
        assert 0 <= row.low <= row.middle <= row.high <= 100
        assert row.p_value is not None and row.claimed == (row.p_value.value <= 0.05)


def test_with_a_subject_the_picture_turns_to_it(column: MainColumn, run: FinishedRun) -> None:
    subject = next(entry for entry in run.entries if entry.signal == "e-lang")
    forest, other = forest_of(column, subject), forest_of(column)
    assert forest is not None and other is not None
    assert forest.title.startswith("E-LANG less each other signal")
    turned = next(row for row in forest.rows if row.label == "Right-Tool")
    straight = next(row for row in other.rows if row.label == "E-LANG")
    assert turned.difference.value == straight.difference.value
    absent = next(entry for entry in run.entries if entry.signal == "pabee")
    assert reference_of(column, absent) is None and forest_of(column, absent) is None


def test_a_scale_puts_round_values_where_they_belong() -> None:
    scale = Scale(-6.0, 2.0)
    assert scale.ticks == [-6, -5, -4, -3, -2, -1, 0, 1, 2]
    assert (scale.percent(-6.0), scale.percent(2.0), scale.percent(-2.0)) == (4.0, 96.0, 50.0)
    assert scale.percent(100.0) == 100.0


def test_why_a_signal_is_absent(column: MainColumn, run: FinishedRun, results: pd.DataFrame) -> None:
    pabee = next(entry for entry in run.entries if entry.signal == "pabee")
    reason = why_absent(run, column.question, pabee)
    missed = results.query(
        "model == 'base' and protocol == 'cross-fit' and signal == 'pabee' and operating_point == 'speed_up=2' "
        "and measure == 'speed_up' and status == 'unmatched' and decisions == ''"
    )
    titles = {"base-sst2": "SST-2", "base-mrpc": "MRPC"}
    assert reason == ", ".join(
        f"{value:.2f}× on {titles[cache]}" for cache, value in zip(missed["cache"], missed["value"], strict=True)
    )


def test_the_networks_and_the_protocol_have_a_line_each(run: FinishedRun) -> None:
    line = network_line(run)
    assert line.startswith("base: 6 layers, 2 tasks, 2 networks, 590 rows of the dev split, ")
    assert "tiny: 4 layers, 1 task, 1 network, 310 rows" in line
    assert seeds([{"network_seed": 1}, {"network_seed": None}]) == "seed 1 (some not recorded)"
    assert seeds([{"network_seed": 2}, {"network_seed": 0}]) == "seeds 0 and 2"
    assert protocol_line(run, "cross-fit").startswith("cross-fit: Every sample is scored with what was chosen on the")
    assert "from 20 resamples" in protocol_line(run, "cross-fit")


def test_the_line_on_networks_says_how_they_were_trained() -> None:
    one = {"recipe": "sum", "epochs": 2, "training_rows": 2490, "network_seed": 0}
    other = {"recipe": "two-stage", "epochs": 1, "training_rows": 12000, "network_seed": 0}
    assert training([one]) == "trained by sum, 2 epochs on 2,490 rows, seed 0"
    assert training([one, other]) == "trained by sum and two-stage, 1 to 2 epochs on 2,490 to 12,000 rows, seed 0"
    several = [{"recipe": f"recipe-{number}"} for number in range(5)]
    assert training(several) == "trained by 5 recipes, seeds not recorded"
    assert training([one, {}]).startswith("trained by sum, 2 epochs on 2,490 rows (some not recorded), seed 0")
    assert training([{}]) == "training not recorded, seeds not recorded"


def test_every_signal_shows_how_many_checks_it_passes(run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in run.entries:
        signal = load_registry().signals[entry.signal]
        assert conformance(run, entry).text == f"{len(CHECKS) - len(signal.exceptions)}/{len(CHECKS)}"
    monkeypatch.delitem(run.conformance, entry.signal)
    assert (conformance(run, entry).text, conformance(run, entry).value) == ("–", None)
    result = ConformanceResult(15, ("causal: on purpose",), ("shift invariant: moved by 0.1",))
    monkeypatch.setitem(run.conformance, entry.signal, result)
    cell = conformance(run, entry)
    assert (cell.text, cell.reason, cell.mark) == ("15/17", "shift invariant: moved by 0.1", "‡")
