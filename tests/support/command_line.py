"""The command line as tests run it: in this process for its exit code, or as a program of its own."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exitbench.cli.app import main

ROOT = Path(__file__).parents[2]
QUICK = ["--signals", "deebert", "--protocol", "in-sample", "--resamples", "2", "--jobs", "1"]
"""Options of a run that ends in seconds."""


def exit_code(*words: object) -> int:
    """What ``exitbench WORDS`` ends with, in this process."""
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


def program(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """``exitbench WORDS`` as a program of its own; ``options`` are those of ``subprocess.run``."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | options.pop("env", {})
    command = [sys.executable, "-m", "exitbench", *map(str, words)]
    return subprocess.run(command, env=environment, text=True, check=False, timeout=120, **options)
