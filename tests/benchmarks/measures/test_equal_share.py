"""Exit rates at equal exit shares: the counts of a literal loop, and errors that a bootstrap confirms."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.benchmarks.measures.equal_share import all_layers, equal_share_errors, error_rate_at_the_cut
from exitbench.benchmarks.measures.ranking import Ranking


def literal_errors(certainty: np.ndarray, right: np.ndarray) -> float:
    """Wrong exits when the most certain exit, as many as are right, averaged over every order of tied samples."""
    quota = int(right.sum())
    counts = []
    for shuffled in itertools.permutations(range(len(right))):
        ranked = sorted(shuffled, key=lambda sample: -certainty[sample])  # stable: ties stay as shuffled
        counts.append(sum(not right[sample] for sample in ranked[:quota]))
    return float(np.mean(counts))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6))
def test_the_errors_are_those_of_every_order_of_tied_samples(rows: list[tuple[int, bool]]) -> None:
    certainty, right = np.array([float(row[0]) for row in rows]), np.array([row[1] for row in rows])
    errors = equal_share_errors(Ranking(certainty[None], right[None]), 1)
    expected = literal_errors(certainty, right)
    assert errors.count == pytest.approx(expected)
    assert errors.errors.sum() == pytest.approx(expected)
    if not right.all():
        assert errors.rate("premature_rate") == pytest.approx(100 * expected / (~right).sum())
    if right.any():
        assert errors.rate("delayed_rate") == pytest.approx(100 * expected / right.sum())


def test_the_order_of_tied_samples_changes_no_error() -> None:
    """Also where the neighbours of the cut are only a part of those that are tied."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        certainty, right = rng.integers(0, 4, (1, 90)).astype(float), rng.random((1, 90)) < 0.6
        order = rng.permutation(90)
        errors = equal_share_errors(Ranking(certainty, right), 1)
        turned = equal_share_errors(Ranking(certainty[:, order], right[:, order]), 1)
        assert turned.count == errors.count
        np.testing.assert_array_equal(turned.errors, errors.errors[order])


def test_a_perfect_signal_makes_no_error_and_an_inverted_one_every_error_it_can() -> None:
    right = np.array([[True, True, False, False, False]])
    perfect = equal_share_errors(Ranking(right.astype(float), right), 1)
    assert perfect.rate("premature_rate") == perfect.rate("delayed_rate") == 0.0
    inverted = equal_share_errors(Ranking(-right.astype(float), right), 1)
    assert inverted.rate("delayed_rate") == 100.0
    assert inverted.rate("premature_rate") == pytest.approx(200 / 3)


def test_without_wrong_predictions_there_is_no_premature_rate() -> None:
    errors = equal_share_errors(Ranking(np.array([[1.0, 2.0]]), np.ones((1, 2), dtype=bool)), 1)
    assert np.isnan(errors.rate("premature_rate"))
    assert errors.rate("delayed_rate") == 0.0


def test_quotas_are_filled_fold_by_fold() -> None:
    rng = np.random.default_rng(3)
    certainty, right, folds = rng.normal(size=(1, 60)), rng.random((1, 60)) < 0.7, rng.integers(0, 3, 60)
    pooled = equal_share_errors(Ranking(certainty, right, folds), 1).errors.sum()
    alone = [
        equal_share_errors(Ranking(certainty[:, folds == fold], right[:, folds == fold]), 1).errors.sum()
        for fold in range(3)
    ]
    assert pooled == pytest.approx(sum(alone))


def test_layers_are_pooled_over_their_decisions_and_one_without_scores_is_all_ties() -> None:
    rng = np.random.default_rng(4)
    certainty, right = rng.normal(size=(3, 50)), rng.random((3, 50)) < np.array([[0.5], [0.7], [0.9]])
    certainty[0] = np.nan
    together = all_layers(Ranking(certainty, right))
    hits = int(right[0].sum())
    ties = hits * (50 - hits) / 50
    scored = [literal(certainty[layer], right[layer]) for layer in (1, 2)]
    assert together.rate("premature_rate") == pytest.approx(100 * (ties + sum(scored)) / (~right).sum())
    assert together.rate("delayed_rate") == pytest.approx(100 * (ties + sum(scored)) / right.sum())


