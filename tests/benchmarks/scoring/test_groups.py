"""Rows that belong together: folds and resamples go by group, and errors let a group agree with itself."""

from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.api import evaluate
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.splits import parts_of
from exitbench.benchmarks.run.score_stage import score_signals
from exitbench.benchmarks.scoring.groups import clustering, summed_by_group
from exitbench.benchmarks.statistics.hashed_randomness import folds, poisson_weights
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import bootstrap_weights
from exitbench.benchmarks.suites.questions import Questions
from exitbench.cache import Cache, synthetic_cache
from exitbench.errors import InputError
from exitbench.signals.registry.discovery import load_registry


def example(seed: int, samples: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    right = rng.random((2, samples)) < 0.7
    return np.round(rng.normal(size=(2, samples)) + right, 1), right


def test_sums_by_group_are_those_of_a_loop() -> None:
    rng = np.random.default_rng(0)
    values, groups = rng.normal(size=50), rng.integers(-5, 5, 50) * 10**12
    expected = [
        sum(value for value, own in zip(values, groups, strict=True) if own == group) for group in np.unique(groups)
    ]
    assert summed_by_group(values, groups) == pytest.approx(expected)
    assert summed_by_group(values, None) is values


@pytest.mark.parametrize("ties", ["half", "strict"])
def test_groups_of_one_give_the_error_of_delong(ties: str) -> None:
    certainty, right = example(1)
    alone = Ranking(certainty, right)
    grouped = Ranking(certainty, right, groups=np.arange(120))
    assert grouped.std_err(ties) == pytest.approx(alone.std_err(ties), rel=1e-9)  # type: ignore[arg-type]
    assert np.array_equal(grouped.dis(ties), alone.dis(ties))  # type: ignore[arg-type]


def test_copies_of_a_sample_in_one_group_leave_the_error_as_it_was() -> None:
    """Doubling every row says nothing new: the naive error falls by the root of two, the clustered one stays."""
    certainty, right = example(2)
    twice = Ranking(np.tile(certainty, 2), np.tile(right, 2), groups=np.tile(np.arange(120), 2))
    naive = Ranking(np.tile(certainty, 2), np.tile(right, 2))
    once = Ranking(certainty, right)
    assert twice.std_err() == pytest.approx(once.std_err(), rel=0.02)
    assert naive.std_err() == pytest.approx(once.std_err() / np.sqrt(2), rel=0.02)


def test_the_clustered_error_is_the_sum_of_squared_group_influences() -> None:
    certainty, right = example(3)
    groups = np.random.default_rng(3).integers(0, 20, 120)
    ranking = Ranking(certainty, right, groups=groups)
    influence = ranking.influence(1)
    squares = sum(influence[groups == group].sum() ** 2 for group in np.unique(groups))
    assert float(ranking.std_err()[0]) == pytest.approx(np.sqrt(squares))


def test_the_clustering_of_a_mean_is_one_without_groups_and_the_root_of_their_size_where_they_agree() -> None:
    values = np.repeat(np.random.default_rng(0).normal(size=30), 4)
    assert clustering(values, None) == 1.0
    assert clustering(values, np.arange(120)) == pytest.approx(1.0)
    assert clustering(values, np.repeat(np.arange(30), 4)) == pytest.approx(2.0)
    assert clustering(np.ones(5), np.zeros(5, dtype=np.int64)) == 1.0


def test_no_fold_cuts_a_group_and_its_fold_is_that_of_its_hash() -> None:
    groups = np.repeat(np.arange(60) * 7, 3)
    parts = parts_of("cross-fit", groups, seed=1, count=5)
    assert np.array_equal(np.logical_or.reduce([part.test for part in parts]), np.ones(180, dtype=bool))
    for part in parts:
        assert not set(groups[part.test]) & set(groups[part.train])
    numbers = sum(number * part.test for number, part in enumerate(parts))
    assert np.array_equal(numbers, folds(groups, 1, 5))


def test_one_group_is_too_few_to_cross_fit() -> None:
    with pytest.raises(InputError, match="1 groups are too few to cross-fit"):
        parts_of("cross-fit", np.zeros(50, dtype=np.int64), seed=0, count=5)


@pytest.fixture(scope="module")
def grouped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groups")
    return synthetic_cache(folder / "c", rows=240, layers=4, width=6, compact=True, group_rows=6)


def test_a_group_is_drawn_as_a_whole(grouped: Path) -> None:
    scored = score_signals(Cache(grouped), [load_registry().make("deebert")], Questions(resamples=50))
    weights = bootstrap_weights(scored, 0, 50).weights["test"]
    assert np.array_equal(weights, poisson_weights(np.arange(240) // 6, 0, 50))
    assert np.array_equal(weights[0::6], weights[5::6])


@pytest.mark.long
def test_the_intervals_of_a_grouped_cache_are_those_of_groups(grouped: Path, tmp_path: Path) -> None:
    """The same rows without groups have the same values and other errors."""
    plain = synthetic_cache(tmp_path / "c", rows=240, layers=4, width=6, compact=True)
    options = {"speed_ups": [1.5], "resamples": 200, "protocols": ["in-sample"]}
    with_groups, without = (evaluate(cache, ["deebert", "e-lang"], **options).results for cache in (grouped, plain))  # type: ignore[arg-type]
    for measure in ("dis", "aurc", "accuracy"):
        a, b = (rows[(rows.measure == measure) & (rows.signal == "deebert")] for rows in (with_groups, without))
        assert a.value.to_numpy() == pytest.approx(b.value.to_numpy())
        assert not np.allclose(a.std_err.to_numpy(), b.std_err.to_numpy())
