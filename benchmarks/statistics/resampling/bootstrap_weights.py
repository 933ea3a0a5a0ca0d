"""The Poisson bootstrap weights of one cache, and the resampled sums that all of its signals share.

A cache's signals are measured one after another, often in one process, and their weights are the same: where they are
few, those of the last cache are kept for the next signal.
"""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import full
from exitbench.benchmarks.arrays.scratch_space import unbuffered_file, write_pieces
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_store import Role, ScoredCache
from exitbench.benchmarks.statistics.hashed_randomness import poisson_weights
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights, Weights
from exitbench.errors import InputError
from exitbench.memory_budget import memory_budget

SHARE = 0.25
"""The part of the memory budget that weights may take."""
WRITTEN = 1 << 22
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
        self._layers: dict[tuple[Role, bytes], LayerSums] = {}

    def some(self, role: Role, rows: NDArray[np.bool_]) -> SampleWeights:
        """The weights of the samples at ``rows``, a mask."""
        key = (role, drawn_digest(rows))
        if key not in self._drawn:
            if self.weights[role].size > KEPT:  # one part at a time: all of them would be as much again as the whole
                self._drawn = {part: drawn for part, drawn in self._drawn.items() if drawn.rows.all()}
            self._drawn[key] = SampleWeights.of(self.weights[role], rows)
        return self._drawn[key]

    def all(self, role: Role) -> SampleWeights:
        """The weights of all samples of one role."""
        return self.some(role, full(len(self.weights[role]), True, bool))

    def layers(self, role: Role, rows: NDArray[np.bool_], outcomes: Outcomes) -> LayerSums:
        """What every layer counts over some samples; the same for every signal.

        Of more than half of the samples it is what all count less what the others do: so that the training samples of
        a fold, whose others are asked for too, cost nothing.
        """
        key = (role, drawn_digest(rows))
        if key not in self._layers:
            if len(rows) < 2 * rows.sum() < 2 * len(rows):
                others = self.layers(role, ~rows, outcomes)
                self._layers[key] = self.layers(role, np.ones_like(rows), outcomes).less(others)
            else:
                self._layers[key] = layer_sums(outcomes, self.some(role, rows))
        return self._layers[key]

    def final(self, role: Role, rows: NDArray[np.bool_], outcomes: Outcomes) -> Tally:
        """The last layer's resampled sums over some samples, [resamples]."""
        return self.layers(role, rows, outcomes).at(outcomes.depth)

    def decisions(self, role: Role, rows: NDArray[np.bool_], outcomes: Outcomes) -> NDArray[np.float64]:
        """The resampled decisions over some samples, on wrong and right predictions, [2, layers - 1, resamples]."""
        return self.layers(role, rows, outcomes).decisions


def drawn_digest(rows: NDArray[np.bool_]) -> bytes:
    """A short name of some rows: as many bytes for any number of them."""
    return hashlib.blake2b(np.ascontiguousarray(rows).data).digest()


@dataclass(frozen=True, eq=False)
class LayerSums:
    """Resampled sums of what the answers of every layer count, from one pass over the weights.

    ``samples`` [resamples] is how many samples were drawn, ``counted`` [layers, resamples] the sums under the tally's
    names, ``actual_positives`` [resamples] there for F1; ``costs`` [layers] are those of the outcomes.
    """

    samples: NDArray[np.float64]
    counted: dict[str, NDArray[np.float64]]
    actual_positives: NDArray[np.float64] | None
    costs: NDArray[np.int64] | None

    def at(self, layer: int) -> Tally:
        """All of these samples exit at ``layer``, from 1: the resampled sums, each [resamples]."""
        return Tally(
            len(self.counted["correct"]),
            self.samples,
            layer * self.samples,
            actual_positives=self.actual_positives,
            cost=None if self.costs is None else float(self.costs[layer - 1]) * self.samples,
            **{name: sums[layer - 1] for name, sums in self.counted.items()},
        )

    @property
    def decisions(self) -> NDArray[np.float64]:
        """Decisions of kind ``all`` on wrong and right predictions, whatever the signal: [2, layers - 1, resamples]."""
        right = self.counted["correct"][:-1]
        return np.stack([self.samples - right, right])

    def less(self, others: LayerSums) -> LayerSums:
        """The same without some of the samples; exact, since all sums are whole numbers."""
        positives = None
        if self.actual_positives is not None and others.actual_positives is not None:
            positives = self.actual_positives - others.actual_positives
        counted = {name: sums - others.counted[name] for name, sums in self.counted.items()}
        return LayerSums(self.samples - others.samples, counted, positives, self.costs)


def layer_sums(outcomes: Outcomes, drawn: SampleWeights) -> LayerSums:
    """What every layer counts over the drawn samples."""
    names, depth = list(outcomes.counted), outcomes.depth
    ones = full((1, outcomes.samples), True, bool)
    positives = [] if outcomes.actual_positive is None else [outcomes.actual_positive[None]]
    sums = drawn.sums(np.concatenate([*outcomes.counted.values(), ones, *positives])).astype(np.float64)
    counted = {name: sums[number * depth : (number + 1) * depth] for number, name in enumerate(names)}
    samples, *rest = sums[len(names) * depth :]
    return LayerSums(samples, counted, rest[0] if rest else None, outcomes.costs)


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
    with unbuffered_file() as file:
        rows = max(WRITTEN // resamples, 1)
        try:
            for start in range(0, len(units), rows):
                made = poisson_weights(units[start : start + rows], seed, resamples)
                write_pieces(file, made.data.cast("B"))
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
