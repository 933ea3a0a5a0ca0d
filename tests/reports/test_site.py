"""The gallery: a leaderboard and the runs' own pages, from files alone, in a folder that is exitbench's."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.support.command_line import exit_code
from tests.support.joint_runs import two_runs
from tests.support.page_reader import Element, read_page
from tests.support.page_runs import HOSTILE, hostile_run
from tests.support.table_runs import three_rows

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that share caches, one whose names try to be markup, and one with a folder of such a name."""
    folder = tmp_path_factory.mktemp("site")
    stranger = shutil.copytree(three_rows(tmp_path_factory), folder / "<b>bold & 'run'")
    runs = [*two_runs(tmp_path_factory), hostile_run(tmp_path_factory), stranger]
    assert exit_code("site", *runs, "--out", folder / "pages") == 0
    return folder / "pages"


@pytest.fixture(scope="module")
def index(site: Path) -> Element:
    return read_page(site / "index.html")


def pages(site: Path) -> list[Path]:
    return [site / "index.html", *sorted((site / "runs").iterdir())]


def test_every_link_is_relative_and_leads_to_a_page(site: Path, index: Element) -> None:
    addresses = [link.attributes["href"] for link in index.all("a")]
    ids = {element.attributes["id"] for element in index.walk() if "id" in element.attributes}
    assert {address[1:] for address in addresses if address.startswith("#")} <= ids
    runs = [address for address in addresses if not address.startswith("#")]
    assert len(runs) == 4 and all((site / address).is_file() for address in runs)
    assert all("://" not in address and not address.startswith("/") for address in runs)
    for page in pages(site)[1:]:
        back = [link.attributes["href"] for link in read_page(page).all("a") if link.text == "All runs"]
        assert [(page.parent / address).resolve() for address in back] == [(site / "index.html").resolve()]


def test_nothing_is_loaded_from_anywhere(site: Path) -> None:
    for page in pages(site):
        tree = read_page(page)
        policy = next(meta for meta in tree.all("meta") if "http-equiv" in meta.attributes).attributes["content"]
        assert policy.startswith("default-src 'none'; ")
        for element in tree.walk():
            for name in ("src", "action", "data", "poster", "srcset", "xlink:href"):
                assert name not in element.attributes, (page.name, element.tag)
            assert element.tag != "link" or element.attributes["href"].startswith("data:")
        style = "".join(element.text for element in tree.all("style"))
        assert "url(" not in style and "@import" not in style


def test_runs_that_share_caches_have_one_leaderboard_and_the_others_their_own(index: Element) -> None:
    titles = [heading.text for heading in index.all("h2", class_="run")]
    assert titles == ["first and second", "run", "<b>bold & 'run'"]
    boards = index.with_class("lead")
    names = {row.all("th")[0].text for row in boards[0].all("tbody", class_="signal")[0].all("tr")}
    assert (
        names == {"CAP [alpha=0.1|1]", "CAP [alpha=10]", "DeeBERT", "E-LANG", "Margin", "Right-Tool"}
        and len(boards) == 3
    )


def test_names_are_text(index: Element, site: Path) -> None:
    shown = {element.text for element in index.all("bdi")}
    assert "<b>bold & 'run'" in shown and HOSTILE[0] in index.all("main")[0].text
    assert index.all("img") == [] and len(index.all("script")) == 1
    for element in index.walk():
        assert not any(name.startswith("on") for name in element.attributes)
        assert element.tag != "b" or "data-key" in element.attributes or not element.attributes
    assert all(re.fullmatch(r"[a-z0-9-]+\.html", page.name) for page in pages(site))


def test_the_tables_and_a_note_for_the_host_lie_beside_it(site: Path) -> None:
    names = {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file()}
    assert {".nojekyll", "joint.csv", "joint.md", "joint.tex", ".exitbench.json"} <= names
    assert len(names) == 6 + 4


def test_a_second_site_takes_the_place_of_the_first_and_leaves_what_is_not_its_own(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = two_runs(tmp_path_factory)
    out = tmp_path / "pages"
    assert exit_code("site", first, second, "--out", out) == 0
    assert "Verdict: Near 1.5×" in capsys.readouterr().out
    before = (out / "runs" / "first.html").read_bytes()
    (out / "CNAME").write_text("example.org")
    assert exit_code("site", first, "--out", out) == 0
    left = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert left == {".exitbench.json", ".nojekyll", "index.html", "runs/first.html", "CNAME"}
    assert (out / "runs" / "first.html").read_bytes() == before, "the same results, the same bytes"


def test_a_folder_of_somebody_else_and_a_damaged_run_are_refused(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, _ = two_runs(tmp_path_factory)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "index.html").write_text("mine")
    assert exit_code("site", first, "--out", tmp_path / "mine") == 2
    assert "expected an empty folder, or one that exitbench made" in capsys.readouterr().err
    damaged = shutil.copytree(first, tmp_path / "damaged")
    (damaged / "samples.parquet").write_bytes(b"no")
    assert exit_code("site", first, damaged, "--out", tmp_path / "pages") == 2
    assert "samples.parquet: expected a parquet file" in capsys.readouterr().err
    assert not (tmp_path / "pages").exists() and (tmp_path / "mine" / "index.html").read_text() == "mine"
    assert exit_code("site", first, first, "--out", tmp_path / "pages") == 2
