"""A stop that arrives where Python forgets exceptions still stops the program."""

import importlib
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exitbench.cli import app
from exitbench.cli.ctrl_c import stopped_like_ctrl_c
from tests.support.command_line import exit_code


class Slow:
    """Is interrupted while it is taken away: an exception there is forgotten by Python."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_in_a_destructor_is_not_lost(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), stopped_like_ctrl_c():
        Slow(number)
        for _ in range(500):
            time.sleep(0.01)
    with stopped_like_ctrl_c():
        time.sleep(0.05)  # repeated once, not for ever


IMPORTED = """
import signal, time
signal.raise_signal(signal.{number})
for _ in range(5):
    time.sleep(0.01)
finished = True
"""


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
def test_a_stop_amid_an_import_waits_for_its_end(number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"imported_{number}.py").write_text(IMPORTED.format(number=number))
    with pytest.raises(KeyboardInterrupt), stopped_like_ctrl_c():
        importlib.import_module(f"imported_{number}")
        for _ in range(500):
            time.sleep(0.01)
    assert sys.modules.pop(f"imported_{number}").finished


def test_an_import_without_end_is_stopped_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("exitbench.cli.ctrl_c.LONGEST_IMPORT", 0.1)
    endless = "import signal, time\nsignal.raise_signal(signal.SIGINT)\nfor _ in range(500):\n    time.sleep(0.01)\n"
    (tmp_path / "imported_endless.py").write_text(endless)
    with pytest.raises(KeyboardInterrupt), stopped_like_ctrl_c():
        importlib.import_module("imported_endless")
    assert "imported_endless" not in sys.modules


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_as_the_work_ends_stops_nothing(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    before, real, sent = signal.getsignal(number), signal.signal, []

    def restore(which: int, handler: Any) -> Any:
        if not sent:
            sent.append(number)
            signal.raise_signal(number)
        return real(which, handler)

    with stopped_like_ctrl_c():
        monkeypatch.setattr(signal, "signal", restore)
    assert sent == [number]
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("code", [0, 1])
def test_a_stop_after_the_verb_has_answered_leaves_its_exit_code(
    code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @contextmanager
    def interrupted() -> Iterator[Any]:
        yield SimpleNamespace(error=None, flush=lambda: signal.raise_signal(signal.SIGINT))

    monkeypatch.setattr(app, "lenient_streams", interrupted)
    monkeypatch.setattr(app, "exit_code", lambda words, *, debug: code)
    assert exit_code("list") == code
    assert capsys.readouterr().err == ""
