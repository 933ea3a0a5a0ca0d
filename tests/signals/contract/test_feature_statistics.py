"""Means of classes that have few rows or none, and distances to many points, block by block."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from exitbench.signals.contract import feature_statistics
from exitbench.signals.contract.feature_statistics import class_means, members, squared_distances


def test_a_class_without_rows_has_the_mean_of_all_that_have_one_even_if_that_is_a_single_row() -> None:
    means, counts = class_means(torch.tensor([[2.0, 6.0], [1.0, 1.0]]), np.array([1, -1]), 3)
    assert counts.tolist() == [0, 1, 0]
    assert means.tolist() == [[2.0, 6.0]] * 3


def test_where_no_row_has_a_class_the_means_are_zero() -> None:
    means, counts = class_means(torch.tensor([[2.0, 6.0]]), np.array([-1]), 2)
    assert counts.tolist() == [0, 0]
    assert means.tolist() == [[0.0, 0.0]] * 2


def test_groups_come_rising_each_with_its_rows_rising() -> None:
    assert [(number, rows.tolist()) for number, rows in members(np.array([5, -1, 5, 2]))] == [
        (-1, [1]),
        (2, [3]),
        (5, [0, 2]),
    ]
    assert [(number, rows.tolist()) for number, rows in members(np.array([7]))] == [(7, [0])]
    assert list(members(np.array([], dtype=np.int64))) == []


@pytest.mark.parametrize("rows", [1, 4, 5, 13])
def test_means_over_blocks_are_those_of_all_rows_at_once_to_the_last_bit(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks of four rows, the last of one; most of the nine classes have no row in a block, some none at all."""
    monkeypatch.setattr(feature_statistics, "BLOCK", 4)
    draw = np.random.default_rng(rows)
    features, groups = draw.normal(size=(rows, 3)), draw.integers(-1, 7, rows)
    sums, counts = np.zeros((9, 3)), np.zeros(9, dtype=np.int64)
    for start in range(0, rows, 4):  # of each class the rows of a block, then the blocks
        inside, own = features[start : start + 4], groups[start : start + 4]
        for number in range(9):
            sums[number] += inside[own == number].sum(axis=0)
            counts[number] += (own == number).sum()
    means, sizes = class_means(torch.from_numpy(features), groups, 9)
    assert sizes.tolist() == counts.tolist()
    everyone = sums.sum(axis=0) / max(counts.sum(), 1)
    for number in range(9):
        expected = sums[number] / counts[number] if counts[number] else everyone
        assert means[number].tolist() == expected.tolist()


@pytest.mark.parametrize("near", [1, 7, 1 << 17])
@pytest.mark.parametrize("rows", [1, 6])
def test_distances_are_scipys_however_many_rows_are_taken_at_once(
    rows: int, near: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(0)
    features, points = draw.normal(size=(rows, 3)), draw.normal(size=(5, 3))
    whole = squared_distances(torch.from_numpy(features), torch.from_numpy(points))
    monkeypatch.setattr(feature_statistics, "NEAR", near)
    some = squared_distances(torch.from_numpy(features), torch.from_numpy(points))
    assert torch.equal(some, whole), "the same sample, the same score, whatever it is scored with"
    np.testing.assert_allclose(some.numpy(), cdist(features, points, "sqeuclidean"), rtol=1e-14)
    assert squared_distances(torch.from_numpy(features[:0]), torch.from_numpy(points)).shape == (0, 5)
