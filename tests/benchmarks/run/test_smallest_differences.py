"""The smallest difference that a column could show, and the fixed layer at exactly a speed-up, as rows of a run."""

import numpy as np
import pytest
from scipy.stats import norm

from exitbench import evaluate
from exitbench.benchmarks.baselines.baseline_table import pinned_rows
from exitbench.benchmarks.run.compare_stage import fixed_at_rows
from exitbench.benchmarks.run.compared_columns import smallest_difference_rows
from exitbench.benchmarks.scoring.score_store import Samples
from exitbench.benchmarks.statistics.hashed_randomness import poisson_weights
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import layer_sums
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.places import FIXTURES

COLUMNS = {"cache": "c", "model": "m", "task": "t", "split": "dev", "protocol": "cross-fit"}


def pair(std_err, p_value=0.5, **question):
    asked = {"operating_point": "speed_up=2", "layer": None, "decisions": "", "measure": "accuracy", **question}
    return {**asked, "std_err": std_err, "p_value": p_value, "n": 400}


def test_the_median_error_of_the_pairs_makes_both_numbers():
    # Two entries that are one signal under two names have no error, or one of rounding, and tell nothing.
    pairs = [pair(0.5), pair(0.7), pair(2.0), pair(5.6e-15, 1.0)]
    one_pair, every_pair = smallest_difference_rows(COLUMNS, pairs)
    assert one_pair.value == pytest.approx(0.7 * (norm.ppf(0.975) + norm.ppf(0.8)))
    assert every_pair.value == pytest.approx(0.7 * (norm.ppf(1 - 0.05 / 8) + norm.ppf(0.8)))
    assert (one_pair.parameters, every_pair.parameters) == ("", "adjusted")
    assert (one_pair.signal, one_pair.n, one_pair.measure) == ("detectable", 400, "accuracy")
    assert "median standard error 0.7 of 3 pairs" in one_pair.reason
    assert "one of 4 pairs, adjusted by Holm's method" in every_pair.reason


def test_every_column_has_its_own_and_one_without_errors_has_none():
    pairs = [pair(0.5), pair(0.3, measure="dis", operating_point="", layer=2), pair(0.0, 1.0, measure="f1")]
    pairs.append(pair(0.4, float("nan"), measure="area"))  # in-sample grids are not tested
    rows = smallest_difference_rows(COLUMNS, pairs)
    assert [(row.measure, row.layer, row.operating_point.text) for row in rows[::2]] == [
        ("accuracy", None, "speed_up=2"),
        ("dis", 2, ""),
    ]


def fixed_rows(speed_up):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 500)
    right = rng.random((6, 500)) < np.linspace(0.6, 0.9, 6)[:, None]
    samples = Samples(np.arange(500), labels, np.where(right, labels, 1 - labels), "accuracy")
    layers = layer_sums(samples.outcomes, SampleWeights.of(poisson_weights(samples.ids, 0, 2000)))
    return right, {number.row.measure: number.row for number in fixed_at_rows(COLUMNS, samples, speed_up, layers)}


def test_a_whole_fixed_layer_has_its_accuracy_with_the_binomial_error():
    right, rows = fixed_rows(2.0)
    share = right[2].mean()
    assert rows["accuracy"].value == pytest.approx(100 * share)
    assert rows["accuracy"].std_err == pytest.approx(100 * np.sqrt(share * (1 - share) / 500), rel=0.05)
    assert (rows["speed_up"].value, rows["speed_up"].status) == (2.0, "ok")
    assert rows["accuracy"].reason == "every sample exits at layer 3"


def test_between_two_layers_a_share_of_the_samples_exits_at_each():
    right, rows = fixed_rows(6 / 2.25)
    expected = 0.25 * right[2] + 0.75 * right[1]
    assert rows["accuracy"].value == pytest.approx(100 * expected.mean())
    assert rows["accuracy"].std_err == pytest.approx(100 * expected.std() / np.sqrt(500), rel=0.05)
    assert rows["speed_up"].value == pytest.approx(6 / 2.25)
    assert "a share of 0.75 exits at layer 2 and the others at layer 3" in rows["accuracy"].reason


def test_beyond_the_first_layer_there_is_no_fixed_layer():
    assert fixed_rows(6.5)[1] == {}


@pytest.fixture(scope="module")
def qnli():
    return evaluate(
        FIXTURES / "caches" / "mpnet-base-qnli-dev",
        ["deebert", "e-lang"],
        speed_ups=[2.0],
        losses=[1.0],
        protocols=["in-sample"],
        resamples=50,
    )


def test_on_qnli_layer_six_is_as_good_as_a_signal_at_twice_the_speed(qnli):
    results = qnli.results[(qnli.results.operating_point == "speed_up=2") & (qnli.results.measure == "accuracy")]
    (fixed,) = results[(results.signal == "fixed") & results.layer.isna()].value
    best = results[results.signal.isin(["deebert", "e-lang"])].value.max()
    (single,) = results[(results.signal == "detectable") & (results.parameters == "")].value
    assert fixed == pytest.approx(85.69, abs=0.005)
    assert best - fixed < single


def test_no_bound_is_compared_and_no_smallest_difference_is_pinned(qnli):
    assert set(qnli.pairs.signal_a) | set(qnli.pairs.signal_b) == {"deebert", "e-lang"}
    bounds = qnli.results[qnli.results.signal.isin(["fixed", "detectable"])]
    assert bounds.best.isna().all()
    curve = qnli.curves[qnli.curves.signal == "fixed"]
    assert curve.speed_up.min() == 1
    assert curve.speed_up.max() == 12


def test_smallest_differences_are_no_part_of_a_baseline():
    rows = smallest_difference_rows(COLUMNS, [pair(0.5)])
    assert list(pinned_rows(rows)) == []
