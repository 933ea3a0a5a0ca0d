"""What marks a cell: best, tied, unmatched, degenerate, without an exit, identical."""

import math

from exitbench.benchmarks.results.operating_point import NOWHERE
from exitbench.reports.formats.csv import csv_table
from exitbench.reports.formats.latex import latex_table
from exitbench.reports.formats.markdown import markdown_table
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.table import Table
from tests.support.shown_numbers import row_of, short_name


def test_best_and_ties_are_those_of_the_results(run: FinishedRun, tables: list[Table]) -> None:
    marked = 0
    for table in tables:
        for row in table.rows:
            for cell in row.cells:
                if cell.numbers and cell.numbers[0].source == "results":
                    source = run.rows[cell.key]
                    contest = table.topic != "systems"  # whose rows are of different networks
                    assert cell.best == (contest and bool(source.best))
                    assert cell.tied == (contest and bool(source.tied_with_best))
                    assert cell.status == source.status
                    marked += cell.best
    assert marked > 20


def test_an_unmatched_cell_is_marked_and_has_the_randomised_value_beside_it(tables: list[Table]) -> None:
    cells = [
        cell
        for table in tables
        if table.topic == "main"
        for row in table.rows
        for cell in row.cells
        if cell.status == "unmatched"
    ]
    assert cells
    for cell in cells:
        assert cell.mark == "†"
        assert not cell.best
        assert not cell.tied
    with_randomised = [cell for cell in cells if len(cell.numbers) == 3]
    assert with_randomised
    assert all(cell.numbers[2].key[-2] == "randomised" for cell in with_randomised)


def test_a_degenerate_cell_is_shown_with_its_mark_and_a_note_and_is_never_best(tables: list[Table]) -> None:
    cells = 0
    for table in tables:
        degenerate = [cell for row in table.rows for cell in row.cells if cell.status == "degenerate"]
        cells += len(degenerate)
        for cell in degenerate:
            assert cell.mark == "§" and cell.numbers and not cell.best and not cell.tied
            assert "every sample exits at layer" in cell.reason
        assert any(note.startswith("§ every sample exits at one") for note in table.notes) == bool(degenerate)
    assert cells


def test_a_layer_without_an_exit_is_marked_in_every_format_and_never_best(tables: list[Table]) -> None:
    table = short_name(tables, "dis-base")
    early = [(row, cell) for row in table.rows for cell in row.cells if cell.status == "no-exit"]
    assert early
    for row, cell in early:
        assert cell.mark == "¶" and cell.numbers and not cell.best and not cell.tied
        assert cell.reason.startswith("no exit here: before layer")
        assert f"{cell.text}¶" in markdown_table(table)
        assert f"{{{cell.text}}}\\P{{}}" in latex_table(table).replace("\\%", "%")
        assert row.cells[0].text in csv_table(table)
    assert "no-exit" in csv_table(table)
    for text in (markdown_table(table), latex_table(table).replace("\\P{}", "¶")):
        assert "¶ cannot exit at this layer yet" in text


def test_identical_signals_are_named_in_a_note_where_there_are_two_classes(tables: list[Table]) -> None:
    in_sample = next(table for table in tables if table.name == "main-base-in-sample")
    first, second = row_of(in_sample, "DeeBERT"), row_of(in_sample, "Right-Tool")
    assert [cell.value for cell in first.cells[1:3]] == [cell.value for cell in second.cells[1:3]]
    assert any("DeeBERT" in note and "Right-Tool" in note and "two classes" in note for note in in_sample.notes)


def test_different_signals_are_not_called_identical(run: FinishedRun) -> None:
    for twins in run.identical:
        assert ("e-lang", "temperature=1,center=false") not in twins.members
        for measure, layer in (("dis", 1), ("dis", 2)):
            values = {
                run.row(twins.cache, twins.protocol, *member, measure, NOWHERE, layer).value for member in twins.members
            }
            assert len({round(value, 6) for value in values if not math.isnan(value)}) <= 1


def test_in_sample_tables_mark_no_grid_as_best_and_say_why(run: FinishedRun, tables: list[Table]) -> None:
    grids = {run.label(entry.signal, entry.parameters) for entry in run.entries if entry.is_grid}
    assert grids
    marked = {}
    for protocol in ("in-sample", "cross-fit"):
        table = next(table for table in tables if table.name == f"main-base-{protocol}")
        marked[protocol] = {
            row.cells[0].text for row in table.rows if any(cell.best or cell.tied for cell in row.cells)
        }
        for text in (markdown_table(table), latex_table(table)):
            assert ("chose among several parameters" in text) == (protocol == "in-sample")
    assert marked["in-sample"]
    assert not marked["in-sample"] & grids
    assert marked["cross-fit"] & grids
