import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from exitbench.benchmarks.measures import ranking as rankings
from exitbench.benchmarks.measures.placements import layer_placements
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.measures.risk_coverage import risk_at
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import random_case

SEEDS = st.integers(0, 2**32 - 1)


def one_layer(seed: int, most: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """Certainties with ties and correctness, sometimes all of one kind."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most))
    certainty = rng.integers(0, int(rng.integers(1, 10)), n).astype(float)
    if seed % 3 == 0:
        certainty = rng.normal(size=n)
    right = rng.random(n) < rng.choice([0.0, 0.3, 0.6, 0.9, 1.0])
    return certainty, right


def pair_counts(certainty, right):
    more = tied = pairs = 0
    for hard in np.flatnonzero(~right):
        for easy in np.flatnonzero(right):
            pairs += 1
            more += int(certainty[easy] > certainty[hard])
            tied += int(certainty[easy] == certainty[hard])
    return more, tied, pairs


def literal_aurc(certainty, right):
    """Mean risk over coverages, averaged over every order within every tied group, by enumeration."""
    groups = [np.flatnonzero(certainty == value) for value in sorted(set(certainty), reverse=True)]
    risks = []
    for orders in itertools.product(*(itertools.permutations(group) for group in groups)):
        order = [sample for group in orders for sample in group]
        errors, total = 0, 0.0
        for kept, sample in enumerate(order, start=1):
            errors += int(not right[sample])
            total += errors / kept
        risks.append(total / len(order))
    return 100 * sum(risks) / len(risks)


@pytest.mark.long
@for_each(seed=range(250))
def test_dis_is_the_share_of_pairs_in_order_with_ties_one_half(seed):
    certainty, right = one_layer(seed)
    ranking = Ranking(certainty[None], right[None])
    more, tied, pairs = pair_counts(certainty, right)
    if pairs == 0:
        assert np.isnan(ranking.dis()).all()
        assert np.isnan(ranking.tied_share).all()
        assert ranking.verdict(1).status == "undefined"
        assert "sample" in ranking.verdict(1).reason
        return
    assert ranking.dis()[0] == pytest.approx(100 * (more + tied / 2) / pairs, abs=1e-12)
    assert ranking.dis("strict")[0] == pytest.approx(100 * more / pairs, abs=1e-12)
    assert ranking.tied_share[0] == pytest.approx(100 * tied / pairs, abs=1e-12)
    assert ranking.dis()[0] == pytest.approx(100 * roc_auc_score(right, certainty))
    assert ranking.pairs[0] == pairs


def test_a_tie_counts_one_half():
    assert Ranking(np.array([[1.0, 1.0]]), np.array([[True, False]])).dis().tolist() == [50.0]
    assert Ranking(np.array([[1.0, 1.0]]), np.array([[True, False]])).dis("strict").tolist() == [0.0]


@pytest.mark.parametrize("size", [500, 3000])
def test_dis_is_scikit_learns_auroc_on_larger_data(size):
    rng = np.random.default_rng(size)
    right = rng.random((4, size)) < 0.8
    certainty = rng.normal(size=(4, size)) + right
    certainty[1] = np.round(certainty[1] * 5)
    expected = [100 * roc_auc_score(right[layer], certainty[layer]) for layer in range(4)]
    assert Ranking(certainty, right).dis() == pytest.approx(expected, abs=1e-9)


@for_each(seed=range(150))
def test_aurc_is_the_mean_over_all_orders_within_ties(seed):
    certainty, right = one_layer(seed, most=8)
    ranking = Ranking(certainty[None], right[None])
    assert ranking.aurc[0] == pytest.approx(literal_aurc(certainty, right))
    best = literal_aurc(np.where(right, 1.0, 0.0) + np.arange(len(right)) / 100, right)
    assert ranking.excess_aurc[0] == pytest.approx(ranking.aurc[0] - best, abs=1e-9)
    risk = risk_at(certainty, ~right)
    assert 100 * risk.mean() == pytest.approx(ranking.aurc[0])
    assert risk[-1] == pytest.approx(np.mean(~right))


def test_aurc_is_the_literal_risk_coverage_loop_on_larger_data():
    rng = np.random.default_rng(0)
    right = rng.random(2000) < 0.8
    certainty = rng.normal(size=2000) + right
    errors, total = 0, 0.0
    for kept, sample in enumerate(np.argsort(-certainty), start=1):
        errors += int(not right[sample])
        total += errors / kept
    assert Ranking(certainty[None], right[None]).aurc[0] == pytest.approx(100 * total / 2000)


def test_a_perfect_ranking_has_no_excess_and_an_inverted_one_has_the_most():
    right = np.array([[True] * 6 + [False] * 4])
    perfect = Ranking(np.arange(10.0)[None, ::-1], right)
    inverted = Ranking(np.arange(10.0)[None], right)
    assert perfect.excess_aurc[0] == pytest.approx(0, abs=1e-12)
    assert perfect.dis()[0] == 100
    assert inverted.dis()[0] == 0
    others = [Ranking(np.random.default_rng(seed).normal(size=(1, 10)), right).excess_aurc[0] for seed in range(50)]
    assert all(0 <= excess <= inverted.excess_aurc[0] + 1e-12 for excess in others)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_monotone_transform_changes_no_measure(seed):
    certainty, right = one_layer(seed, most=60)
    plain = Ranking(certainty[None], right[None])
    changed = Ranking(np.arctan(certainty[None] / 4) * 2 - 9, right[None])
    for ties in ("half", "strict"):
        assert np.array_equal(plain.dis(ties), changed.dis(ties), equal_nan=True)
        assert np.array_equal(plain.std_err(ties), changed.std_err(ties), equal_nan=True)
    assert np.array_equal(plain.aurc, changed.aurc)


@given(SEEDS)
@settings(max_examples=60, deadline=None)
def test_permuting_the_samples_changes_nothing(seed):
    certainty, right = one_layer(seed, most=60)
    order = np.random.default_rng(seed).permutation(len(right))
    plain, mixed = Ranking(certainty[None], right[None]), Ranking(certainty[None, order], right[None, order])
    assert np.array_equal(plain.dis(), mixed.dis(), equal_nan=True)
    assert np.array_equal(plain.std_err(), mixed.std_err(), equal_nan=True)
    assert plain.aurc == pytest.approx(mixed.aurc, abs=1e-12)


@given(SEEDS)
@settings(max_examples=40, deadline=None)
def test_turning_a_signal_around_mirrors_dis(seed):
    certainty, right = one_layer(seed, most=60)
    turned = Ranking(-certainty[None], right[None])
    assert turned.dis()[0] == pytest.approx(100 - Ranking(certainty[None], right[None]).dis()[0], nan_ok=True)


@for_each(seed=range(60))
def test_with_folds_pairs_are_counted_within_and_pooled_over_folds(seed):
    rng = np.random.default_rng(seed)
    n = 40
    certainty, right, fold = rng.integers(0, 9, n).astype(float), rng.random(n) < 0.6, rng.integers(0, 3, n)
    counts = [pair_counts(certainty[fold == k], right[fold == k]) for k in range(3)]
    more, tied, pairs = (sum(count[column] for count in counts) for column in range(3))
    ranking = Ranking(certainty[None], right[None], fold)
    assert ranking.dis()[0] == pytest.approx(100 * (more + tied / 2) / pairs)
    assert ranking.tied_share[0] == pytest.approx(100 * tied / pairs)
    alone = [Ranking(certainty[None, fold == k], right[None, fold == k]) for k in range(3)]
    sizes = [int(np.sum(fold == k)) for k in range(3)]
    assert ranking.aurc[0] == pytest.approx(np.average([r.aurc[0] for r in alone], weights=sizes))
    assert ranking.excess_aurc[0] == pytest.approx(np.average([r.excess_aurc[0] for r in alone], weights=sizes))


def test_one_fold_for_everybody_is_no_fold():
    certainty, right = (
        np.random.default_rng(0).integers(0, 9, (2, 50)).astype(float),
        np.arange(100).reshape(2, 50) % 3 > 0,
    )
    plain, folded = Ranking(certainty, right), Ranking(certainty, right, np.full(50, 4))
    assert np.array_equal(plain.dis(), folded.dis())
    assert np.array_equal(plain.std_err(), folded.std_err())
    assert np.array_equal(plain.excess_aurc, folded.excess_aurc)


def test_a_layer_without_scores_is_undefined_and_never_fifty():
    certainty = np.array([[np.nan] * 4, [1.0, 2.0, 3.0, 4.0]])
    ranking = Ranking(certainty, np.array([[True, False, True, False]] * 2))
    assert math.isnan(ranking.dis()[0])
    assert math.isnan(ranking.aurc[0])
    assert math.isnan(ranking.std_err()[0])
    assert not math.isnan(ranking.dis()[1])
    assert ranking.verdict(1).reason == "the signal has no score at this layer"


@pytest.mark.parametrize("seed", [3, 4, 5, 6])
def test_all_internal_layers_are_ranked_by_certainty_and_not_by_score(seed):
    case = random_case(seed, samples=30)
    ranking = Ranking(case.scores.certainty, case.outcomes.correct[:-1])
    assert ranking.layers == case.scores.depth - 1
    layer = case.scores.depth - 1
    right = case.outcomes.correct[layer - 1]
    sure = case.scores.values[layer - 1] * (1 if case.scores.direction[0] == ">" else -1)
    more, tied, pairs = pair_counts(sure, right)
    assert ranking.dis()[layer - 1] == pytest.approx(100 * (more + tied / 2) / pairs)


def test_wrong_input_is_refused():
    with pytest.raises(InputError, match="one shape"):
        Ranking(np.zeros((1, 3)), np.zeros((1, 4), dtype=bool))
    with pytest.raises(InputError, match="'half' or 'strict', found 'third'"):
        Ranking(np.zeros((1, 3)), np.array([[True, False, True]])).dis("third")  # type: ignore[arg-type]


@pytest.mark.parametrize(("hard", "status"), [(9, "unreliable"), (10, "ok"), (20, "ok"), (21, "unreliable")])
def test_ten_samples_of_either_kind_are_enough(hard, status):
    certainty = np.random.default_rng(0).normal(size=(1, 30))
    assert Ranking(certainty, (np.arange(30) >= hard)[None]).verdict(1).status == status


@for_each(seed=range(40))
def test_layers_placed_together_are_placed_as_pairs_counted_one_by_one(seed: int) -> None:
    """Layers with ties beside layers without, some all right or all wrong."""
    rng = np.random.default_rng(seed)
    samples = int(rng.integers(1, 12))
    certainty = np.stack([rng.integers(0, 4, samples), *rng.normal(size=(3, samples))]).astype(float)
    right = np.stack([rng.random(samples) < share for share in (0.5, 0.0, 0.7, 1.0)])
    for layer, placed in enumerate(layer_placements(certainty, right)):
        doubled = np.zeros(samples, dtype=int)
        for hard, easy in itertools.product(np.flatnonzero(~right[layer]), np.flatnonzero(right[layer])):
            won = 1 + int(np.sign(certainty[layer, easy] - certainty[layer, hard]))
            doubled[[hard, easy]] += won
        np.testing.assert_array_equal(placed.won(strict=False), doubled)
        assert placed.easy_count == right[layer].sum()
        for kind, own in ((placed.hard, doubled[~right[layer]]), (placed.easy, doubled[right[layer]])):
            assert kind.moments(strict=False) == (len(own), own.sum(), (own**2).sum())
        assert 100 * placed.risk_area / samples == pytest.approx(literal_aurc(certainty[layer], right[layer]))


def test_pieces_of_a_large_ranking_have_the_numbers_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    ranking = Ranking(rng.normal(size=(5, 50)), rng.random((5, 50)) < 0.6, np.arange(50) % 3)
    whole, errors, influence = ranking.dis(), ranking.std_err(), ranking.influence(2)
    assert list(ranking.pieces()) == [ranking]
    assert ranking.piece_of(2) == (ranking, 2)
    monkeypatch.setattr(rankings, "TOGETHER", 100)
    pieces = list(Ranking(ranking.certainty, ranking.right, ranking.folds).pieces())
    assert [piece.layers for piece in pieces] == [2, 2, 1]
    np.testing.assert_array_equal(np.concatenate([piece.dis() for piece in pieces]), whole)
    np.testing.assert_array_equal(np.concatenate([piece.std_err() for piece in pieces]), errors)
    piece, layer = ranking.piece_of(2)
    assert (piece.layers, layer) == (1, 1)
    np.testing.assert_array_equal(piece.influence(layer), influence)


def test_folds_of_any_number_are_folds() -> None:
    rng = np.random.default_rng(5)
    certainty, right, folds = rng.normal(size=(3, 40)), rng.random((3, 40)) < 0.6, np.arange(40) % 4
    expected = Ranking(certainty, right, folds).dis()
    assert not np.isnan(expected).any()
    for numbers in (folds - 2, folds * 10**12, folds * 7 + 3):
        np.testing.assert_array_equal(Ranking(certainty, right, numbers).dis(), expected)


def test_a_single_wrong_answer_moves_dis_by_a_finite_amount() -> None:
    right = np.array([[True, False, True, True]])
    influence = Ranking(np.array([[4.0, 3.0, 2.0, 1.0]]), right).influence(1)
    # DIS is the share of right answers above the wrong one, a third; each right one alone would say 1, 0 and 0.
    spread = np.sqrt(3 / 2)
    np.testing.assert_allclose(influence, [100 * spread * (1 - 1 / 3) / 3, 0.0, *[-100 * spread / 9] * 2], atol=1e-12)
