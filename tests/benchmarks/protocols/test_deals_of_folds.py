"""Cross-fitting over several deals of folds against a literal loop over deals, folds and thresholds."""

import dataclasses

import numpy as np
import pytest
from scipy.stats import rankdata

from exitbench.benchmarks.protocols.splits import DEAL_SEED, parts_of
from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up, at_threshold
from exitbench.benchmarks.run.compare_stage import compare_signals
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations, merged_parts
from exitbench.benchmarks.run.measure_stage import measure_signal
from exitbench.benchmarks.run.measurements import SavedMeasurements, question_of, save_measurements
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.benchmarks.suites.questions import Questions
from exitbench.errors import InputError
from tests.support.literal_points import literal_choice, literal_exits, literal_near, literal_point
from tests.support.scored_cases import configuration, random_arrays, scored_cache

QUESTIONS = Questions(
    speed_ups=(1.5, 2.0),
    rates_speed_up=2.0,
    losses=(5.0,),
    resamples=40,
    folds=3,
    protocols=("cross-fit",),
    deals=4,
)
LABELS, PREDICTIONS, SCORES = random_arrays(3, 60, 5, 2)
RIGHT = PREDICTIONS == LABELS


def literal_deal(deal, speed_up, scores=SCORES):
    """Speed-up and accuracy of a grid under one deal of folds, by trying every threshold of every fold."""
    fold = folds(np.arange(60), deal * DEAL_SEED, 3)
    exits = np.zeros(60, dtype=int)
    for number in range(3):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        near = [literal_near(values[:, train], RIGHT[:, train], speed_up) for values in scores]
        chosen = literal_choice(near, default=min(1, len(scores) - 1))
        threshold = literal_point(scores[chosen][:, train], RIGHT[:, train], speed_up)[0]
        exits[test] = literal_exits(scores[chosen][:, test], threshold)
    return 5 / exits.mean(), 100 * RIGHT[exits - 1, np.arange(60)].mean()


def literal_dis(deal, layer, values_of_all=SCORES[0]):
    """Pairs within a fold, pooled over the folds of one deal."""
    fold = folds(np.arange(60), deal * DEAL_SEED, 3)
    ordered = pairs = 0.0
    for number in range(3):
        here = fold == number
        right, values = RIGHT[layer - 1, here], values_of_all[layer - 1, here]
        easy, hard = right.sum(), (~right).sum()
        ordered += rankdata(values)[right].sum() - easy * (easy + 1) / 2
        pairs += easy * hard
    return 100 * ordered / pairs


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    configurations = [configuration(parameters=f"a={number}", changed=1 - number) for number in range(2)]
    return scored_cache(tmp_path_factory.mktemp("deals"), LABELS, PREDICTIONS, SCORES, configurations)


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
