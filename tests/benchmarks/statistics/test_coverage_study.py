"""Do the 95% intervals hold the truth 95% of the time? A thousand data sets from a population whose truth is known.

Every sample has a signed margin per layer that drifts towards the right answer, faster for easy samples; a prediction
is right when its margin is positive and the signal is the margin's size, as confidence would be. The truth is read off
a population of 400,000, whose own error is a small fraction of any interval's width here.
"""

import sys

import numpy as np
import pytest

from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.replay.operating_points import matched
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.delong import dis_estimate
from exitbench.benchmarks.statistics.hashed_randomness import poisson_weights
from exitbench.benchmarks.statistics.intervals import interval
from exitbench.benchmarks.statistics.resampled_curves import SampleWeights, listed_points, weighted_tally
from exitbench.benchmarks.statistics.resampled_points import gather, nearest_listed_points

DEPTH, LAYER, SPEED_UP, DRAWS = 12, 6, 2.0, 1000
POPULATION = 400_000


def draw(rng: np.random.Generator, n: int) -> tuple[SignalScores, Outcomes]:
    ease = rng.gamma(2.0, 0.5, n)
    steps = 0.25 * ease + 0.45 * rng.normal(size=(DEPTH, n))
    margin = 0.3 * ease + np.cumsum(steps, axis=0)
    return SignalScores(np.abs(margin[:-1]), ">="), Outcomes(margin > 0)


@pytest.fixture(scope="module")
def truth() -> tuple[float, float]:
    scores, outcomes = draw(np.random.default_rng(1), POPULATION)
    point = matched(trade_off_curve(scores, outcomes), SPEED_UP)
    return float(Ranking(scores.certainty, outcomes.correct[:-1]).dis()[LAYER - 1]), point.score("accuracy")


@pytest.mark.slow
@pytest.mark.parametrize("n", [277, 872])
def test_intervals_for_dis_and_matched_accuracy_cover_as_they_promise(n, truth, capsys):
    dis, accuracy = truth
    assert accuracy == pytest.approx(90, abs=2)
    rng = np.random.default_rng(n)
    covered = np.zeros(2)
    widths = np.zeros(2)
    for number in range(DRAWS):
        scores, outcomes = draw(rng, n)
        curve = trade_off_curve(scores, outcomes)
        weights = SampleWeights.of(poisson_weights(np.arange(n), number, 1000))
        sums = weighted_tally(curve, curve.events.ends[listed_points(curve, [SPEED_UP])], weights)
        resampled = gather(sums, nearest_listed_points(sums, np.array([SPEED_UP]))[0])
        read = interval(matched(curve, SPEED_UP).score("accuracy"), resampled.accuracy, n)
        ranked = dis_estimate(Ranking(scores.certainty, outcomes.correct[:-1]), LAYER)
        covered += ranked.low <= dis <= ranked.high, read.low <= accuracy <= read.high
        widths += ranked.high - ranked.low, read.high - read.low
    shares, widths = 100 * covered / DRAWS, widths / DRAWS
    with capsys.disabled():
        sys.stdout.write(
            f"\nn = {n}: DIS {dis:.1f} covered {shares[0]:.1f}% (mean width {widths[0]:.1f}), "
            f"accuracy {accuracy:.1f} at {SPEED_UP:g}x covered {shares[1]:.1f}% (mean width {widths[1]:.1f})\n"
        )
    assert np.all((shares >= 93) & (shares <= 97)), shares
