"""Repeated cross-fitting: the error that comes from how the samples were dealt into folds.

The reported value is the mean over D deals of folds. The bootstrap sees one deal; between deals the value has a
variance of its own (divisor D - 1), and that of the mean, this variance over D, is added to the bootstrap's. Resamples
of the first deal are moved to the mean and stretched around it until their standard deviation is the whole error, so
that intervals and p-values are made from them as from any resamples.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray


def deal_error(values: ArrayLike) -> NDArray[np.float64]:
    """The standard error of means over deals, [..., deals] to [...]; deals without a value (NaN) do not count.

    >>> float(deal_error([1.0, 3.0])), float(deal_error([2.0]))
    (1.0, 0.0)
    """
    deals = np.asarray(values, dtype=np.float64)
    present = ~np.isnan(deals)
    count = present.sum(axis=-1)
    mean = np.where(present, deals, 0.0).sum(axis=-1) / np.maximum(count, 1)
    squares = np.where(present, np.square(deals - mean[..., None]), 0.0).sum(axis=-1)
    return np.asarray(np.sqrt(squares / np.maximum(count * (count - 1), 1)))


def paired_deal_errors(deals: Sequence[NDArray[np.float64]], pairs: Sequence[tuple[int, int]]) -> NDArray[np.float64]:
    """The standard errors from deals of the differences of means, [pairs]: of the differences deal by deal.

    ``deals`` has the values of each mean, [deals]. Where one signal was dealt more often than the other, what they
    share cannot be told, and both errors add up.
    """
    errors = np.empty(len(pairs))
    by_length: dict[int, list[int]] = {}
    for number, (a, b) in enumerate(pairs):
        if len(deals[a]) == len(deals[b]):
            by_length.setdefault(len(deals[a]), []).append(number)
        else:
            errors[number] = np.hypot(deal_error(deals[a]), deal_error(deals[b]))
    for numbers in by_length.values():
        differences = [deals[a] - deals[b] for a, b in (pairs[number] for number in numbers)]
        errors[numbers] = deal_error(np.stack(differences))
    return errors


def mean_over_deals(values: ArrayLike) -> float:
    """The mean over the deals that have a value, NaN where none has."""
    deals = np.asarray(values, dtype=np.float64)
    present = deals[~np.isnan(deals)]
    return float(present.mean()) if len(present) else float("nan")


def stretched(resampled: NDArray[np.float64], value: ArrayLike, error: ArrayLike) -> NDArray[np.float64]:
    """Resamples [..., resamples] around ``value`` [...] whose variance has the square of ``error`` [...] added to it.

    Where all resamples agree there is nothing to stretch, and they stay as they are.
    """
    centre, added = np.asarray(value, dtype=np.float64)[..., None], np.asarray(error, dtype=np.float64)
    if not added.any() or resampled.shape[-1] < 2:
        return resampled
    present = ~np.isnan(resampled)
    count = present.sum(axis=-1)
    mean = np.where(present, resampled, 0.0).sum(axis=-1) / np.maximum(count, 1)
    squares = np.where(present, np.square(resampled - mean[..., None]), 0.0).sum(axis=-1)
    variance = squares / np.maximum(count - 1, 1)
    factor = np.sqrt(1.0 + np.divide(np.square(added), variance, out=np.zeros_like(variance), where=variance > 0))
    return np.asarray(centre + (resampled - centre) * factor[..., None])
