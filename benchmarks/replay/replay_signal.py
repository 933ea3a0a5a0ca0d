"""From a cache and a signal to its curve: the path that notebooks, thresholds and live inference share."""

from __future__ import annotations

from exitbench.benchmarks.replay.trade_off_curve import Curve, trade_off_curve
from exitbench.benchmarks.scoring.configuration import configuration_of, signal_scores
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache, Target
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal


def replay_signal(
    cache: Cache, signal: ExitSignal, *, fit_on: Cache | None = None, target: Target | None = None
) -> Curve:
    """Every operating point of one signal on a cache; a signal that learns is fitted on ``fit_on`` first.

    An answer is right by the ``target``: it equals the label, or it agrees with the last layer; by default as the
    cache says.

    Raises InputError for a signal that could never exit in this network, and as ``score`` does.
    """
    configuration = configuration_of(signal, cache.layers)
    if configuration.problem:
        raise InputError(f"signal {signal.text} on {cache.name}: {configuration.problem}")
    scores = signal_scores(configuration, score(cache, signal, fit_on=fit_on, target=target))
    metric, costs = cache.manifest.task.metric, cache.costs
    return trade_off_curve(scores, Outcomes.of_task(cache.predictions(), cache.truth(target), metric, costs))
