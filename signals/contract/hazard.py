"""Exit hazards on a frozen network: at each layer the probability of exiting here, of those that are still there.

With hazards ``lambda_m`` a sample exits at layer m with probability ``pi_m = lambda_m prod_{j<m} (1 - lambda_j)``, the
last layer taking what remains. Hazards are logistic functions of what the layers show, and their weights minimise an
objective of all layers together: an expectation over pi, in closed form with its exact gradient, plus a ridge. The
problem is not convex; scipy's L-BFGS starts from zero (a hazard of one half everywhere) with all rows at once in
float64, so a fit is a function of its rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.signals.contract.feature_statistics import (
    Array,
    evenly,
    principal_directions,
    projected,
    require_rows,
)
from exitbench.signals.contract.layer import Layer

ENTRIES = 1 << 25
"""The most numbers in all layers' columns (0.27 GB): of more samples some are taken, evenly over the ids."""
STEPS = 500
"""The most steps of the optimiser; mostly it is at rest long before."""

Objective = Callable[[Array], tuple[float, Array]]
"""The mean objective and its gradient by the log-odds of the hazards, both [layers - 1, samples] in and out."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What a hazard sees of one layer: directions of this feature and, where it looks back, of the one before.

    ``maps`` are the mean [width] and the basis [width, k] of each feature; ``columns`` [samples, all k]; ``classes``
    [samples] says which of ``maps_count`` linear maps each sample uses.
    """

    maps: tuple[tuple[Array, Array], ...]
    columns: Array
    classes: NDArray[np.int64]
    maps_count: int


@dataclass(frozen=True, eq=False)
class SortedLayer:
    """What is seen of one layer, by map, so that an evaluation copies no rows: a thousand maps have few rows each.

    ``order`` [samples] are the samples, those of a map together; ``members`` the map and the range of each map that has
    any; ``columns`` [samples, all k] come in that order.
    """

    order: NDArray[np.intp]
    members: tuple[tuple[int, slice], ...]
    columns: Array

    @classmethod
    def of(cls, layer: Seen) -> SortedLayer:
        order = np.argsort(layer.classes, kind="stable")
        counts = np.bincount(layer.classes, minlength=layer.maps_count)
        ends = np.cumsum(counts)
        members = tuple((int(c), slice(int(ends[c] - counts[c]), int(ends[c]))) for c in np.flatnonzero(counts))
        return cls(order, members, layer.columns[order])

    def log_odds(self, weight: Array) -> Array:
        """The log-odds of every sample by its own map, [samples]; ``weight`` [maps, columns + 1]."""
        by_map = np.empty(len(self.order))
        for c, rows in self.members:
            by_map[rows] = self.columns[rows] @ weight[c, :-1] + weight[c, -1]
        log_odds = np.empty(len(self.order))
        log_odds[self.order] = by_map
        return log_odds

    def gradient(self, by_log_odds: Array, maps_count: int) -> Array:
        """The gradient by the weights, [maps, columns + 1], from that by the log-odds [samples]; 0 without samples."""
        by_map = by_log_odds[self.order]
        gradient = np.zeros((maps_count, self.columns.shape[1] + 1))
        for c, rows in self.members:
            gradient[c, :-1] = by_map[rows] @ self.columns[rows]
            gradient[c, -1] = by_map[rows].sum()
        return gradient