def literal(certainty: np.ndarray, right: np.ndarray) -> int:
    """Wrong exits without ties."""
    chosen = np.argsort(-certainty)[: int(right.sum())]
    return int((~right[chosen]).sum())


def drawn_population(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Certainties and correctness of three layers of one population; neighbouring layers go together."""
    ease = rng.normal(size=samples)
    certainty = ease + rng.normal(size=(3, samples))
    right = ease + rng.normal(size=(3, samples)) > np.array([[0.2], [-0.4], [-0.9]])
    return certainty, right


@pytest.mark.long
@pytest.mark.parametrize("measure", ["premature_rate", "delayed_rate"])
@pytest.mark.parametrize("is_tied", [False, True], ids=["continuous", "tied"])
def test_the_standard_error_is_the_spread_over_fresh_samples(measure: str, is_tied: bool) -> None:
    rng = np.random.default_rng(11)
    rates, errors = [], []
    for _ in range(400):
        certainty, right = drawn_population(rng, 300)
        certainty = np.round(certainty) if is_tied else certainty
        share = all_layers(Ranking(certainty, right))
        rates.append(share.rate(measure))
        errors.append(np.linalg.norm(share.influence(measure)))
    assert np.mean(errors) == pytest.approx(np.std(rates), rel=0.1)


@pytest.mark.long
def test_the_standard_error_of_a_paired_difference_is_the_spread_of_differences() -> None:
    rng = np.random.default_rng(12)
    gaps, errors = [], []
    for _ in range(400):
        certainty, right = drawn_population(rng, 300)
        other = certainty + 0.7 * rng.normal(size=certainty.shape)
        first, second = all_layers(Ranking(certainty, right)), all_layers(Ranking(other, right))
        gaps.append(first.rate("premature_rate") - second.rate("premature_rate"))
        errors.append(np.linalg.norm(first.influence("premature_rate") - second.influence("premature_rate")))
    assert np.mean(errors) == pytest.approx(np.std(gaps), rel=0.12)


@pytest.mark.long
def test_the_standard_error_holds_with_folds() -> None:
    rng = np.random.default_rng(13)
    rates, errors = [], []
    for _ in range(400):
        certainty, right = drawn_population(rng, 300)
        share = all_layers(Ranking(certainty, right, np.arange(300) % 5))
        rates.append(share.rate("premature_rate"))
        errors.append(np.linalg.norm(share.influence("premature_rate")))
    assert np.mean(errors) == pytest.approx(np.std(rates), rel=0.1)


@pytest.mark.parametrize(
    ("size", "wrong", "expected"),
    [
        # A thousand samples, 300 of them wrong, so the cut lies at 300: 50 on either side are about as certain as it.
        (1000, [*range(250), *range(250, 266), *range(335, 349), *range(980, 1000)], 30 / 100),
        # Of twenty samples five on either side are asked, however few their number to the power of two thirds.
        (20, [0, 1, 2, 3, 4, 5, 6, 7, 8, 14], 5 / 10),
    ],
)
def test_the_error_rate_at_the_cut_is_that_of_its_neighbours(size: int, wrong: list[int], expected: float) -> None:
    right = np.ones(size, dtype=bool)
    right[wrong] = False
    ((_, part),) = Ranking(np.arange(float(size))[None], right[None]).sorted_parts(1)
    assert error_rate_at_the_cut(part) == expected


def test_a_layer_without_scores_is_tied_and_leaves_its_neighbour_alone() -> None:
    right = np.array([[True, False, True]] * 2)
    ranking = Ranking(np.array([[np.nan] * 3, [0.1, 0.9, 0.2]]), right)
    # Two of three exit: by chance two thirds of a wrong one, by the second layer's scores the wrong one first.
    assert equal_share_errors(ranking, 1).count == pytest.approx(2 / 3)
    assert equal_share_errors(ranking, 2).count == 1.0
