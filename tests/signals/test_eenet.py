"""EENet: shares that meet the budget, thresholds by a literal loop over samples, a planted rule and none."""

import numpy as np
import pytest
import torch
from scipy.special import expit

from exitbench.benchmarks.scoring.score_cache import fitted, score
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.places import FIXTURES
from exitbench.signals import exits, score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.eenet import EENet, assigned_shares, quota_thresholds
from tests.support.planted_layers import agreement_decides, auroc, nothing_decides


def correctness(depth: int = 6, rows: int = 500, seed: int = 0) -> np.ndarray:
    return expit(np.random.default_rng(seed).normal(size=(depth, rows)) + np.linspace(0, 2, depth)[:, None])


@pytest.mark.parametrize("cost", [0.2, 0.5, 0.9])
def test_shares_sum_to_one_and_cost_the_budget(cost: float) -> None:
    shares = assigned_shares(correctness(), cost)
    assert shares.sum() == pytest.approx(1)
    assert shares @ np.arange(1, 7) / 6 == pytest.approx(cost, abs=1e-9)
    assert (shares > 0).all()


@pytest.mark.long
def test_of_all_assignments_with_that_cost_it_is_the_nearest_to_the_correctness() -> None:
    """One sample, three exits: a search over the whole line of assignments with this cost."""
    q = np.array([[0.2], [0.3], [0.9]])
    shares = assigned_shares(q, 0.5)
    target = q[:, 0] / q.sum()

    def divergence(first: float) -> float:
        second = 3 - 2 * first - 1.5
        a = np.array([first, second, 1 - first - second])
        return float((a * np.log(a / target)).sum()) if (a > 0).all() else np.inf

    grid = np.linspace(0.5, 0.75, 100_001)[1:-1]
    assert shares[0] == pytest.approx(grid[np.argmin([divergence(first) for first in grid])], abs=1e-4)


def test_a_budget_of_one_layer_puts_everything_there() -> None:
    assert assigned_shares(correctness(), 1 / 6)[0] == pytest.approx(1.0, abs=1e-3)


def test_thresholds_let_each_share_go_in_the_order_of_layers() -> None:
    q, shares = correctness(), np.array([0.1, 0.3, 0.0, 0.2, 0.2, 0.2])
    thresholds = quota_thresholds(q[:-1], shares)
    staying, left = set(range(500)), []
    for row, threshold in zip(q[:-1], thresholds, strict=True):
        leaving = {sample for sample in staying if row[sample] >= threshold}
        left.append(len(leaving))
        staying -= leaving
    assert left == [50, 150, 0, 100, 100]


def test_a_quota_of_all_that_are_left_lets_them_go_and_nothing_is_left_for_the_rest() -> None:
    q = correctness(4, 10)
    thresholds = quota_thresholds(q[:-1], np.array([0.5, 0.5, 0.0, 0.0]))
    assert (q[0] >= thresholds[0]).sum() == 5
    assert (q[1][q[0] < thresholds[0]] >= thresholds[1]).all()
    assert np.isfinite(thresholds).all()


@pytest.mark.parametrize("budget", [1.5, 2.0, 3.0])
def test_a_threshold_of_zero_runs_at_the_budget_also_on_fresh_samples(budget: float) -> None:
    data = synthetic_layers(4000, depth=8, seed=1)
    train, test = torch.arange(2000), torch.arange(2000, 4000)
    signal = EENet(budget=budget).fit([layer.take(train) for layer in data.layers], data.labels[train])
    for rows, tolerance in ((train, 0.01), (test, 0.06)):
        scores = score_layers(signal, [layer.take(rows) for layer in data.layers]).numpy()
        left = exits(scores, ">=", 1, 0.0)
        assert 8 / left.mean() == pytest.approx(budget, rel=tolerance)


def test_a_planted_rule_is_found_and_none_is_made_up() -> None:
    layers, labels = nothing_decides(4000, seed=0)
    fresh, fresh_labels = nothing_decides(4000, seed=1)
    assert auroc(EENet().fit(layers, labels), fresh, fresh_labels, 2) == pytest.approx(0.5, abs=0.03)
    data = synthetic_layers(4000, seed=3)
    train, test = torch.arange(2000), torch.arange(2000, 4000)
    signal = EENet().fit([layer.take(train) for layer in data.layers], data.labels[train])
    assert auroc(signal, [layer.take(test) for layer in data.layers], data.labels[test], 4) > 0.65


def test_it_cannot_see_agreement_since_it_reads_estimates_only() -> None:
    layers, labels = agreement_decides(3000, seed=0)
    fresh, fresh_labels = agreement_decides(3000, seed=1)
    assert auroc(EENet().fit(layers, labels), fresh, fresh_labels, 3) < 0.7


def test_a_budget_beyond_the_depth_is_refused() -> None:
    data = synthetic_layers(40, depth=4)
    with pytest.raises(InputError, match="4 layers cannot be 5 times faster"):
        EENet(budget=5).fit(data.layers, data.labels)


def test_on_a_real_cache_zero_runs_at_the_budget() -> None:
    cache = Cache(FIXTURES / "caches" / "mpnet-base-qnli-dev")
    scores = score(cache, fitted(EENet(), cache))
    assert not np.isnan(scores).any()
    assert cache.layers / exits(scores, ">=", 1, 0.0).mean() == pytest.approx(2.0, rel=0.01)
