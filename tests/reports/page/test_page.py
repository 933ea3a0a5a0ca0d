"""The page as a file: every number from its row, every name as text, nothing from the network, the same bytes."""

from __future__ import annotations

import json
import math
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.cache import synthetic_cache
from exitbench.errors import InputError
from exitbench.reports.page.page import to_repeat, write_page
from exitbench.reports.page.run_view import cell_parts
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.table import Cell, Table
from tests.support.page_reader import Element, read_page
from tests.support.page_runs import HOSTILE, hostile_run, main_run, suite
from tests.support.table_runs import contested_run, sixty_signals

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


@pytest.fixture(scope="module")
def page(run_dir: Path) -> Element:
    return read_page(run_dir / "report.html")


@pytest.fixture(scope="module")
def tables(run_dir: Path) -> list[Table]:
    return tables_of(FinishedRun(run_dir))


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


def test_every_number_on_the_page_equals_its_row(page: Element, files: dict[str, pd.DataFrame]) -> None:
    shown = [element for element in page.walk() if "data-key" in element.attributes]
    assert len(shown) > 1000
    wrong = [
        (element.attributes["data-key"], element.text)
        for element in shown
        if not agrees(element.text, stored(files, element.attributes["data-key"]))
    ]
    assert not wrong


def test_every_interval_on_the_page_equals_its_row(page: Element, files: dict[str, pd.DataFrame]) -> None:
    checked = 0
    for cell in page.all("td"):
        small = [child for child in cell.children if isinstance(child, Element) and child.tag == "small"]
        keys = [element.attributes["data-key"] for element in cell.walk() if "data-key" in element.attributes]
        if not small or not keys:
            continue
        low, high = small[0].text.strip("[]").split(", ")
        turned = keys[0].split("/")[3].startswith("-")
        ends = ("high", "low") if turned else ("low", "high")
        assert agrees(low, stored(files, keys[0], ends[0])), (keys[0], low)
        assert agrees(high, stored(files, keys[0], ends[1])), (keys[0], high)
        checked += 1
    assert checked > 500


def test_every_number_of_every_table_is_on_the_page(tables: list[Table], page: Element) -> None:
    for table in tables:
        block = next(
            element for element in page.with_class("table") if element.attributes.get("data-name") == table.name
        )
        keyed = [element for element in block.walk() if "data-key" in element.attributes]
        numbers = [number for number in table.numbers() if number.source in ("results", "pairs", "across")]
        assert sorted(element.text for element in keyed) == sorted(number.text for number in numbers)


def test_a_cell_that_sorts_by_a_number_says_where_it_is_from(page: Element) -> None:
    for body in page.all("tbody"):
        if body.attributes.get("class") == "published":
            continue
        table_rows = [cell for cell in body.all("td") if cell.attributes.get("data-v")]
        for cell in table_rows:
            assert (
                any("data-key" in element.attributes for element in cell.walk())
                or "published" in cell.text
                or is_cost(cell)
            )


def is_cost(cell: Element) -> bool:
    """Costs are arithmetic, not results."""
    return re.fullmatch(r"[\d.,\sKMG×–-]+%?", cell.text) is not None


def test_best_is_marked_where_the_results_say_so(page: Element, files: dict[str, pd.DataFrame]) -> None:
    seen = {True: 0, False: 0}
    for table in page.with_class("table"):
        if not re.match(r"(main|dis|loss|task)", table.attributes.get("data-name", "")):
            continue
        for cell in table.all("td"):
            keys = [element.attributes["data-key"] for element in cell.walk() if "data-key" in element.attributes]
            if not keys or not keys[0].startswith("0/results"):
                continue
            row = files["results"].iloc[int(keys[0].split("/")[2])]
            classes = cell.attributes.get("class", "").split()
            assert ("best" in classes) == bool(row["best"])
            assert ("best" in classes or "level" in classes) == bool(row["tied_with_best"])
            seen[bool(row["best"])] += 1
    assert min(seen.values()) > 10


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


