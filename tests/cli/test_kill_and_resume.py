"""Runs that are killed and taken up again end in the same bytes, page included, as one that ran through."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from exitbench.output_folder import INVENTORY
from tests.support.interrupts import children, gone

SIGNALS = ["--signals", "deebert", "--signals", "cap[alpha=0.1|1]"]
WORDS = [*SIGNALS, "--protocol", "in-sample", "--resamples", "5", "--jobs", "2", "--out", "out"]
KILLS = 2
"""The fault matrix kills runs once, at many moments; here what was resumed is killed again."""


def start(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    program = [sys.executable, "-m", "exitbench", *words]
    return subprocess.Popen(program, cwd=folder, env=environment, stdout=subprocess.DEVNULL)


def contents(out: Path) -> dict[str, bytes]:
    files = [path for path in out.rglob("*") if path.is_file() and path.name != "run.json"]
    return {path.relative_to(out).as_posix(): path.read_bytes() for path in files}


@pytest.mark.e2e
def test_a_run_killed_at_random_moments_ends_in_the_same_results_and_page(tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "c", rows=60, layers=5, width=6, compact=True)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    run = ["run", str(cache), *WORDS]
    began = time.monotonic()
    assert start(whole, *run).wait(200) == 0
    seconds = time.monotonic() - began
    moments = random.Random(0)
    for _ in range(KILLS):
        running = start(killed, *run)
        try:
            running.wait(moments.uniform(0.3, 1) * seconds)
        except subprocess.TimeoutExpired:
            processes = children(running.pid)
            running.kill()
            running.wait()
            assert all(gone(process, seconds=20) for process in processes)
        assert (killed / "out" / "run.json").exists() or not (killed / "out" / "report.html").exists()
    if start(killed, *run).wait(200) == 2:  # it was finished, perhaps but for its report
        assert start(killed, "report", "out").wait(200) == 0
    resumed, expected = contents(killed / "out"), contents(whole / "out")
    assert resumed.keys() == expected.keys()
    assert [name for name in expected if resumed[name] != expected[name]] == []
    assert "report.html" in expected
    assert INVENTORY in expected
