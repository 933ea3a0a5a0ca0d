import dataclasses
import functools
import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exitbench.benchmarks.results.files import RunFiles, check_unique, write_json, write_table
from exitbench.benchmarks.results.operating_point import (
    FINAL,
    NOWHERE,
    at_speed_up,
    at_threshold,
    operating_point,
    within_loss,
)
from exitbench.benchmarks.results.schema import KEY, SCHEMAS, Row, plain_values, rows_table, table_of
from exitbench.benchmarks.run.across_caches.average_errors import AveragedCache
from exitbench.benchmarks.run.across_caches.averages import averages, source_key
from exitbench.benchmarks.statistics.crossed_errors import ErrorSource
from exitbench.errors import InputError


def row(**changes):
    key = {
        "cache": "c",
        "model": "m",
        "task": "t",
        "split": "dev",
        "protocol": "in-sample",
        "signal": "s",
        "parameters": "",
    }
    return Row(**{**key, "measure": "accuracy", "value": 90.0, **changes})


def test_results_have_exactly_the_documented_columns():
    key = "cache, model, task, split, protocol, signal, parameters, operating_point, layer, decisions, measure"
    values = "value, low, high, std_err, n, threshold, status, reason, best, tied_with_best, chosen"
    assert SCHEMAS["results"].names == f"{key}, {values}".split(", ")
    assert list(KEY) == key.split(", ")


def test_rows_come_back_as_they_were_written(tmp_path):
    rows = [row(), row(measure="dis", layer=3, threshold=0.1, best=True, tied_with_best=True, reason="why")]
    write_table(tmp_path / "results.parquet", rows_table(rows))
    back = RunFiles(tmp_path).rows()
    assert back[1] == rows[1] or (back[1].low != back[1].low and back[1].key == rows[1].key)
    assert (back[0].layer, back[0].threshold, back[0].best) == (None, None, None)
    assert (back[1].layer, back[1].threshold, back[1].best, back[1].reason) == (3, 0.1, True, "why")


def test_equal_tables_give_equal_bytes(tmp_path):
    for name in ("a", "b"):
        write_table(tmp_path / name, rows_table([row(layer=k) for k in range(1, 50)]))
    first, second = (hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("a", "b"))
    assert first == second


def test_two_rows_with_one_key_are_refused():
    check_unique(rows_table([row(), row(layer=1), row(decisions="all")]))
    with pytest.raises(ValueError, match="2 rows share keys"):
        check_unique(rows_table([row(), row(value=91.0)]))


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        _ = RunFiles(tmp_path).record
    with pytest.raises(InputError, match=r"holds no results.parquet"):
        _ = RunFiles(tmp_path).results
    with pytest.raises(InputError, match=r"holds no samples.parquet"):
        RunFiles(tmp_path).samples_at("in-sample", "final")


def test_files_of_another_version_are_refused(tmp_path):
    pq.write_table(rows_table([row()]).drop_columns(["reason"]), tmp_path / "results.parquet")
    with pytest.raises(InputError, match="other columns"):
        _ = RunFiles(tmp_path).results


def test_json_is_written_whole(tmp_path):
    record = {"complete": True, "schema": 2}
    write_json(tmp_path / "run.json", record)
    assert json.loads((tmp_path / "run.json").read_text()) == record
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_run_of_another_schema_is_refused(tmp_path):
    write_json(tmp_path / "run.json", {"complete": True, "schema": 1})
    with pytest.raises(InputError, match=r"result files of schema 1, this version .* reads 2; run again"):
        _ = RunFiles(tmp_path).record


def test_an_operating_point_comes_back_from_its_text():
    points = [
        NOWHERE,
        FINAL,
        at_speed_up(2),
        at_speed_up(1.25),
        within_loss(0.5),
        at_threshold(0.1),
        at_threshold("median"),
    ]
    texts = ["", "final", "speed_up=2", "speed_up=1.25", "loss=0.5", "tau=0.1", "tau=median"]
    assert [point.text for point in points] == texts
    assert [operating_point(text) for text in texts] == points
    assert [bool(point) for point in points] == [False] + [True] * 6