def chosen_rows(calibration: Sequence[Layer], directions: int) -> Tensor:
    """The samples that a fit takes, by position: all, unless their columns would be more than :data:`ENTRIES`."""
    columns = 2 * directions * (len(calibration) - 1)
    return torch.from_numpy(evenly(calibration[0].samples, max(ENTRIES // columns, 1)))


def seen_layers(
    signal: str, calibration: Sequence[Layer], rows: Tensor, directions: int, *, looks_back: bool, by_answer: bool
) -> list[Seen]:
    """What the hazard of each internal layer sees of the samples at ``rows``."""
    seen: list[Seen] = []
    before: tuple[tuple[Array, Array], Array] | None = None
    for layer in calibration[:-1]:
        mean, basis = principal_directions(require_rows(signal, layer), directions)
        taken = layer.take(rows)
        own = (mean, basis), projected(require_rows(signal, taken), mean, basis)
        parts = [own] if before is None or not looks_back else [own, before]
        answers = taken.prediction.cpu().numpy()
        seen.append(
            Seen(
                maps=tuple(part[0] for part in parts),
                columns=np.concatenate([part[1] for part in parts], axis=1),
                classes=answers if by_answer else np.zeros_like(answers),
                maps_count=layer.classes if by_answer else 1,
            )
        )
        before = own
    return seen


def hazard_maps(
    seen: Sequence[Seen],
    objective: Objective,
    *,
    penalty: float,
    intercept_penalty: float = 0.0,
    closed: Collection[int] = (),
) -> list[list[Array]]:
    """The log-odds of each layer's hazard as linear maps of the features: [layer][feature] of [maps, width + 1].

    ``penalty`` is the ridge on the weights of directions, ``intercept_penalty`` that on intercepts. Intercepts stand
    with a layer's own feature, the others have 0 there. At the layers (from 1) in ``closed`` nothing exits: their
    hazard is 0 while the others are fitted, and they have no map.
    """
    from scipy.optimize import minimize  # half a second to load, and only a fit needs it

    open_layers = [number for number in range(len(seen)) if number + 1 not in closed]
    shapes = [(seen[number].maps_count, seen[number].columns.shape[1] + 1) for number in open_layers]
    ends = np.cumsum([rows * columns for rows, columns in shapes])
    sorted_layers = [SortedLayer.of(layer) for layer in seen]
    samples = len(seen[0].classes)

    def parts(flat: Array) -> list[Array]:
        pieces = np.split(flat, ends[:-1])
        return [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]

    def penalised(flat: Array) -> tuple[float, Array]:
        log_odds = np.full((len(seen), samples), -np.inf)
        weights = parts(flat)
        for number, weight in zip(open_layers, weights, strict=True):
            log_odds[number] = sorted_layers[number].log_odds(weight)
        value, by_log_odds = objective(log_odds)
        gradients = []
        for number, weight in zip(open_layers, weights, strict=True):
            gradient = sorted_layers[number].gradient(by_log_odds[number], weight.shape[0])
            ridge = np.append(np.full(weight.shape[1] - 1, penalty), intercept_penalty)
            value += float((ridge * weight**2).sum()) / 2
            gradients.append((gradient + ridge * weight).ravel())
        return value, np.concatenate(gradients)

    start = np.zeros(ends[-1])
    options = {"maxiter": STEPS, "maxfun": 4 * STEPS, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-9}
    weights = iter(parts(minimize(penalised, start, jac=True, method="L-BFGS-B", options=options).x))  # type: ignore[call-overload]
    return [widened(layer, next(weights)) if number in open_layers else [] for number, layer in enumerate(seen)]


def widened(layer: Seen, weight: Array) -> list[Array]:
    """Weights of directions, [maps, columns + 1], as maps of the features themselves, each [maps, width + 1]."""
    maps, start = [], 0
    for mean, basis in layer.maps:
        slopes = weight[:, start : start + basis.shape[1]] @ basis.T
        intercept = -slopes @ mean + (weight[:, -1] if start == 0 else 0.0)
        maps.append(np.concatenate([slopes, intercept[:, None]], axis=1))
        start += basis.shape[1]
    return maps


def logistic(log_odds: Array) -> Array:
    """The logistic function, 0 at minus infinity."""
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * log_odds))


def expected_cost(log_odds: Array, costs: Array) -> tuple[float, Array]:
    """The mean over samples of ``sum_m pi_m costs_m`` and its gradient; ``costs`` [layers, samples].

    With ``V_m`` the expected cost of those that have come to layer m, ``V_m = a_m c_m + (1 - a_m) V_{m+1}``, the
    derivative by ``a_m`` is the share that has come to m times ``c_m - V_{m+1}``.
    """
    hazards, samples = logistic(log_odds), costs.shape[1]
    to_go = costs[-1]
    ahead = np.empty_like(log_odds)
    for number in range(len(log_odds) - 1, -1, -1):
        ahead[number] = costs[number] - to_go
        to_go = to_go + hazards[number] * ahead[number]
    coming = np.cumprod(np.concatenate([np.ones((1, samples)), 1.0 - hazards[:-1]]), axis=0)
    gradient = coming * ahead * hazards * (1.0 - hazards)
    return float(to_go.mean()), gradient / samples


def prior_divergence(log_odds: Array, prior: Array) -> tuple[float, Array]:
    """The mean over samples of ``KL(prior || pi)`` and its gradient; ``prior`` [layers] sums to 1.

    A layer at which nothing exits (a hazard of 0) is out of both: its part of the prior goes to the layers after it.
    """
    samples = log_odds.shape[1]
    value, gradient = 0.0, np.zeros_like(log_odds)
    left = 1.0  # the prior from here on, of which a closed layer takes nothing
    remaining = prior.sum() - np.concatenate([[0.0], np.cumsum(prior)[:-1]])
    for number, row in enumerate(log_odds):
        if np.isneginf(row).all():
            continue
        share = left * prior[number] / remaining[number]
        rest = left - share
        # -ln lambda and -ln(1 - lambda) of a log-odds z are softplus(-z) and softplus(z).
        value += float((share * np.logaddexp(0.0, -row) + rest * np.logaddexp(0.0, row)).mean()) + entropy_term(share)
        gradient[number] = (left * logistic(row) - share) / samples
        left = rest
    return value + entropy_term(left), gradient


def entropy_term(share: float) -> float:
    """``p ln p``, 0 at 0."""
    return share * float(np.log(share)) if share > 0 else 0.0


def log_odds_of(features: Tensor, maps: Tensor, answers: Tensor | None) -> Tensor:
    """The part of each sample's log-odds that comes from one feature, [samples] float64; ``maps`` [maps, width + 1]."""
    own = maps if answers is None or len(maps) == 1 else maps[answers]
    return (features.double() * own[:, :-1]).sum(dim=1) + own[:, -1]
