"""Means of classes that have few rows or none."""

import numpy as np
import torch

from exitbench.signals.contract.feature_statistics import class_means


def test_a_class_without_rows_has_the_mean_of_all_that_have_one_even_if_that_is_a_single_row() -> None:
    means, counts = class_means(torch.tensor([[2.0, 6.0], [1.0, 1.0]]), np.array([1, -1]), 3)
    assert counts.tolist() == [0, 1, 0]
    assert means.tolist() == [[2.0, 6.0]] * 3


def test_where_no_row_has_a_class_the_means_are_zero() -> None:
    means, counts = class_means(torch.tensor([[2.0, 6.0]]), np.array([-1]), 2)
    assert counts.tolist() == [0, 0]
    assert means.tolist() == [[0.0, 0.0]] * 2
