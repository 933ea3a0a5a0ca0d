"""A threshold for a running model, read off a cache: fit what learns, score, and find the operating point."""

from __future__ import annotations

from dataclasses import dataclass

from exitbench.benchmarks.replay.operating_points import Reading, matched
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.configuration import describe, signal_scores
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_cache import fitted, score
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal


@dataclass(frozen=True, eq=False)
class Calibration:
    """A signal that is ready to run, and the operating point its threshold was read at."""

    signal: ExitSignal
    reading: Reading


def calibrate(cache: Cache, signal: ExitSignal, speed_up: float) -> Calibration:
    """The threshold whose exits come nearest to a layer-count ``speed_up`` on this cache.

    A signal that has still to learn is fitted on the same cache first. ``reading.status`` is ``unmatched``
    where no threshold comes within 2% of what was asked.
    """
    ready = fitted(signal, cache) if signal.needs_fit else signal
    facts = describe(ready, cache.layers)
    if facts.problem:
        raise InputError(f"signal {ready.text}: {facts.problem}")
    outcomes = Outcomes.of(cache.predictions(), cache.labels, 1 if cache.manifest.task.metric == "f1" else None)
    curve = trade_off_curve(signal_scores(facts, score(cache, ready)), outcomes)
    return Calibration(ready, matched(curve, speed_up))
