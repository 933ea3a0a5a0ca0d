"""Protocols: on which samples things are chosen, and on which they are scored.

``in-sample``
    Everything is chosen on the very samples that are scored.
``cross-fit``
    The samples are dealt into folds by a hash of their id; each fold is scored with what was chosen on the
    others, and the predictions of all folds are merged.
``held-out``
    Everything is chosen on a calibration cache of the same model and scored on another cache.

Each protocol is a list of parts, each with its own training and test samples; what follows treats all
three alike. Chosen are thresholds and the parameters of a grid, both for every speed-up or loss asked for, and
whatever a signal learns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import full, zeros
from exitbench.benchmarks.scoring.score_store import Role
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.errors import InputError

Protocol = Literal["in-sample", "cross-fit", "held-out"]

INNER_FOLDS = 5
"""Folds of a part's training samples, for the out-of-fold scores of a signal that learns."""

INNER_SEED = 0x696E6E72
"""Added to the seed of inner folds that are dealt anew: on a calibration cache, or where few outer ones are left."""

FEWEST_INNER = 3
"""With fewer of the outer folds left, inner ones are dealt anew: fits on less than two thirds would be others."""


@dataclass(frozen=True, eq=False)
class Part:
    """Training and test samples as masks; the training samples lie on ``train_role``.

    ``variant`` names what a signal that learns was fitted on: the training samples. ``dealt`` [samples] are the folds
    that out-of-fold scores of the training samples go by, where they go by those of the protocol: what was fitted
    without two folds then serves both.
    """

    label: str
    variant: str
    train_role: Role
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]
    dealt: NDArray[np.int64] | None = None

    @property
    def in_sample(self) -> bool:
        return self.variant == "in-sample"


DEAL_SEED = 0x6465616C
"""Added to the seed of the folds once for every deal after the first."""


def fold_variant(fold: int, deal: int = 0) -> str:
    """The variant of a signal that was fitted on all samples outside this fold of a deal."""
    return f"fold-{fold}" if deal == 0 else f"deal-{deal}-fold-{fold}"


def parts_of(
    protocol: str, units: NDArray[np.int64], *, seed: int, count: int, calibration: int | None = None, deal: int = 0
) -> tuple[Part, ...]:
    """The parts of a protocol for samples of these ``units`` [samples], which stay together: their groups, else ids.

    There are ``count`` folds, or ``calibration`` samples held out.

    Each ``deal`` of cross-fitting has other folds.

    A fold without samples is no part. Raises InputError where a part would have nothing to choose on.
    """
    everything = full(len(units), True, bool)
    if protocol == "in-sample":
        return (Part("all samples", "in-sample", "test", everything, everything, folds(units, seed, count)),)
    if protocol == "held-out":
        if calibration is None:
            raise InputError("protocol held-out needs a calibration cache")
        chosen_on = full(calibration, True, bool)
        return (Part("calibration cache", "held-out", "calibration", chosen_on, everything),)
    if protocol != "cross-fit":
        raise InputError(f"expected the protocol in-sample, cross-fit or held-out, found {protocol!r}")
    fold = folds(units, seed + deal * DEAL_SEED, count)
    if len(np.unique(fold)) < 2:
        count_text = (
            f"{len(units)} samples" if len(np.unique(units)) == len(units) else f"{len(np.unique(units))} groups"
        )
        raise InputError(f"{count_text} are too few to cross-fit: all fall into one of {count} folds")
    return tuple(
        Part(f"fold {k + 1}", fold_variant(k, deal), "test", fold != k, fold == k, fold)
        for k in range(count)
        if (fold == k).any()
    )


def inner_folds(part: Part, units: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """The folds [samples] in which a part's training samples, whose role has these ``units``, are fitted and scored.

    They are the protocol's own that are left, or dealt anew where those are few.
    """
    if part.dealt is not None and len(np.unique(part.dealt[part.train])) >= FEWEST_INNER:
        return part.dealt
    return folds(units, seed + INNER_SEED, INNER_FOLDS)


def fold_numbers(parts: tuple[Part, ...]) -> NDArray[np.int64] | None:
    """Which part scores each test sample, [samples], where pairs must stay within a part; else ``None``."""
    if len(parts) == 1:
        return None
    numbers = zeros(len(parts[0].test), np.int64)
    for number, part in enumerate(parts):
        numbers[part.test] = number
    return numbers


def choice_counts(parameters: list[str]) -> dict[str, int]:
    """In how many parts each of the parameters was chosen, the most frequent first.

    >>> choice_counts(["alpha=1", "alpha=0.1", "alpha=0.1"])
    {'alpha=0.1': 2, 'alpha=1': 1}
    """
    counts = {name: parameters.count(name) for name in dict.fromkeys(parameters)}
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def describe_choice(parameters: list[str]) -> str:
    """What was chosen in each part, in words.

    >>> describe_choice(["alpha=1", "alpha=0.1", "alpha=1"])
    'chosen: alpha=1 in 2 of 3 folds, alpha=0.1 in 1'
    """
    if len(set(parameters)) == 1:
        return f"chosen: {parameters[0]}"
    first, *others = [f"{name} in {count}" for name, count in choice_counts(parameters).items()]
    return ", ".join([f"chosen: {first} of {len(parameters)} folds", *others])
