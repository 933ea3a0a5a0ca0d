"""Every system of the paper's main table has a row by name that says what of it is here, in the closest form."""

import csv
import json
import math
import re
import tomllib
from pathlib import Path

import pandas as pd
import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.cache import synthetic_cache
from exitbench.derive.derive_cache import derive_folders
from exitbench.derive.registry import load_methods
from exitbench.models.training.recipe_registry import load_recipes
from exitbench.places import PUBLISHED
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.systems import FILE, paper_systems, systems_without_row
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.systems.systems_table import systems_tables
from exitbench.reports.tables.table import Table, TableRow
from exitbench.signals.registry.discovery import load_registry
from tests.support.page_runs import once, suite
from tests.support.scripts import script
from tests.support.shown_numbers import check_numbers

LISTED = tomllib.loads((PUBLISHED / FILE).read_text())
KINDS = ("trained jointly", "trained in stages", "frozen", "approximated")
PRINTED = ["DeeBERT", "Right-Tool", "PABEE", "BERxiT", "PCEE-BERT", "E-LANG", "F-PABEE"]
PRINTED += ["PALBERT", "DisentangledEE", "ConsistentEE", "CAP"]
"""The rows of the paper's table, in its order, below that of BERT-base."""


# -- the list ------------------------------------------------------------------------------------


def test_the_systems_are_those_of_the_main_table_in_its_order() -> None:
    with (PUBLISHED / "glue_test_bert_base.csv").open() as lines:
        methods = list(dict.fromkeys(row["method"] for row in csv.DictReader(lines)))
    assert methods == ["BERT-base", *PRINTED]
    assert [system["name"] for system in LISTED["system"]] == PRINTED
    assert [system.name for system in paper_systems()] == PRINTED
    assert [system["name"] for system in LISTED["no_row"]] == ["HASHEE", "BE3R"]


def test_every_form_names_signals_recipes_and_methods_that_there_are() -> None:
    registry, recipes, methods = load_registry(), load_recipes(), load_methods()
    for system in LISTED["system"]:
        assert [form["ours"] for form in system["form"]] == sorted(
            (form["ours"] for form in system["form"]), key=KINDS.index
        ), "the closest form comes first"
        for form in system["form"]:
            assert registry.make(form["signal"]).name == form["signal"].partition("[")[0]
            assert set(form.get("recipes", [])) <= recipes.classes.keys()
            assert form.get("method", "etf") in methods.classes
            assert form["differs"]
            assert form["ours"].startswith("trained") == ("recipes" in form)


def test_the_exit_rule_of_a_system_is_the_one_its_recipe_names() -> None:
    """But for the recipes that the paper trains everything with."""
    recipes = load_recipes()
    for system in LISTED["system"]:
        for form in system["form"]:
            for recipe in {*form.get("recipes", [])} - {"sum", "mean"}:
                rule = load_registry().make(recipes.make(recipe).exit_rule)
                assert rule.text == load_registry().make(form["signal"]).text, system["name"]


def test_the_page_on_recipes_lists_every_form_and_says_why_two_systems_have_no_row() -> None:
    page = (PUBLISHED.parents[1] / "docs/recipes.md").read_text()
    for system in LISTED["system"]:
        for form in system["form"]:
            start = f"| {system['name']} | {form['ours']} | {form['signal']}"
            assert any(line.startswith(start) and form["differs"] in line for line in page.splitlines()), (
                "run: python scripts/write_systems_table.py"
            )
    for system in systems_without_row():
        assert re.search(rf"\b{system.name}\b", page.partition("## What is not here")[2])


# -- a run ---------------------------------------------------------------------------------------


def recorded(cache: Path, recipe: str) -> Path:
    """The cache with a recipe in its record of where it comes from, as ``collect`` writes it."""
    path = cache / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["provenance"]["recipe"] = recipe
    path.write_text(json.dumps(manifest))
    return cache


