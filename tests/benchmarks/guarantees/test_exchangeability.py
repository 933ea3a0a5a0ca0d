"""The test of drift: its level however often one looks, its power, and its ranks."""

import numpy as np
import pytest

from exitbench.benchmarks.guarantees.exchangeability import DriftTest


def positions(values):
    return [(float(value),) for value in values]


@pytest.mark.long
def test_false_alarms_stay_below_the_level_over_all_looks():
    random = np.random.default_rng(0)
    alarms = 0
    for stream in range(150):
        values = random.integers(1, 7, size=220)  # many ties, as exit layers have
        test = DriftTest(positions(values[:100]), 0.1, seed=stream)
        test.take(positions(values[100:]))
        alarms += test.alarm is not None
    assert alarms / 150 <= 0.1 + 2 * np.sqrt(0.1 * 0.9 / 150)


@pytest.mark.parametrize("shift", ["later", "earlier", "spread"])
def test_a_shift_is_seen(shift):
    random = np.random.default_rng(1)
    live = {"later": random.normal(1, 1, 400), "earlier": random.normal(-1, 1, 400), "spread": random.normal(0, 4, 400)}
    test = DriftTest(positions(random.normal(size=400)), 0.01)
    test.take(positions(live[shift]))
    assert test.alarm is not None
    assert test.alarm < 400
    assert test.largest >= 100


def test_ranks_are_shares_of_all_rows_so_far_and_ties_are_broken_inside():
    test = DriftTest(positions([1, 2, 3, 4]), 0.01)
    assert 4 / 5 < test._rank((9.0,)) < 1
    assert 0 < test._rank((0.0,)) < 1 / 6
    assert 3 / 7 > test._rank((1.0,)) > 1 / 7


def test_batches_and_one_long_log_end_alike():
    values = positions(np.random.default_rng(2).normal(size=60))
    whole, parts = DriftTest(values[:30], 0.01), DriftTest(values[:30], 0.01)
    whole.take(values[30:])
    parts.take(values[30:40])
    parts.take(values[40:])
    assert (whole.wealth, whole.largest, whole.rows) == (parts.wealth, parts.largest, 30)


def test_the_histogram_and_the_jumper_win_what_their_odds_say():
    test = DriftTest([], 0.01)
    test._bet(0.99)
    jumper = (1 / 3) * ((1 - 0.49) + 1 + (1 + 0.49))
    assert test.wealth == pytest.approx((jumper + 1) / 2)  # ten bins with half a count each: fair odds at first
    test._bet(0.95)
    stakes = [0.99 * part + 0.01 / 3 for part in (0.51 / 3, 1 / 3, 1.49 / 3)]
    second = sum(stake * (1 + opinion * 0.45) for stake, opinion in zip(stakes, (-1, 0, 1), strict=True))
    assert test.wealth == pytest.approx((second + 10 * 1.5 / 6) / 2)
