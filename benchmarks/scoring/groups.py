"""Samples that belong together (a document, a patient, a sequence): what each adds to an error is summed by group.

Folds and resamples draw whole groups. A standard error from influence values becomes cluster-robust the same way:
values are summed within a group before they are squared, so that samples of one group may agree as much as they like.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def summed_by_group(values: NDArray[np.float64], groups: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """The sum of ``values`` [samples] over each group, [groups]; the values themselves where there are no groups.

    >>> summed_by_group(np.array([1.0, 2.0, 4.0]), np.array([7, 3, 7])).tolist()
    [2.0, 5.0]
    """
    if groups is None:
        return values
    _, number = np.unique(groups, return_inverse=True)
    return np.asarray(np.bincount(number, weights=values), dtype=np.float64)


def standard_error(influence: NDArray[np.float64], groups: NDArray[np.int64] | None) -> float:
    """The standard error that influence values [samples] give, samples of one group taken together."""
    return float(np.linalg.norm(summed_by_group(influence, groups)))


def clustering(values: NDArray[np.float64], groups: NDArray[np.int64] | None) -> float:
    """How many times larger the error of a mean of ``values`` [samples] is because they come in groups; 1 without."""
    if groups is None:
        return 1.0
    centred = values - values.mean()
    alone = float(np.linalg.norm(centred))
    return float(np.linalg.norm(summed_by_group(centred, groups))) / alone if alone > 0 else 1.0
