"""Patience as a window: "t confident layers in a row" is "the largest of the last t values is below the threshold".

In this form a counter needs no threshold of its own, and every threshold is answered by one sort of the scores.
"""

import torch
from torch import Tensor


def empty_window(value: Tensor, patience: int) -> Tensor:
    """A window [samples, patience] that has seen nothing yet, for values such as ``value`` [samples, ...]."""
    return torch.full((value.shape[0], patience), -torch.inf, dtype=torch.float64, device=value.device)


def push(window: Tensor, value: Tensor) -> Tensor:
    """The window [samples, patience] after one more ``value`` [samples]; the oldest one falls out."""
    return torch.cat([window[:, 1:], value[:, None]], dim=1)


def largest(window: Tensor) -> Tensor:
    """The largest of the last ``min(patience, seen)`` values, [samples]."""
    return window.amax(dim=1)
