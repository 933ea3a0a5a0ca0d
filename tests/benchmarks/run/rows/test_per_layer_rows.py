"""Per-layer thresholds in a run: fitted on the choosing rows only, tested against the shared threshold, or left out."""

import dataclasses

import numpy as np
import pytest

from exitbench import evaluate
from exitbench.benchmarks.replay.exit_quotas import quota_exits, thresholds_of_exits
from exitbench.benchmarks.replay.greedy_thresholds import greedy_exits
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.run.across_caches.average_errors import AveragedCache, AverageErrors
from exitbench.benchmarks.run.compare_stage import compare_signals
from exitbench.benchmarks.run.evaluated_configurations import protocol_parts
from exitbench.benchmarks.run.measure_stage import measure_signal
from exitbench.benchmarks.run.measurements import SavedMeasurements, save_measurements
from exitbench.benchmarks.run.rows.per_layer_rows import FLATTERED, adjusted_pairs, mean_pairs
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.multiple_comparisons import holm
from exitbench.benchmarks.suites.questions import Questions
from exitbench.errors import InputError
from exitbench.places import FIXTURES
from tests.support.scored_cases import configuration, random_arrays, scored_cache

QUESTIONS = Questions(
    speed_ups=(1.5, 2.0),
    rates_speed_up=2.0,
    losses=(5.0,),
    resamples=12,
    folds=3,
    protocols=("cross-fit",),
    thresholds={"*": ("per-layer",)},
)
IN_SAMPLE = dataclasses.replace(QUESTIONS, protocols=("in-sample",))


def value_of(rows, schedule, measure, speed_up):
    (row,) = [
        row
        for row in rows
        if row.parameters.endswith(f"thresholds={schedule}")
        and row.measure == measure
        and row.operating_point.number == speed_up
    ]
    return row


def literal_exits(values, thresholds):
    depth = len(values) + 1
    return [
        next((m + 1 for m in range(depth - 1) if values[m, i] >= thresholds[m]), depth) for i in range(values.shape[1])
    ]


def fitted_elsewhere(schedule, train, test, speed_up):
    """The exits of ``test`` scores at thresholds fitted on ``train`` (labels, predictions, scores) and nothing else."""
    labels, predictions, values = train
    curve = trade_off_curve(SignalScores(values, ">="), Outcomes.of(predictions, labels))
    if schedule == "quota":
        exits = quota_exits(curve.scores, speed_up, curve.outcomes.layer_costs)
    else:
        exits = greedy_exits(curve, speed_up, "accuracy")
    return literal_exits(test, thresholds_of_exits(curve.scores, exits))


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["quota", "greedy"])
@pytest.mark.parametrize("seed", range(4))
def test_each_fold_exits_at_thresholds_fitted_on_the_others(tmp_path, schedule, seed):
    labels, predictions, (values,) = random_arrays(seed, 120, 5, 1, ties=seed == 3)
    scored = scored_cache(tmp_path / "scored", labels, predictions, [values], [configuration()])
    rows = measure_signal(scored, [(0,)], QUESTIONS, ()).rows
    for speed_up in (1.5, 2.0):
        exits = np.zeros(120, dtype=int)
        for part in protocol_parts(scored, QUESTIONS, "cross-fit"):
            train = labels[part.train], predictions[:, part.train], values[:, part.train]
            exits[part.test] = fitted_elsewhere(schedule, train, values[:, part.test], speed_up)
        right = predictions[exits - 1, np.arange(120)] == labels
        assert value_of(rows, schedule, "accuracy", speed_up).value == pytest.approx(100 * right.mean())
        assert value_of(rows, schedule, "speed_up", speed_up).value == pytest.approx(5 / exits.mean())


@pytest.mark.parametrize("schedule", ["quota", "greedy"])
def test_held_out_thresholds_come_from_the_calibration_cache(tmp_path, schedule):
    labels, predictions, (values,) = random_arrays(1, 90, 5, 1)
    other = random_arrays(2, 150, 5, 1)
    scored = scored_cache(tmp_path / "scored", labels, predictions, [values], [configuration()], calibration=other)
    questions = dataclasses.replace(QUESTIONS, protocols=("held-out",))
    rows = measure_signal(scored, [(0,)], questions, ()).rows
    exits = np.array(fitted_elsewhere(schedule, (other[0], other[1], other[2][0]), values, 2.0))
    right = predictions[exits - 1, np.arange(90)] == labels
    assert value_of(rows, schedule, "accuracy", 2.0).value == pytest.approx(100 * right.mean())


