import json
from pathlib import Path

import pytest

from exitbench.benchmarks.run.conformance_record import conformance_record, failed_checks
from exitbench.cache import synthetic_cache
from exitbench.signals.conformance import CHECKS
from exitbench.signals.registry.discovery import load_registry
from tests.support.command_line import QUICK, exit_code
from tests.support.signal_files import write_signal


def test_only_signals_from_elsewhere_are_asked(tmp_path: Path) -> None:
    write_signal(tmp_path / "mine.py", "mine")
    registry = load_registry([tmp_path])
    record = conformance_record([registry.expand("cap[alpha=0.1|1]"), registry.expand("mine")])
    assert record == {"mine": {"passed": len(CHECKS), "exceptions": [], "failures": []}}
    assert failed_checks(record) == []


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
    (failures,) = (
        result["failures"] for result in json.loads((tmp_path / "out/run.json").read_text())["conformance"].values()
    )
    assert f"{len(CHECKS) - len(failures)}/{len(CHECKS)}" in (tmp_path / "out" / "report.html").read_text()
