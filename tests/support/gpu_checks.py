"""What must hold on a GPU, as functions of a device: ``tests/gpu`` asks a CUDA device, ``tests/models`` the CPU.

Each check measures one number and says what it may be at most; the same code runs on both, so that a check that is
itself broken is seen where there is no GPU.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache, Task
from exitbench.models import Tokens
from exitbench.models.collecting import Outputs, collect, collect_rows
from exitbench.models.inference import EarlyExitClassifier
from exitbench.models.serving.latency import clock_of
from exitbench.progress import ProgressBar
from tests.support.live_models import NOISE, Collected, collected, gaps, literal_exits, ready

FLOAT32 = 1e-4
"""The largest difference of a float32 logit between devices, relative to the largest logit: other orders of sums."""

HALF = 0.1
"""The same for bfloat16, which keeps 8 bits: errors of 0.4% a product, over a few layers."""

REPEATS = 20
PRODUCTS = 200
"""Products of matrices that are timed, and ten times as many."""


@dataclass(frozen=True)
class Measured:
    """What a check saw, and the most that it may be."""

    check: str
    value: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.value <= self.limit

    def __str__(self) -> str:
        return f"{self.check} {self.value:.3g} (at most {self.limit:g})"


def outputs(source: Collected, device: str, autocast: torch.dtype | None = None, batch_size: int = 16) -> Outputs:
    """All rows through the network on ``device``, as `exitbench collect` sends them."""
    source.model.to(device).eval()
    bar = ProgressBar("collecting", 1, visible=False)
    rows = range(len(source.tokens))
    return collect_rows(source.model, source.tokens, rows, batch_size, torch.float32, autocast, bar)


def difference(first: torch.Tensor, second: torch.Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float((first - second).abs().max() / second.abs().max())


def made_on(device: str, cache: Cache) -> Cache:
    """The same cache, unless another device than ``device`` has made it: then nothing was checked."""
    made = cache.manifest.provenance.device
    assert made == torch.device(device).type, f"expected a cache made on {device}, found one made on {made}"
    return cache


def collected_as_on_the_cpu(device: str, folder: Path) -> Measured:
    """A cache of ``device`` against one of the CPU: logits, offset norms and features of every layer."""
    source = collected(folder, features="float32")
    task = Task("reviews", source.model.config.classes)
    options = {"features": "float32", "batch_size": 16, "device": device, "precision": "float32"}
    collect(source.model, source.tokens, task, "dev", folder / "other", **options)  # type: ignore[arg-type]
    cache = made_on(device, Cache(folder / "other"))
    largest = max(
        difference(read(cache, layer), read(source.cache, layer))
        for layer in range(1, cache.layers + 1)
        for read in (Cache.logits, Cache.features, Cache.offset_norms)
    )
    return Measured("collect differs from the CPU by", largest, FLOAT32)


def half_precision(device: str, folder: Path) -> Measured:
    """Logits under autocast to bfloat16 against float32, on the same device."""
    source = collected(folder)
    half, full = outputs(source, device, torch.bfloat16), outputs(source, device)
    return Measured("bfloat16 differs from float32 by", difference(half.logits, full.logits), HALF)


def transfers(device: str, folder: Path) -> Measured:
    """Batches on their way while others are computed: how many of many repeats differ in any bit."""
    source = collected(folder)
    first = outputs(source, device, batch_size=4)
    again = [outputs(source, device, batch_size=4) for _ in range(REPEATS)]
    return Measured("repeats that differ:", sum(not torch.equal(other.logits, first.logits) for other in again), 0)


def live_exits(device: str, folder: Path) -> Measured:
    """Samples that exit elsewhere than in the replay of the cache that the same device gave, ties left out."""
    source = collected(folder)
    task = Task("reviews", source.model.config.classes)
    # In float32: with half of it, batches of other sizes round otherwise, and by more than what counts as a tie.
    options = {"features": "none", "batch_size": 16, "device": device, "precision": "float32"}
    collect(source.model, source.tokens, task, "dev", folder / "here", **options)  # type: ignore[arg-type]
    here = Collected(source.model, source.tokens, made_on(device, Cache(folder / "here")))
    wrong = 0
    for text in ("deebert", "pabee", "cap"):
        signal = ready(text, here.cache)
        scores = score(here.cache, signal)
        for threshold in gaps(scores, signal, here.cache.layers):
            exits = np.array(literal_exits(scores, signal, threshold))
            live = EarlyExitClassifier(here.model, signal, threshold, precision="float32")
            answers = live.answers(here.tokens, batch_size=5)
            wrong += int((np.array([answer.exit_layer for answer in answers]) != exits)[here.decided].sum())
    return Measured(
        f"of {len(source.tokens)} samples, exits other than in the replay (ties within {NOISE:g}):", wrong, 0
    )


def timings(device: str, _: Path) -> Measured:
    """Ten times the work takes ten times as long by the clock of the device: how far off, as a share of ten."""
    clock, matrix = clock_of(torch.device(device)), torch.rand(256, 256, device=device)

    def seconds(times: int) -> float:
        start = clock.mark()
        for _ in range(times):
            matrix @ matrix
        return clock.seconds(start, clock.mark())

    seconds(PRODUCTS)
    ratio = float(np.median([seconds(10 * PRODUCTS) / seconds(PRODUCTS) for _ in range(9)]))
    return Measured("ten times the work is off by the share", abs(ratio / 10 - 1), 0.5)


def peak_bytes(device: str, work: Callable[[], object]) -> int:
    """The most memory in use while something works: of the GPU, or of this process so far."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        work()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def memory(device: str, folder: Path) -> Measured:
    """Four times the rows in batches of the same size: the peak over that of the rows alone."""
    source = collected(folder)
    longer = Collected(source.model, four_times(source.tokens), source.cache)
    outputs(source, device)
    few = peak_bytes(device, lambda: outputs(source, device))
    many = peak_bytes(device, lambda: outputs(longer, device))
    return Measured("four times the rows, peak memory times", many / few, 1.2)


def four_times(tokens: Tokens) -> Tokens:
    """The same rows four times over, without labels."""
    return Tokens([*tokens.ids] * 4, None if tokens.types is None else [*tokens.types] * 4, None, tokens.pad_id, 0)


CHECKS: dict[str, Callable[[str, Path], Measured]] = {
    "collect": collected_as_on_the_cpu,
    "autocast": half_precision,
    "transfers": transfers,
    "live exits": live_exits,
    "timings": timings,
    "memory": memory,
}
