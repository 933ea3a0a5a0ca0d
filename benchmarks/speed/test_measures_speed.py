"""The mathematics at MNLI's size: 9,815 samples, 12 layers. Each figure is a ratio inside one run, beside its goal."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.curve import Curve, trade_off_curve
from benchmarks.hashing import poisson_weights
from benchmarks.operating import ROUNDING, matched
from benchmarks.ranking import Ranking
from benchmarks.rates import rates_everywhere
from benchmarks.replay import exit_layers
from benchmarks.scores import SignalScores
from benchmarks.speed.ratios import Ratio, ratio, seconds
from benchmarks.task_score import Outcomes, tally_at
from benchmarks.weighted_curve import (
    Drawn,
    gather,
    listed_points,
    marks_within_loss,
    nearest_marks,
    weighted_rates,
    weighted_tally,
)

SAMPLES, DEPTH, SIGNALS, CONFIGURATIONS = 9_815, 12, 8, 21
SPEED_UPS = (2.0, 3.0, 4.0)
RESAMPLES = 1000


def made(samples: int = SAMPLES, seed: int = 0) -> tuple[SignalScores, Outcomes]:
    """Scores that grow surer with depth, on samples of unequal ease; a few ties, as real scores have."""
    rng = np.random.default_rng(seed)
    ease = rng.normal(size=samples)
    level = np.linspace(0.5, 2.0, DEPTH)[:, None]
    predictions = (rng.random((DEPTH, samples)) < 1 / (1 + np.exp(-level - 1.5 * ease))).astype(int)
    certainty = ease + 1.5 * level[:-1] + 0.7 * rng.normal(size=(DEPTH - 1, samples))
    return SignalScores(-np.round(certainty, 6), "<"), Outcomes.of(predictions, np.ones(samples, dtype=int))


def rank_everything(certainties: list[np.ndarray[Any, Any]], right: np.ndarray[Any, Any]) -> None:
    for certainty in certainties:
        found = Ranking(certainty, right)
        found.dis()
        found.tied_share  # noqa: B018
        found.aurc  # noqa: B018
        found.excess_aurc  # noqa: B018
        found.std_err()


def whole_curve(scores: SignalScores, outcomes: Outcomes) -> Curve:
    """The curve from the bare values: nothing is left over from an earlier round."""
    curve = trade_off_curve(SignalScores(scores.values, scores.direction), outcomes)
    curve.tally  # noqa: B018
    return curve


def weights_for(samples: int, resamples: int = RESAMPLES) -> Drawn:
    """The bootstrap's weights, as a run makes them once per cache."""
    return Drawn.of(poisson_weights(np.arange(samples), 0, resamples).astype(np.float32))


def read_everything(curve: Curve, drawn: Drawn) -> None:
    """What a table needs of one configuration: matched readings, rates at 4x, speed-up within losses."""
    points = listed_points(curve, SPEED_UPS)
    sums = weighted_tally(curve, curve.events.ends[points], drawn)
    index = nearest_marks(sums, np.array(SPEED_UPS))
    gather(sums, index)
    weighted_rates(curve.scores, curve.outcomes, curve.thresholds[points], index[-1], drawn)
    final = gather(sums, np.zeros(index.shape[1], dtype=np.int64)).score("accuracy")
    for loss in (0.5, 1.0):
        gather(sums, marks_within_loss(sums.score("accuracy"), final, loss, ROUNDING))


def report(benchmark: Any, capsys: pytest.CaptureFixture[str], what: str, found: Ratio, goal: str) -> None:
    benchmark.extra_info.update(what=what, ratio=round(found.value, 2), goal=goal)
    with capsys.disabled():
        sys.stdout.write(
            f"\n{what}: {found.value:.2f} (goal {goal}; {1e3 * found.slow:.1f} ms over {1e3 * found.fast:.1f} ms)\n"
        )


