"""A threshold for a running model, found on a cache: fit what learns, replay, take the nearest operating point."""

from __future__ import annotations

from dataclasses import dataclass

from exitbench.benchmarks.replay.operating_points import PointValue, matched
from exitbench.benchmarks.replay.replay_signal import replay_signal
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.cache import Cache
from exitbench.signals.contract.signal import ExitSignal


@dataclass(frozen=True, eq=False)
class Calibration:
    """A signal that is ready to run, and the operating point whose threshold it takes."""

    signal: ExitSignal
    point: PointValue


def calibrate(cache: Cache, signal: ExitSignal, speed_up: float) -> Calibration:
    """The threshold whose exits come nearest to a layer-count ``speed_up`` on this cache.

    A signal that has still to learn is fitted on the same cache first. ``point.status`` is ``unmatched``
    where no threshold comes within 2% of what was asked.
    """
    ready = fitted(signal, cache) if signal.needs_fit else signal
    return Calibration(ready, matched(replay_signal(cache, ready), speed_up))
