"""Running pytest as a user does: a process of its own, in a folder of theirs, without this project's settings."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_pytest(folder: Path, *words: str) -> str:
    """What ``pytest`` prints in a folder, with every test and its outcome."""
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "-q", *words],
        cwd=folder,
        env=os.environ | {"PYTEST_ADDOPTS": "", "PYTHONPATH": str(ROOT), "COLUMNS": "300"},
        capture_output=True,
        text=True,
        check=False,
    )
    return completed.stdout + completed.stderr


def pytest_outcomes(folder: Path) -> dict[str, int]:
    """How many tests of a folder passed, failed and so on, from pytest's last line."""
    last = run_pytest(folder, "--rootdir", str(folder)).strip().splitlines()[-1]
    return {outcome: int(count) for count, outcome in re.findall(r"(\d+) (\w+)", last.rsplit(" in ", 1)[0])}