def test_rankings_against_scikit_learns_auroc_alone(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    right = made()[1].correct[:-1]
    certainties = [rng.normal(size=right.shape) + right for _ in range(SIGNALS)]
    certainties[0] = np.round(certainties[0] * 3)

    def one_by_one() -> None:
        for certainty in certainties:
            for layer in range(DEPTH - 1):
                roc_auc_score(right[layer], certainty[layer])

    found = ratio(one_by_one, lambda: rank_everything(certainties, right), rounds=5)
    benchmark.pedantic(rank_everything, args=(certainties, right), rounds=3)
    report(benchmark, capsys, "sklearn AUROC in a loop / DIS, ties, AURC and DeLong", found, ">= 8")
    assert found.value >= 8


def test_the_whole_curve_against_25_thresholds(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scores, outcomes = made()
    grid = np.quantile(scores.values, np.linspace(0.01, 0.99, 25))

    def one_by_one() -> None:
        fresh = SignalScores(scores.values, scores.direction)
        for threshold in grid:
            tally_at(exit_layers(fresh, float(threshold)), outcomes)

    found = ratio(one_by_one, lambda: whole_curve(scores, outcomes), rounds=11)
    benchmark.pedantic(whole_curve, args=(scores, outcomes), rounds=5)
    report(benchmark, capsys, "25 thresholds one by one / the exact curve", found, "> 1")
    assert found.value > 1


def test_resamples_against_replaying_each(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    scores, outcomes = made()
    curve, drawn = whole_curve(scores, outcomes), weights_for(SAMPLES)
    weights = poisson_weights(np.arange(SAMPLES), 0, RESAMPLES)
    replayed = 20

    def replay_each() -> None:
        for number in range(replayed):
            rows = np.repeat(np.arange(SAMPLES), weights[:, number])
            written_out = trade_off_curve(scores.take(rows), outcomes.take(rows))
            for speed_up in SPEED_UPS:
                matched(written_out, speed_up)

    def weigh_all() -> None:
        sums = weighted_tally(curve, curve.events.ends[listed_points(curve, SPEED_UPS)], drawn)
        gather(sums, nearest_marks(sums, np.array(SPEED_UPS)))

    part = ratio(replay_each, weigh_all, rounds=5)
    found = Ratio(part.slow * RESAMPLES / replayed, part.fast)
    benchmark.pedantic(weigh_all, rounds=3)
    report(benchmark, capsys, f"replay of 1000 resamples ({replayed} timed) / weights on sorted events", found, ">= 50")
    assert found.value >= 50


def test_everything_at_mnli_size_takes_single_seconds(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [made(seed=seed) for seed in range(CONFIGURATIONS)]

    def everything() -> None:
        drawn = weights_for(SAMPLES)
        for scores, outcomes in cases:
            curve = whole_curve(scores, outcomes)
            rank_everything([scores.certainty], outcomes.correct[:-1])
            rates_everywhere(curve)
            read_everything(curve, drawn)

    taken = benchmark.pedantic(lambda: seconds(everything), rounds=1)
    with capsys.disabled():
        sys.stdout.write(f"\n21 configurations, all measures, 1000 resamples: {taken:.1f} processor seconds\n")
    assert taken < 10


@pytest.mark.parametrize("what", ["rankings", "curve", "rates", "resamples"])
def test_four_times_the_samples_take_less_than_five_times_as_long(
    what: str, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def work(samples: int) -> Any:
        scores, outcomes = made(samples)
        curve, drawn = whole_curve(scores, outcomes), weights_for(samples, 200)
        return {
            "rankings": lambda: rank_everything([scores.certainty], outcomes.correct[:-1]),
            "curve": lambda: whole_curve(scores, outcomes),
            "rates": lambda: rates_everywhere(curve),
            "resamples": lambda: read_everything(curve, drawn),
        }[what]

    large, small = work(4 * SAMPLES), work(SAMPLES)
    found = ratio(large, small, rounds=7)
    benchmark.pedantic(small, rounds=3)
    report(benchmark, capsys, f"time(4n) / time(n), {what}", found, "< 5")
    assert found.value < 5
