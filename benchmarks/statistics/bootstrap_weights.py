"""The Poisson bootstrap weights of one cache, and the resampled sums that all of its signals share.

A cache's signals are measured one after another, often in one process, and their weights are the same: where they are
few, those of the last cache are kept for the next signal.
"""

from __future__ import annotations

import hashlib
import tempfile

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_store import Role, ScoredCache
from exitbench.benchmarks.statistics.hashed_randomness import poisson_weights
from exitbench.benchmarks.statistics.resampled_curves import SampleWeights, Weights, resampled_exits
from exitbench.benchmarks.statistics.resampled_rates import weighted_decisions
from exitbench.errors import InputError
from exitbench.memory_budget import memory_budget

SHARE = 0.25
"""The part of the memory budget that weights may take."""
WRITTEN = 1 << 26
"""Weights that are made at a time where they go into a file."""
KEPT = 1 << 24
"""Up to this many weights of a cache are kept for its next signal, with those of all parts."""


class BootstrapWeights:
    """The bootstrap weights [samples, resamples] of both roles, and those of every part, each cut out once.

    Also the resampled sums that are the same for every signal. The ``outcomes`` its methods take are always those of
    all samples of the role.
    """

    def __init__(self, weights: dict[Role, Weights]) -> None:
        self.weights = weights
        self._drawn: dict[tuple[Role, bytes], SampleWeights] = {}
        self._final: dict[tuple[Role, bytes], Tally] = {}
        self._decisions: dict[tuple[Role, bytes], NDArray[np.float64]] = {}

    def some(self, role: Role, rows: NDArray[np.bool_]) -> SampleWeights:
        """The weights of the samples at ``rows``, a mask."""
        key = (role, rows.tobytes())
        if key not in self._drawn:
            if self.weights[role].size > KEPT:  # one part at a time: all of them would be as much again as the whole
                self._drawn = {part: drawn for part, drawn in self._drawn.items() if drawn.rows.all()}
            self._drawn[key] = SampleWeights.of(self.weights[role], rows)
        return self._drawn[key]

    def all(self, role: Role) -> SampleWeights:
        """The weights of all samples of one role."""
        return self.some(role, np.ones(len(self.weights[role]), dtype=bool))

    def final(self, role: Role, rows: NDArray[np.bool_], outcomes: Outcomes) -> Tally:
        """The last layer's resampled sums over some samples, [resamples]; the same for every signal."""
        key = (role, rows.tobytes())
        if key not in self._final:
            last = np.full(outcomes.samples, outcomes.depth)
            self._final[key] = resampled_exits(last, outcomes, self.all(role), rows)
        return self._final[key]

    def decisions(self, role: Role, rows: NDArray[np.bool_], outcomes: Outcomes) -> NDArray[np.float64]:
        """The resampled decisions over some samples, [2, layers - 1, resamples]; the same for every signal."""
        key = (role, rows.tobytes())
        if key not in self._decisions:
            self._decisions[key] = weighted_decisions(outcomes, self.some(role, rows))
        return self._decisions[key]


class LastWeights:
    """A memory of one: the weights made last, and the digest of everything they depend on."""

    def __init__(self) -> None:
        self.digest = ""
        self.weights: BootstrapWeights | None = None

    def recall(self, digest: str) -> BootstrapWeights | None:
        """The weights kept under this digest; those of another cache, seed or number of resamples are forgotten."""
        if digest != self.digest:
            self.weights = None
        return self.weights

    def keep(self, digest: str, weights: BootstrapWeights) -> None:
        """Keep these weights instead of any others."""
        self.digest, self.weights = digest, weights


LAST_WEIGHTS = LastWeights()
"""One per process: the signals of a cache are measured by separate calls that share nothing else."""


def bootstrap_weights(scored: ScoredCache, seed: int, resamples: int, *, held_out: bool = False) -> BootstrapWeights:
    """The weights of a cache, with ``held_out`` also those of the calibration samples.

    A sample's weights depend on its id (on its group, where samples come in groups) and the seed only. Many weights are
    made anew each time: keeping them would cost memory.
    """
    roles: tuple[Role, ...] = ("test", "calibration") if held_out else ("test",)
    digest = _digest(scored, seed, resamples, roles)
    kept = LAST_WEIGHTS.recall(digest)
    if kept is not None:
        return kept
    seeds = {"test": seed, "calibration": seed + CALIBRATION_SEED}
    made = BootstrapWeights({role: made_weights(scored.samples(role).units, seeds[role], resamples) for role in roles})
    if all(weights.size <= KEPT for weights in made.weights.values()):
        LAST_WEIGHTS.keep(digest, made)
    return made


def made_weights(units: NDArray[np.int64], seed: int, resamples: int) -> Weights:
    """Poisson weights [samples, resamples], in memory or, beyond a share of the memory budget, in a temporary file.

    The file has no name and is gone with the process.
    """
    if len(units) * resamples <= memory_budget() * SHARE:
        return poisson_weights(units, seed, resamples)
    with tempfile.TemporaryFile(buffering=0) as file:
        rows = max(WRITTEN // resamples, 1)
        try:
            for start in range(0, len(units), rows):
                left = poisson_weights(units[start : start + rows], seed, resamples).data.cast("B")
                while left:  # a disk that is nearly full takes a part
                    left = left[file.write(left) :]
        except OSError as error:
            needed = len(units) * resamples / 1e9
            raise InputError(
                f"expected {needed:.1f} GB in {tempfile.gettempdir()} for the weights of the bootstrap, found: "
                f"{error}; set TMPDIR, or give more --memory or fewer resamples"
            ) from error
        return np.memmap(file, dtype=np.uint8, mode="r", shape=(len(units), resamples))


def _digest(scored: ScoredCache, seed: int, resamples: int, roles: tuple[Role, ...]) -> str:
    """A digest of all that weights depend on: samples and answers, not names, which may be used again."""
    digest = hashlib.sha256(repr((seed, resamples, roles, scored.metric)).encode())
    for role in roles:
        samples = scored.samples(role)
        digest.update(repr(samples.costs).encode())
        for array in (samples.units, samples.labels, samples.predictions):
            digest.update(repr((array.dtype.str, array.shape)).encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


CALIBRATION_SEED = 0x63616C69
"""Added to the seed of a calibration cache's weights: equal ids there are different samples."""
