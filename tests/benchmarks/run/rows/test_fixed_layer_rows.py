"""Fixed layers within a loss and in areas, against literal loops over layers, folds and deals."""

import dataclasses

import numpy as np
import pytest

from exitbench.benchmarks.protocols.splits import DEAL_SEED
from exitbench.benchmarks.results.operating_point import within_loss
from exitbench.benchmarks.run.evaluated_configurations import cache_weights
from exitbench.benchmarks.run.rows.fixed_layer_rows import (
    fixed_area_row,
    fixed_within_rows,
    layer_within,
    scores_of_layers,
)
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.statistics.hashed_randomness import folds, poisson_weights
from exitbench.benchmarks.suites.questions import Questions
from tests.support.scored_cases import configuration, random_arrays, scored_cache

QUESTIONS = Questions(speed_ups=(2.0,), rates_speed_up=2.0, losses=(0.0, 8.0), resamples=30, folds=3, deals=2)
LABELS, PREDICTIONS, SCORES = random_arrays(4, 90, 6, 1)
RIGHT = PREDICTIONS == LABELS
COLUMNS = {"cache": "c", "model": "m", "task": "t", "split": "dev"}


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    other = random_arrays(5, 70, 6, 1)
    folder = tmp_path_factory.mktemp("fixed")
    return scored_cache(folder, LABELS, PREDICTIONS, SCORES, [configuration()], calibration=other)


def literal_layer(right, loss):
    """Going down from the last layer as long as no layer on the way has lost more than the loss."""
    scores = 100 * right.mean(axis=1)
    kept = len(scores)
    for layer in range(len(scores), 0, -1):
        if scores[layer - 1] < scores[-1] - loss - 1e-9:
            break
        kept = layer
    return kept


@pytest.mark.parametrize("protocol", ["in-sample", "cross-fit", "held-out"])
def test_the_layer_is_chosen_where_the_protocol_chooses_and_read_on_the_scored_rows(scored, protocol):
    rows = {
        (row.operating_point, row.measure): row
        for row in fixed_within_rows({**COLUMNS, "protocol": protocol}, scored, QUESTIONS)
    }
    other_labels, other_predictions, _ = random_arrays(5, 70, 6, 1)
    for loss in (0.0, 8.0):
        speed_ups, lost = [], []
        for deal in range(2 if protocol == "cross-fit" else 1):
            exits = np.zeros(90, dtype=int)
            fold = folds(np.arange(90), deal * DEAL_SEED, 3) if protocol == "cross-fit" else np.zeros(90, dtype=int)
            for number in np.unique(fold):
                choosing = RIGHT[:, fold != number] if protocol == "cross-fit" else RIGHT
                if protocol == "held-out":
                    choosing = other_predictions == other_labels
                exits[fold == number] = literal_layer(choosing, loss)
            speed_ups.append(6 / exits.mean())
            lost.append(100 * (RIGHT[-1].mean() - RIGHT[exits - 1, np.arange(90)].mean()))
        assert rows[within_loss(loss), "max_speed_up"].value == pytest.approx(np.mean(speed_ups))
        assert rows[within_loss(loss), "realised_loss"].value == pytest.approx(np.mean(lost))
        assert rows[within_loss(loss), "max_speed_up"].status == "ok"
    assert rows[within_loss(0.0), "max_speed_up"].value <= rows[within_loss(8.0), "max_speed_up"].value


def test_the_area_of_fixed_layers_is_that_of_straight_lines_between_their_accuracies(scored):
    layers = cache_weights(scored, QUESTIONS).layers("test", np.ones(90, dtype=bool), scored.samples().outcomes)
    row = fixed_area_row({**COLUMNS, "protocol": "in-sample"}, scored.samples(), (0.25, 1.0), layers)
    fine = np.linspace(0.25, 1.0, 200_001)
    costs = np.arange(1, 7) / 6
    assert row.value == pytest.approx(np.interp(fine, costs, 100 * RIGHT.mean(axis=1)).mean(), abs=1e-4)
    drawn = poisson_weights(np.arange(90), 0, 30).astype(float)
    areas = [np.interp(fine, costs, 100 * (RIGHT @ weight) / weight.sum()).mean() for weight in drawn.T]
    assert row.std_err == pytest.approx(np.std(areas, ddof=1), rel=1e-3)
    assert row.low < row.value < row.high


def test_the_area_of_an_f1_bends_between_layers(tmp_path):
    scored = scored_cache(tmp_path, LABELS, PREDICTIONS, SCORES, [configuration()], metric="f1")
    questions = dataclasses.replace(QUESTIONS, protocols=("in-sample",))
    layers = cache_weights(scored, questions).layers("test", np.ones(90, dtype=bool), scored.samples().outcomes)
    row = fixed_area_row({**COLUMNS, "protocol": "in-sample"}, scored.samples(), (0.25, 1.0), layers)
    positions = np.linspace(1.5, 6, 901)
    counts = [
        np.interp(positions, np.arange(1, 7), count)
        for count in (((PREDICTIONS == 1) & (LABELS == 1)).sum(axis=1), (PREDICTIONS == 1).sum(axis=1))
    ]
    f1 = 200 * counts[0] / (counts[1] + LABELS.sum())
    assert row.value == pytest.approx(np.trapezoid(f1, positions) / 4.5, abs=0.02)


def test_where_every_layer_is_as_good_as_the_last_the_first_is_enough():
    assert layer_within(scores_of_layers(Outcomes(np.ones((4, 5), dtype=bool)), "accuracy"), 0.0) == 1