@pytest.mark.parametrize("text", ["speed_up", "speed=2", "tau=", "tau=mean", "loss=x", "speed_up=2=3"])
def test_a_text_that_is_no_operating_point_is_refused(text):
    with pytest.raises(ValueError, match=r"operating point|could not convert"):
        operating_point(text)


def test_an_empty_table_keeps_its_columns():
    for name, schema in SCHEMAS.items():
        assert table_of(name, []).schema == schema


PLACES = [
    AveragedCache("c", "m", "t", "dev", "accuracy"),
    AveragedCache("d", "m", "u", "dev", "f1"),
    AveragedCache("e", "other", "u", "dev", "f1"),
]


def task_rows(signal, values, **changes):
    accuracy, f1, speed_up = values
    shared = {"signal": signal, "operating_point": at_speed_up(2), "std_err": 3.0, **changes}
    return [
        row(cache="c", **shared, value=accuracy),
        row(cache="c", **shared, measure="speed_up", value=2.0),
        row(cache="d", **shared, value=50.0),
        row(cache="d", **shared, measure="f1", value=f1),
        row(cache="d", **shared, measure="speed_up", value=speed_up),
    ]


def test_the_average_is_the_mean_of_each_tasks_own_score_and_of_the_speed_ups():
    means, _ = averages(task_rows("s", (90.0, 70.0, 2.2)), [], PLACES[:2], [("s", "")])
    averaged = {mean.measure: mean for mean in means}
    assert {(mean.cache, mean.task, mean.model) for mean in means} == {("", "average", "m")}
    assert averaged["mean_accuracy_f1"].value == 80.0
    assert averaged["accuracy"].value == 70.0
    assert averaged["speed_up"].value == pytest.approx(2.1)
    assert averaged["mean_accuracy_f1"].std_err == pytest.approx((3.0**2 + 3.0**2) ** 0.5 / 2)
    reach = 1.959964 * averaged["mean_accuracy_f1"].std_err
    assert averaged["mean_accuracy_f1"].low == pytest.approx(80.0 - reach)
    assert averaged["mean_accuracy_f1"].high == pytest.approx(80.0 + reach)
    assert "accuracy on 1 tasks, F1 on 1" in averaged["mean_accuracy_f1"].reason


def test_the_average_is_blank_when_a_task_is_missing_or_unmatched():
    rows = task_rows("s", (90.0, 70.0, 2.2))
    for incomplete in (rows[:2], [*rows[:3], rows[3]._replace(status="unmatched")]):
        means, _ = averages(incomplete, [], PLACES, [("s", "")])
        blank = {mean.measure: mean for mean in means}["mean_accuracy_f1"]
        assert (blank.status, blank.reason) == ("undefined", "no value for d")
        assert blank.value != blank.value


def test_an_average_is_over_the_caches_that_are_measured_under_its_protocol():
    both = [*task_rows("s", (90.0, 70.0, 2.2)), row(cache="f", signal="s", operating_point=at_speed_up(2), value=60.0)]
    own = [value._replace(protocol="held-out" if value.cache == "f" else "cross-fit") for value in both]
    places = [
        dataclasses.replace(PLACES[0], protocols=("in-sample", "cross-fit")),
        dataclasses.replace(PLACES[1], protocols=("in-sample", "cross-fit")),
        AveragedCache("f", "m", "v", "dev", "accuracy", protocols=("in-sample", "held-out")),
    ]
    in_sample, _ = averages(both, [], places, [("s", "")])
    assert {mean.measure: mean.value for mean in in_sample}["accuracy"] == pytest.approx((90 + 50 + 60) / 3)
    means, _ = averages(own, [], places, [("s", "")])
    assert {mean.protocol for mean in means} == {"cross-fit"}, "one cache alone has no average"
    assert {mean.measure: mean.value for mean in means}["accuracy"] == pytest.approx((90 + 50) / 2)


