"""How much memory ``exitbench derive`` needs where its method is fitted on a cache of six gigabytes.

    python -m exitbench.benchmarks.speed.harness.derive_memory --folder SCRATCH [METHOD ...]

is :mod:`fit_memory` for the methods of ``derive``: a process for each, on the same caches, and a store of its own, from
which the page on derived caches has its table. A fit repeats the same steps until a gradient is small, or over all
batches; what it holds is there from the first, so that few steps are taken here (hours would be spent otherwise).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from exitbench.benchmarks.speed.harness.fit_memory import SHARDS, Peaks, keep, six_gigabytes, watched_process
from exitbench.derive.registry import load_methods

STORE = Path(__file__).parents[1] / "derive_memory.json"
STEPS, BATCHES = 1, 50
"""Steps of L-BFGS, which allocates all of its history at the start, and batches of a training."""
PAUSE = 0.1
"""Seconds between two looks at a process: minutes of looks every hundredth cost as much as the steps."""

DERIVE = """
import itertools, sys
from pathlib import Path
from scipy import optimize
from exitbench.derive.derive_cache import derive_folders
from exitbench.derive.methods import past_future
steps, number = int(sys.argv[1]), int(sys.argv[2])
whole, every = optimize.minimize, past_future.batches
optimize.minimize = lambda *words, options, **more: whole(*words, options=options | {"maxiter": steps}, **more)
past_future.batches = lambda *words: itertools.islice(every(*words), number)
derive_folders(sys.argv[3], [], *map(Path, sys.argv[4:7]), True)
print("done", flush=True)
sys.stdin.read()  # alive until its marks are read
"""


def derive_memory(text: str, train: Path, source: Path) -> Peaks:
    """The peaks of deriving a compact cache of ``source`` by the method fitted on ``train``; an error as a fit's is."""
    with tempfile.TemporaryDirectory() as scratch:
        caches = [str(train), str(source), str(Path(scratch) / "derived")]
        words = [sys.executable, "-c", DERIVE, str(STEPS), str(BATCHES), text, *caches]
        return watched_process(words, text, PAUSE)[0]


def method_texts() -> list[str]:
    """Every method, as it is by default."""
    return sorted(load_methods().classes)


def main() -> None:
    """Measure what is named, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the caches are made, or are already")
    parser.add_argument("--classes", type=int, choices=list(SHARDS), action="append")
    parser.add_argument("methods", nargs="*")
    asked = parser.parse_args()
    for classes in asked.classes or SHARDS:
        train = six_gigabytes(asked.folder, classes)
        for text in asked.methods or method_texts():
            keep(derive_memory(text, train, asked.folder / f"shard-{classes}"), classes, text, STORE)


if __name__ == "__main__":
    main()
