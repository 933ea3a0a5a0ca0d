"""What ``exitbench run`` takes on synthetic caches of any number of rows, layers and classes: time and memory.

    python -m exitbench.benchmarks.speed.harness.run_scale --folder SCRATCH --rows 600000 --resamples 1000

makes the cache shard by shard (compact, unless a signal reads features), runs each signal on it in a process of its
own, and prints a line for each: processor time, the high-water mark of resident memory, and the most anonymous memory,
which the system cannot take back.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exitbench.benchmarks.scoring.fit_cache import VARIABLE
from exitbench.benchmarks.speed.harness.fit_memory import PAUSE, Peaks, status_bytes
from exitbench.cache import synthetic_cache


@dataclass(frozen=True, kw_only=True)
class Size:
    """The size of a synthetic cache; without a ``width`` it is compact, with offset norms and no features.

    ``outputs`` are the names of extra outputs, one number for each row and layer.
    """

    rows: int
    layers: int = 12
    classes: int = 2
    width: int | None = None
    outputs: tuple[str, ...] = ()

    def cache(self, folder: Path, split: str = "dev") -> Path:
        """The cache of this size in ``folder``, made there if it is not yet."""
        kept = "-".join(["compact" if self.width is None else str(self.width), *self.outputs])
        path = folder / f"rows-{self.rows}-{self.layers}-{self.classes}-{kept}-{split}"
        if not (path / "manifest.json").exists():
            shutil.rmtree(path, ignore_errors=True)
            synthetic_cache(
                path,
                rows=self.rows,
                layers=self.layers,
                classes=self.classes,
                width=max(16, 2 * self.classes) if self.width is None else self.width,
                compact=self.width is None,
                split=split,
                outputs=self.outputs,
            )
        return path


def run_peaks(cache: Path, signals: str, out: Path, words: Sequence[str] = ()) -> Peaks:
    """The peaks of one ``exitbench run`` without a page, and its processor time; RuntimeError where it fails.

    Nothing was fitted before: its fit cache is empty.
    """
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    seen, log = out / "seen.json", out / "log.txt"
    command = [sys.executable, "-m", "exitbench.benchmarks.speed.harness.watched", str(seen), "run", str(cache)]
    command += ["--signals", signals, "--jobs", "1", "--no-report", "--out", str(out / "run"), *words]
    allocated, environment = 0, {**os.environ, VARIABLE: str(out / "fits")}
    with (
        log.open("w") as text,
        subprocess.Popen(command, stdout=text, stderr=subprocess.STDOUT, env=environment) as process,
    ):
        while process.poll() is None:
            allocated = max(allocated, status_bytes(process.pid, "RssAnon"))
            time.sleep(PAUSE)
    if process.returncode:
        last = (log.read_text().strip() or "the process failed").splitlines()[-1]
        raise RuntimeError(f"{signals} on {cache.name}: {last}")
    measured = json.loads(seen.read_text())
    return Peaks(measured["peak_bytes"], allocated, round(measured["processor_seconds"], 1))


def main() -> None:
    """Measure what is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the caches are made, or are already")
    parser.add_argument("--rows", type=int, nargs="+", required=True)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--classes", type=int, default=2)
    parser.add_argument("--width", type=int, help="store features of this width")
    parser.add_argument("--signals", nargs="+", default=["right-tool"])
    parser.add_argument("--resamples", default="1000")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("words", nargs="*", help="further words for the run, after --")
    asked = parser.parse_args()
    for rows in asked.rows:
        cache = Size(rows=rows, layers=asked.layers, classes=asked.classes, width=asked.width).cache(asked.folder)
        for signals in asked.signals:
            words = ["--resamples", asked.resamples, "--memory", asked.memory, *asked.words]
            peaks = run_peaks(cache, signals, asked.folder / "out", words)
            print(  # noqa: T201
                f"{rows:>9} rows x {asked.layers} layers x {asked.classes} classes  {signals:<28} "
                f"{peaks.seconds:8.1f} s  resident {peaks.resident / 1e9:.2f} GB  "
                f"allocated {peaks.allocated / 1e9:.2f} GB",
                flush=True,
            )


if __name__ == "__main__":
    main()