def test_labels_and_agreement_are_not_averaged():
    places = [PLACES[0], dataclasses.replace(PLACES[1], target="final")]
    means, pairs = averages(task_rows("s", (90.0, 70.0, 2.2)), [], places, [("s", "")])
    assert pairs == []
    assert means
    for mean in means:
        assert (mean.status, mean.value != mean.value) == ("undefined", True)
        assert mean.reason == "not averaged: right means the label on c, agreement with the last layer on d"


def test_a_score_with_a_value_at_exactly_its_speed_up_is_averaged_there():
    rows = task_rows("s", (90.0, 70.0, 2.2), protocol="held-out")
    beside = {"signal": "s", "operating_point": at_speed_up(2), "protocol": "held-out", "decisions": "randomised"}
    exact = [
        row(cache="c", **beside, value=91.0, std_err=4.0),
        row(cache="d", **beside, measure="f1", value=73.0, std_err=3.0),
    ]
    means, _ = averages([*rows, *exact], [], PLACES, [("s", "")])
    averaged = {mean.measure: mean for mean in means}["mean_accuracy_f1"]
    assert (averaged.value, averaged.std_err, averaged.decisions) == (82.0, 2.5, "")
    without_errors = [value._replace(std_err=float("nan")) for value in exact]
    means, _ = averages([*rows, *without_errors], [], PLACES, [("s", "")])
    assert {mean.measure: mean for mean in means}["mean_accuracy_f1"].value == 80.0


def test_the_average_of_a_grid_in_sample_has_no_mark():
    rows = task_rows("s", (90.0, 70.0, 2.2), chosen="{}") + task_rows("z", (80.0, 60.0, 2.2))
    question = {"protocol": "in-sample", "operating_point": "speed_up=2", "layer": None, "decisions": ""}
    entries = {"signal_a": "s", "parameters_a": "", "signal_b": "z", "parameters_b": ""}
    pairs = [
        {"cache": cache, **question, "measure": measure, **entries, "std_err": 3.0}
        for cache, measure in (("c", "accuracy"), ("d", "f1"))
    ]
    means, tests = averages(rows, pairs, PLACES, [("s", ""), ("z", "")])
    (test,) = [pair for pair in tests if pair["measure"] == "mean_accuracy_f1"]
    assert (test["difference"], test["status"]) == (10.0, "unreliable")
    assert test["p_adjusted"] != test["p_adjusted"]
    marked = {mean.signal: mean for mean in means if mean.measure == "mean_accuracy_f1"}
    assert (marked["s"].best, marked["z"].best) == (None, True)
    assert "chosen on the scored samples" in marked["s"].reason


def test_averages_are_compared_by_the_pairs_of_their_tasks():
    rows = task_rows("s", (90.0, 70.0, 2.2)) + task_rows("z", (80.0, 60.0, 2.2))
    question = {"protocol": "in-sample", "operating_point": "speed_up=2", "layer": None, "decisions": ""}
    entries = {"signal_a": "s", "parameters_a": "", "signal_b": "z", "parameters_b": ""}
    pairs = [
        {"cache": cache, **question, "measure": measure, **entries, "std_err": 3.0}
        for cache, measure in (("c", "accuracy"), ("d", "f1"))
    ]
    means, tests = averages(rows, pairs, PLACES, [("s", ""), ("z", "")])
    (test,) = [pair for pair in tests if pair["measure"] == "mean_accuracy_f1"]
    assert (test["difference"], test["std_err"]) == (10.0, pytest.approx(18**0.5 / 2))
    averaged = {mean.signal: mean for mean in means if mean.measure == "mean_accuracy_f1"}
    marks = {signal: (averaged[signal].best, averaged[signal].tied_with_best) for signal in ("s", "z")}
    assert marks == {"s": (True, True), "z": (False, False)}


