import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from exitbench.benchmarks.replay.exit_quotas import quota_exits, thresholds_of_exits
from exitbench.benchmarks.replay.exit_rule import per_layer_exits
from exitbench.benchmarks.replay.greedy_thresholds import GreedySearch, exit_budget, greedy_exits
from exitbench.benchmarks.replay.operating_points import nearest_point
from exitbench.benchmarks.replay.tally import tally_at
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes, cost_units
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from tests.support.for_each import for_each
from tests.support.score_cases import random_case


def every_policy(scores: SignalScores) -> list[np.ndarray]:
    """The exits of all vectors of thresholds, one below each distinct score of a layer and one above all."""
    levels = []
    for layer, row in enumerate(scores.values, start=1):
        if layer < scores.first_exit_layer:
            levels.append([0.0])
        else:
            distinct = np.unique(row)
            levels.append([-np.inf, *(distinct[1:] + distinct[:-1]) / 2, np.inf])
    return [per_layer_exits(scores, np.array(vector)) for vector in itertools.product(*levels)]


def shared_exits(curve, speed_up):
    return curve.exit_layers(nearest_point(curve, speed_up))


def informed_curve(seed: int, samples: int = 300, depth: int = 6):
    """Scores whose scale differs from layer to layer, so that one threshold for all of them is a bad idea."""
    rng = np.random.default_rng(seed)
    right = rng.random((depth, samples)) < np.linspace(0.6, 0.95, depth)[:, None]
    labels = rng.integers(0, 2, samples)
    scores = (right[:-1] + rng.normal(size=(depth - 1, samples))) * rng.uniform(0.2, 5, (depth - 1, 1))
    outcomes = Outcomes.of(np.where(right, labels, 1 - labels), labels, positive_class=1)
    return trade_off_curve(SignalScores(scores, ">="), outcomes)


COSTS = [1.0, 1.5, 1.5, 12.0, 30.0, 31.0]


def costed(curve):
    """The same curve where most of the cost lies in two layers."""
    return trade_off_curve(curve.scores, replace(curve.outcomes, costs=cost_units(COSTS, curve.depth)))


