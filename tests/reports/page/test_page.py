"""The page as a file: every number from its row, every name as text, nothing from the network, the same bytes."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.cache import synthetic_cache
from exitbench.errors import InputError
from exitbench.reports.page.page import write_page
from exitbench.reports.page.run_view import cell_parts
from exitbench.reports.page.templating import to_repeat
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.table import Cell
from tests.support.page_reader import Element, data_of, read_page
from tests.support.page_runs import HOSTILE, hostile_run, main_run, suite

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


@pytest.fixture(scope="module")
def page(run_dir: Path) -> Element:
    return read_page(run_dir / "report.html")


@pytest.fixture(scope="module")
def files(run_dir: Path) -> dict[str, pd.DataFrame]:
    return {name: pd.read_parquet(run_dir / f"{name}.parquet") for name in ("results", "pairs", "across")}


def stored(files: dict[str, pd.DataFrame], key: str, column: str = "") -> float:
    """The value that a data-key names, read from the parquet file."""
    _, file, row, named = key.split("/")
    sign = -1 if named.startswith("-") else 1
    return sign * float(files[file].iloc[int(row)][column or named.lstrip("-")])


def agrees(text: str, value: float) -> bool:
    """Whether a printed number is the value, rounded to the digits that are shown."""
    if text == "<0.001":
        return 0 <= value < 0.001
    if text in ("∞", "−∞"):
        return math.isinf(value)
    places = len(text.partition(".")[2])
    return abs(float(text) - value) <= 0.5000001 * 10.0**-places


@pytest.fixture(scope="module")
def tables(page: Element) -> list[dict[str, Any]]:
    """Every table that opens on demand, as the page's scripts read it."""
    (run,) = data_of(page, "tables")["runs"]
    return [*run["tables"], *(task["table"] for task in run["tasks"])]


FILES = {"r": "results", "p": "pairs", "a": "across"}


def full_key(short: str) -> str:
    """The place of a number as ``data-key`` writes it, from a table's short form."""
    place, _, column = short.partition("/")
    return f"0/{FILES[place[0]]}/{place[1:]}/{column or 'value'}"


