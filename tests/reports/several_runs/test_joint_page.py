"""Several runs on one page: one verdict, one picture and one table for what they share, and the rest is said."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from exitbench.reports.page.page import write_page
from tests.support.command_line import exit_code
from tests.support.joint_runs import two_runs
from tests.support.page_reader import Element, data_of, read_page
from tests.support.table_runs import three_rows

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return two_runs(tmp_path_factory)


@pytest.fixture(scope="module")
def page(paths: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Element:
    file = tmp_path_factory.mktemp("joint") / "both.html"
    write_page(paths, file)
    return read_page(file)


def test_there_is_one_first_screen_and_every_link_leads_somewhere(page: Element) -> None:
    assert len(page.with_class("lead")) == len(page.with_class("verdict")) == len(page.with_class("forest")) == 1
    ids = [element.attributes["id"] for element in page.walk() if "id" in element.attributes]
    assert len(ids) == len(set(ids))
    links = {element.attributes["href"][1:] for element in page.all("a")}
    assert "overview" in links and links <= set(ids)


def test_each_score_names_the_row_of_its_own_run(page: Element, paths: tuple[Path, Path]) -> None:
    files = [pd.read_parquet(path / "results.parquet") for path in paths]
    shown = [element for element in page.with_class("lead")[0].walk() if "data-key" in element.attributes]
    runs = set()
    for element in shown:
        run, file, row, column = element.attributes["data-key"].split("/")
        assert file == "results"
        value = float(files[int(run)].iloc[int(row)][column])
        places = len(element.text.partition(".")[2])
        assert abs(float(element.text) - value) <= 0.5000001 * 10.0**-places
        runs.add(run)
    assert runs == {"0", "1"}


def test_the_table_has_a_row_per_signal_and_run_the_best_first(page: Element) -> None:
    body = page.with_class("lead")[0].all("tbody", class_="signal")[0]
    rows = [[cell.text for cell in row.children if isinstance(cell, Element)] for row in body.all("tr")]
    assert sorted((row[0], row[1]) for row in rows) == [
        ("CAP [alpha=0.1|1]", "first"),
        ("CAP [alpha=10]", "second"),
        ("DeeBERT", "first"),
        ("E-LANG", "second"),
        ("Margin", "second"),
        ("Right-Tool", "both runs"),
    ]
    scores = [float(row[2].split()[0]) for row in rows if row[2] != "–"]
    assert scores == sorted(scores, reverse=True) and len(scores) == 5


def test_what_is_not_shared_is_said(page: Element) -> None:
    verdict = page.with_class("verdict")[0].text
    assert "average of 2 shared tasks, over first and second, " in verdict
    assert "Not in all runs: u F1, a (second)." in verdict
    assert "so in the table once: Right-Tool." in verdict
    assert "CAP [alpha=0.1|1] (parameters chosen on the scored rows)" in verdict


def test_the_whole_table_opens_first_and_can_be_downloaded(page: Element) -> None:
    runs = data_of(page, "tables")["runs"]
    assert [run.get("joint", False) for run in runs] == [False, False, True]
    (table,) = runs[2]["tables"]
    assert (table["name"], table["topic"], len(table["rows"])) == ("joint", "main", 9)
    keys = [key for row in table["rows"] for cell in row[1:] if len(cell) == 6 for key in cell[5][1::2] if key]
    assert {key.partition(":")[0] for key in keys} == {"0", "1"}
    assert data_of(page, "downloads")[2]["joint"]["csv"].startswith("Signal,Run,")


def test_runs_that_share_nothing_stand_below_each_other(
    paths: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    write_page([paths[0], three_rows(tmp_path_factory)], tmp_path / "both.html")
    page = read_page(tmp_path / "both.html")
    assert len(page.with_class("verdict")) == 2
    assert [heading.text for heading in page.all("h2", class_="run")] == ["first", "run"]
    assert "stands by itself below" in page.all("p", class_="fine run")[0].text
    ids = {element.attributes["id"] for element in page.walk() if "id" in element.attributes}
    assert {element.attributes["href"][1:] for element in page.all("a")} <= ids


def test_the_verb_writes_the_page_and_the_table_and_ends_with_the_verdict(
    paths: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [shutil.copytree(path, tmp_path / path.name) for path in paths]
    assert exit_code("report", *runs, "--out", tmp_path / "both", "--subject", "margin") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(
        line.startswith("Verdict: Near 1.5×, average of 2 shared tasks, over first and second, ") for line in lines
    )
    assert " Margin scores " in " ".join(" ".join(lines).split())
    assert {file.name for file in (tmp_path / "both").iterdir()} == {
        ".exitbench.json",
        "joint.csv",
        "joint.md",
        "joint.tex",
        "report.html",
    }
    verdict = read_page(tmp_path / "both" / "report.html").with_class("verdict")[0].text
    assert "Margin scores" in verdict
    (tmp_path / "both" / "mine.txt").write_text("mine")
    assert exit_code("report", *runs, "--out", tmp_path / "both") == 0
    assert (tmp_path / "both" / "mine.txt").read_text() == "mine"


def test_a_subject_that_no_run_has_is_refused_and_nothing_is_written(
    paths: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("report", *paths, "--out", tmp_path / "both", "--subject", "margn") == 2
    assert "expected a signal of the run as --subject, found 'margn'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
