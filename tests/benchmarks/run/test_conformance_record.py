import json
from pathlib import Path
from typing import Any

import pytest

from exitbench.benchmarks.run.conformance_record import (
    RECORD,
    asked,
    conformance_record,
    failed_checks,
    signal_sha256,
)
from exitbench.cache import synthetic_cache
from exitbench.signals import ExitSignal, conformance
from exitbench.signals.conformance import CHECKS, name_of, run_checks
from exitbench.signals.registry.discovery import load_registry
from tests.support.command_line import QUICK, exit_code
from tests.support.signal_files import write_signal

WHOLE = {"passed": len(CHECKS), "exceptions": [], "failures": []}


def test_only_signals_from_elsewhere_are_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_signal(tmp_path / "mine.py", "mine")
    registry = load_registry([tmp_path])
    asked: list[str] = []

    def watched(kind: type[ExitSignal]) -> Any:
        asked.append(kind.name)
        return run_checks(kind)

    monkeypatch.setattr(conformance, "run_checks", watched)
    record = conformance_record([registry.expand("cap[alpha=0.1|1]"), registry.expand("mine")])
    assert record == {"cap": WHOLE, "mine": WHOLE}
    assert asked == ["mine"]
    assert failed_checks(record) == []


def test_what_is_recorded_of_the_signals_is_what_the_checks_say() -> None:
    """That every signal passes every check is a test of the signals; `scripts/write_conformance.py` writes the file."""
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    signals = load_registry().signals
    assert set(recorded) == set(signals)
    for name, kind in signals.items():
        excepted = [check for check in map(name_of, CHECKS) if check in kind.exceptions]
        passed = len(CHECKS) - len(excepted)
        expected = {"sha256": signal_sha256(kind), "passed": passed, "exceptions": excepted, "failures": []}
        assert recorded[name] == expected, name
    for name in ("deebert", "random"):
        assert recorded[name] == {"sha256": signal_sha256(signals[name]), **asked(signals[name])}


def test_a_signal_whose_file_was_changed_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    recorded["deebert"] |= {"sha256": "of another file", "passed": 3}
    recorded["margin"]["passed"] = 4
    monkeypatch.setattr("exitbench.benchmarks.run.conformance_record.RECORD", tmp_path / "record.json")
    (tmp_path / "record.json").write_text(json.dumps(recorded))
    registry = load_registry()
    record = conformance_record([registry.expand("deebert"), registry.expand("margin")])
    assert (record["deebert"], record["margin"]["passed"]) == (WHOLE, 4)


@pytest.mark.long
def test_a_run_says_what_a_users_signal_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signals = tmp_path / "signals"
    signals.mkdir()
    write_signal(signals / "mine.py", "mine")
    source = (signals / "mine.py").read_text().replace(".amax(dim=1)", ".amax(dim=1) + layer.logits64.mean()")
    (signals / "mine.py").write_text(source)
    cache = synthetic_cache(tmp_path / "cache", rows=60, layers=4)
    words = ["run", cache, *QUICK, "--signals", "mine", "--signals-dir", signals, "--out", tmp_path / "out"]
    assert exit_code(*words) == 0
    printed = capsys.readouterr().err
    assert "warning: mine fails" in printed
    assert "alone_as_in_company" in printed
    failures = json.loads((tmp_path / "out/run.json").read_text())["conformance"]["mine"]["failures"]
    assert f"{len(CHECKS) - len(failures)}/{len(CHECKS)}" in (tmp_path / "out" / "report.html").read_text()
