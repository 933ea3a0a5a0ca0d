"""``exitbench watch`` as a process: a row after every save, an error in a line, 130 after Ctrl-C."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from exitbench.benchmarks.api import evaluate
from exitbench.benchmarks.glance import glance
from exitbench.cache import synthetic_cache
from exitbench.signals.registry.discovery import load_registry
from tests.support.command_line import ROOT, exit_code
from tests.support.page_runs import SIGNAL

pytestmark = pytest.mark.long

SAID = "judged by agreement with the last layer"
TEXT = SIGNAL.format(number=7, title="Mine")


class Watching:
    """A running ``watch`` whose lines can be waited for."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-m", "exitbench", "watch", *map(str, words)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def until(self, words: str) -> list[str]:
        """The lines up to the first with these words."""
        seen: list[str] = []
        while not seen or words not in seen[-1]:
            seen.append(self.lines.get(timeout=100))
        return seen


@pytest.mark.process
def test_every_save_gives_a_row_and_an_error_ends_nothing(tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=80, layers=4, width=4)
    file = tmp_path / "mine.py"
    file.write_text(TEXT)
    watching = Watching(file, cache, "--signals", "deebert,nsp")
    try:
        first = watching.until("conformance of hostile-7")
        assert [line.split()[0] for line in first[2:5]] == ["hostile-7", "deebert", "nsp"]
        assert first[-1].endswith("17/17")
        assert not any("since the last save" in line for line in first)
        file.write_text(TEXT.replace("logits.max(dim=1).values +", "-logits.max(dim=1).values +"))
        changed = watching.until("conformance")
        assert changed[3:5] == first[3:5], "rivals stay"
        assert any(line.startswith("since the last save, hostile-7: 2×") for line in changed)
        file.write_text(TEXT.replace("def score", "def score("))
        assert "mine.py" in watching.until("SyntaxError")[-1]
        file.write_text(TEXT.replace("logits.max(dim=1)", "logits.no_such(dim=1)"))
        line = next(number for number, text in enumerate(TEXT.splitlines(), start=1) if "logits.max" in text)
        assert f"mine.py:{line} in score: AttributeError" in watching.until("AttributeError")[-1]
        file.unlink()
        time.sleep(0.3)
        file.write_text(TEXT)
        assert watching.until("conformance")[2] == first[2]
        watching.process.send_signal(signal.SIGINT)
        assert watching.process.wait(60) == 130
    finally:
        watching.process.kill()


@pytest.mark.parametrize("target", ["labels", "final"])
def test_a_glance_has_the_numbers_of_an_evaluation(target: Literal["labels", "final"], tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=120, layers=4, width=4)
    made = [load_registry().make(text) for text in ("deebert", "cap[alpha=0.1]")]
    asked = {"speed_ups": [2.0], "rates_speed_up": 2.0, "deals": 1, "resamples": 2, "target": target}
    evaluated = evaluate(cache, made, protocols=["cross-fit"], **asked).results
    for row, signal_object in zip(glance(cache, made, target=target), made, strict=True):
        own = evaluated[evaluated["signal"] == signal_object.name]
        near = own[(own["operating_point"] == "speed_up=2") & (own["decisions"] == "")]
        assert row.score == near[near["measure"] == "accuracy"]["value"].item()
        assert row.speed_up == near[near["measure"] == "speed_up"]["value"].item()
        for layer, dis in row.dis.items():
            expected = own[(own["measure"] == "dis") & (own["layer"] == layer)]["value"].item()
            assert dis == expected or (np.isnan(dis) and np.isnan(expected))


def test_a_look_says_that_agreement_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text(TEXT)
    caches = [synthetic_cache(tmp_path / name, rows=40, layers=3, width=4) for name in ("first", "second")]
    said = {}
    for words in ([], ["--target", "final"]):
        assert exit_code("watch", file, *caches, "--signals", "deebert", "--once", *words) == 0
        said[bool(words)] = [line for line in capsys.readouterr().out.splitlines() if line.endswith(SAID)]
    assert {asked: len(lines) for asked, lines in said.items()} == {False: 0, True: 2}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "mine.py: defines no signal"),
        (TEXT.replace("def score", "def score("), "mine.py: SyntaxError"),
        (TEXT.replace("logits.max(dim=1)", "logits.no_such(dim=1)"), "in score: AttributeError"),
    ],
    ids=["empty", "syntax", "crash"],
)
def test_one_look_at_a_file_without_numbers_ends_with_2(
    text: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    cache = synthetic_cache(tmp_path / "cache", rows=40, layers=3, width=4)
    assert exit_code("watch", file, cache, "--signals", "deebert", "--once") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert line in captured.err


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["watch", "nothing.py", "mpnet-base-rte-dev"], "expected a Python file with a signal"),
        (["watch", __file__, "no-such-cache"], "is no cache"),
        (["watch", __file__, "mpnet-base-rte-dev", "--signals", "deebrt"], "Did you mean deebert?"),
    ],
)
def test_a_wrong_word_is_refused(words: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*words) == 2
    assert line in capsys.readouterr().err
