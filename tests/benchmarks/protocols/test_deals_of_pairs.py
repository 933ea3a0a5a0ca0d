"""Paired differences over several deals of folds: their values, errors and resamples against literal loops."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import norm

from exitbench.benchmarks.protocols.splits import DEAL_SEED
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.run.compare_stage import compare_signals
from exitbench.benchmarks.run.measure_stage import measure_signal
from exitbench.benchmarks.statistics import intervals
from exitbench.benchmarks.statistics.hashed_randomness import folds, poisson_weights
from tests.support.literal_deals import QUESTIONS, RIGHT, SCORES, literal_deal, literal_dis, scored_deals
from tests.support.literal_points import literal_exits, literal_point


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    return scored_deals(tmp_path_factory.mktemp("deals"))


def literal_answers(deal, speed_up, scores):
    """Which samples one signal answers rightly under one deal of folds, [samples]."""
    fold = folds(np.arange(60), deal * DEAL_SEED, 3)
    right = np.zeros(60, dtype=bool)
    for number in range(3):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        threshold = literal_point(scores[:, train], RIGHT[:, train], speed_up)[0]
        right[test] = RIGHT[np.array(literal_exits(scores[:, test], threshold)) - 1, test]
    return right


def literal_resamples(scores, speed_up, resamples):
    """Accuracy [resamples] of one signal at a speed-up: each resample of the first deal tries every threshold.

    A row counts as often as it is drawn, in the rows that choose and in the fold that is scored. Among thresholds that
    the choosing rows cannot tell apart, the one nearest to the other side of the speed-up counts.
    """
    weights = poisson_weights(np.arange(60), 0, resamples).astype(int)
    levels = np.unique(np.maximum.accumulate(scores, axis=0))[::-1]
    thresholds = [np.inf, *((levels[1:] + levels[:-1]) / 2), -np.inf]
    exits = np.array([literal_exits(scores, threshold) for threshold in thresholds])
    right = RIGHT[exits - 1, np.arange(60)]
    fold = folds(np.arange(60), 0, 3)
    accuracy = []
    for drawn in weights.T:
        correct = 0
        for number in range(3):
            chosen_on, scored_on = drawn * (fold != number), drawn * (fold == number)
            best = None
            for point in range(len(thresholds)):
                realised = 5 * chosen_on.sum() / (exits[point] @ chosen_on)
                key = (abs(realised - speed_up), -realised)
                if best is None or key < best[0] or (key == best[0] and realised < speed_up):
                    best = key, point
            correct += right[best[1]] @ scored_on
        accuracy.append(100 * correct / drawn.sum())
    return np.array(accuracy)


@pytest.mark.long
def test_a_paired_difference_has_the_spread_of_the_difference(scored):
    pairs = []
    for deals in (4, 1):
        questions = dataclasses.replace(QUESTIONS, deals=deals)
        signal = measure_signal(scored, [[0], [1]], questions, ("pairs",))
        compared = compare_signals(scored, [signal], questions, ("pairs",)).pairs
        pairs.append({(pair["measure"], pair["layer"]): pair for pair in compared})
    dealt, single = (by_question["dis", 2] for by_question in pairs)
    apart = np.array([literal_dis(deal, 2, SCORES[0]) - literal_dis(deal, 2, SCORES[1]) for deal in range(4)])
    assert single["difference"] == pytest.approx(apart[0])
    assert dealt["difference"] == pytest.approx(apart.mean())
    assert dealt["std_err"] ** 2 == pytest.approx(single["std_err"] ** 2 + apart.var(ddof=1) / 4)
    dealt, single = (by_question["area", None] for by_question in pairs)
    assert dealt["std_err"] > single["std_err"] > 0
    assert (dealt["p_value"] <= 0.05) == (not dealt["low"] <= 0 <= dealt["high"])


@pytest.mark.long
@pytest.mark.parametrize("speed_up", [1.5, 2.0])
def test_a_bootstrap_pair_has_the_resamples_and_the_deals_of_its_difference(scored, speed_up):
    questions = dataclasses.replace(QUESTIONS, speed_ups=(1.5, 2.0))
    signal = measure_signal(scored, [[0], [1]], questions, ("pairs",))
    point = at_speed_up(speed_up)
    # Whatever their status: the test is of the arithmetic.
    rows = [row._replace(status="ok") for row in signal.rows]
    resampled_only = [dataclasses.replace(entry, influence={}) for entry in signal.compared]
    signal = dataclasses.replace(signal, rows=rows, compared=resampled_only)
    compared = compare_signals(scored, [signal], questions, ("pairs",)).pairs
    (pair,) = [pair for pair in compared if (pair["operating_point"], pair["measure"]) == (point.text, "accuracy")]
    deals = np.array(
        [literal_deal(deal, speed_up, SCORES[:1])[1] - literal_deal(deal, speed_up, SCORES[1:])[1] for deal in range(4)]
    )
    resampled = literal_resamples(SCORES[0], speed_up, 40) - literal_resamples(SCORES[1], speed_up, 40)
    value, added = deals.mean(), deals.std(ddof=1) / 2
    error = np.sqrt(resampled.var(ddof=1) + added**2)
    assert added > 0
    assert pair["difference"] == pytest.approx(value)
    assert pair["std_err"] == pytest.approx(error)
    moved = resampled - deals[0] + value  # those of the first deal, around the mean, stretched to the whole error
    around = value + (moved - value) * error / resampled.std(ddof=1)
    low, high = np.quantile(around, [0.025, 0.975])
    assert pair["low"] == pytest.approx(min(low, value - norm.ppf(0.975) * error))
    assert pair["high"] == pytest.approx(max(high, value + norm.ppf(0.975) * error))


@pytest.mark.long
@pytest.mark.parametrize("speed_up", [1.5, 2.0])
def test_a_score_has_the_error_of_its_answers_over_all_deals_where_resamples_confirm_it(scored, speed_up, monkeypatch):
    signal = measure_signal(scored, [[0], [1]], QUESTIONS, ("pairs",))
    signal = dataclasses.replace(signal, rows=[row._replace(status="ok") for row in signal.rows])
    point = at_speed_up(speed_up).text

    def tested():
        compared = compare_signals(scored, [signal], QUESTIONS, ("pairs",)).pairs
        (pair,) = [pair for pair in compared if (pair["operating_point"], pair["measure"]) == (point, "accuracy")]
        return pair

    answers = np.array(
        [
            literal_answers(deal, speed_up, SCORES[0]).astype(int) - literal_answers(deal, speed_up, SCORES[1])
            for deal in range(4)
        ]
    )
    apart, between = 100 * answers.mean(axis=0), 100 * answers.mean(axis=1)
    error = np.sqrt(((apart - apart.mean()) ** 2).sum() / 60**2 + between.var(ddof=1) / 4)
    monkeypatch.setattr(intervals, "CONFIRMED", 10.0)
    pair = tested()
    assert pair["difference"] == pytest.approx(apart.mean())
    assert pair["std_err"] == pytest.approx(error)
    assert pair["p_value"] == pytest.approx(2 * norm.sf(abs(apart.mean()) / error))
    reach = norm.ppf(0.975) * error
    assert (pair["low"], pair["high"]) == pytest.approx((apart.mean() - reach, apart.mean() + reach))
    monkeypatch.setattr(intervals, "CONFIRMED", 0.1)
    assert tested()["std_err"] != pytest.approx(error)
