"""Paths and certificates on small random scores, against literal exits."""

import itertools
import math

import numpy as np
import pytest

from exitbench.benchmarks.guarantees.candidates import (
    Candidate,
    losses_at,
    losses_at_points,
    nearest,
    per_layer_path,
    shared_path,
    storable,
    usable_points,
)
from exitbench.benchmarks.guarantees.certify import Evidence, Promise, certify, controlled, threshold_above
from exitbench.benchmarks.guarantees.halves import Half, Halves
from exitbench.benchmarks.guarantees.losses import RISKS, layer_losses
from exitbench.benchmarks.guarantees.split import betting_order, certifying_part, choosing_rows
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError
from tests.support.for_each import for_each
from tests.support.score_cases import random_case

DEPTH, ROWS = 6, 600


def made(direction="<", seed=0, rows=ROWS, sure=0.9, **options):
    """Scores that know something of the answers, ids, predictions and truth."""
    random = np.random.default_rng(seed)
    truth = random.integers(0, 2, rows)
    right = random.random((DEPTH, rows)) < np.linspace(0.75, sure, DEPTH)[:, None]
    predictions = np.where(right, truth, 1 - truth)
    values = random.normal(size=(DEPTH - 1, rows)) - 2 * right[:-1]
    if direction in (">", ">="):
        values = -values
    return SignalScores(values, direction, **options), predictions, truth


def evidence_of(scores, predictions, truth, risk, groups=None):
    losses = layer_losses(RISKS[risk], predictions, truth)
    return Evidence([scores], losses, np.arange(scores.samples) + 1000, groups)


