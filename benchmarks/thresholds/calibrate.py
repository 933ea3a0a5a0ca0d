"""A threshold for a running model, found on a cache: fit what learns, replay, take the nearest operating point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.benchmarks.replay.operating_points import PointValue
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.run.measure_stage import evaluate_configurations, merged_parts, suite_entries
from exitbench.benchmarks.run.score_stage import score_signals
from exitbench.benchmarks.scoring.calibration_layers import check_inputs
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.benchmarks.suites.questions import Questions
from exitbench.cache import Cache, Target
from exitbench.errors import InputError
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
        target=target,
    )
    for signal in signals:
        check_inputs(cache, signal)
    scored = score_signals(cache, signals, questions)
    (entry,) = suite_entries(scored, [range(len(signals))])
    if not entry.usable:
        raise InputError(f"signal {signals[0].text} has no exit in a network of {cache.layers} layers")
    evaluation = evaluate_configurations(scored, entry.usable, questions)
    merged = merged_parts(scored, evaluation, "in-sample", entry.usable, questions)
    point = at_speed_up(speed_up)
    chosen = signals[entry.usable[int(merged.choices.at(point).parts[0])]]
    return Calibration(fitted(chosen, cache, target=target) if chosen.needs_fit else chosen, merged.at(point))
