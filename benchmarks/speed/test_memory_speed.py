"""Memory on a cache of six gigabytes: what a verb keeps at once is a block of one layer, not the cache."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exitbench.benchmarks.speed.harness.caches import feature_bytes, qqp_sized, repeated, without_norms
from exitbench.benchmarks.speed.harness.fit_memory import markdown_table, read_store
from exitbench.benchmarks.speed.harness.ratios import Measured, child, duration
from exitbench.benchmarks.speed.harness.rows import RecordOne, SpeedRow, Topic

SHARDS = 80
"""Of 4,096 samples, 12 layers and width 768 each: 6.04 GB of features."""

GOAL = 0.248
"""1.5 GB of 6.04 GB."""

READER = '''\
"""A signal that reads features, so that a whole cache has to pass through memory."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from exitbench import Direction, ExitSignal, Input, Layer, Reference, Tensor


@dataclass(frozen=True)
class Length(ExitSignal):
    """The length of the feature."""

    name: ClassVar[str] = "length"
    title: ClassVar[str] = "Length"
    reference: ClassVar[Reference] = Reference("made for a benchmark", 2026, "https://example.org")
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"features"})

    def score(self, layer: Layer) -> Tensor:
        assert layer.features is not None
        return torch.linalg.vector_norm(layer.features.double(), dim=1)
'''


def memory_row(name: str, what: str, margin: float, limit: str = "") -> SpeedRow:
    return SpeedRow(f"memory-{name}", f"peak memory of {what} / size of the cache", "lower", GOAL, "%", margin, limit)


# The same commands in the same installation peaked 0.1 GB apart within the hour, a third of the small peaks; to read a
# cache whole would be sixteen times as much.
SCORE = memory_row("score", "`exitbench score` with a signal that reads all features", 0.6)
VERIFY = memory_row("verify", "`exitbench verify`", 0.6)
COMPACT = memory_row("compact", "`exitbench compact` where offset norms must be computed", 0.6)
RUN = memory_row(
    "run",
    "`exitbench run` with DeeBERT and CAP, 1000 resamples",
    0.25,
    """
Features are never opened, since offset norms are stored. What grows with the samples is what is kept of each: its
bootstrap weights, one byte for every resample (as float32 they alone were 1.3 GB; now some resamples at a time become
float32), and its scores, one float64 for every layer. Result files are joined without reading them whole, and what
Arrow keeps of tables that are gone is given back after each signal (0.25 GB).
""",
)
TOPIC = Topic(
    "Memory",
    f"""
{SHARDS} shards of 4,096 samples, 12 layers and width 768: 6.04 GB of float16 features, of which 1.5 GB may be in
memory at once. Peaks are the high-water mark of the process's resident memory: what it allocated and what it has
mapped, Python and its libraries included (0.3 to 0.5 GB). The feature files are hard links to one file, which needs
no disk; each mapping still counts in full.

Fits have a test of their own (`tests/benchmarks/scoring/test_fit_memory.py`, in `tox -e slow`): every signal that
learns, each in a process of its own, on 6 GB with two classes (327,680 samples) and with 150 (233,472), of which a
quarter is logits. The table is what `python -m exitbench.benchmarks.speed.harness.fit_memory --folder SCRATCH` saw:
*resident* is the high-water mark as above, *allocated* the most anonymous memory, looked at every hundredth of a
second, which the system cannot take back as it can pages of mapped files. What helped: with 150 classes the history of
`meta` was 3 GB by calculation, before a fit remembered only what was said of the answers; a fitted temperature 2.2 GB,
before the logits of layers that it was done with could be freed; `meta[features=true]` more than 1.9 GB, before its
columns were bounded and not its rows alone.
""",
    (SCORE, VERIFY, COMPACT, RUN),
    table=markdown_table(read_store()),
)


@pytest.fixture(scope="module")
def six_gigabytes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("speed")
    path = repeated(qqp_sized(folder / "shard", rows=4096), folder / "six", SHARDS)
    yield path
    shutil.rmtree(folder)


def peak(cache: Path, seen: Path, *words: str) -> Measured:
    """The peak of one run of exitbench as a part of the cache."""
    done = child([sys.executable, "-m", "exitbench.benchmarks.speed.harness.watched", str(seen), *words])
    peak_bytes, size = json.loads(seen.read_text())["peak_bytes"], feature_bytes(cache)
    return Measured(
        peak_bytes / size, f"{peak_bytes / 1e9:.2f} GB of {size / 1e9:.2f} GB, in {duration(done.processor)}"
    )


def test_a_signal_that_reads_features_is_scored_block_by_block(
    six_gigabytes: Path, tmp_path: Path, record_ratio: RecordOne
) -> None:
    (tmp_path / "length.py").write_text(READER)
    words = ["--signal", "length", "--signals-dir", str(tmp_path), "--out", str(tmp_path / "scores.npz")]
    record_ratio(SCORE, lambda: peak(six_gigabytes, tmp_path / "seen", "score", str(six_gigabytes), *words))


def test_verifying_reads_block_by_block(six_gigabytes: Path, tmp_path: Path, record_ratio: RecordOne) -> None:
    record_ratio(VERIFY, lambda: peak(six_gigabytes, tmp_path / "seen", "verify", str(six_gigabytes)))


def test_compacting_computes_offset_norms_block_by_block(
    six_gigabytes: Path, tmp_path: Path, record_ratio: RecordOne
) -> None:
    bare = without_norms(six_gigabytes, tmp_path / "bare")
    words = [str(bare), str(tmp_path / "compact")]
    try:
        record_ratio(COMPACT, lambda: peak(six_gigabytes, tmp_path / "seen", "compact", *words))
    finally:
        shutil.rmtree(bare)


def test_a_run_is_not_bounded_by_the_cache(six_gigabytes: Path, tmp_path: Path, record_ratio: RecordOne) -> None:
    words = ["--signals", "deebert", "--signals", "cap", "--protocol", "in-sample", "--jobs", "1"]
    words += ["--out", str(tmp_path / "run")]
    record_ratio(RUN, lambda: peak(six_gigabytes, tmp_path / "seen", "run", str(six_gigabytes), *words))
