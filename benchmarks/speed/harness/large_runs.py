"""What a run of each signal takes with 1,000 classes and with 48 layers: time, memory, and one pass over its bytes.

    python -m exitbench.benchmarks.speed.harness.large_runs --folder SCRATCH [--size classes|layers] [SIGNAL ...]

runs each signal in a process of its own as :mod:`run_scale` does, and keeps what was seen in ``large_runs.json``, from
which the page on performance has its tables. ``--tenth`` runs on a tenth of the rows, which takes minutes where the
whole would take an hour; ``--fit`` fits a signal once on all rows of the whole size.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from exitbench.benchmarks.scoring.calibration_layers import stored_tensor
from exitbench.benchmarks.speed.harness.fit_memory import FitMemory, fit_memory, gigabytes
from exitbench.benchmarks.speed.harness.rows import Topic
from exitbench.benchmarks.speed.harness.run_scale import Size, run_peaks
from exitbench.cache import Cache
from exitbench.signals.contract.layer import Input
from exitbench.signals.registry.discovery import load_registry

STORE = Path(__file__).parents[1] / "large_runs.json"
WIDTH = 256
SIZES = {
    "classes": Size(rows=50_000, layers=12, classes=1000, width=WIDTH, outputs=("lte",)),
    "layers": Size(rows=100_000, layers=48, classes=2, width=WIDTH, outputs=("lte",)),
}
"""The two sizes, by what is large about them."""
COMPACT = ("cap", "nsp")
"""What needs more features than classes, and reads none of them: on compact caches of width 2,000 and 16."""
BUDGET = 2e9
"""Bytes of the default memory budget, which the whole process should keep to."""
RESAMPLES = 1000
PASSES = 3
"""How often the bytes are read once they are in memory; the fastest counts."""


@dataclass(frozen=True)
class LargeRun:
    """What one run took: bytes at most, and processor seconds. It had ``rows`` rows.

    ``read`` are the bytes of the cache that the signal reads, which take ``one_pass`` processor seconds to read once.
    """

    rows: int
    resident: int
    allocated: int
    seconds: float
    read: int
    one_pass: float


@dataclass(frozen=True)
class Seen:
    """What was seen of a signal at one size: a run, on all rows or some, and one fit on all rows; ``None``: not yet."""

    run: LargeRun | None = None
    fit: FitMemory | None = None


Measured = Mapping[str, Mapping[str, Seen]]
"""What was seen, by what is large and the text of the signal."""


def cache_of(size: Size, text: str, folder: Path) -> Path:
    """The cache that a signal is run on."""
    return (replace(size, width=None, outputs=()) if text in COMPACT else size).cache(folder)


def one_pass(path: Path, inputs: Collection[Input]) -> tuple[int, float]:
    """The bytes of a cache that a signal with these inputs reads, and the processor time of reading them once.

    They are in memory already and mapped: each is added to a sum, which is the least that one can do with it.
    """
    cache = Cache(path)
    names = sorted({"logits", *(name for name in inputs if name not in ("head", "ids"))})
    stored = [
        stored_tensor(cache, layer, rows, name).contiguous().numpy().reshape(-1).view(np.uint8)
        for rows in cache.blocks()
        for layer in range(1, cache.layers + 1)
        for name in names
    ]
    seconds = []
    for _ in range(1 + PASSES):
        start = time.process_time()
        for part in stored:
            whole = len(part) // 8 * 8
            part[:whole].view(np.int64).sum()
            part[whole:].sum()
        seconds.append(time.process_time() - start)
    return sum(len(part) for part in stored), min(seconds[1:])


def large_run(size: Size, text: str, folder: Path) -> LargeRun:
    """What a run of the signal takes on a cache of this size in ``folder``."""
    cache = cache_of(size, text, folder)
    peaks = run_peaks(cache, text, folder / "out", ["--resamples", str(RESAMPLES)])
    read, seconds = one_pass(cache, load_registry().make(text).inputs)
    return LargeRun(size.rows, peaks.resident, peaks.allocated, peaks.seconds, read, round(seconds, 4))


def read_store(path: Path = STORE) -> dict[str, dict[str, Seen]]:
    """What was measured."""
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        name: {
            text: Seen(row["run"] and LargeRun(**row["run"]), row["fit"] and FitMemory(**row["fit"]))
            for text, row in rows.items()
        }
        for name, rows in stored.items()
    }


def write_store(measured: Measured, path: Path = STORE) -> None:
    """Write what was measured, in the order of the texts."""
    rows = {
        name: {text: asdict(by_text[text]) for text in sorted(by_text)} for name, by_text in sorted(measured.items())
    }
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def markdown_table(measured: Mapping[str, Seen], size: Size) -> str:
    """What was measured at one size, a line for each signal; a number of rows that is not all of them is bold."""
    lines = [
        "| signal | rows | processor time | one pass | times | allocated | resident | one fit on all rows |",
        f"|---|{'--:|' * 7}",
    ]
    for text in sorted(measured):
        fit = measured[text].fit
        last = "" if fit is None else f"{fit.seconds:.0f} s, {gigabytes(fit.allocated, BUDGET)}"
        lines.append(f"| `{text}` | {' | '.join([*run_cells(measured[text].run, size), last])} |")
    return "\n".join(lines) + "\n"


def run_cells(run: LargeRun | None, size: Size) -> list[str]:
    """What stands in a table of one run."""
    if run is None:
        return ["**not run**", *[""] * 5]
    rows = f"{run.rows:,}" if run.rows == size.rows else f"**{run.rows:,}**"
    times = f"{run.seconds / run.one_pass:,.0f}" if run.one_pass else ""
    memory = [gigabytes(run.allocated, BUDGET), gigabytes(run.resident, BUDGET)]
    return [rows, f"{run.seconds:.1f} s", f"{1000 * run.one_pass:.2g} ms", times, *memory]


def tables(measured: Measured) -> str:
    """Both tables, each with what its caches have in common."""
    parts = []
    for name, size in SIZES.items():
        title = f"{size.rows:,} rows, {size.layers} layers, {size.classes:,} classes:"
        parts.append(f"{title}\n\n{markdown_table(measured.get(name, {}), size)}")
    return "\n".join(parts)


def keep(name: str, text: str, *, run: LargeRun | None = None, fit: FitMemory | None = None) -> None:
    """Put what was measured into the store beside what is there of the signal, and print it."""
    measured = read_store()
    before = measured.setdefault(name, {}).get(text, Seen())
    measured[name][text] = Seen(run or before.run, fit or before.fit)
    write_store(measured)
    peaks = run or fit
    assert peaks is not None
    print(  # noqa: T201
        f"{name:<8} {text:<24} {'run' if run else 'fit'} {peaks.seconds:8.1f} s  "
        f"allocated {peaks.allocated / 1e9:.2f} GB  resident {peaks.resident / 1e9:.2f} GB",
        flush=True,
    )


TOPIC = Topic(
    "Many classes, many layers",
    f"""
