"""The default of ``--jobs``: a second process first imports for a second, and pays only where much is left to do."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exitbench.benchmarks.suites.suite import Suite

LITTLE_WORK = 400_000
"""Rows x layers x configurations up to which two processes were seen to take as long as one."""
ANY_CACHE = 45_000
"""Rows x layers that cost as much as what a configuration costs on a cache of any size: its results, its tests."""


def processes_for(suites: Sequence[Suite]) -> int:
    """One process for little work, otherwise one per core."""
    from exitbench.cache.format.manifest_file import read_manifest

    work = 0
    for suite in suites:
        configurations = sum(map(grid_size, suite.signals))
        for path in suite.caches:
            manifest = read_manifest(path)
            work += configurations * (ANY_CACHE + manifest.rows * manifest.model.layers)
    return 1 if work <= LITTLE_WORK else os.cpu_count() or 1


def grid_size(entry: str) -> int:
    """How many combinations of values an entry's grids have, by its text alone: signals are not loaded for it.

    >>> grid_size("cap[alpha=0.1|1|10,center=true]"), grid_size("pcee[patience=1|2,kind=a|b|c]")
    (3, 6)
    """
    return math.prod(part.count("|") + 1 for part in entry.split(","))
