from itertools import pairwise

import numpy as np
import pytest

import benchmarks.bootstrap
import benchmarks.resamples
from benchmarks.bootstrap import ResampledCurve, resampled_tally
from benchmarks.bounds import oracle
from benchmarks.curve import Curve, trade_off_curve
from benchmarks.operating import area, matched, within_loss
from benchmarks.rates import rates_at_threshold
from benchmarks.resampled_rates import resampled_rates
from benchmarks.resamples import Resamples, node_points
from benchmarks.scores import SignalScores
from benchmarks.task_score import Outcomes, tally_at
from exitbench.errors import InputError
from tests.benchmarks.cases import Case, random_case

MEASURES = ("accuracy", "f1", "mean_accuracy_f1")
DRAWS = 24


@pytest.fixture(params=["every point", "blocks"])
def nodes(request, monkeypatch):
    """The sums are kept at every point, or only at a few with stretches of events between."""
    if request.param == "blocks":
        monkeypatch.setattr(benchmarks.resamples, "NODES", 5)
        monkeypatch.setattr(benchmarks.bootstrap, "SCAN", 7)


def drawn(case: Case, weights: np.ndarray) -> Curve:
    """The curve of the samples as drawn: each as often as its weight says, replayed from the start."""
    rows = np.repeat(np.arange(len(weights)), weights)
    return trade_off_curve(case.scores.take(rows), case.outcomes.take(rows))


def cases():
    for seed in range(30):
        yield random_case(seed, samples=23, integers=seed % 5 == 4)


def resampled(case: Case) -> tuple[ResampledCurve, list[Curve]]:
    resamples = Resamples.of(np.arange(case.scores.samples), 7, DRAWS)
    return ResampledCurve(case.curve, resamples), [drawn(case, column) for column in resamples.weights.T]


def test_matched_readings_are_those_of_the_replayed_draw(nodes):
    for case in cases():
        curve, literal = resampled(case)
        for wanted in (1.0, 1.4, 2.0, 3.3, 9.0):
            tally = curve.matched(wanted)
            readings = [matched(one, wanted) for one in literal]
            assert tally.speed_up == pytest.approx([reading.speed_up for reading in readings])
            if case.scores.integers is None:
                for measure in MEASURES:
                    assert tally.score(measure) == pytest.approx([reading.score(measure) for reading in readings])


def test_matched_readings_of_an_integer_signal_stay_on_its_integers(nodes):
    for case in cases():
        if case.scores.integers is None:
            continue
        curve, literal = resampled(case)
        points = curve.nearest(1.5)
        for resample, one in enumerate(literal):
            reading = matched(one, 1.5)
            assert case.curve.thresholds[points[resample]] == reading.threshold
            assert curve.at_points(points).f1[resample] == pytest.approx(reading.score("f1"))


def test_readings_at_a_threshold_are_those_of_the_replayed_draw(nodes):
    for case in cases():
        curve, literal = resampled(case)
        thresholds = np.resize(case.curve.thresholds, DRAWS)
        one, own = curve.at_thresholds(thresholds[-1]), curve.at_thresholds(thresholds)
        for resample, replayed in enumerate(literal):
            for tally, threshold in ((one, thresholds[-1]), (own, thresholds[resample])):
                expected = replayed.tally[int(replayed.points_at(threshold))]
                assert tally.layers[resample] == expected.layers
                assert tally.correct[resample] == expected.correct
                assert tally.f1[resample] == pytest.approx(expected.f1)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_largest_speed_up_within_a_loss_is_that_of_the_replayed_draw(nodes, measure):
    for case in cases():
        curve, literal = resampled(case)
        for loss in (0.0, 4.0, 15.0):
            points, tally = curve.within_loss(loss, measure)
            readings = [within_loss(one, loss, measure) for one in literal]
            speed_ups = [reading.speed_up for reading in readings]
            assert tally.speed_up == pytest.approx(speed_ups, nan_ok=True)
            assert tally.score(measure) == pytest.approx([r.score(measure) for r in readings], nan_ok=True)
            assert (points < 0).tolist() == np.isnan(speed_ups).tolist()


def test_the_area_is_that_of_the_replayed_draw():
    for case in cases():
        curve, literal = resampled(case)
        low, high = curve.cost_range
        assert low == pytest.approx([one.cost_range[0] for one in literal])
        assert high == pytest.approx([one.cost_range[1] for one in literal])
        inner = low + 0.2 * (high - low), high - 0.1 * (high - low)
        expected = [area(one, "f1", inner[0][k], inner[1][k]) for k, one in enumerate(literal)]
        assert curve.area("f1", *inner) == pytest.approx(expected)


def test_beyond_its_ends_a_resampled_curve_is_continued_level():
    case = random_case(3, samples=23)
    curve, literal = resampled(case)
    wide = curve.area("accuracy", 0.0, 1.0)
    for resample, one in enumerate(literal):
        low, high = one.cost_range
        scores = one.score("accuracy")
        expected = area(one, "accuracy", low, high) + low * scores[-1] + (1 - high) * scores[0]
        assert wide[resample] == pytest.approx(expected)


