"""The threshold for a service: which one, what it will cost, and whether the data can say so at all.

The threshold (and the parameters, for a grid) is chosen on all samples of the cache, as a service would use it. What to
expect of it is estimated by cross-fitting, because on the samples it was chosen on a threshold looks better than it is.
Intervals are bootstrap intervals in which the whole choice is made again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.protocols.part_result import ResampledPoint
from exitbench.benchmarks.replay.bounds import final_layer
from exitbench.benchmarks.replay.operating_points import ROUNDING
from exitbench.benchmarks.results.operating_point import OperatingPoint, at_speed_up, within_loss
from exitbench.benchmarks.results.status import Estimate
from exitbench.benchmarks.results.vocabulary import Schedule
from exitbench.benchmarks.run.evaluated_configurations import cache_weights
from exitbench.benchmarks.statistics.deals import deal_error, mean_over_deals, stretched
from exitbench.benchmarks.statistics.intervals import MOST_MISSING, interval
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.thresholds.evaluated_grid import evaluate_grid
from exitbench.benchmarks.thresholds.per_layer import largest_speed_up, per_layer, per_layer_thresholds
from exitbench.benchmarks.thresholds.policy_of import calibration_exits
from exitbench.benchmarks.thresholds.recommendation import Recommendation
from exitbench.cache import Cache, Target
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.exit_policy import Threshold

FEWEST_SAMPLES = 50
"""With fewer samples an interval is wider than any difference between thresholds."""


def recommend(
    cache: Cache,
    signals: Sequence[ExitSignal],
    *,
    speed_up: float | None = None,
    max_loss: float | None = None,
    protocol: str = "cross-fit",
    resamples: int = 1000,
    folds: int = 5,
    seed: int = 0,
    schedule: Schedule = "shared",
    target: Target | None = None,
) -> Recommendation:
    """The threshold of a signal (or of the best of several) for a wanted speed-up, a largest loss in points, or both.

    With both it is that of the speed-up, if its loss on these samples is small enough. Under another ``schedule`` than
    ``shared`` every layer has a threshold of its own.

    Raises InputError where the data cannot answer: a speed-up out of reach, a loss smaller than one sample, both
    together, too few samples.
    """
    point = asked_point(speed_up, max_loss)
    if protocol not in ("in-sample", "cross-fit"):
        raise InputError(f"expected the protocol in-sample or cross-fit, found {protocol!r}")
    if cache.rows < FEWEST_SAMPLES:
        raise InputError(
            f"{cache.name} has {cache.rows} samples; below {FEWEST_SAMPLES} they cannot tell one threshold from another"
        )
    if max_loss is not None and max_loss * cache.rows < 100:
        raise InputError(
            f"a loss of {max_loss:g} points is less than one of the {cache.rows} samples of {cache.name}; "
            f"ask for at least {100 / cache.rows:.2g}, or collect more"
        )
    questions = Questions(
        speed_ups=() if speed_up is None else (speed_up,),
        primary_speed_up=2.0 if speed_up is None else speed_up,
        rates_speed_up=2.0 if speed_up is None else speed_up,
        losses=() if max_loss is None else (max_loss,),
        protocols=("in-sample",) if protocol == "in-sample" else ("in-sample", protocol),
        resamples=resamples,
        folds=folds,
        seed=seed,
        promises=False,
        target=target,
    )
    grid = evaluate_grid(cache, signals, questions)
    if schedule != "shared" and point.kind == "loss":
        reached = largest_speed_up(grid, point, schedule)
        return recommend(
            cache,
            signals,
            speed_up=reached,
            protocol=protocol,
            resamples=resamples,
            folds=folds,
            seed=seed,
            schedule=schedule,
            target=target,
        )
    scored, merged = grid.scored, grid.merged
    samples = scored.samples("test")
    measure, final = samples.measure, final_layer(samples.outcomes)
    final_score = float(final.tally.score(measure))
    threshold: Threshold
    if schedule == "shared":
        deployed, expected = merged["in-sample"].at(point), merged[protocol].at(point)
        deals, threshold = [expected, *(deal.at(point) for deal in merged[protocol].deals)], deployed.threshold
    else:
        deployed, threshold = per_layer(grid, "in-sample", point, schedule), per_layer_thresholds(grid, point, schedule)
        expected = deployed if protocol == "in-sample" else per_layer(grid, protocol, point, schedule)
        deals = [expected]
    check_answer(deployed, expected, point)
    if speed_up is not None and max_loss is not None:
        check_loss(final_score - deployed.score(measure), deployed.speed_up, max_loss)
    ready = grid.chosen(point)
    assert deployed.exits is not None  # else it would have been refused
    chosen = grid.numbers[int(merged["in-sample"].choices.at(point).parts[0])]
    every_row = np.ones(samples.size, dtype=bool)
    final_draws = cache_weights(scored, questions).final("test", every_row, samples.outcomes)
    draws = expected.resampled.score(measure)
    scores = [value.score(measure) for value in deals]
    return Recommendation(
        cache=cache.name,
        signal=ready.to_json(),
        text=ready.text,
        chosen=merged[protocol].choices.described(point)[0],
        exits_when=ready.exits_when,
        threshold=threshold,
        speed_up=estimate_over_deals([value.speed_up for value in deals], expected.resampled.speed_up, samples.size),
        score=estimate_over_deals(scores, draws, samples.size),
        loss=estimate_over_deals(
            [final_score - value for value in scores], final_draws.score(measure) - draws, samples.size
        ),
        measure=measure,
        final_score=final_score,
        protocol=protocol,
        samples=samples.size,
        target=scored.target,
        calibration=calibration_exits(scored.scores(chosen, "in-sample"), deployed.exits, samples.ids),
    )


def asked_point(speed_up: float | None, max_loss: float | None) -> OperatingPoint:
    """The operating point that is asked for: with both that of the speed-up, whose loss is looked at afterwards."""
    if speed_up is None and max_loss is None:
        raise InputError("ask for a speed-up (--speed-up 2), a largest loss in points (--max-loss 0.5), or both")
    if speed_up is not None and not 1 < speed_up < math.inf:
        raise InputError(f"a speed-up must be above 1, found {speed_up:g}")
    if max_loss is not None and not 0 <= max_loss <= 100:
        raise InputError(f"a loss must be between 0 and 100 points, found {max_loss:g}")
    if speed_up is not None:
        return at_speed_up(speed_up)
    assert max_loss is not None
    return within_loss(max_loss)


def check_loss(loss: float, speed_up: float, max_loss: float) -> None:
    """Raise InputError where a threshold with the wanted speed-up loses more than allowed."""
    if loss > max_loss + ROUNDING:
        raise InputError(
            f"no threshold gives both: at a speed-up of {speed_up:.2f}x the loss is {loss:.2f} points, "
            f"above {max_loss:g}; ask for one of the two, or try other signals"
        )


def estimate_over_deals(values: Sequence[float], draws: NDArray[np.float64], n: int) -> Estimate:
    """The mean of ``values`` [deals] with its interval; ``draws`` [resamples] are those of the first deal."""
    mean = mean_over_deals(values)
    return interval(mean, stretched(draws + (mean - values[0]), mean, deal_error(values)), n)


def is_beyond_chance(expected: ResampledPoint, speed_up: float) -> bool:
    """Whether the realised speed-up is more than two standard errors off, of choosing and scored samples together."""
    if expected.exits is None:
        return False
    layers = expected.exits.astype(np.float64)
    depth = expected.speed_up * layers.mean()
    error = depth / layers.mean() ** 2 * layers.std() * math.sqrt(2 / len(layers))
    return bool(abs(expected.speed_up - speed_up) > 2 * error)


def check_answer(deployed: ResampledPoint, expected: ResampledPoint, point: OperatingPoint) -> None:
    """Raise InputError when there is no such point, it misses the speed-up, saves nothing, or needs no signal.

    A threshold without an end, which JSON could not hold, is always degenerate.
    """
    asked = point.text.replace("=", " ")
    if point.kind == "loss" and deployed.speed_up == 1.0:
        raise InputError(f"no speed-up within a loss of {point.number:g} points: the first exits already lose more")
    decisive = ("undefined", "degenerate")
    # The estimated speed-up is printed with its interval; it may miss the asked one by what chance explains.
    missed = point.kind == "speed_up" and is_beyond_chance(expected, point.number)
    judged = (deployed, expected) if point.kind == "loss" or expected.status in decisive or missed else (deployed,)
    for value in judged:
        if value.status != "ok":
            raise InputError(f"no threshold gives {asked}: {value.reason}")
    if np.isnan(expected.resampled.speed_up).mean() > MOST_MISSING:
        raise InputError("too few samples: in one resample of twenty or more no threshold answers the question")
