"""Two forms of one signal are told apart everywhere, and the report says which one published figures belong to."""

import csv
from types import SimpleNamespace

import numpy as np
import pytest

from exitbench.places import PUBLISHED
from exitbench.reports.findings.findings import findings
from exitbench.reports.findings.paper_order import titles_of
from exitbench.reports.page.explorer import signal_looks
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.published import FORMS, counterparts, published_form
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.published_forms import distance_cell, form_tables
from exitbench.signals.registry.discovery import load_registry
from tests.support.table_runs import small_run, two_forms

pytestmark = pytest.mark.long

JSD, MEAN_ENTROPY = "F-PABEE [divergence=jsd]", "F-PABEE [divergence=mean-entropy]"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(two_forms(tmp_path_factory))


def test_every_table_and_legend_names_both_forms(run: FinishedRun) -> None:
    tables = tables_of(run)
    names = ("main", "loss", "dis", "rates-all", "published-forms")
    for table in (table for table in tables if table.name in names):
        labels = [row.cells[0].text for row in table.rows]
        assert labels.count(JSD) == labels.count(MEAN_ENTROPY) == 1, table.name
    assert len({table.name for table in tables}) == len(tables)
    looks = signal_looks(run)
    assert {JSD, MEAN_ENTROPY} <= {look["label"] for look in looks}
    assert len({(look["colour"], look["marker"]) for look in looks}) == len(looks)


def test_the_distance_of_a_form_is_the_mean_over_layers_of_measured_less_published(run: FinishedRun) -> None:
    (table,) = form_tables(run)
    with (PUBLISHED / "dis_bert_base.csv").open() as lines:
        published = {
            (row["method"], int(row["layer"])): float(row["dis"])
            for row in csv.DictReader(lines)
            if row["task"] == "SST-2"
        }
    results = run.files.results
    for row, form in zip(table.rows[:2], ("jsd", "mean-entropy"), strict=True):
        measured = results[(results.measure == "dis") & (results.parameters == f"divergence={form},patience=1|2")]
        at = dict(zip(measured.layer, measured.value, strict=True))
        distances = [abs(at[layer] - published["F-PABEE", layer]) for layer in (2, 6, 10)]
        assert row.cells[2].text == row.cells[3].text == f"{np.mean(distances):.1f}"
    assert [row.cells[1].text for row in table.rows] == [
        "belong to divergence=mean-entropy",
        "compare with this form",
        "the same form",
    ]


def test_the_published_rows_say_which_form_they_belong_to(run: FinishedRun) -> None:
    for table in tables_of(run):
        if any(row.kind == "published" for row in table.rows):
            assert any("F-PABEE should be compared with divergence=mean-entropy" in note for note in table.notes)


def test_a_published_method_is_compared_with_the_form_of_its_figures(run: FinishedRun) -> None:
    assert counterparts(run)["F-PABEE"].settings["divergence"] == "mean-entropy"
    assert [title for _, title in titles_of(run)] == ["DeeBERT", "F-PABEE", "CAP"]
    page = findings(run)
    assert page is not None
    assert "| F-PABEE |" in page


def test_without_published_figures_there_is_no_table_of_forms(tmp_path_factory: pytest.TempPathFactory) -> None:
    assert form_tables(FinishedRun(small_run(tmp_path_factory))) == []
    assert distance_cell([]).status == "missing"
    assert published_form("DeeBERT") is None


def test_every_published_form_is_one_that_its_signal_has() -> None:
    registry = load_registry()
    declared = {registry.get(name).title: registry.get(name) for name in registry.signals}
    with (PUBLISHED / FORMS).open() as lines:
        for row in csv.DictReader(lines):
            signal = declared[row["method"]]
            assert f"{row['parameter']}={row['value']}" in {form.parameters for form in signal.forms}


def test_a_grid_ties_to_the_value_nearest_to_the_defaults(run: FinishedRun) -> None:
    """Patience 2 is the default under either divergence, although one of the two forms is not."""
    from exitbench.benchmarks.scoring.configuration import configuration_of

    grid = load_registry().expand("f-pabee[divergence=mean-entropy,patience=1|2]")
    assert [configuration_of(signal, 12).changed for signal in grid] == [2, 1]


def test_of_entries_of_one_form_the_plainest_stands_for_the_published_method() -> None:
    entries = [
        RunEntry("cap", "alpha=1,center=true", "CAP", "cap[center=true]"),
        RunEntry("cap", "alpha=0.1|1,center=false", "CAP", "cap[alpha=0.1|1]"),
        RunEntry("cap", "alpha=1,center=false", "CAP", "cap"),
        RunEntry("nsp", "center=true", "NSP", "nsp[center=true]"),
    ]
    stands = counterparts(SimpleNamespace(entries=entries))
    assert stands["CAP"].text == "cap" and stands["NSP"].text == "nsp[center=true]"
    assert "CAP" not in counterparts(SimpleNamespace(entries=entries[:2]))