What one run of each signal takes, with its default parameters, {RESAMPLES:,} resamples, in-sample and cross-fit, one
process, the default budget of 2 GB and an empty fit cache
(`python -m exitbench.benchmarks.speed.harness.large_runs --folder SCRATCH`). *Allocated* and *resident* are as above;
bold is above the budget. *One pass* is the processor time of adding up, once, all bytes of the cache that the signal
reads, mapped and in memory already; *times* is how many such passes the run could have made. Features are float16 and
{WIDTH} wide, since a fit for each class takes the square of the width: with BERT's 768 nine times as long.

**Rows in bold are a tenth of the rows**, and *not run* says that there was no time for even that. A signal that learns
is fitted 21 times in a run and scores the rows some six times over (each fold and each pair of folds left out, and the
halves of a guarantee), so that a minute of one fit is half an hour of a run. The last column has, where it was tried,
one fit on all rows of the whole size: its processor time and what the fit alone allocated.

Measured in one evening beside other work, where processor time is up to twice that of a quiet machine. The eight
published signals were measured before, on compact caches (for `nsp` and `cap` with heads of width 2,000 and 16, which
need more features than classes), and before samples with many classes went through the layers in smaller blocks. So
were, on a tenth of the rows, `jei-gate` and `meta` with 1,000 classes and `knn-agreement`, `mahalanobis`, `residual`,
`settled` and `vim` with 48 layers. Only `beem`, `eenet` and `meta` with 48 layers were measured since pages of mapped
files are given back before the budget is used up: `beem` took 1.86 GB and `eenet` 2.23 GB resident before.
""",
    (),
    table=tables(read_store()),
)


def main() -> None:
    """Measure what is named, or every signal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the caches are made, or are already")
    parser.add_argument("--size", choices=list(SIZES), action="append")
    parser.add_argument("--tenth", action="store_true", help="run on a tenth of the rows")
    parser.add_argument("--fit", action="store_true", help="no run, but one fit on all rows")
    parser.add_argument("signals", nargs="*")
    asked = parser.parse_args()
    registry = load_registry()
    for name in asked.size or SIZES:
        size = SIZES[name]
        part = replace(size, rows=size.rows // 10) if asked.tenth else size
        for text in asked.signals or sorted(registry.signals):
            if asked.fit:
                keep(name, text, fit=fit_memory(text, cache_of(size, text, asked.folder)))
            else:
                keep(name, text, run=large_run(part, text, asked.folder))


if __name__ == "__main__":
    main()
