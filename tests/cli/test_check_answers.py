"""What ``exitbench check`` answers: the table of moves, CI services, new baselines, wrong usage."""

import re
import shutil
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest

from exitbench.benchmarks.baselines.baseline_table import Move, read_baseline, write_baseline
from exitbench.benchmarks.baselines.check_suite import Checked
from exitbench.benchmarks.suites.suite_file import load_suite
from exitbench.cache.format.manifest_file import read_manifest
from exitbench.cli.formats.check_formats import github, junit, markdown, terminal
from exitbench.cli.verbs.check import suites_with_baselines
from exitbench.places import BASELINES
from tests.support.checked_suite import moved_signals, run, small

pytestmark = pytest.mark.long


def test_new_rows_and_missing_rows_are_moves(outcome: Checked) -> None:
    shown = terminal([outcome])
    assert {"nsp", "pabee", "deebert"} <= moved_signals(shown)
    missing = [line for line in shown.splitlines() if " missing " in line]
    new = [line for line in shown.splitlines() if " new " in line]
    assert any("tau=3" in line for line in missing), "PABEE's patience, in the baseline only"
    assert any("dis, layer 2" in line for line in new), "NSP's DIS, in the results only"
    assert re.search(r"dis, layer 2 +[\d.]+ +[\d.]+ +-7 +6.5  (yes|no) \(", shown)


def test_update_shows_the_table_rewrites_and_then_all_is_green(
    edited: Path, outcome: Checked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = shutil.copy(edited / "small.csv", tmp_path / "mine.csv")
    assert run(*small(edited), "--baseline", file, "--update") == 0
    captured = capsys.readouterr()
    assert captured.out == terminal([outcome]) + "\n"
    assert captured.err == f"wrote {file}\n"
    assert run(*small(edited), "--baseline", file) == 0
    assert max(pin.tolerance for pin in read_baseline(file).values()) == 6.5, "set by hand, so it stays"


# -- for CI services


def test_github_gets_few_annotations_and_a_summary(
    edited: Path, outcome: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert run(*small(edited), "--format", "github") == 1
    lines = capsys.readouterr().out.splitlines()
    annotations = [line for line in lines if line.startswith("::error")]
    assert len(annotations) == 10
    assert annotations[0].startswith("::error title=exitbench check small::little · certified · nsp")
    assert lines[0] == "::group::exitbench check"
    assert "::endgroup::" in lines
    rest = len(outcome.moves) - 9
    assert annotations[-1] == f"::error title=exitbench check::{rest} more; the log has the whole table"
    assert (tmp_path / "summary.md").read_text() == markdown([outcome]) + "\n"


def test_github_commands_carry_signs_that_mean_something_there(outcome: Checked) -> None:
    problem = replace(outcome, suite="a:b,c", moves=(), problems=("100% gone\nreally",))
    assert github([problem]).splitlines()[-1] == "::error title=exitbench check a%3Ab%2Cc::100%25 gone%0Areally"


def test_junit_is_xml_with_a_case_for_each_signal(outcome: Checked) -> None:
    (suite,) = ET.fromstring(junit([outcome]).encode())
    cases = {(case.attrib["classname"], case.attrib["name"]): case for case in suite}
    assert (suite.attrib["name"], int(suite.attrib["tests"])) == ("small", len(cases))
    assert int(suite.attrib["failures"]) == len([case for case in suite if case.find("failure") is not None]) >= 3
    assert cases["little.in-sample", "oracle"].find("failure") is None
    failure = cases["little.in-sample", "deebert[normalize=false]"].find("failure")
    assert failure is not None
    assert "dis, layer 2: was" in str(failure.text)


def test_junit_tells_a_problem_as_an_error(outcome: Checked) -> None:
    (suite,) = ET.fromstring(junit([replace(outcome, moves=(), problems=('no "x" & y < z',))]).encode())
    assert (suite.attrib["errors"], suite.attrib["failures"]) == ("1", "0")
    error = suite.find("testcase/error")
    assert error is not None
    assert error.attrib["message"] == 'no "x" & y < z'


def test_markdown_keeps_a_grid_inside_its_cell(outcome: Checked) -> None:
    grid = next(key for key in outcome.current if "|" in str(key[6]))
    moved = replace(outcome, moves=(Move(grid, 1.0, 2.0, 0.5, std_err=0.25),))
    (row,) = [line for line in markdown([moved]).splitlines() if line.startswith("| little")]
    assert "alpha=0.1\\|1" in row
    assert row.endswith("| 1 | 2 | +1 | 0.5 | yes (0.25) |")
    assert len(re.findall(r"(?<!\\)\|", row)) == 8


# -- wrong usage


def test_wrong_usage_and_unreadable_baselines_end_with_2(
    pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*small(pinned), "--baseline", tmp_path / "none.csv") == 2
    assert "no baseline at" in capsys.readouterr().err
    (tmp_path / "bad.csv").write_text("hello\n")
    for update in ([], ["--update"]):  # nor is a file replaced that is no baseline
        assert run(*small(pinned), "--baseline", tmp_path / "bad.csv", *update) == 2
        assert "is not a baseline" in capsys.readouterr().err
    assert (tmp_path / "bad.csv").read_text() == "hello\n"
    assert run("--baseline", tmp_path / "bad.csv") == 2
    assert "belongs to one suite" in capsys.readouterr().err
    assert run("smokey") == 2
    assert "Did you mean" in capsys.readouterr().err
    assert run(*small(pinned), "--signals-dir", tmp_path / "nowhere") == 2
    assert run(*small(pinned), "--format", "xml") == 2


def test_without_a_suite_every_baseline_is_checked(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [suite.name for suite, _ in suites_with_baselines(None, None)] == sorted(
        path.stem for path in BASELINES.glob("*.csv")
    )
    monkeypatch.setattr("exitbench.places.BASELINES", tmp_path)
    assert run() == 2
    assert "no baseline in" in capsys.readouterr().err


def test_every_committed_baseline_is_as_check_would_write_it(tmp_path: Path) -> None:
    for file in BASELINES.glob("*.csv"):
        write_baseline(tmp_path / file.name, read_baseline(file))
        assert (tmp_path / file.name).read_bytes() == file.read_bytes(), file.name


def test_baselines_read_every_signal_at_a_fixed_threshold() -> None:
    for file in BASELINES.glob("*.csv"):
        suite = load_suite(file.stem)
        rows = read_baseline(file)
        read = {(key[5], str(key[7])) for key in rows if str(key[7]).startswith("tau=")}
        measured = {key[5] for key in rows}
        for name in {text.split("[")[0] for text in suite.signals}:
            if name == "output" and name not in measured:  # no cache of the suite has that output
                continue
            assert (name, "tau=1" if name == "pabee" else "tau=median") in read
        if "pabee" in suite.signals:
            depth = max(read_manifest(path).model.layers for path in suite.caches)
            assert {at for name, at in read if name == "pabee"} >= {f"tau={t}" for t in range(1, depth - 1)}
