"""What ``exitbench run`` is asked to run, and the command it records."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from exitbench.cli.verbs.run import suites_of
from tests.support.command_line import QUICK, exit_code

FIXTURE = "minilm-l6-sst2-dev"


@pytest.mark.parametrize("name", ["paper", "smoke"])
def test_a_bare_word_is_the_suite_whatever_folder_lies_beside_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir()
    (suite,) = suites_of([name])
    assert suite.name == name
    assert len(suite.signals) >= 8
    assert capsys.readouterr().err == "", "a folder that is no cache is nobody's mistake"


def test_a_cache_with_the_name_of_a_suite_is_mentioned_and_meant_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    synthetic_cache(tmp_path / "smoke", rows=20, layers=3, width=4)
    assert [suite.name for suite in suites_of(["smoke"])] == ["smoke"]
    assert capsys.readouterr().err == "note: smoke is the suite; the cache in this folder is ./smoke\n"
    (suite,) = suites_of(["./smoke"])
    assert [path.resolve() for path in suite.caches] == [tmp_path / "smoke"]
    assert capsys.readouterr().err == ""


def test_a_cache_with_the_name_of_a_fixture_is_mentioned_and_meant_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    synthetic_cache(tmp_path / FIXTURE, rows=20, layers=3, width=4)
    assert suites_of([FIXTURE])[0].caches[0].resolve() != tmp_path / FIXTURE
    note = f"note: {FIXTURE} is the cache of the clone; the cache in this folder is ./{FIXTURE}\n"
    assert capsys.readouterr().err == note
    assert suites_of([f"./{FIXTURE}"])[0].caches[0].resolve() == tmp_path / FIXTURE


@pytest.mark.e2e
def test_the_recorded_command_repeats_the_run_and_there_is_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = synthetic_cache(
        tmp_path / "it's mine" / 'two words, a "quoted" $name' / "c", rows=40, layers=4, width=4, compact=True
    )
    words = ["run", str(cache), *QUICK, "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", ["exitbench", *words])
    assert exit_code(*words) == 0
    record = json.loads((tmp_path / "out/run.json").read_text())
    assert record["arguments"] == ["exitbench", *words]
    assert shlex.split(record["command"]) == ["exitbench", *words]
    assert (tmp_path / "out/report.html").is_file()