@pytest.mark.parametrize("direction", ["<", "<=", ">", ">="])
def test_a_shared_path_goes_from_few_exits_to_many_and_sums_its_losses(direction):
    scores, predictions, truth = made(direction)
    curve = trade_off_curve(scores, Outcomes.of(predictions, truth))
    losses = layer_losses(RISKS["harm"], predictions, truth)
    path = shared_path([curve], losses)
    assert len(path) == 100
    costs = []
    for candidate in path:
        exits = exit_layers(scores, candidate.shared)
        assert (candidate.exits([scores]) == exits).all()
        assert candidate.cost == exits.mean() / DEPTH < 1
        costs.append(candidate.cost)
    assert costs == sorted(costs, reverse=True)
    assert np.diff(costs).min() > -0.02
    some = np.array([0, 1, curve.points // 2, curve.points - 1])
    for point, sum_there in zip(some, losses_at_points(curve, losses, some), strict=True):
        assert sum_there == pytest.approx(losses_at(losses, curve.exit_layers(point)).sum())


@for_each(seed=range(60))
def test_the_point_nearest_to_a_cost_is_the_first_of_those_that_a_look_at_all_finds(seed):
    """Among points with a finite threshold at which something exits; halfway between two, the safer."""
    curve = random_case(seed, integers=seed % 3 == 0).curve
    points = [k for k in range(curve.points) if np.isfinite(curve.thresholds[k]) and curve.relative_cost[k] < 1]
    assert list(usable_points(curve)) == points
    every = curve.relative_cost.tolist()
    halfway = [(first + second) / 2 for first, second in itertools.pairwise(every)]
    costs = np.array(sorted({1.0, 0.01, *every, *halfway, *np.linspace(0.05, 1, 23).tolist()}, reverse=True))
    expected = [min(points, key=lambda point: abs(every[point] - cost)) for cost in costs] if points else []
    assert nearest(curve, usable_points(curve), costs).tolist() == expected


def test_a_grid_takes_at_each_cost_the_parameters_that_lose_least():
    good, predictions, truth = made()
    bad = SignalScores(np.random.default_rng(9).normal(size=good.values.shape), "<")
    outcomes = Outcomes.of(predictions, truth)
    losses = layer_losses(RISKS["harm"], predictions, truth)
    path = shared_path([trade_off_curve(bad, outcomes), trade_off_curve(good, outcomes)], losses)
    assert {candidate.configuration for candidate in path[30:70]} == {1}
    same = trade_off_curve(good, outcomes)
    assert {candidate.configuration for candidate in shared_path([same, same], losses, default=1)} == {1}


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["quota", "greedy"])
def test_per_layer_candidates_can_be_stored_and_never_exit_where_nothing_did(schedule):
    scores, predictions, truth = made(rows=60)
    curve = trade_off_curve(scores, Outcomes.of(predictions, truth))
    path = per_layer_path([curve], layer_losses(RISKS["harm"], predictions, truth), schedule)
    assert 5 < len(path) <= 25
    costs = [float(candidate.exits([scores]).mean() / DEPTH) for candidate in path]
    assert costs == [candidate.cost for candidate in path] == sorted(costs, reverse=True)
    assert not any((candidate.thresholds == np.inf).any() for candidate in path)  # "<": everything would pass
    assert path[0].shared is None


def test_a_threshold_that_everything_passes_becomes_a_number():
    scores, _, _ = made("<")
    assert storable(np.array([np.inf, -np.inf, 1.0]), scores).tolist() == [np.finfo(float).max, -np.inf, 1.0]
    scores, _, _ = made(">=")
    assert storable(np.array([np.inf, -np.inf]), scores).tolist() == [np.inf, -np.finfo(float).max]


def test_integer_thresholds_are_a_path_of_their_own():
    scores, predictions, truth = made(">=", integers=range(1, 4))
    counted = SignalScores(np.round(scores.values).clip(0, 4), ">=", integers=range(1, 4))
    curve = trade_off_curve(counted, Outcomes.of(predictions, truth))
    path = shared_path([curve], layer_losses(RISKS["harm"], predictions, truth))
    assert [candidate.shared for candidate in path] == [3, 2, 1]


@pytest.mark.parametrize("risk", ["consistency", "harm", "gap", "error"])
def test_learn_then_test_ends_on_the_last_candidate_that_passes(risk):
    scores, predictions, truth = made(rows=2000)
    evidence = evidence_of(scores, predictions, truth, risk)
    path = shared_path([trade_off_curve(scores, Outcomes.of(predictions, truth))], evidence.losses)
    limit = 0.16 if risk == "error" else 0.1
    certificate = certify(path, evidence, Promise(RISKS[risk], limit), seed=0)
    assert 0 < certificate.passed < len(path)
    assert certificate.candidate is path[certificate.passed - 1]
    assert certificate.p_value <= 0.1 == certificate.level
    stricter = certify(path, evidence, Promise(RISKS[risk], limit), looks=10**9, seed=0)
    assert stricter.level == pytest.approx(1e-10)
    assert stricter.passed < certificate.passed


def test_the_last_layer_is_tested_first_where_it_may_fail():
    scores, predictions, truth = made(sure=0.9)
    evidence = evidence_of(scores, predictions, truth, "error")
    path = shared_path([trade_off_curve(scores, Outcomes.of(predictions, truth))], evidence.losses)
    error = evidence.losses[-1].mean()
    hopeless = certify(path, evidence, Promise(RISKS["error"], error / 2), seed=0)
    assert (hopeless.full_network_fails, hopeless.candidate, hopeless.units_needed) == (True, None, None)
    near = certify(path, evidence, Promise(RISKS["error"], error + 0.005), seed=0)
    assert near.full_network_fails
    assert near.units_needed > ROWS
    control = certify(path, evidence, Promise(RISKS["error"], error / 2, procedure="risk-control"), seed=0)
    assert (control.full_network_fails, control.candidate) == (True, None)


def test_too_few_rows_say_how_many_would_do():
    scores, predictions, truth = made(rows=100)
    evidence = evidence_of(scores, predictions, predictions[-1], "consistency")
    evidence.losses[:] = 0.0
    path = shared_path([trade_off_curve(scores, Outcomes.of(predictions, truth))], evidence.losses)
    tested = certify(path, evidence, Promise(RISKS["consistency"], 0.01), seed=0)
    assert (tested.candidate, tested.units_needed) == (None, 230)
    assert tested.p_value == pytest.approx(0.99**100)
    for procedure in ("risk-control", "conformal-consistency"):
        promise = Promise(RISKS["consistency"], 0.005, procedure=procedure)
        certificate = certify(path, evidence, promise, seed=0)
        assert (certificate.candidate, certificate.units_needed, certificate.p_value) == (None, 199, None)
    enough = Promise(RISKS["consistency"], 0.01, procedure="risk-control")
    assert certify(path, evidence, enough, seed=0).passed == len(path)


def test_risk_control_keeps_its_inequality_and_the_next_candidate_breaks_it():
    scores, predictions, truth = made()
    evidence = evidence_of(scores, predictions, truth, "harm")
    path = shared_path([trade_off_curve(scores, Outcomes.of(predictions, truth))], evidence.losses)
    passed = certify(path, evidence, Promise(RISKS["harm"], 0.1, procedure="risk-control"), seed=0).passed
    losses = np.array([losses_at(evidence.losses, candidate.exits([scores])) for candidate in path])
    highest = np.maximum.accumulate(losses).sum(axis=1)
    assert (highest[passed - 1] + 1) / (ROWS + 1) <= 0.1 < (highest[passed] + 1) / (ROWS + 1)


def test_groups_are_tested_as_one_each():
    scores, predictions, truth = made()
    groups = np.repeat(np.arange(100), 6)
    evidence = evidence_of(scores, predictions, truth, "consistency", groups)
    path = shared_path([trade_off_curve(scores, Outcomes.of(predictions, truth))], evidence.losses)
    certificate = certify(path, evidence, Promise(RISKS["consistency"], 0.2), seed=0)
    assert certificate.method == "Hoeffding-Bentkus"
    assert len(evidence.units) == evidence.weights.sum() == 100
    alone = certify(
        path, evidence_of(scores, predictions, truth, "consistency"), Promise(RISKS["consistency"], 0.2), seed=0
    )
    assert alone.passed > certificate.passed > 0


@pytest.mark.parametrize("direction", ["<", "<=", ">", ">="])
def test_a_conformal_threshold_lets_only_larger_certainties_exit(direction):
    scores, predictions, truth = made(direction)
    evidence = evidence_of(scores, predictions, truth, "consistency")
    promise = Promise(RISKS["consistency"], 0.1, procedure="conformal-consistency")
    candidate = certify([], evidence, promise, seed=0).candidate
    exits = exit_layers(scores, candidate.shared)
    wrong = np.array(
        [
            any(scores.passes(candidate.shared)[m, i] and evidence.losses[m, i] for m in range(DEPTH - 1))
            for i in range(ROWS)
        ]
    )
    allowed = math.floor(0.1 * (ROWS + 1) - 1)
    assert wrong.sum() == allowed
    assert losses_at(evidence.losses, exits).sum() <= allowed


def test_thresholds_above_a_certainty():
    counted = SignalScores(np.zeros((5, 1)), ">=", integers=range(1, 5))
    assert threshold_above(counted, 2.0) == 3
    assert threshold_above(counted, -math.inf) == 1
    assert threshold_above(counted, 4.0) is None
    plain = SignalScores(np.zeros((5, 1)), "<")
    assert threshold_above(plain, 2.0) == -2.0
    assert threshold_above(plain, math.inf) is None
    assert threshold_above(plain, -math.inf) == np.finfo(float).max
    assert threshold_above(SignalScores(np.zeros((5, 1)), ">="), 2.0) == math.nextafter(2.0, 3.0)


def test_no_candidate_needs_no_rows_that_would_not_help():
    scores, predictions, truth = made()
    evidence = evidence_of(scores, predictions, truth, "harm")
    assert certify([], evidence, Promise(RISKS["harm"], 0.1), seed=0).units_needed is None
    always_wrong = Candidate(0, np.full(DEPTH - 1, np.inf), 0.2, np.inf)
    assert certify([always_wrong], evidence, Promise(RISKS["harm"], 0.01), seed=0).units_needed is None


def test_halves_and_order_are_functions_of_ids():
    ids = np.arange(1000)
    shuffled = np.random.default_rng(0).permutation(ids)
    assert (choosing_rows(ids, 0)[shuffled] == choosing_rows(shuffled, 0)).all()
    assert 400 < choosing_rows(ids, 0).sum() < 600
    assert (choosing_rows(ids, 0) != choosing_rows(ids, 1)).any()
    assert (ids[betting_order(ids, 0)] == shuffled[betting_order(shuffled, 0)]).all()
    assert (betting_order(ids, 0) != ids).any()
    groups = np.repeat(np.arange(50), 4)
    part = certifying_part(groups, 0)
    assert not set(groups[part.train]) & set(groups[part.test])
    with pytest.raises(InputError, match="needs rows to choose on and rows to certify on, found 1"):
        certifying_part(ids[:1], 0)


def test_where_only_the_last_layer_keeps_the_promise_no_candidate_does():
    scores, predictions, truth = made()
    evidence = evidence_of(scores, predictions, truth, "consistency")
    at_once = Candidate(0, np.full(DEPTH - 1, np.inf), 1 / DEPTH, np.inf)
    assert losses_at(evidence.losses, at_once.exits([scores])).mean() > 0.2
    certificate = certify([at_once], evidence, Promise(RISKS["consistency"], 0.1, procedure="risk-control"), seed=0)
    assert (certificate.candidate, certificate.passed, certificate.grid) == (None, 0, 1)
    never = Candidate(0, np.full(DEPTH - 1, -np.inf), 1.0, -np.inf)
    path = [never, at_once]
    certificate = certify(path, evidence, Promise(RISKS["consistency"], 0.1, procedure="risk-control"), seed=0)
    assert (certificate.candidate, certificate.passed, certificate.grid) == (never, 1, 2)


@pytest.mark.parametrize("default", [0, 1])
def test_of_configurations_that_cost_the_same_the_default_is_certified(default):
    scores, predictions, truth = made()
    losses = layer_losses(RISKS["consistency"], predictions, truth)
    evidence = Evidence([scores, scores], losses, np.arange(ROWS), None)
    half = Half(evidence, Outcomes.of(predictions, truth))
    promise = Promise(RISKS["consistency"], 0.1, procedure="conformal-consistency")
    assert Halves(half, half, default, 0).certificate(promise).candidate.configuration == default


def test_a_candidate_that_loses_as_much_as_is_allowed_passes_with_no_number_of_rows():
    losses = np.array([[0.0] * 10, [1.0] + [0.0] * 9])
    promise = Promise(RISKS["consistency"], 0.1, procedure="risk-control")
    certificate = controlled([Candidate(0, np.zeros(2), 0.5, 0.0)], losses, promise)
    assert (certificate.candidate, certificate.units_needed) == (None, None)
