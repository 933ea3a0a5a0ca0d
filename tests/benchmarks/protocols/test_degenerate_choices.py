"""A value of a grid that is a fixed layer is chosen only where no other is there: in resamples and deals too."""

import dataclasses

import numpy as np
import pytest

from exitbench.benchmarks.protocols.choice import signals_first
from exitbench.benchmarks.results.operating_point import at_speed_up, within_loss
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations, merged_parts
from exitbench.benchmarks.run.measure_stage import measure_signal
from exitbench.benchmarks.suites.questions import Questions
from tests.support.scored_cases import configuration, scored_cache

QUESTIONS = Questions(
    speed_ups=(2.0, 3.0),
    primary_speed_up=2.0,
    rates_speed_up=2.0,
    losses=(60.0,),
    resamples=10,
    folds=3,
    protocols=("in-sample", "cross-fit"),
    deals=2,
)
DEPTH, SAMPLES = 6, 240


def late_and_free(folder, *, late_layer=3):
    """Two values of a grid: ``late`` may exit from layer 3 on, where every answer is right; ``free`` is all noise."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, SAMPLES)
    right = rng.random((DEPTH, SAMPLES)) < 0.6
    right[late_layer - 1] = True
    predictions = np.where(right, labels, 1 - labels)
    scores = [rng.normal(size=(DEPTH - 1, SAMPLES)) for _ in range(2)]
    configurations = [
        configuration(parameters="a=late", first_exit_layer=late_layer, changed=0),
        configuration(parameters="a=free", changed=1),
    ]
    return scored_cache(folder, labels, predictions, scores, configurations)


@pytest.mark.parametrize("protocol", ["in-sample", "cross-fit"])
def test_a_fixed_layer_with_a_higher_score_is_not_chosen_beside_a_signal(tmp_path, protocol):
    scored = late_and_free(tmp_path)
    evaluation = evaluate_configurations(scored, [0, 1], QUESTIONS)
    merged = merged_parts(scored, evaluation, protocol, [0, 1], QUESTIONS)
    alone = merged_parts(scored, evaluation, protocol, [0], QUESTIONS)
    point = at_speed_up(2.0)
    assert alone.at(point).status == "degenerate"
    assert alone.at(point).score("accuracy") == 100.0  # what the choice by score alone would have taken
    for deal in (merged, *merged.deals):
        assert set(deal.choices.chosen_names(point)) == {"a=free"}
    assert (merged.choices.at(point).resampled == 1).all()
    assert merged.at(point).status == "ok"


def test_within_a_loss_the_fastest_signal_is_chosen_before_a_faster_fixed_layer(tmp_path):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, SAMPLES)
    right = np.ones((DEPTH, SAMPLES), dtype=bool)
    right[0] = False  # free loses everything when all exit at layer 1, and reaches about 1.3x within the loss
    predictions = np.where(right, labels, 1 - labels)
    scores = [rng.normal(size=(DEPTH - 1, SAMPLES)) for _ in range(2)]
    configurations = [
        configuration(parameters="a=late", first_exit_layer=2, changed=0),
        configuration(parameters="a=free", changed=1),
    ]
    scored = scored_cache(tmp_path, labels, predictions, scores, configurations)
    questions = dataclasses.replace(QUESTIONS, losses=(10.0,))
    evaluation = evaluate_configurations(scored, [0, 1], questions)
    point = within_loss(10.0)
    late, free = (merged_parts(scored, evaluation, "in-sample", [number], questions).at(point) for number in (0, 1))
    assert late.status == "degenerate"
    assert 1.2 < free.speed_up < late.speed_up == 3.0
    merged = merged_parts(scored, evaluation, "in-sample", [0, 1], questions)
    assert merged.choices.chosen_names(point) == ["a=free"]
    assert (merged.choices.at(point).resampled == 1).all()


def test_a_fixed_layer_is_chosen_where_no_other_value_gets_near(tmp_path):
    scored = late_and_free(tmp_path)
    questions = dataclasses.replace(QUESTIONS, protocols=("cross-fit",))
    rows = measure_signal(scored, [[0]], questions, ()).rows
    statuses = {row.status for row in rows if row.operating_point == at_speed_up(2.0) and not np.isnan(row.value)}
    assert statuses == {"degenerate"}
    never = signals_first(np.array([[np.nan, 80.0], [70.0, 75.0]]), np.array([[True, True], [True, False]]))
    np.testing.assert_array_equal(never, [[np.nan, np.nan], [70.0, 75.0]])
