"""A threshold for a running model, found on a cache: fit what learns, replay, take the nearest operating point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.benchmarks.replay.operating_points import PointValue
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.thresholds.evaluated_grid import evaluate_grid
from exitbench.cache import Cache, Target
from exitbench.signals.contract.signal import ExitSignal

FEWEST_RESAMPLES = 2
"""No interval is asked for, and this is as few as there can be."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """A signal that is ready to run, and the operating point whose threshold it takes."""

    signal: ExitSignal
    point: PointValue


def calibrate(
    cache: Cache, signals: Sequence[ExitSignal], speed_up: float, *, target: Target | None = None
) -> Calibration:
    """The threshold whose exits come nearest to a layer-count ``speed_up`` on this cache.

    Of several ``signals``, a grid, the one with the highest task score there, as ``exitbench threshold`` chooses. A
    signal that has still to learn is fitted on the same cache; its threshold comes from out-of-fold scores.
    ``point.status`` is ``unmatched`` where no threshold comes within 2% of what was asked, ``degenerate`` where every
    sample exits at one layer.
    """
    questions = Questions(
        speed_ups=(speed_up,),
        primary_speed_up=speed_up,
        rates_speed_up=speed_up,
        losses=(),
        protocols=("in-sample",),
        resamples=FEWEST_RESAMPLES,
        promises=False,
        target=target,
    )
    grid, point = evaluate_grid(cache, signals, questions), at_speed_up(speed_up)
    return Calibration(grid.chosen(point), grid.merged["in-sample"].at(point))
