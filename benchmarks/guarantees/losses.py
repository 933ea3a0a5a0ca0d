"""What an early exit may cost a sample, as a loss for every layer it could exit at.

Each is zero at the last layer but ``error``, so that a network that never exits early keeps every other limit. ``gap``
is at most ``harm``, which is at most ``consistency``: a limit on one is a limit on those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import roomy

RiskName = Literal["consistency", "harm", "gap", "error", "brier"]
Range = Literal["0 or 1", "0 to 1", "up to 1"]
"""The values that a loss takes, once it is divided by its bound; the last with negative ones."""


@dataclass(frozen=True)
class Risk:
    """A risk that can be promised: the mean of a loss.

    ``bound`` is the largest loss; ``words`` complete the sentence "on average over the rows of the service ...", with
    the limit in the place of ``{limit}``.
    """

    name: RiskName
    values: Range
    words: str
    bound: float = 1.0
    needs_labels: bool = True
    zero_at_the_last_layer: bool = True


RISKS: Mapping[str, Risk] = {
    risk.name: risk
    for risk in (
        Risk(
            "consistency",
            "0 or 1",
            "at most {limit} of the answers differ from the last layer's",
            needs_labels=False,
        ),
        Risk("harm", "0 or 1", "at most {limit} of the answers are wrong where the last layer's is right"),
        Risk("gap", "up to 1", "accuracy is at most {limit} below the last layer's"),
        Risk("error", "0 or 1", "at most {limit} of the answers are wrong", zero_at_the_last_layer=False),
        Risk("brier", "up to 1", "the Brier score (0 to 2) is at most {limit} above the last layer's", bound=2.0),
    )
}

NO_F1 = (
    "it is not a mean over rows, so no test of a mean bounds it; the nearest promise is --risk harm "
    "(right answers lost, which bounds the loss of accuracy) or --risk consistency"
)
"""Why F1 is refused."""


def layer_losses(
    risk: Risk,
    predictions: NDArray[np.int64],
    truth: NDArray[np.int64],
    probabilities: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The loss of exiting at each layer, over its bound, [layers, samples].

    ``predictions`` [layers, samples]; ``truth`` [samples]; ``probabilities`` [layers, samples, classes] are for the
    Brier score only.
    """
    predictions = roomy(predictions)
    last = predictions[-1]
    if risk.name == "consistency":
        return np.asanyarray((predictions != last).astype(np.float64))
    if risk.name == "brier":
        if probabilities is None:
            raise ValueError("the Brier score needs probabilities")
        right = np.eye(probabilities.shape[2])[truth]
        scores = ((probabilities - right) ** 2).sum(axis=2)
        return np.asarray((scores - scores[-1]) / risk.bound)
    wrong: NDArray[np.float64] = (predictions != truth).astype(np.float64)
    if risk.name == "error":
        return wrong
    gap = wrong - wrong[-1]
    return np.asanyarray(gap if risk.name == "gap" else np.maximum(gap, 0.0))


def unit_means(values: NDArray[np.float64], groups: NDArray[np.int64] | None) -> NDArray[np.float64]:
    """``values`` [..., samples] averaged within each group, [..., groups] in rising order; unchanged without groups.

    Samples of one group are no independent evidence; groups are, and each counts once.
    """
    if groups is None:
        return values
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    flat = values.reshape(-1, values.shape[-1])
    sums = np.stack([np.bincount(number, weights=row, minlength=len(sizes)) for row in flat])
    return np.asarray((sums / sizes).reshape(*values.shape[:-1], len(sizes)))
