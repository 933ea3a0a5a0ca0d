"""Reading a large cache: offset norms from its features, and all eight signals from what is stored."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from exitbench.benchmarks.scoring.score_cache import score_all
from exitbench.benchmarks.speed.harness.caches import CLASSES, LAYERS, ROWS, WIDTH, without_norms
from exitbench.benchmarks.speed.harness.ratios import Measured, ratio
from exitbench.benchmarks.speed.harness.rows import RecordOne, SpeedRow, Topic
from exitbench.cache import Cache
from exitbench.signals import load_registry

EIGHT = ("deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap")

OFFSET_NORMS = SpeedRow(
    "offset-norms",
    "offset norms of a cache from its memory-mapped float16 features / `torch.sum` over the same bytes",
    "lower",
    goal=5.0,
    limit="""
The sum reads float16 and adds. A norm must convert every number to float32, add the offset, square and add up, and
torch has no kernel that does all of it at once on float16. Designs tried: `vector_norm(dtype=float32)` on the
float16 tensor, which converts one number at a time (about 20 times the sum); row blocks that fit the processor's
cache, converted into one reused float32 buffer, the offset added in place and the norm taken; and what is there
now, the same buffer with addition and square fused into one pass, then a sum that keeps several running totals.
What is left is the conversion and three passes over memory that is near.
""",
)
EIGHT_SIGNALS = SpeedRow(
    "eight-signals",
    "scores of all eight signals at all layers, offset norms stored / the offset norms of the row above",
    "lower",
    goal=1.0,
    limit="""
What is left is float64 logarithms and exponentials, one per sample, layer and class; float32 would be faster and
would make ties that destroy rankings. Designs tried: every signal by itself, which computes the same energy and
entropy several times; derived quantities computed once per layer and shared by the signals; and, on top of it,
numbers of one class side by side in memory, so that a sum over two classes is an addition of two long rows and not
a reduction over two neighbours, with finiteness checked in one pass over the smallest and largest value; last, the
energy from the logarithm that the log-probabilities need anyway, and one view of a layer for all signals that read the
same things. On a busy machine the norms, which wait for memory, slow down more than the signals do.
""",
)
TOPIC = Topic(
    "Reading a cache",
    f"""
A synthetic cache of QQP's size, {ROWS:,} samples, {LAYERS} layers, width {WIDTH}, {CLASSES} classes: 745 MB of
features, read before the clock starts, so that all of it is in memory. `offset-norms` asks a cache without stored
norms for those of every layer, which is what compacting such a cache does; `eight-signals` scores the signals in
one pass with default parameters, in float64, each score checked.
""",
    (OFFSET_NORMS, EIGHT_SIGNALS),
)


@pytest.fixture(scope="module")
def bare(large_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cache]:
    path = without_norms(large_cache, tmp_path_factory.mktemp("speed") / "bare")
    yield Cache(path)
    shutil.rmtree(path)


def all_norms(cache: Cache) -> None:
    for layer in range(1, cache.layers + 1):
        cache.offset_norms(layer)


@torch.inference_mode()
def sum_features(cache: Cache) -> None:
    """One pass over the features, mapped block by block like everything that reads a cache."""
    for layer in range(1, cache.layers + 1):
        for shard in cache.shards:
            shard.features(layer).block(slice(None)).sum()


def test_offset_norms_against_a_sum(bare: Cache, record_ratio: RecordOne) -> None:
    assert not bare.stores_offset_norms

    def compare() -> Measured:
        return ratio(lambda: all_norms(bare), lambda: sum_features(bare), rounds=5).measured()

    record_ratio(OFFSET_NORMS, compare)


def test_eight_signals_against_the_offset_norms(large_cache: Path, bare: Cache, record_ratio: RecordOne) -> None:
    registry = load_registry()
    stored, signals = Cache(large_cache), [registry.make(name) for name in EIGHT]
    assert stored.stores_offset_norms

    def compare() -> Measured:
        return ratio(lambda: score_all(stored, signals), lambda: all_norms(bare), rounds=3).measured()

    record_ratio(EIGHT_SIGNALS, compare)
