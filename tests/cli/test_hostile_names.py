"""Names with escapes and bidirectional signs in caches and arguments: no verb prints them, no figure breaks on them."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from tests.support.command_line import QUICK, exit_code

pytestmark = pytest.mark.long

HOSTILE = "x\x1b[31m\x07\u202ey\x9bz"
VISIBLE = r"x\x1b[31m\x07\u202ey\x9bz"
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache whose task, model and provenance are hostile."""
    path = synthetic_cache(tmp_path_factory.mktemp("hostile") / "c", rows=60, layers=5, width=6, task=HOSTILE)
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["model"]["name"] = HOSTILE
    manifest["provenance"]["command"] = manifest["provenance"]["note"] = HOSTILE
    (path / "manifest.json").write_text(json.dumps(manifest))
    return path


@pytest.fixture(scope="module")
def run_folder(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile-run") / "out"
    suite = suite_of_caches([cache]).asking(protocols=("in-sample",), resamples=2)
    run_suite(suite.with_signals(("deebert",)), folder)
    return folder


@pytest.mark.parametrize(
    "words",
    [
        ["inspect", "CACHE"],
        ["inspect", "CACHE", "--json"],
        ["verify", "CACHE"],
        pytest.param(["run", "CACHE", *QUICK, "--out", "OUT"], marks=pytest.mark.e2e),
        ["compare", "RUN", "RUN", "--all"],
        pytest.param(["report", "RUN"], marks=pytest.mark.e2e),
        ["threshold", "CACHE", "--signal", "deebert", "--speed-up", "1.5", "--resamples", "2"],
        ["verify", f"./{HOSTILE}"],
        ["run", HOSTILE],
        ["score", "CACHE", "--signal", HOSTILE, "--out", "OUT.npz"],
        ["list", HOSTILE],
        ["list", "signals", "--signals-dir", HOSTILE],
        ["check", HOSTILE],
        ["import", HOSTILE, "--task", "t", "--split", "s", "--out", "OUT"],
        ["new-signal", HOSTILE],
        ["test-signal", HOSTILE],
    ],
    ids=lambda words: " ".join(words[:2]).encode("unicode_escape").decode(),
)
def test_no_verb_prints_a_control_character(
    words: list[str], cache: Path, run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = {"CACHE": cache, "RUN": run_folder, "OUT": tmp_path / "out", "OUT.npz": tmp_path / "out.npz"}
    assert exit_code(*(inputs.get(word, word) for word in words)) in (0, 2)
    captured = capsys.readouterr()
    assert captured.out + captured.err
    assert UNSAFE.search(captured.out + captured.err) is None


def test_a_hostile_name_is_printed_visibly(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert exit_code("inspect", cache) == 0
    assert capsys.readouterr().out.count(VISIBLE) == 4


@pytest.fixture(scope="module")
def reported(run_folder: Path) -> Path:
    for words in (["report", run_folder], ["table", run_folder, "--all"], ["figure", run_folder, "--all", "--jobs", 1]):
        assert exit_code(*words) == 0
    return run_folder


@pytest.mark.e2e
def test_no_table_and_no_page_holds_a_control_character(reported: Path) -> None:
    texts = {
        path.name: path.read_bytes().decode() for path in (*reported.glob("tables/*.[cmt]*"), *reported.glob("*.html"))
    }
    assert {Path(name).suffix for name in texts} == {".md", ".csv", ".tex", ".html"}
    unsafe = {name: UNSAFE.search(text.replace("\r\n", "\n")) for name, text in texts.items()}
    assert [name for name, character in unsafe.items() if character] == []
    assert all(VISIBLE in texts[name] for name in ("main.csv", "report.html"))


@pytest.mark.e2e
def test_every_figure_with_a_hostile_name_is_xml(reported: Path) -> None:
    figures = sorted((reported / "figures").glob("*.svg"))
    assert figures
    for figure in figures:
        ET.fromstring(figure.read_bytes())
    assert any(VISIBLE in figure.read_text() for figure in figures)