def test_navigation_is_by_question_and_by_task(tables: list[Table], page: Element) -> None:
    menu = page.all("nav")[0].text
    assert {"SST-2 with base", "MRPC with base", "MNLI with tiny"} <= {
        element.text for element in page.all("nav")[0].all("bdi")
    }
    for table in tables:
        assert f"question-{table.topic}" in {link.attributes["href"][1:] for link in page.all("nav")[0].all("a")}
    assert "Glossary" in menu and "Provenance" in menu


def test_measures_are_defined_on_hover_and_in_the_glossary(page: Element) -> None:
    sorts = [
        element
        for element in page.with_class("sort")
        if element.attributes.get("title", "").startswith("DIS: Difficulty")
    ]
    assert sorts
    glossary = page.all(id="glossary")[0]
    assert "Difficulty Inversion Score" in glossary.all("dl")[0].text
    assert any(link.attributes["href"] == "#measure-dis" for link in page.all("a"))


def test_provenance_names_command_commit_and_hashes(run_dir: Path, page: Element) -> None:
    record = json.loads((run_dir / "run.json").read_text())
    end = page.all(id="provenance")[0].text
    assert to_repeat(record["arguments"]) in end and record["versions"]["torch"] in end
    for cache in record["caches"].values():
        assert cache["manifest_sha256"] in end


def test_same_results_same_bytes_whenever_and_however_fast_a_run_was_made(run_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    record = json.loads((copy / "run.json").read_text())
    record |= {"started": "1999-12-31T23:59:59+00:00", "seconds": 12345.678, "jobs": 64}
    (copy / "run.json").write_text(json.dumps(record))
    write_page([copy], tmp_path / "new folder" / "page.html")
    page = (tmp_path / "new folder" / "page.html").read_bytes()
    assert page == (run_dir / "report.html").read_bytes()
    assert [path.name for path in (tmp_path / "new folder").iterdir()] == ["page.html"]


def test_a_folder_without_a_run_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        write_page([tmp_path], tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_two_runs_stand_side_by_side(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    run_dir, other = contested_run(tmp_path_factory), tmp_path / "other"
    shutil.copytree(run_dir, other)
    write_page([run_dir, other], tmp_path / "both.html")
    page = read_page(tmp_path / "both.html")
    ids = [element.attributes["id"] for element in page.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    keys = [element.attributes["data-key"] for element in page.walk() if "data-key" in element.attributes]
    first = [key.partition("/")[2] for key in keys if key.startswith("0/")]
    second = [key.partition("/")[2] for key in keys if key.startswith("1/")]
    assert first == second and len(first) * 2 == len(keys)
    assert {"run", "other"} <= {element.text for element in page.all("h2")}


def test_hostile_names_are_shown_as_text(tmp_path_factory: pytest.TempPathFactory) -> None:
    page = read_page(hostile_run(tmp_path_factory) / "report.html")
    assert len(page.all("script")) == 3
    for element in page.walk():
        assert not any(name.startswith("on") for name in element.attributes)
        assert element.tag != "b" or "data-key" in element.attributes or not element.attributes
    names = {element.text for element in page.all("bdi")}
    assert set(HOSTILE) <= names
    assert HOSTILE[0] in page.all("main")[0].text
    for picture in page.all("img"):
        assert picture.attributes["src"].startswith("data:image/svg+xml;charset=utf-8,<svg")


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
    assert page.all(id="explorer") and page.with_class("table")


@pytest.mark.e2e
def test_sixty_signals_still_make_a_page(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    write_page([sixty_signals(tmp_path_factory)], tmp_path / "report.html")
    page = read_page(tmp_path / "report.html")
    main = next(element for element in page.with_class("table") if element.attributes.get("data-name") == "main")
    assert len([row for row in main.all("tr") if row.all("td")]) >= 60
    assert (tmp_path / "report.html").stat().st_size < 5_000_000


def test_a_cell_must_show_its_numbers() -> None:
    first, second = Number(92.1, "92.1"), Number(1.99, "1.99")
    assert cell_parts(Cell("92.1 (1.99×)", (first, second))) == [first, " (", second, "×)"]
    with pytest.raises(ValueError, match="does not show"):
        cell_parts(Cell("about ninety", (first,)))
