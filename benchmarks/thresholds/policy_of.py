"""A recommended threshold as an exit policy: the file that a service loads."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.hashed_randomness import hash64
from exitbench.signals.registry.exit_policy import CalibrationExits, ExitPolicy, PolicyModel, heads_digest

if TYPE_CHECKING:
    from exitbench.benchmarks.thresholds.recommendation import Recommendation
    from exitbench.cache import Cache
    from exitbench.signals.contract.signal import ExitSignal

MOST_ROWS = 5000
"""A policy keeps the exits of so many calibration rows at most; which ones, a hash of their ids says."""

KEEP_STREAM = 0x6B656570


def calibration_exits(scores: SignalScores, exits: NDArray[np.int64], ids: NDArray[np.int64]) -> CalibrationExits:
    """Exit layers [rows] and the scores there, of at most :data:`MOST_ROWS` rows, in the order of their hash."""
    kept = np.argsort(hash64(0, ids, KEEP_STREAM), kind="stable")[:MOST_ROWS]
    layers = exits[kept].tolist()
    last = scores.depth
    values = [
        None if layer == last else float(scores.values[layer - 1, row])
        for layer, row in zip(layers, kept.tolist(), strict=True)
    ]
    return CalibrationExits(tuple(layers), tuple(values))


def policy_of(recommendation: Recommendation, signal: ExitSignal, cache: Cache) -> ExitPolicy:
    """The policy of a recommendation; ``signal`` is the chosen one with what it learned."""
    record = recommendation.to_json()
    manifest = cache.manifest
    guarantee = recommendation.guarantee
    return ExitPolicy(
        signal=signal,
        threshold=recommendation.threshold,
        model=PolicyModel(
            manifest.model.name,
            cache.layers,
            tuple(manifest.task.classes),
            heads_digest(*cache.head_tensors()) if cache.has_heads else "",
            manifest.model.revision or "",
            manifest.model.pooling or "",
            manifest.model.pooler or "",
        ),
        calibration=recommendation.calibration or CalibrationExits((), ()),
        guarantee=None if guarantee is None else asdict(guarantee),
        expected={name: record[name] for name in ("speed_up", "score", "loss", "measure", "final_score", "samples")},
        note=record["note"],
    )