def test_in_sample_the_shared_row_is_the_entry_and_greedy_is_never_below_it(tmp_path):
    labels, predictions, scores = random_arrays(5, 200, 6, 1)
    scored = scored_cache(tmp_path / "scored", labels, predictions, scores, [configuration(parameters="a=1")])
    measured = measure_signal(scored, [(0,)], IN_SAMPLE, ())
    (entry,) = [
        row
        for row in measured.rows
        if row.parameters == "a=1"
        and row.measure == "accuracy"
        and row.operating_point.text == "speed_up=2"
        and not row.decisions
    ]
    shared, greedy = (value_of(measured.rows, schedule, "accuracy", 2.0) for schedule in ("shared", "greedy"))
    assert shared.value == entry.value
    assert greedy.value >= shared.value
    assert greedy.best is None
    assert all(pair["status"] == "undefined" and np.isnan(pair["p_value"]) for pair in measured.pairs)
    assert {pair["reason"] for pair in measured.pairs} == {FLATTERED}


def test_a_grid_keeps_its_chosen_parameters_and_changes_only_thresholds(tmp_path):
    labels, predictions, scores = random_arrays(3, 150, 5, 3)
    configurations = [configuration(parameters=f"a={number}", changed=int(number != 1)) for number in range(3)]
    scored = scored_cache(tmp_path / "scored", labels, predictions, scores, configurations)
    rows = measure_signal(scored, [(0, 1, 2)], IN_SAMPLE, ()).rows
    chosen = {row.chosen for row in rows if row.parameters == "a=0|1|2" and row.operating_point.text == "speed_up=2"}
    (number,) = [number for number in range(3) if chosen == {f'{{"a={number}": 1}}'}]
    exits = quota_exits(SignalScores(scores[number], ">="), 2.0, np.arange(1, len(scores[number]) + 2))
    right = predictions[exits - 1, np.arange(150)] == labels
    row = value_of(rows, "quota", "accuracy", 2.0)
    assert (row.parameters, row.chosen) == ("a=0|1|2,thresholds=quota", f'{{"a={number}": 1}}')
    assert row.value == pytest.approx(100 * right.mean())


@pytest.mark.long
def test_the_difference_to_the_shared_threshold_is_tested_pair_by_pair(tmp_path):
    labels, predictions, scores = random_arrays(8, 400, 5, 1)
    scored = scored_cache(tmp_path / "scored", labels, predictions, scores, [configuration()])
    measured = measure_signal(scored, [(0,)], QUESTIONS, ())
    assert measured.pairs
    for pair in measured.pairs:
        schedule, speed_up = pair["parameters_a"].removeprefix("thresholds="), float(pair["operating_point"][9:])
        own, shared = (value_of(measured.rows, kind, "accuracy", speed_up) for kind in (schedule, "shared"))
        assert pair["difference"] == pytest.approx(own.value - shared.value)
        # Right answers change one by one: the error of a mean of -1, 0 and 1 over the samples.
        assert 0 < pair["std_err"] <= 100 / np.sqrt(400)
        assert pair["low"] < pair["difference"] < pair["high"]
        assert (pair["p_value"] < 0.05) == (not pair["low"] < 0 < pair["high"])


@pytest.mark.long
def test_measurements_on_disk_keep_their_pairs_and_the_comparison_adjusts_them(tmp_path):
    labels, predictions, scores = random_arrays(8, 400, 5, 1)
    scored = scored_cache(tmp_path / "scored", labels, predictions, scores, [configuration()])
    measured = measure_signal(scored, [(0,)], QUESTIONS, ())
    (tmp_path / "saved").mkdir()
    save_measurements(tmp_path / "saved", measured)
    saved = SavedMeasurements(tmp_path / "saved")
    assert [pair["difference"] for pair in saved.pairs] == [pair["difference"] for pair in measured.pairs]
    compared = compare_signals(scored, [saved], QUESTIONS, ("pairs",)).pairs
    for point in ("speed_up=1.5", "speed_up=2"):
        family = [pair for pair in compared if pair["decisions"] == "per-layer" and pair["operating_point"] == point]
        assert [pair["p_adjusted"] for pair in family] == pytest.approx(holm([pair["p_value"] for pair in family]))


