"""Runs exitbench as its command line does, and leaves what a watcher saw in a JSON file.

    python -m exitbench.benchmarks.speed.harness.watched FILE run smoke --jobs 1

``peak_bytes`` is the largest resident memory of the process, mapped file pages included, ``processor_seconds`` its
processor time, that of its children included. ``numbers_seconds`` and
``figures_seconds`` are the processor times, children included, of the two halves of a run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def peak_bytes() -> int:
    """The high-water mark of this process's resident memory.

    Not ``ru_maxrss``: a child takes over the mark of the process that started it.
    """
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError("expected VmHWM in /proc/self/status")


def timed(work: Callable[..., Any], seen: dict[str, float], name: str) -> Callable[..., Any]:
    """The same function, whose processor time is added to ``seen[name]``."""

    def watched(*arguments: Any, **options: Any) -> Any:
        start = os.times()
        try:
            return work(*arguments, **options)
        finally:
            seen[name] = seen.get(name, 0.0) + sum(os.times()[:4]) - sum(start[:4])

    return watched


def main() -> None:
    """The first argument is the file, the others are exitbench's."""
    from exitbench.cli.app import main as exitbench

    target, *words = sys.argv[1:]
    seen: dict[str, float] = {}
    if words[0] == "run":
        from exitbench.benchmarks.run import run_suite as runner

        runner.run_suite = timed(runner.run_suite, seen, "numbers_seconds")
    if words[0] == "figure":
        from exitbench.reports import asked_views

        asked_views.write_figures = timed(asked_views.write_figures, seen, "figures_seconds")
    try:
        exitbench(words)
    finally:
        seen |= {"peak_bytes": peak_bytes(), "processor_seconds": sum(os.times()[:4])}
        Path(target).write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()