NETWORKS = {
    # name: model, task, recipe, extra outputs, seed
    "two": ("m, two-stage", "sst2", "two-stage", (), 1),
    "lte-1": ("m, lte", "sst2", "lte", ("lte",), 2),
    "lte-2": ("m, lte", "sst2", "lte", ("lte",), 3),
    "lte-m": ("m, lte", "mrpc", "lte", ("lte",), 4),
    "all": ("m, sum", "sst2", "sum", (), 5),
    "plain": ("m", "sst2", "", (), 6),
}
SIGNALS = ["e-lang[center=true]", "e-lang", "output", "deebert", "pcee", "pabee", "berxit", "palbert"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """Six networks, one of them derived from another, and signals of some systems."""

    def build(folder: Path) -> None:
        caches = []
        for name, (model, task, recipe, outputs, seed) in NETWORKS.items():
            sizes = {"rows": 90, "layers": 4, "width": 8, "compact": name != "plain"}
            cache = synthetic_cache(folder / name, task=task, model=model, outputs=outputs, seed=seed, **sizes)
            caches.append(recorded(cache, recipe) if recipe else cache)
        derive_folders("etf[seed=3]", [], folder / "plain", folder / "plain", folder / "etf", True)
        made = suite([*caches, folder / "etf"], SIGNALS, protocols=("cross-fit",), speed_ups=(2.0,), layers=(1,))
        assert run_suite(made, folder / "run").complete

    return FinishedRun(once(tmp_path_factory, "systems", build) / "run")


@pytest.fixture(scope="module")
def table(trained: FinishedRun) -> Table:
    (made,) = systems_tables(trained)
    return made


def rows_of(table: Table, name: str, kind: str = "signal") -> list[TableRow]:
    return [row for row in table.rows if row.cells[0].text == name and row.kind == kind]


def labels(row: TableRow) -> list[str]:
    return [cell.text for cell in row.cells[1:4]]


@pytest.mark.long
def test_each_system_is_shown_in_its_closest_form_on_all_networks_of_it(table: Table) -> None:
    shown = {name: [labels(row) for row in rows_of(table, name)] for name in PRINTED}
    assert shown["DeeBERT"] == [["trained in stages", "deebert", "m, two-stage"]]
    assert shown["BERxiT"] == [["trained jointly", "output", "m, lte"]], "not its frozen form, which runs here too"
    assert shown["PCEE-BERT"] == [["trained jointly", "pcee", "m, sum"]]
    assert shown["E-LANG"] == [["trained jointly", "e-lang", "m, sum"]], "not the centred entry, which comes first"
    assert shown["DisentangledEE"] == [["frozen", "pabee", "m (etf[seed=3])"]]
    assert shown["PALBERT"] == [["frozen", "palbert", "m"]], "only there are features"
    # No network was trained by PABEE's recipe, so its rule is shown wherever answers are the network's own.
    assert shown["PABEE"] == [["approximated", "pabee", model] for model in ("m, two-stage", "m, lte", "m, sum", "m")]


@pytest.mark.long
def test_a_system_that_a_run_cannot_show_keeps_a_row_that_says_why(table: Table) -> None:
    assert list(dict.fromkeys(row.cells[0].text for row in table.rows)) == PRINTED
    for name, needed in {
        "CAP": "cap[center=false]",
        "ConsistentEE": "output[name=policy] on a network trained by policy, or consistentee",
    }.items():
        (row,) = rows_of(table, name)
        assert labels(row) == ["not in this run", "–", "–"]
        assert {cell.status for cell in row.cells[4:]} == {"missing"}
        assert f"– {name}: not in this run, which would need {needed}." in table.notes
    assert any(note.startswith("HASHEE has no row: it sends tokens") for note in table.notes)
    assert any(note.startswith("BE3R has no row: only its abstract") for note in table.notes)


@pytest.mark.long
def test_the_scores_are_those_of_the_result_file(trained: FinishedRun, table: Table) -> None:
    headings = [(column.group, column.title) for column in table.columns[4:]]
    groups = ["SST-2, network 1", "MRPC", "SST-2, network 2"]
    assert sorted(dict.fromkeys(group for group, _ in headings)) == sorted(groups)
    results = pd.read_parquet(trained.path / "results.parquet")
    results = results[(results.measure == "accuracy") & (results.decisions == "") & (results.cache != "")]
    (row,) = rows_of(table, "BERxiT")
    for group, cache in zip(groups, ("lte-1", "lte-m", "lte-2"), strict=True):
        at = headings.index((group, "near 2×"))
        assert headings[at + 1] == (group, "last layer")
        own = results[results.cache == cache]
        near = own[(own.signal == "output") & (own.operating_point == "speed_up=2")].iloc[0]
        last = own[own.signal == "final"].iloc[0]
        for cell, expected in ((row.cells[4 + at], near), (row.cells[5 + at], last)):
            shown = (cell.numbers[0].value, cell.low, cell.high)
            assert shown == (expected.value, expected.low, expected.high)
            assert cache in cell.notes and not cell.best and not cell.tied
    assert check_numbers(trained, [table]) > 30


@pytest.mark.long
def test_the_page_on_recipes_keeps_the_same_numbers(trained: FinishedRun, table: Table) -> None:
    """A line for each system and network, with what the table shows of it and how sure that is."""
    kept = script("write_systems_table").kept(trained)
    results = pd.read_parquet(trained.path / "results.parquet").set_index(["cache", "signal", "operating_point"])
    results = results[results.measure == "accuracy"]
    assert kept[kept.system == "BERxiT"].cache.tolist() == ["lte-1", "lte-2", "lte-m"]
    assert len(kept) == len(kept.drop_duplicates(["cache", "system"])) > 8
    for line in kept.itertuples():
        signal = line.signal.partition("[")[0]
        there = results.loc[[(line.cache, signal, "speed_up=2")]]
        if signal == "e-lang":
            there = there[there.parameters.str.endswith("center=false")]
        near = there[there.decisions == ""].iloc[0]
        exact = there[there.decisions == "randomised"].value
        last = results.loc[[(line.cache, "final", "final")]].iloc[0]
        shown = [line.value, line.low, line.high, line.std_err, line.last_value, line.last_std_err]
        expected = [near.value, near.low, near.high, near.std_err, last.value, last.std_err]
        assert shown == pytest.approx(expected, nan_ok=True) and line.status == near.status
        assert [line.exact] == pytest.approx(exact.tolist() or [math.nan], nan_ok=True)


@pytest.mark.long
def test_published_figures_stand_in_rows_of_their_own(table: Table) -> None:
    (row,) = rows_of(table, "PALBERT", "published")
    assert labels(row) == ["published", "–", "BERT-base, GLUE test"]
    texts = {
        (column.group, column.title): cell.text for column, cell in zip(table.columns[4:], row.cells[4:], strict=True)
    }
    assert texts["SST-2, network 1", "near 2×"] == "91.8 (1.48×)"
    assert texts["SST-2, network 1", "last layer"] == "93.5 (1.00×)"
    assert texts["MRPC", "near 2×"] == "–", "the paper prints none"


@pytest.mark.long
def test_a_run_without_any_system_has_no_such_table(tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=60, layers=3, width=8)
    made = suite([cache], ["margin"], protocols=("in-sample",), layers=(1,))
    run_suite(made, tmp_path / "run")
    assert "systems" not in {table.topic for table in tables_of(FinishedRun(tmp_path / "run"))}