def cells_of(tables: list[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Every cell with numbers: its kind of row, and text, flags, status, interval, hint, numbers."""
    for table in tables:
        for kind, *cells in table["rows"]:
            for cell in cells:
                if isinstance(cell, list) and len(cell) == 6:
                    yield kind, cell


def keyed_numbers(cell: list[Any]) -> list[tuple[str, str]]:
    """The numbers of a cell with their places; published figures and costs have none."""
    return [(text, full_key(key)) for text, key in zip(cell[5][::2], cell[5][1::2], strict=True) if key]


def test_every_number_of_the_first_screen_equals_its_row(page: Element, files: dict[str, pd.DataFrame]) -> None:
    shown = [element for element in page.walk() if "data-key" in element.attributes]
    assert len(shown) > 40
    wrong = [
        (element.attributes["data-key"], element.text)
        for element in shown
        if not agrees(element.text, stored(files, element.attributes["data-key"]))
    ]
    assert not wrong


def test_every_number_that_opens_on_demand_equals_its_row(
    tables: list[dict[str, Any]], files: dict[str, pd.DataFrame]
) -> None:
    numbers = [pair for _, cell in cells_of(tables) for pair in keyed_numbers(cell)]
    assert len(numbers) > 1000
    assert not [(text, key) for text, key in numbers if not agrees(text, stored(files, key))]


def test_every_interval_equals_its_row(
    page: Element, tables: list[dict[str, Any]], files: dict[str, pd.DataFrame]
) -> None:
    intervals = [(cell[3], keyed_numbers(cell)[0][1]) for _, cell in cells_of(tables) if cell[3] and cell[5][1]]
    for cell in page.all("td"):
        small = [child for child in cell.children if isinstance(child, Element) and child.tag == "small"]
        keys = [element.attributes["data-key"] for element in cell.walk() if "data-key" in element.attributes]
        if small and keys:
            intervals.append((small[0].text, keys[0]))
    for interval, key in intervals:
        low, high = interval.strip("[]").split(", ")
        ends = ("high", "low") if key.split("/")[3].startswith("-") else ("low", "high")
        assert agrees(low, stored(files, key, ends[0])), (key, low)
        assert agrees(high, stored(files, key, ends[1])), (key, high)
    assert len(intervals) > 500


def test_every_table_of_the_run_is_in_the_page_with_all_its_numbers_and_notes(
    run_dir: Path, tables: list[dict[str, Any]]
) -> None:
    by_name = {table["name"]: table for table in tables}
    for table in tables_of(FinishedRun(run_dir)):
        data = by_name[table.name]
        numbers = [text for _, cell in cells_of([data]) for text in cell[5][::2]]
        assert numbers == [number.text for number in table.numbers()]
        assert data["notes"] == list(table.notes) and len(data["rows"]) == len(table.rows)


def test_a_number_says_where_it_is_from_unless_it_was_published(tables: list[dict[str, Any]]) -> None:
    without = [cell for kind, cell in cells_of(tables) if kind != "published" and "" in cell[5]]
    assert without == []


def test_best_is_marked_where_the_results_say_so(tables: list[dict[str, Any]], files: dict[str, pd.DataFrame]) -> None:
    seen = {True: 0, False: 0}
    compared = [table for table in tables if re.match(r"(main|dis|loss|task|lead)", table["name"])]
    for _, cell in cells_of(compared):
        keys = [key for _, key in keyed_numbers(cell)]
        if not keys or not keys[0].startswith("0/results"):
            continue
        row = files["results"].iloc[int(keys[0].split("/")[2])]
        assert bool(cell[1] & 1) == bool(row["best"])
        assert bool(cell[1] & 2) == bool(row["tied_with_best"])
        assert (cell[2] or "ok") == row["status"], "a number keeps its warning"
        seen[bool(row["best"])] += 1
    assert min(seen.values()) > 10


def test_nothing_below_the_first_screen_is_built_before_it_is_opened(page: Element) -> None:
    assert len(page.all("table")) == 3, "the picture, the table of the first screen, and the explorer's empty one"
    assert [part for part in page.all("details") if "open" in part.attributes] == []


def test_the_page_asks_for_nothing_from_the_network(run_dir: Path, page: Element) -> None:
    policy = next(element for element in page.all("meta") if "http-equiv" in element.attributes).attributes["content"]
    assert policy == ("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:")
    for element in page.walk():
        for name in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
            address = element.attributes.get(name)
            assert address is None or address.startswith(("#", "data:")), (element.tag, address)
    style = "".join(element.text for element in page.all("style"))
    assert "url(" not in style and "@import" not in style


def test_every_anchor_leads_somewhere_and_no_id_is_used_twice(page: Element) -> None:
    ids = [element.attributes["id"] for element in page.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = [element.attributes["href"] for element in page.all("a")]
    assert links and {link[1:] for link in links} <= set(ids)
    labels = {word for element in page.walk() for word in element.attributes.get("aria-labelledby", "").split()}
    assert labels <= set(ids)


def test_questions_and_tasks_can_be_opened(run_dir: Path, page: Element) -> None:
    assert [task["title"] for task in data_of(page, "tables")["runs"][0]["tasks"]] == [
        "SST-2 with base",
        "MRPC with base",
        "MNLI with tiny",
    ]
    opened = {part.attributes["data-topic"] for part in page.all("details") if "data-topic" in part.attributes}
    answered = {table["topic"] for table in data_of(page, "tables")["runs"][0]["tables"]}
    assert opened == answered >= {"main", "dis", "pairs"}


def test_measures_are_defined_on_hover_and_in_the_glossary(page: Element) -> None:
    hovered = [head.attributes.get("title", "") for head in page.with_class("lead")[0].all("th")]
    assert any(title.startswith("DIS: Difficulty Inversion Score") for title in hovered)
    glossary = page.all(id="glossary")[0]
    assert "Difficulty Inversion Score" in glossary.all("dl")[0].text
    assert data_of(page, "tables")["glossary"]["dis"].startswith("DIS: Difficulty Inversion Score")


def test_provenance_names_command_commit_and_hashes(run_dir: Path, page: Element) -> None:
    record = json.loads((run_dir / "run.json").read_text())
    end = page.all(id="provenance")[0].text
    assert to_repeat(record["arguments"]) in end and record["versions"]["torch"] in end
    for cache in record["caches"].values():
        assert cache["manifest_sha256"] in end


def test_same_results_same_bytes(run_dir: Path, tmp_path: Path) -> None:
    write_page([run_dir], tmp_path / "new folder" / "page.html")
    first = (tmp_path / "new folder" / "page.html").read_bytes()
    assert first == (run_dir / "report.html").read_bytes()
    assert [path.name for path in (tmp_path / "new folder").iterdir()] == ["page.html"]


def test_when_and_how_fast_a_run_was_made_is_not_on_the_page(run_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    record = json.loads((copy / "run.json").read_text())
    record |= {"started": "1999-12-31T23:59:59+00:00", "seconds": 12345.678, "jobs": 64}
    (copy / "run.json").write_text(json.dumps(record))
    write_page([copy], tmp_path / "page.html")
    assert (tmp_path / "page.html").read_bytes() == (run_dir / "report.html").read_bytes()


def test_a_folder_without_a_run_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        write_page([tmp_path], tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_hostile_names_are_shown_as_text(tmp_path_factory: pytest.TempPathFactory) -> None:
    page = read_page(hostile_run(tmp_path_factory) / "report.html")
    assert len(page.all("script")) == 5, "four of data, one of ours"
    for element in page.walk():
        assert not any(name.startswith("on") for name in element.attributes)
        assert element.tag != "b" or "data-key" in element.attributes or not element.attributes
    names = {element.text for element in page.all("bdi")}
    assert set(HOSTILE) <= names
    assert HOSTILE[0] in page.all("main")[0].text
    assert page.all("img") == []


@pytest.mark.parametrize(
    ("rows", "layers", "signals"),
    [(3, 3, ["deebert", "pabee", "cap[alpha=0.1|1]"]), (60, 2, ["deebert", "e-lang"]), (60, 4, ["nsp"])],
    ids=["three rows", "one layer pair", "one signal"],
)
def test_a_very_small_run_still_makes_a_page(tmp_path: Path, rows: int, layers: int, signals: list[str]) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=rows, layers=layers, seed=7)
    chosen = suite([cache], signals, layers=(1,), folds=2)
    run_suite(chosen, tmp_path / "run")
    write_page([tmp_path / "run"], tmp_path / "report.html")
    page = read_page(tmp_path / "report.html")
    verdict = page.with_class("verdict")[0].text
    assert len(verdict) > 60 and not re.search(r"\b(nan|inf)\b", page.all("main")[0].text)
    assert page.all(id="explorer") and (page.with_class("table") or page.with_class("failed"))


@pytest.mark.e2e
def test_sixty_signals_still_make_a_page(tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=30, layers=2, seed=8)
    signals = [f"e-lang[temperature={number / 10:g}]" for number in range(1, 61)]
    chosen = suite([cache], signals, layers=(1,), protocols=("in-sample",), speed_ups=(2.0,), resamples=2)
    run_suite(chosen, tmp_path / "run")
    write_page([tmp_path / "run"], tmp_path / "report.html")
    page = read_page(tmp_path / "report.html")
    assert len(page.with_class("lead")[0].all("tbody", class_="signal")[0].all("tr")) == 60
    assert (tmp_path / "report.html").stat().st_size < 2_000_000


def test_a_cell_must_show_its_numbers() -> None:
    first, second = Number(92.1, "92.1"), Number(1.99, "1.99")
    assert cell_parts(Cell("92.1 (1.99×)", (first, second))) == [first, " (", second, "×)"]
    with pytest.raises(ValueError, match="does not show"):
        cell_parts(Cell("about ninety", (first,)))