@pytest.mark.long
@for_each(seed=range(40))
@pytest.mark.parametrize("measure", ["accuracy", "f1"])
def test_greedy_lies_between_the_shared_threshold_and_the_best_of_all_vectors(seed, measure):
    rng = np.random.default_rng(seed)
    depth, samples = int(rng.integers(3, 5)), int(rng.integers(4, 8))
    predictions, labels = rng.integers(0, 2, (depth, samples)), rng.integers(0, 2, samples)
    values = (
        rng.integers(0, 5, (depth - 1, samples)).astype(float) if seed % 2 else rng.normal(size=(depth - 1, samples))
    )
    scores = SignalScores(values, ("<", ">=")[seed % 2], first_exit_layer=1 + seed % 3 // 2)
    paid = np.array([2.0, 2.0, 7.0, 40.0])[-depth:] if seed % 4 > 1 else np.arange(1.0, depth + 1)
    outcomes = Outcomes.of(predictions, labels, positive_class=1, costs=paid if seed % 4 > 1 else None)
    curve = trade_off_curve(scores, outcomes)
    speed_up = float(rng.uniform(1.2, depth / 1.5))
    shared = shared_exits(curve, speed_up)
    budget = exit_budget(curve, speed_up, shared)
    exits = greedy_exits(curve, speed_up, measure)
    score = float(tally_at(exits, curve.outcomes).score(measure))
    limit = budget * paid[-1] / outcomes.full_cost * (1 + 1e-8)  # costs are rounded to whole units
    if paid[exits - 1].sum() <= limit:
        affordable = [policy for policy in every_policy(scores) if paid[policy - 1].sum() <= limit]
        best = max(float(tally_at(policy, curve.outcomes).score(measure)) for policy in affordable)
        assert score <= best + 1e-9
        assert any((policy == exits).all() for policy in affordable), "thresholds must be able to bring it about"
    if limit * 0.995 <= paid[shared - 1].sum() <= limit:
        assert paid[exits - 1].sum() <= limit
        assert score >= float(tally_at(shared, curve.outcomes).score(measure)) - 1e-9


@pytest.mark.long
@for_each(seed=range(6))
def test_with_scales_that_differ_between_layers_greedy_beats_the_shared_threshold_and_quotas(seed):
    curve = informed_curve(seed)
    exits = greedy_exits(curve, 2.0, "accuracy")
    accuracy = tally_at(exits, curve.outcomes).accuracy
    assert accuracy > tally_at(shared_exits(curve, 2.0), curve.outcomes).accuracy
    assert accuracy >= tally_at(quota_exits(curve.scores, 2.0, curve.outcomes.layer_costs), curve.outcomes).accuracy
    assert tally_at(exits, curve.outcomes).speed_up == pytest.approx(2.0, rel=0.006)


@pytest.mark.long
@for_each(seed=range(6))
def test_what_the_search_keeps_to_is_the_speed_up_by_costs(seed):
    curve = costed(informed_curve(seed))
    exits = greedy_exits(curve, 2.0, "accuracy")
    assert COSTS[-1] / np.mean([COSTS[layer - 1] for layer in exits]) == pytest.approx(2.0, rel=0.006)
    shared = tally_at(shared_exits(curve, 2.0), curve.outcomes).accuracy
    assert tally_at(exits, curve.outcomes).accuracy > shared


@for_each(seed=range(6))
def test_along_two_layers_the_search_comes_within_two_samples_of_the_optimum(seed):
    # With two internal layers a policy is one free number: the second follows from the budget.
    curve = informed_curve(seed, samples=24, depth=3)
    shared = shared_exits(curve, 1.6)
    budget = exit_budget(curve, 1.6, shared)
    slack = max(0.005 * budget, 2)
    reachable = [policy for policy in every_policy(curve.scores) if budget - slack <= policy.sum() <= budget]
    best = max(float(tally_at(policy, curve.outcomes).accuracy) for policy in reachable)
    score = float(tally_at(greedy_exits(curve, 1.6, "accuracy"), curve.outcomes).accuracy)
    assert best - 100 * 2 / 24 - 1e-9 <= score <= best + 1e-9


@for_each(seed=range(30))
def test_every_balanced_policy_has_the_score_and_the_cost_of_its_exits(seed):
    curve = informed_curve(seed, samples=30)
    if seed % 5 == 0:
        curve = costed(curve)
    if seed % 2:
        tied = SignalScores(np.round(curve.scores.values), "<=", first_exit_layer=1 + seed % 3)
        curve = trade_off_curve(tied, curve.outcomes)
    budget = int(0.7 * curve.outcomes.full_cost * 30)
    search = GreedySearch(curve, "f1", budget)
    cuts = search.cuts_of(quota_exits(curve.scores, 1.5, curve.outcomes.layer_costs))
    for policy in search.balanced(cuts):
        tally = tally_at(search.exits_of(policy.cuts), curve.outcomes)
        assert policy.score == pytest.approx(float(tally.f1))
        assert search.least <= tally.paid <= budget
        assert (policy.cuts != cuts).sum() <= 1


@for_each(seed=range(40))
def test_the_thresholds_of_the_search_realise_its_exits(seed):
    curve = random_case(seed, samples=25).curve
    exits = greedy_exits(curve, 1.7, "accuracy")
    assert per_layer_exits(curve.scores, thresholds_of_exits(curve.scores, exits)).tolist() == exits.tolist()


@for_each(seed=range(8))
def test_the_search_does_not_depend_on_the_order_of_samples(seed):
    curve = random_case(seed, samples=40).curve
    order = np.random.default_rng(seed).permutation(40)
    turned = trade_off_curve(curve.scores.take(order), curve.outcomes.take(order))
    assert greedy_exits(turned, 1.5, "f1").tolist() == greedy_exits(curve, 1.5, "f1")[order].tolist()


def test_out_of_reach_the_exits_stay_those_of_the_shared_threshold():
    rng = np.random.default_rng(0)
    scores = SignalScores(rng.normal(size=(5, 50)), ">=", first_exit_layer=5)
    curve = trade_off_curve(scores, Outcomes.of(rng.integers(0, 2, (6, 50)), rng.integers(0, 2, 50)))
    assert greedy_exits(curve, 4.0, "accuracy").tolist() == [5] * 50


def test_the_budget_is_what_was_asked_for_or_what_a_slower_match_pays():
    kinds = set()
    for seed in range(60):
        curve = informed_curve(seed, samples=30, depth=4)
        speed_up = float(np.random.default_rng(seed).uniform(1.1, 3.0))
        shared = shared_exits(curve, speed_up)
        asked, paid = 4 * 30 / speed_up, int(shared.sum())
        matched = asked < paid <= 1.02 * asked
        kinds.add(matched)
        assert exit_budget(curve, speed_up, shared) == (paid if matched else math.floor(asked))
    assert kinds == {True, False}


def test_a_single_sample_keeps_to_the_budget_where_it_can():
    outcomes = Outcomes(np.ones((3, 1), dtype=bool), costs=cost_units([1.0, 10.0, 11.0], 3))
    curve = trade_off_curve(SignalScores(np.array([[1.0], [2.0]]), ">="), outcomes)
    assert shared_exits(curve, 11 / 9.5).tolist() == [2], "the nearest, 5% slower than asked for"
    assert greedy_exits(curve, 11 / 9.5, "accuracy").tolist() == [1]


@for_each(seed=range(20))
def test_the_cuts_of_a_shared_threshold_realise_its_exits(seed):
    curve = informed_curve(seed, samples=40)
    search = GreedySearch(curve, "accuracy", 10**9)
    for speed_up in (1.2, 1.7, 2.5):
        exits = shared_exits(curve, speed_up)
        assert search.exits_of(search.cuts_of(exits)).tolist() == exits.tolist()