def test_a_suite_that_does_not_ask_computes_nothing_of_it(tmp_path):
    labels, predictions, scores = random_arrays(8, 60, 4, 1)
    scored = scored_cache(tmp_path / "scored", labels, predictions, scores, [configuration()])
    measured = measure_signal(scored, [(0,)], dataclasses.replace(QUESTIONS, thresholds={}), ())
    assert not measured.pairs
    assert not [row for row in measured.rows if "thresholds=" in row.parameters]
    (tmp_path / "saved").mkdir()
    save_measurements(tmp_path / "saved", measured)
    assert not (tmp_path / "saved" / "pairs.parquet").exists()


def pair(cache, difference, std_err, status="ok"):
    return {
        "cache": cache,
        "model": "m",
        "task": cache,
        "split": "dev",
        "protocol": "cross-fit",
        "operating_point": "speed_up=2",
        "layer": None,
        "decisions": "per-layer",
        "measure": "accuracy",
        "signal_a": "s",
        "parameters_a": "thresholds=quota",
        "signal_b": "s",
        "parameters_b": "thresholds=shared",
        "n": 100,
        "difference": difference,
        "std_err": std_err,
        "p_value": 0.04,
        "status": status,
        "reason": "" if status == "ok" else "why",
    }


COLUMNS = {"cache": "", "model": "m", "task": "average", "split": "dev", "protocol": "cross-fit"}
AVERAGED = AverageErrors([AveragedCache(name, "m", f"task {name}", "dev", "accuracy") for name in "ab"])


def test_the_average_of_differences_has_the_error_of_independent_tasks():
    (mean,) = mean_pairs(COLUMNS, [pair("a", 1.0, 0.3), pair("b", 2.0, 0.4)], AVERAGED, "mean_accuracy_f1")
    assert (mean["cache"], mean["task"], mean["measure"], mean["n"]) == ("", "average", "mean_accuracy_f1", 200)
    assert (mean["difference"], mean["std_err"]) == pytest.approx((1.5, 0.25))
    assert mean["p_adjusted"] == pytest.approx(mean["p_value"])
    assert mean["p_value"] == pytest.approx(1.973e-9, rel=1e-3)  # six standard errors


def test_an_average_needs_every_task_and_is_not_tested_where_one_is_not():
    assert mean_pairs(COLUMNS, [pair("a", 1.0, 0.3)], AVERAGED, "accuracy") == []
    (mean,) = mean_pairs(COLUMNS, [pair("a", 1.0, 0.3), pair("b", 2.0, 0.4, "undefined")], AVERAGED, "accuracy")
    assert np.isnan(mean["p_value"])
    assert (mean["difference"], mean["status"], mean["reason"]) == (1.5, "undefined", "why")


def test_tests_are_adjusted_within_one_cache_and_operating_point():
    pairs = [pair("a", 1.0, 0.3), {**pair("a", 1.0, 0.3), "parameters_a": "thresholds=greedy"}, pair("b", 1.0, 0.3)]
    assert [adjusted["p_adjusted"] for adjusted in adjusted_pairs(pairs)] == pytest.approx([0.08, 0.08, 0.04])


@pytest.mark.long
def test_a_real_cache_has_rows_of_all_three_and_none_for_integer_thresholds():
    evaluation = evaluate(
        FIXTURES / "caches" / "mpnet-base-rte-dev",
        ["deebert", "pabee"],
        speed_ups=[2.0],
        protocols=["cross-fit"],
        thresholds="per-layer",
        resamples=20,
    )
    rows = evaluation.results[evaluation.results.parameters.str.contains("thresholds=")]
    assert set(rows.signal) == {"deebert"}
    assert set(rows.parameters) == {f"normalize=false,thresholds={name}" for name in ("shared", "quota", "greedy")}
    assert rows.best.isna().all()


def test_per_layer_thresholds_of_a_signal_with_integers_are_refused_where_it_is_named():
    with pytest.raises(InputError, match=r'thresholds.pabee: "per-layer" is for continuous thresholds'):
        evaluate(FIXTURES / "caches" / "mpnet-base-rte-dev", ["pabee"], thresholds={"pabee": ["per-layer"]})
