"""The folders of runs that are not kept: what a killed process left goes, and nothing else."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from exitbench.benchmarks.baselines.scratch_folder import scratch_folder


def test_a_process_that_is_not_ours_to_ask_is_taken_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "kill", refuse)
    (tmp_path / "exitbench-scratch-1-x").mkdir()
    with scratch_folder():
        assert (tmp_path / "exitbench-scratch-1-x").exists()


@pytest.mark.process
def test_what_a_killed_process_left_is_taken_away_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    abandoned, running = (tmp_path / f"exitbench-scratch-{process}-x" for process in (ended.pid, os.getpid()))
    users_folder = tmp_path / "exitbench-scratch-notes"
    for folder in (abandoned, running, users_folder):
        folder.mkdir()
    with scratch_folder() as folder:
        assert {*tmp_path.iterdir()} == {folder, running, users_folder}
    assert {*tmp_path.iterdir()} == {running, users_folder}
