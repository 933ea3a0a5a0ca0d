"""Cross-fitting over several deals of folds against a literal loop over deals, folds and thresholds."""

import dataclasses

import numpy as np
import pytest

from exitbench.benchmarks.protocols.mean_curve import mean_curve
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.splits import DEAL_SEED, parts_of
from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up, at_threshold
from exitbench.benchmarks.results.vocabulary import EQUAL_SHARE
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations, merged_parts
from exitbench.benchmarks.run.measure_stage import measure_signal
from exitbench.benchmarks.run.measurements import SavedMeasurements, question_of, save_measurements
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.benchmarks.suites.questions import Questions, band_costs
from exitbench.errors import InputError
from tests.support.literal_deals import (
    LABELS,
    PREDICTIONS,
    QUESTIONS,
    RIGHT,
    SCORES,
    literal_deal,
    literal_dis,
    scored_deals,
)
from tests.support.literal_points import literal_choice, literal_near, literal_point
from tests.support.scored_cases import configuration, scored_cache


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    return scored_deals(tmp_path_factory.mktemp("deals"))


@pytest.fixture(scope="module")
def measured(scored):
    return measure_signal(scored, [[0], [1], [0, 1]], QUESTIONS, ("pairs",))


def rows_of(measured, parameters):
    return {question_of(row): row for row in measured.rows if row.parameters == parameters}


def test_every_deal_has_other_folds_and_the_first_is_that_of_the_seed():
    dealt = [parts_of("cross-fit", np.arange(90), seed=3, count=4, deal=deal) for deal in range(3)]
    for number in range(4):
        np.testing.assert_array_equal(dealt[0][number].test, folds(np.arange(90), 3, 4) == number)
        assert (dealt[0][number].test != dealt[1][number].test).any()
        assert (dealt[1][number].test != dealt[2][number].test).any()
    assert len({part.variant for parts in dealt for part in parts}) == 12


@pytest.mark.long
@pytest.mark.parametrize("speed_up", [1.5, 2.0])
def test_values_are_means_over_deals_and_their_error_has_the_spread_between_deals(scored, measured, speed_up):
    (once,) = [measure_signal(scored, [[0, 1]], dataclasses.replace(QUESTIONS, deals=1), ("pairs",))]
    point = at_speed_up(speed_up)
    literal = np.array([literal_deal(deal, speed_up) for deal in range(4)])
    for column, measure in enumerate(("speed_up", "accuracy")):
        question = (point, None, "", measure)
        row, first = rows_of(measured, "a=0|1")[question], rows_of(once, "a=0|1")[question]
        assert first.value == pytest.approx(literal[0, column])
        assert row.value == pytest.approx(literal[:, column].mean())
        assert row.std_err**2 == pytest.approx(first.std_err**2 + literal[:, column].var(ddof=1) / 4)
        assert row.low <= row.value <= row.high
        assert row.high - row.low > first.high - first.low


def test_the_printed_threshold_is_the_median_of_the_first_deals_folds(measured):
    for speed_up in (1.5, 2.0):
        fold = folds(np.arange(60), 0, 3)
        chosen = [
            literal_point(SCORES[0][:, fold != number], RIGHT[:, fold != number], speed_up)[0] for number in range(3)
        ]
        assert len(set(chosen)) > 1
        for measure in ("speed_up", "accuracy"):
            row = rows_of(measured, "a=0")[at_speed_up(speed_up), None, "", measure]
            assert row.threshold == sorted(chosen)[1]
    grid = rows_of(measured, "a=0|1")[at_speed_up(2.0), None, "", "accuracy"]
    assert grid.chosen is not None and ("," in grid.chosen) == (grid.threshold is None), "folds with other parameters"


