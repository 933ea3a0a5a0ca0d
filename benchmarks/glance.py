"""A few numbers of a signal on a cache at once: what somebody who edits the signal wants to see after every save.

The numbers are those of ``run`` under the cross-fit protocol but for two things: folds are dealt once and not five
times, and there are no resamples, so intervals come from closed forms alone and nothing is tested.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.measure_stage import measure_signal
from exitbench.benchmarks.run.plan import Plan
from exitbench.benchmarks.run.score_stage import score_signals
from exitbench.benchmarks.scoring.score_cache import opened
from exitbench.benchmarks.suites.questions import Questions, layers_at
from exitbench.cache import Cache, Target
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal

PRIMARY = 2.0
FEWEST_RESAMPLES = 2
"""Nothing here rests on them; a run does not go without."""


@dataclass(frozen=True)
class Glance:
    """The numbers of one signal on one cache; NaN where it has none.

    ``score`` near a speed-up of two and the ``speed_up`` really reached, and DIS by layer.
    """

    signal: str
    score: float
    speed_up: float
    dis: dict[int, float]

    @property
    def numbers(self) -> dict[str, float]:
        """Every number by the heading it is shown under."""
        return {f"{PRIMARY:g}×": self.score, "at": self.speed_up} | {f"DIS {n}": dis for n, dis in self.dis.items()}


def glance(cache: Cache | str | Path, signals: Sequence[ExitSignal], *, target: Target | None = None) -> list[Glance]:
    """The numbers of some signals, each one configuration; raises InputError for the first that cannot be scored.

    What a right answer is, says the ``target``, by default that of the cache.
    """
    source = opened(cache)
    layers = layers_at(Questions().layers, source.layers)
    questions = Questions(
        layers=layers,
        speed_ups=(PRIMARY,),
        rates_speed_up=PRIMARY,
        protocols=("cross-fit",),
        resamples=FEWEST_RESAMPLES,
        losses=(),
        deals=1,
        promises=False,
        target=target,
    )
    scored = score_signals(source, signals, questions)
    for configuration in scored.configurations:
        if configuration.problem:
            raise InputError(configuration.problem)
    rows: dict[tuple[str, str, object, int | None], Row] = {}
    for groups in Plan(tuple((signal,) for signal in signals)).groups.values():
        for row in measure_signal(scored, groups, questions, ("results",)).rows:
            rows[f"{row.signal}/{row.parameters}", row.measure, row.operating_point, row.layer] = row

    def value(signal: ExitSignal, measure: str, point: object, layer: int | None = None) -> float:
        row = rows.get((f"{signal.name}/{signal.parameters_text}", measure, point, layer))
        return math.nan if row is None else row.value

    measure = source.manifest.task.metric
    at = at_speed_up(PRIMARY)
    return [
        Glance(
            signal=signal.text,
            score=value(signal, measure, at),
            speed_up=value(signal, "speed_up", at),
            dis={layer: value(signal, "dis", NOWHERE, layer) for layer in layers},
        )
        for signal in signals
    ]
