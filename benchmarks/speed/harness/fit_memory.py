"""How much memory a fit needs on a calibration cache of six gigabytes: a process for every signal that learns.

    python -m exitbench.benchmarks.speed.harness.fit_memory --folder SCRATCH [SIGNAL ...]

prints a line for each signal and number of classes, and keeps it in ``fit_memory.json``, from which the page on
performance has its table. With two classes nearly all of the cache is features; with 150 a quarter is logits, from
which a fit derives more than it has.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from exitbench.benchmarks.speed.harness.caches import qqp_sized, repeated
from exitbench.signals.registry.discovery import load_registry

STORE = Path(__file__).parents[1] / "fit_memory.json"
SHARDS = {2: 80, 150: 57}
"""How many shards of 4,096 samples make six gigabytes, by the number of classes."""
MOST = 1.5e9
"""The most bytes that a fit may hold at once."""
VARIANTS = (
    "beem[weights=accuracy]",
    "berxit[form=published]",
    "calibrated[of=edr]",
    "calibrated[of=meta]",
    "mahalanobis[form=margin]",
    "meta[features=true]",
    "right-tool[temperature=fitted]",
)
"""Forms that fit otherwise than the default parameters of their signal do."""
PAUSE = 0.01
"""Seconds between two looks at a process."""

FIT = """
import os, sys
os.environ["EXITBENCH_FIT_CACHE"] = "off"
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.cache import Cache
from exitbench.signals import load_registry
ready = fitted(load_registry().make(sys.argv[1]), Cache(sys.argv[2]))
print(ready.fitted_parameters, flush=True)
sys.stdin.read()  # alive until its marks are read
"""


@dataclass(frozen=True)
class Peaks:
    """The peaks of one process in bytes, and its processor time.

    ``resident`` is the high-water mark of the process, the pages of mapped files included, which the system may take
    back at any time; ``allocated`` the most anonymous memory seen, looked at every hundredth of a second.
    """

    resident: int
    allocated: int
    seconds: float


@dataclass(frozen=True)
class FitMemory(Peaks):
    """The peaks of one fit, and how many numbers it learned."""

    parameters: int


def fitted_texts() -> list[str]:
    """Every signal that learns, and the forms of signals that learn otherwise."""
    registry = load_registry()
    return sorted([name for name in registry.signals if registry.make(name).needs_fit] + list(VARIANTS))


def six_gigabytes(folder: Path, classes: int) -> Path:
    """A calibration cache of 6.0 GB in ``folder``, made there if it is not yet."""
    cache = folder / f"six-{classes}"
    if not cache.exists():
        repeated(qqp_sized(folder / f"shard-{classes}", rows=4096, classes=classes), cache, SHARDS[classes])
    return cache


def fit_memory(text: str, cache: Path) -> FitMemory:
    """The peaks of fitting the signal on the cache; a RuntimeError with its last line where the fit fails."""
    peaks, answer = watched_process([sys.executable, "-c", FIT, text, str(cache)], text)
    return FitMemory(**asdict(peaks), parameters=int(answer))


def watched_process(words: Sequence[str], what: str, pause: float = PAUSE) -> tuple[Peaks, str]:
    """The peaks of a process until it writes a line, and that line; it then waits for its input to end.

    A RuntimeError with ``what`` and the last line of its errors where it ends without a word.
    """
    with tempfile.TemporaryFile("w+") as errors:
        with subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process:
            assert process.stdin is not None and process.stdout is not None
            allocated = 0
            while not select.select([process.stdout], [], [], pause)[0]:
                allocated = max(allocated, status_bytes(process.pid, "RssAnon"))
            answer = process.stdout.readline()
            if answer:
                resident, seconds = status_bytes(process.pid, "VmHWM"), processor_seconds(process.pid)
            process.stdin.close()
        if not answer:
            errors.seek(0)
            raise RuntimeError(f"{what}: {(errors.read().strip() or 'the process failed').splitlines()[-1]}")
    return Peaks(resident, allocated, round(seconds, 1)), answer.strip()


def status_bytes(process: int, name: str) -> int:
    """One of the sizes in a process's status; 0 once it has ended."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    return 0


def processor_seconds(process: int) -> float:
    """The processor time of a process until now."""
    after_name = Path(f"/proc/{process}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / os.sysconf("SC_CLK_TCK")


def read_store(path: Path = STORE) -> dict[str, dict[str, Peaks]]:
    """What was measured, by the number of classes and the text of the signal or method."""
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return {
        classes: {text: FitMemory(**row) if "parameters" in row else Peaks(**row) for text, row in rows.items()}
        for classes, rows in stored.items()
    }


def write_store(measured: Mapping[str, Mapping[str, Peaks]], path: Path = STORE) -> None:
    """Write what was measured, in the order of the texts."""
    rows = {
        classes: {text: asdict(by_text[text]) for text in sorted(by_text)}
        for classes, by_text in sorted(measured.items(), key=lambda item: int(item[0]))
    }
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


def markdown_table(measured: Mapping[str, Mapping[str, Peaks]], heading: str = "fit of") -> str:
    """What was measured, a line for each signal or method: resident and allocated GB for each number of classes."""
    numbers = list(map(str, SHARDS))
    titles = [f"{number} classes: {what}" for number in numbers for what in ("resident", "allocated")]
    lines = [f"| {heading} | {' | '.join(titles)} |", f"|---|{'--:|' * len(titles)}"]
    for text in sorted({text for rows in measured.values() for text in rows}):
        cells = []
        for number in numbers:
            seen = measured.get(number, {}).get(text)
            cells += ["not yet"] * 2 if seen is None else [gigabytes(seen.resident), gigabytes(seen.allocated)]
        lines.append(f"| `{text}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def gigabytes(size: int, most: float = MOST) -> str:
    """A size with two digits; bold where it is above the limit."""
    text = f"{size / 1e9:.2f} GB"
    return text if size < most else f"**{text}**"


def keep(peaks: Peaks, classes: int, text: str, path: Path) -> None:
    """Put what was measured into the store, and print it."""
    measured = read_store(path)
    measured.setdefault(str(classes), {})[text] = peaks
    write_store(measured, path)
    over = "" if peaks.resident < MOST else "  above the limit"
    print(  # noqa: T201
        f"{classes:>3} classes  {text:<32} resident {peaks.resident / 1e9:.2f} GB  "
        f"allocated {peaks.allocated / 1e9:.2f} GB  {peaks.seconds:.0f} s{over}",
        flush=True,
    )


def main() -> None:
    """Measure what is named, or everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the caches are made, or are already")
    parser.add_argument("--classes", type=int, choices=list(SHARDS), action="append")
    parser.add_argument("signals", nargs="*")
    asked = parser.parse_args()
    for classes in asked.classes or SHARDS:
        cache = six_gigabytes(asked.folder, classes)
        for text in asked.signals or fitted_texts():
            keep(fit_memory(text, cache), classes, text, STORE)


if __name__ == "__main__":
    main()
