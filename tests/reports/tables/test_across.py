"""Tables and figures across tasks and networks show what ``across.parquet`` holds, and say what it claims."""

from __future__ import annotations

import math

import pytest

from exitbench.reports.figures.catalogue import figures_of
from exitbench.reports.figures.drawing.render import render
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import SourceRows
from exitbench.reports.tables.across.across_tables import absent_notes, across_tables, below_random_notes, variance_cell
from tests.support.shown_numbers import check_numbers
from tests.support.table_runs import across_run, small_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(across_run(tmp_path_factory))


def test_every_number_is_that_of_its_row_and_names_it(run: FinishedRun) -> None:
    tables = across_tables(run)
    assert [table.name for table in tables] == ["ranks", "normalised", "improvement", "practical", "variance"]
    assert check_numbers(run, tables) == 6 + 3 + 6 + 3 * 6 + 9
    origins = SourceRows(run)
    for table in tables:
        for number in table.numbers():
            file, row, column = origins.origin(number).split("/")
            assert (file, column) == ("across", "value") and run.across[int(row)]["value"] == number.value


def test_tables_say_what_they_claim(run: FinishedRun) -> None:
    ranks, normalised, improvement, practical, variance = across_tables(run)
    assert "6 tasks with 5 networks each" in ranks.notes[0] and "Friedman" in ranks.notes[0]
    assert any(cell.best for row in ranks.rows for cell in row.cells)
    assert "networks trained alike" in normalised.notes[0]
    assert "not by how much" in improvement.notes[0]
    assert "0.5 points" in practical.title and "flat prior" in practical.notes[0]
    for row in practical.rows:
        for cell in row.cells[1:]:
            if cell.numbers:
                assert sum(number.value for number in cell.numbers) == pytest.approx(1.0)
    shares = [sum(int(cell.text.split("(")[1].rstrip("%)")) for cell in row.cells[1:]) for row in variance.rows]
    assert all(99 <= share <= 101 for share in shares)
    assert variance_cell({**run.across[0], "value": math.nan}, 1.0).status == "missing"


def test_statistics_name_who_has_no_place_in_them(run: FinishedRun) -> None:
    ranked = {(row["signal_a"], row["parameters_a"]) for row in run.across if row["statistic"] == "average_rank"}
    absent = [run.label(entry.signal, entry.parameters) for entry in run.entries if entry.parameters.count("|")]
    assert len(ranked) + len(absent) == len(run.entries)
    tables = across_tables(run)
    for table in tables[:4]:
        named = [note for note in table.notes if note.startswith(("Not ranked by", "Not part of this"))]
        assert len(named) == (2 if table is tables[0] else 1)
        assert all(note.endswith(f"chosen on the scored samples): {', '.join(absent)}.") for note in named)
    assert absent_notes(run, [(entry.signal, entry.parameters) for entry in run.entries], "Not part of this") == []


def test_the_diagram_and_the_profile_are_drawn(run: FinishedRun) -> None:
    figures = {figure.spec.kind: figure for figure in figures_of(run) if figure.topic == "across"}
    assert set(figures) == {"ranks", "profile"}
    svg = render(run, figures["ranks"], ["svg"], "text")["svg"]
    assert render(run, figures["ranks"], ["svg"], "text")["svg"] == svg, "the same bytes each time"
    for text in ("critical difference", "by DIS", "DeeBERT (", "Margin ("):
        assert text in svg.decode()
    svg = render(run, figures["profile"], ["svg"], "text")["svg"]
    assert "Share of runs above it" in svg.decode()


def test_one_cache_has_none_of_them(tmp_path_factory: pytest.TempPathFactory) -> None:
    alone = FinishedRun(small_run(tmp_path_factory))
    assert across_tables(alone) == [] and not [figure for figure in figures_of(alone) if figure.topic == "across"]


def test_a_score_below_random_exits_is_explained(run: FinishedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    (group, protocol), *_ = run.each()
    means = [row for row in run.across_of(group, protocol) if row["statistic"] == "interquartile_mean"]
    assert below_random_notes(run, group, protocol, means) == []
    means[0] = {**means[0], "value": -0.1}
    speed = run.suite["primary_speed_up"]
    here = {
        (row.signal, row.cache): row.value
        for row in run.rows.values()
        if (row.protocol, row.operating_point.text, row.measure) == (protocol, f"speed_up={speed:g}", "accuracy")
    }
    caches = [cache.name for cache in group.caches]
    below = sum(here["fixed", cache] < here["random", cache] for cache in caches)
    said = f"On {below} of {len(caches)} networks a fixed layer has one, too"
    (note,) = below_random_notes(run, group, protocol, means)
    assert below > 0 and said in note, "the networks of this run grow towards the last layer"
    nowhere_below = {key: row._replace(value=100.0) if row.signal == "fixed" else row for key, row in run.rows.items()}
    monkeypatch.setitem(run.__dict__, "rows", nowhere_below)
    assert below_random_notes(run, group, protocol, means) == [
        f"A value below 0 is a lower score than random exits have near {speed:g}×."
    ]
