"""The findings of a suite are about signals that it runs; anything else is refused before a cache is read."""

from dataclasses import replace
from pathlib import Path

import pytest

from exitbench.benchmarks.run.plan import plan_run
from exitbench.benchmarks.suites.suite import Contest
from exitbench.benchmarks.suites.suite_file import known_suites, load_suite
from exitbench.cli.app import main
from exitbench.errors import InputError
from exitbench.signals.registry.discovery import load_registry


@pytest.mark.parametrize(
    ("contest", "problem"),
    [
        (Contest("cpa", ("deebert",)), r"findings.subject .* found 'cpa', which is not among them. Did you mean .*cap"),
        (Contest("cap", ("random",)), r"findings.against .* found 'random', which is not among them"),
    ],
)
def test_findings_about_a_signal_that_the_suite_does_not_run_are_refused(contest: Contest, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        plan_run(replace(load_suite("smoke"), findings=contest), load_registry())


def test_findings_about_a_signal_with_two_entries_are_refused() -> None:
    suite = load_suite("smoke")
    twice = replace(suite, signals=(*suite.signals, "cap[alpha=10]"))
    with pytest.raises(InputError, match=r"findings.subject .* found 'cap', which is listed more than once"):
        plan_run(twice, load_registry())


def test_an_entry_among_several_of_one_signal_is_named_as_it_is_written() -> None:
    suite = load_suite("smoke")
    contest = Contest("cap[alpha=10]", ("e-lang", "cap[alpha=0.1|1]"))
    twice = replace(suite, signals=(*suite.signals, "cap[alpha=10]", "e-lang[center=true]"), findings=contest)
    plan_run(twice, load_registry())
    assert twice.with_signals(("cap[alpha=10]", "cap[alpha=0.1|1]", "e-lang")).findings == contest
    alone = replace(twice, findings=Contest("cap[alpha=10]", ("e-lang",)))
    assert alone.with_signals(("cap", "e-lang[center=true]")).findings == Contest("cap", ("e-lang",))
    assert alone.with_signals(("cap[alpha=0.1]", "cap[alpha=1]", "e-lang")).findings is None


def test_findings_need_an_opponent_other_than_their_subject() -> None:
    suite = load_suite("smoke")
    with pytest.raises(InputError, match="against must not be empty"):
        replace(suite, findings=Contest("cap", ()))
    with pytest.raises(InputError, match="findings"):
        replace(suite, findings=Contest("cap", ("cap",)))


def test_other_signals_keep_the_findings_only_where_all_that_they_are_about_is_there() -> None:
    suite = load_suite("smoke")
    assert suite.with_signals(("cap[alpha=1]", "deebert", "e-lang")).findings == suite.findings
    assert suite.with_signals(("cap", "deebert")).findings is None
    assert suite.with_signals(("cap[alpha=0.1]", "cap[alpha=1]", "deebert", "e-lang")).findings is None


def test_the_command_line_says_so_in_one_line_and_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = known_suites()["smoke"].read_text().replace('subject = "cap"', 'subject = "mine"')
    (tmp_path / "own.toml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["run", str(tmp_path / "own.toml"), "--out", str(tmp_path / "out"), "--jobs", "1"])
    assert ended.value.code == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line]
    assert "findings.subject" in line
    assert not (tmp_path / "out").exists()
