"""The pattern of a class: the mean over its right answers, however few they are."""

import numpy as np
import torch

from exitbench.signals.she import SHE
from tests.support.planted_layers import layers_from


def test_a_single_right_answer_is_its_classes_pattern_and_without_one_there_is_none() -> None:
    answers = np.array([0, 0, 1, 1, 2])
    logits = np.stack([np.eye(3)[answers]] * 2)
    features = np.arange(2 * 5 * 2, dtype=float).reshape(2, 5, 2) + 1
    ready = SHE().fit(layers_from(logits, features), torch.tensor([0, 0, 1, 0, 1]))
    (points,) = ready.points
    assert points.tolist() == [features[0, :2].mean(axis=0).tolist(), features[0, 2].tolist(), [0.0, 0.0]]