def test_a_file_that_is_no_parquet_file_is_refused_by_name(tmp_path):
    (tmp_path / "results.parquet").write_bytes(b"PAR1 and nothing that follows from it")
    with pytest.raises(InputError, match=r"results\.parquet: expected a parquet file, found something else"):
        _ = RunFiles(tmp_path).results


def by_models(task, *caches):
    """Rows of one signal near 2x, a score for every (cache, model)."""
    return [
        row(cache=cache, model=model, task=task, signal="s", operating_point=at_speed_up(2), value=value, std_err=error)
        for cache, model, value, error in caches
    ]


def test_the_average_over_the_models_of_a_task_counts_every_model_once():
    rows = by_models("t", ("a1", "a", 80.0, 3.0), ("a2", "a", 84.0, 3.0), ("b", "b", 90.0, 4.0))
    rows.append(rows[0]._replace(measure="dis", operating_point=NOWHERE, layer=1, value=70.0))
    places = [AveragedCache(each.cache, each.model, "t", "dev", "accuracy") for each in rows[:3]]
    means, _ = averages(rows, [], places, [("s", "")])
    (over_models,) = [mean for mean in means if mean.model == "average"]
    assert (over_models.cache, over_models.task, over_models.value) == ("", "t", (82.0 + 90.0) / 2)
    assert over_models.std_err == pytest.approx((2 * (3 / 4) ** 2 + (4 / 2) ** 2) ** 0.5)  # rows are not shared
    assert over_models.reason == "mean over 3 caches of 2 models; for these networks only"
    (over_tasks,) = [mean for mean in means if mean.task == "average" and mean.measure == "accuracy"]
    assert (over_tasks.model, over_tasks.value) == ("a", 82.0)


def test_models_on_the_same_rows_are_averaged_resample_by_resample():
    rows = by_models("t", ("a1", "a", 80.0, 3.0), ("a2", "a", 84.0, 3.0), ("b", "b", 90.0, 4.0))
    draws = np.random.default_rng(0).normal([[80.0], [84.0], [90.0]], [[3.0], [3.0], [4.0]], (3, 50))
    places = [
        AveragedCache(
            each.cache,
            each.model,
            "t",
            "dev",
            "accuracy",
            rows="the same",
            sources=functools.partial(dict, {source_key(each): ErrorSource(drawn, np.zeros(0))}),
        )
        for each, drawn in zip(rows, draws, strict=True)
    ]
    (mean,) = [mean for mean in averages(rows, [], places, [("s", "")])[0] if mean.model == "average"]
    together = np.std((draws[0] + draws[1]) / 4 + draws[2] / 2, ddof=1)
    drawn = np.std(draws, axis=1, ddof=1)
    stated = 3.0 / 4 + 3.0 / 4 + 4.0 / 2  # what the rows say of each; the draws say how they err together
    assert mean.std_err == pytest.approx(together * stated / (drawn[0] / 4 + drawn[1] / 4 + drawn[2] / 2))


def test_one_model_alone_has_no_average_over_models():
    means, _ = averages(task_rows("s", (90.0, 70.0, 2.2)), [], PLACES[:2], [("s", "")])
    assert {mean.model for mean in means} == {"m"}


def test_equal_texts_of_a_column_are_one_object_and_nothing_else_changes() -> None:
    parts = [["a", None, "bb"], [], ["bb", "a", ""]]
    column = pa.chunked_array([pa.array(part, pa.string()) for part in parts])
    values = plain_values(column)
    assert values == ["a", None, "bb", "bb", "a", ""]
    assert values[2] is values[3] and values[0] is values[4]
    assert plain_values(pa.chunked_array([], pa.string())) == []
    assert plain_values(pa.chunked_array([pa.array([None, 3], pa.int32())])) == [None, 3]