def test_dis_is_a_mean_over_deals_too(scored, measured):
    (once,) = [measure_signal(scored, [[0]], dataclasses.replace(QUESTIONS, deals=1), ("pairs",))]
    for layer in (1, 3):
        question = (NOWHERE, layer, "", "dis")
        row, first = rows_of(measured, "a=0")[question], rows_of(once, "a=0")[question]
        literal = np.array([literal_dis(deal, layer) for deal in range(4)])
        assert first.value == pytest.approx(literal[0])
        assert row.value == pytest.approx(literal.mean())
        assert row.std_err**2 == pytest.approx(first.std_err**2 + literal.var(ddof=1) / 4)
        assert row.low < row.value < row.high


def literal_certainty(deal):
    """The grid's certainties under one deal: every fold's by the configuration chosen on the others at 2x."""
    fold = folds(np.arange(60), deal * DEAL_SEED, 3)
    certainty = np.zeros((4, 60))
    for number in range(3):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        near = [literal_near(values[:, train], RIGHT[:, train], 2.0) for values in SCORES]
        certainty[:, test] = SCORES[literal_choice(near, default=1)][:, test]
    return fold, certainty


def literal_equal_share(deal, layers):
    """Wrong exits where each fold's R surest samples exit, R being its right answers, over the wrong answers."""
    fold, certainty = literal_certainty(deal)
    errors = wrong = 0
    for layer in layers:
        for number in range(3):
            here = np.flatnonzero(fold == number)
            right = RIGHT[layer - 1, here]
            surest = np.argsort(-certainty[layer - 1, here], kind="stable")[: right.sum()]
            errors += (~right[surest]).sum()
            wrong += (~right).sum()
    return 100 * errors / wrong


@pytest.mark.long
@pytest.mark.parametrize("layer", [None, 2])
def test_rates_at_equal_exit_shares_are_means_over_deals(scored, measured, layer):
    assert len(np.unique(SCORES)) == np.size(SCORES)  # no ties, so the surest are what a sort says
    once = measure_signal(scored, [[0, 1]], dataclasses.replace(QUESTIONS, deals=1), ("pairs",))
    question = (NOWHERE, layer, EQUAL_SHARE, "premature_rate")
    row, first = rows_of(measured, "a=0|1")[question], rows_of(once, "a=0|1")[question]
    literal = np.array([literal_equal_share(deal, [layer] if layer else range(1, 5)) for deal in range(4)])
    assert first.value == pytest.approx(literal[0])
    assert row.value == pytest.approx(literal.mean())
    assert row.std_err**2 == pytest.approx(first.std_err**2 + literal.var(ddof=1) / 4)
    assert 0 < row.low < row.value < row.high < 100


@pytest.mark.long
def test_calibration_and_the_share_of_exits_are_means_over_deals(tmp_path):
    sure = [1 / (1 + np.exp(-scores)) for scores in SCORES]
    configurations = [
        configuration(parameters=f"a={number}", changed=1 - number, is_probability=True) for number in range(2)
    ]
    scored = scored_cache(tmp_path, LABELS, PREDICTIONS, sure, configurations)
    dealt, once = (
        rows_of(
            measure_signal(scored, [[0, 1]], dataclasses.replace(QUESTIONS, deals=deals), ("pairs",)),
            "a=0|1",
        )
        for deals in (4, 1)
    )
    literal = []
    for deal in range(4):
        certainty = 1 / (1 + np.exp(-literal_certainty(deal)[1][1]))
        literal.append(100 * np.mean((certainty - RIGHT[1]) ** 2))
    brier = (NOWHERE, 2, "", "brier")
    assert once[brier].value == pytest.approx(literal[0])
    assert dealt[brier].value == pytest.approx(np.mean(literal))
    assert dealt[brier].std_err ** 2 == pytest.approx(once[brier].std_err ** 2 + np.var(literal, ddof=1) / 4)
    share = (at_speed_up(2.0), None, "all", "exit_share")
    assert dealt[share].value != once[share].value


