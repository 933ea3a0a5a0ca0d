"""A small suite and how tests run ``exitbench check`` on it."""

import re
from pathlib import Path

import pytest

from exitbench.cli.app import main

SUITE = """
name = "small"
caches = ["caches/little"]
signals = ["deebert", "pabee", "nsp", "cap[alpha=0.1|1]"]
layers = ["1/2"]
speed_ups = [2.0]
primary_speed_up = 2.0
rates_speed_up = 2.0
losses = [1.0]
protocols = ["in-sample"]
resamples = 20
seed = 0

[thresholds]
pabee = ["all"]
"*" = ["median"]
"""


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in ("check", *words)])
    return int(ended.value.code or 0)


def small(folder: Path) -> tuple[Path, str, int]:
    return folder / "small.toml", "--jobs", 1


def moved_signals(text: str) -> set[str]:
    """The signals that a plain table names."""
    return set(re.findall(r"^little · [\w-]+ · ([\w-]+)", text, flags=re.MULTILINE))
