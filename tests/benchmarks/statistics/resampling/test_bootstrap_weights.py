"""BootstrapWeights are shared by a cache's signals, and by nothing else."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.statistics.hashed_randomness import poisson_weights
from exitbench.benchmarks.statistics.resampling import bootstrap_weights as draws
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import CALIBRATION_SEED, bootstrap_weights, layer_sums
from exitbench.benchmarks.statistics.resampling.resampled_curves import resampled_exits
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.errors import InputError
from tests.support.scored_cases import configuration, random_arrays, scored_cache


def test_weights_beyond_the_memory_budget_lie_in_a_file_and_are_the_same(monkeypatch):
    units = np.arange(30) * 7
    expected = poisson_weights(units, 3, 8)
    assert not isinstance(draws.made_weights(units, 3, 8), np.memmap)
    monkeypatch.setattr(draws, "memory_budget", lambda: 100)
    monkeypatch.setattr(draws, "WRITTEN", 50)
    made = draws.made_weights(units, 3, 8)
    assert isinstance(made, np.memmap)
    np.testing.assert_array_equal(made, expected)
    monkeypatch.setattr("exitbench.benchmarks.statistics.resampling.sample_weights.FEW", 0)
    rows = np.arange(30) % 4 > 0
    for drawn_rows in (rows, np.ones(30, dtype=bool)):
        drawn = SampleWeights.of(made, drawn_rows)
        quantity = np.arange(60.0).reshape(2, 30)
        sums = quantity[:, drawn_rows] @ expected[drawn_rows].astype(float)
        np.testing.assert_array_equal(drawn.sums(quantity), sums)
        np.testing.assert_array_equal(drawn.exact_times(quantity[:, drawn_rows]), sums)


def test_a_full_disk_says_how_much_the_weights_need(monkeypatch):
    monkeypatch.setattr(draws, "memory_budget", lambda: 0)
    full = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115 -- closed by what it is given to
    monkeypatch.setattr(draws.tempfile, "TemporaryFile", lambda buffering: full)
    with pytest.raises(InputError, match=r"expected 0\.0 GB in .* for the weights of the bootstrap, found"):
        draws.made_weights(np.arange(30), 0, 8)


def made(folder, seed=0, **changes):
    labels, predictions, scores = random_arrays(seed, 30, 4, 1)
    return scored_cache(folder, labels, predictions, scores, [configuration()], **changes)


def test_the_next_signal_of_a_cache_gets_the_same_draws(tmp_path):
    assert bootstrap_weights(made(tmp_path / "a"), 0, 8) is bootstrap_weights(made(tmp_path / "b"), 0, 8)


def test_another_seed_number_of_resamples_or_answer_gets_draws_of_its_own(tmp_path):
    first = bootstrap_weights(made(tmp_path), 0, 8)
    assert bootstrap_weights(made(tmp_path), 1, 8) is not first
    assert bootstrap_weights(made(tmp_path), 0, 9).weights["test"].shape == (30, 9)
    assert bootstrap_weights(made(tmp_path, seed=1), 0, 8) is not bootstrap_weights(made(tmp_path, seed=2), 0, 8)
    assert bootstrap_weights(made(tmp_path, metric="f1"), 0, 8) is not bootstrap_weights(made(tmp_path), 0, 8)


def test_each_role_has_the_weights_of_its_ids(tmp_path):
    calibration = random_arrays(5, 12, 4, 1)
    drawn = bootstrap_weights(made(tmp_path, ids=np.arange(30) + 7, calibration=calibration), 3, 8, held_out=True)
    np.testing.assert_array_equal(drawn.weights["test"], poisson_weights(np.arange(30) + 7, 3, 8))
    np.testing.assert_array_equal(drawn.weights["calibration"], poisson_weights(np.arange(12), 3 + CALIBRATION_SEED, 8))


def test_many_weights_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(draws, "KEPT", 100)
    scored = made(tmp_path)
    assert bootstrap_weights(scored, 0, 8) is not bootstrap_weights(scored, 0, 8)
    assert draws.LAST_WEIGHTS.weights is None


@pytest.mark.parametrize("rows", [np.arange(30) % 2 == 0, np.arange(30) % 3 > 0, np.ones(30, dtype=bool)])
def test_sums_that_all_signals_share_are_sums_over_the_samples(tmp_path, rows):
    scored = made(tmp_path)
    outcomes, drawn = scored.samples().outcomes, bootstrap_weights(scored, 0, 8)
    weights = poisson_weights(np.arange(30), 0, 8).astype(int) * rows[:, None]
    for resample in range(8):
        final = drawn.final("test", rows, outcomes)
        assert final.layers[resample] == 4 * weights[:, resample].sum()
        assert final.correct[resample] == sum(weights[outcomes.correct[-1], resample])
        for layer in range(3):
            right = outcomes.correct[layer]
            decisions = drawn.decisions("test", rows, outcomes)[:, layer, resample]
            assert decisions.tolist() == [sum(weights[~right, resample]), sum(weights[right, resample])]


def test_of_many_weights_only_one_part_is_held_and_another_is_cut_out_again(tmp_path, monkeypatch):
    monkeypatch.setattr("exitbench.benchmarks.statistics.resampling.bootstrap_weights.KEPT", 0)
    draws = bootstrap_weights(made(tmp_path), 0, 8)
    halves = [np.arange(30) < 10, np.arange(30) >= 10]
    whole = draws.all("test")
    first = draws.some("test", halves[0])
    assert draws.some("test", halves[0]) is first
    for half in (halves[1], halves[0]):
        np.testing.assert_array_equal(draws.some("test", half).weights, draws.weights["test"][half])
    assert draws.some("test", halves[0]) is not first
    assert draws.all("test") is whole


@pytest.mark.parametrize(("metric", "costs"), [("accuracy", None), ("f1", (1.0, 2.5, 3.0, 8.0))])
def test_one_pass_over_the_layers_has_the_sums_of_every_fixed_layer(tmp_path, metric, costs):
    outcomes = dataclasses.replace(made(tmp_path, metric=metric).samples(), costs=costs).outcomes
    rows = np.arange(30) % 3 > 0
    drawn = SampleWeights.of(poisson_weights(np.arange(30), 0, 8), rows)
    layers = layer_sums(outcomes, drawn)
    for layer in range(1, 5):
        exits = np.full(30, layer)
        for name, sums in vars(resampled_exits(exits, outcomes, drawn)).items():
            np.testing.assert_array_equal(getattr(layers.at(layer), name), sums, err_msg=name)


def test_training_samples_of_folds_need_no_pass_over_the_weights(tmp_path, monkeypatch):
    scored = made(tmp_path)
    draws = bootstrap_weights(scored, 11, 8)  # no other test's
    passes = []
    made_sums = layer_sums
    monkeypatch.setattr(
        "exitbench.benchmarks.statistics.resampling.bootstrap_weights.layer_sums",
        lambda outcomes, drawn: passes.append(drawn.rows.sum()) or made_sums(outcomes, drawn),
    )
    for fold in range(3):
        for rows in (np.arange(30) % 3 == fold, np.arange(30) % 3 != fold):
            draws.layers("test", rows, scored.samples().outcomes)
    assert passes == [10, 30, 10, 10]