def test_a_thinned_area_is_far_closer_than_its_own_error():
    rng = np.random.default_rng(0)
    n, depth = 4000, 6
    ease = rng.normal(size=n)
    correct = rng.random((depth, n)) < 1 / (1 + np.exp(-ease * 2 - np.linspace(0, 1.5, depth)[:, None]))
    case = Case(SignalScores(ease + rng.normal(size=(depth - 1, n)), ">"), Outcomes(correct), correct, correct[0])
    curve = ResampledCurve(case.curve, Resamples.of(np.arange(n), 0, 200))
    assert case.curve.points > benchmarks.resamples.NODES
    found = curve.area("accuracy", 0.4, 0.9)
    exact = [area(drawn(case, curve.resamples.weights[:, k]), "accuracy", 0.4, 0.9) for k in range(5)]
    assert np.max(np.abs(found[:5] - exact)) < 0.01 * found.std()


@pytest.mark.parametrize("decisions", ["all", "reached"])
def test_rates_are_those_of_the_drawn_samples(decisions):
    for case in cases():
        curve, _ = resampled(case)
        thresholds = np.resize(case.curve.thresholds, DRAWS)
        for asked in (thresholds, np.full(DRAWS, thresholds[1 % len(thresholds)])):
            tally = curve.rates(asked, decisions)
            for resample in range(DRAWS):
                rows = np.repeat(np.arange(case.scores.samples), curve.resamples.weights[:, resample])
                scores, outcomes = case.scores.take(rows), case.outcomes.take(rows)
                expected = rates_at_threshold(scores, outcomes, asked[resample], decisions)
                for name in ("wrong_exits", "wrong_decisions", "right_continuations", "right_decisions"):
                    assert np.array_equal(getattr(tally, name)[:, resample], getattr(expected, name)), name


def test_one_threshold_serves_all_resamples():
    case = random_case(3, samples=23)
    resamples = Resamples.of(np.arange(23), 7, DRAWS)
    one = resampled_rates(case.scores, case.outcomes, resamples, 0.5)
    many = resampled_rates(case.scores, case.outcomes, resamples, np.full(DRAWS, 0.5))
    assert np.array_equal(one.wrong_exits, many.wrong_exits)


def test_fixed_exits_are_tallied_by_weight():
    case = random_case(3, samples=23)
    resamples = Resamples.of(np.arange(23), 7, DRAWS)
    exits = oracle(case.outcomes).exits
    assert exits is not None
    tally = resampled_tally(exits, case.outcomes, resamples)
    for resample in range(DRAWS):
        rows = np.repeat(np.arange(23), resamples.weights[:, resample])
        expected = tally_at(exits[rows], case.outcomes.take(rows))
        assert tally.f1[resample] == pytest.approx(expected.f1)
        assert tally.speed_up[resample] == pytest.approx(expected.speed_up)


def test_row_order_changes_no_resample():
    case = random_case(6, samples=60)
    ids, order = np.arange(60) + 100, np.random.default_rng(0).permutation(60)
    other = Case(case.scores.take(order), case.outcomes.take(order), case.predictions[:, order], case.labels[order])
    here = ResampledCurve(case.curve, Resamples.of(ids, 3, 50))
    there = ResampledCurve(other.curve, Resamples.of(ids[order], 3, 50))
    assert np.array_equal(here.matched(1.5).f1, there.matched(1.5).f1)
    assert np.array_equal(here.within_loss(2.0, "f1")[0], there.within_loss(2.0, "f1")[0])
    assert np.array_equal(here.area("accuracy", 0.5, 0.8), there.area("accuracy", 0.5, 0.8))
    at = case.curve.thresholds[here.nearest(1.5)]
    assert np.array_equal(here.rates(at).premature, there.rates(at).premature, equal_nan=True)


def test_part_of_the_samples_keeps_their_weights():
    resamples, rows = Resamples.of(np.arange(50), 0, 20), np.arange(50) % 3 == 0
    assert np.array_equal(resamples.take(rows).weights, Resamples.of(np.arange(50)[rows], 0, 20).weights)
    assert np.array_equal(resamples.take(rows).totals, resamples.weights[rows].sum(axis=0))


def test_sums_too_large_for_float32_are_still_exact():
    resamples = Resamples(np.full((3, 2), 255, dtype=np.uint8))
    assert resamples.exact(1).dtype == np.float32
    assert resamples.exact(1 << 24).dtype == np.float64
    big = np.array([(1 << 30) + 1, 1, 1])
    assert resamples.sums(big).tolist() == [255.0 * ((1 << 30) + 3)] * 2


def test_nodes_hold_few_events_between_them_or_no_point(monkeypatch):
    monkeypatch.setattr(benchmarks.resamples, "NODES", 10)
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.choice([1, 1, 1, 2, 3, 40], size=int(rng.integers(11, 300)))
        ends = np.concatenate([[0], np.cumsum(sizes)])
        nodes = node_points(ends)
        stretch = -(-ends[-1] // 10)
        assert nodes[0] == 0
        assert nodes[-1] == len(ends) - 1
        for before, after in pairwise(nodes):
            assert after == before + 1 or ends[after] - ends[before] <= 2 * stretch


def test_weights_must_belong_to_the_samples():
    with pytest.raises(InputError, match="expected weights for 23 samples, found 9"):
        ResampledCurve(random_case(3, samples=23).curve, Resamples.of(np.arange(9), 0, 5))


def test_of_two_equally_near_points_every_resample_reads_the_faster_one():
    one = SignalScores(np.full((1, 1), 0.5), "<")
    curve = trade_off_curve(one, Outcomes(np.ones((2, 1), dtype=bool)))
    drawn_once = ResampledCurve(curve, Resamples(np.array([[1, 3]], dtype=np.uint8)))
    assert drawn_once.matched(1.5).speed_up.tolist() == [2.0, 2.0]
    assert drawn_once.matched(1.499).speed_up.tolist() == [1.0, 1.0]