@pytest.mark.long
def test_the_curve_is_the_mean_over_deals_at_every_cost(scored):
    evaluation = evaluate_configurations(scored, [0, 1], QUESTIONS)
    merged = merged_parts(scored, evaluation, "cross-fit", [0, 1], QUESTIONS)
    curve = mean_curve(merged, "accuracy")
    kept = np.all([deal.reaches for deal in (merged, *merged.deals)], axis=0)
    costs = np.array(band_costs(scored.samples("test").outcomes.cheapest))
    for position in (0, len(curve.cost) // 2, -1):
        speed_up = 1 / costs[np.flatnonzero(kept)[position]]
        literal = np.array([literal_deal(deal, speed_up, SCORES) for deal in range(4)])
        assert curve.score[position] == pytest.approx(literal[:, 1].mean())
        assert curve.cost[position] == pytest.approx((1 / literal[:, 0]).mean())
    assert (curve.low <= curve.score).all()
    assert (curve.score <= curve.high).all()
    alone = mean_curve(MergedParts(merged.choices, merged.parts, merged.samples), "accuracy")
    assert (curve.high - curve.low).mean() > (alone.high - alone.low).mean()


@pytest.mark.long
def test_a_status_is_judged_on_the_mean_over_deals(scored):
    evaluation = evaluate_configurations(scored, [0], QUESTIONS)
    merged = merged_parts(scored, evaluation, "cross-fit", [0], QUESTIONS)
    for speed_up in (1.5, 2.0):
        mean = np.mean([literal_deal(deal, speed_up, SCORES[:1])[0] for deal in range(4)])
        status = merged.at(at_speed_up(speed_up)).status
        assert status == ("unmatched" if abs(mean - speed_up) > 0.02 * speed_up + 1e-9 else "ok")


def test_deals_survive_the_way_through_files(measured, tmp_path):
    save_measurements(tmp_path, measured)
    for entry, stored in zip(
        measured.entries("cross-fit"), SavedMeasurements(tmp_path).entries("cross-fit"), strict=True
    ):
        assert list(entry.deals) == list(stored.deals)
        for question, deals in entry.deals.items():
            assert len(deals) == 4
            np.testing.assert_array_equal(deals, stored.deals[question])
        np.testing.assert_array_equal(entry.area_deals, stored.area_deals)
        assert list(entry.influence) == list(stored.influence)
        assert bool(entry.influence) == (entry.parameters != "a=0|1")
        for question, moved in entry.influence.items():
            np.testing.assert_array_equal(moved, stored.influence[question])


def test_one_deal_leaves_nothing_between_deals_in_the_files(scored, tmp_path):
    save_measurements(tmp_path, measure_signal(scored, [[0]], dataclasses.replace(QUESTIONS, deals=1), ("pairs",)))
    (entry,) = SavedMeasurements(tmp_path).entries("cross-fit")
    assert entry.deals == {}
    assert len(entry.area_deals) == 0


def test_what_learns_is_dealt_once_unless_the_suite_says_otherwise():
    assert Questions().deals_of(learns=False) == 5
    assert Questions().deals_of(learns=True) == 1
    assert Questions(deals=3).deals_of(learns=True) == 3
    with pytest.raises(InputError, match="deals must be between 1 and 100, found 0"):
        Questions(deals=0)


@pytest.mark.long
def test_a_given_threshold_is_the_same_under_every_deal(scored):
    given = dataclasses.replace(QUESTIONS, thresholds={"*": ("median",)})
    rows = [
        row
        for deals in (4, 1)
        for row in measure_signal(scored, [[0]], dataclasses.replace(given, deals=deals), ("pairs",)).rows
        if row.operating_point == at_threshold("median")
    ]
    half = len(rows) // 2
    assert half > 0
    assert [row.value for row in rows[:half]] == [row.value for row in rows[half:]]


def test_the_first_deal_alone_has_the_exits_of_the_samples(scored):
    evaluation = evaluate_configurations(scored, [0], QUESTIONS)
    merged = merged_parts(scored, evaluation, "cross-fit", [0], QUESTIONS)
    alone = dataclasses.replace(QUESTIONS, deals=1)
    first = merged_parts(scored, evaluate_configurations(scored, [0], alone), "cross-fit", [0], alone)
    np.testing.assert_array_equal(merged.at(at_speed_up(2.0)).exits, first.at(at_speed_up(2.0)).exits)
