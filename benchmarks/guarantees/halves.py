"""One entry on both halves of a cache: its path from the choosing rows, its certificate from the certifying ones."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import full
from exitbench.benchmarks.guarantees.candidates import Candidate, per_layer_path
from exitbench.benchmarks.guarantees.certify import Certificate, Evidence, Promise, certify
from exitbench.benchmarks.guarantees.split import CHOOSING, certifying_part
from exitbench.benchmarks.replay.trade_off_curve import Curve, trade_off_curve
from exitbench.benchmarks.results.vocabulary import Schedule
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_store import ScoredCache


@dataclass(frozen=True, eq=False)
class Half:
    """Some rows of a cache: what a test needs of them, and what exits cost and answer there."""

    evidence: Evidence
    outcomes: Outcomes

    def only(self, configuration: int) -> Half:
        """The same rows with one configuration."""
        scores = [self.evidence.scores[configuration]]
        return Half(dataclasses.replace(self.evidence, scores=scores), self.outcomes)

    def exits(self, candidate: Candidate | None) -> NDArray[np.int64]:
        """The exit layers [samples] of a candidate; all at the last layer without one."""
        if candidate is None:
            return full(self.outcomes.samples, self.outcomes.depth, np.int64)
        return candidate.exits(self.evidence.scores)

    def cost(self, candidate: Candidate | None) -> float:
        """The mean relative cost of a candidate."""
        return float(self.outcomes.paid(self.exits(candidate)).mean() / self.outcomes.full_cost)


@dataclass(frozen=True, eq=False)
class Halves:
    """The configurations of one entry on choosing and certifying rows; ``default`` is the position of the default."""

    choosing: Half
    certifying: Half
    default: int
    seed: int

    def certificate(
        self, promise: Promise, schedule: Schedule = "shared", *, looks: int = 1, on_choosing: bool = False
    ) -> Certificate:
        """What the certifying rows allow; with ``on_choosing`` what they would if they were the choosing ones.

        The latter is no guarantee, but a choice may be made by it.
        """
        half = self.choosing if on_choosing else self.certifying
        if promise.procedure != "conformal-consistency":
            path = self.path(schedule)
            return certify(path, half.evidence, promise, looks=looks, seed=self.seed)
        chosen = self._most_consistent(promise)
        certificate = certify([], half.only(chosen).evidence, promise, seed=self.seed)
        if certificate.candidate is None:
            return certificate
        return dataclasses.replace(
            certificate, candidate=dataclasses.replace(certificate.candidate, configuration=chosen)
        )

    def path(self, schedule: Schedule) -> list[Candidate]:
        """The candidates from the safest to the riskiest, by the choosing rows."""
        if schedule not in self._paths:
            losses = self.choosing.evidence.losses
            self._paths[schedule] = per_layer_path(self._curves, losses, schedule, self.default)
        return self._paths[schedule]

    @cached_property
    def _paths(self) -> dict[Schedule, list[Candidate]]:
        return {}

    @cached_property
    def _curves(self) -> list[Curve]:
        return [trade_off_curve(scores, self.choosing.outcomes) for scores in self.choosing.evidence.scores]

    def _most_consistent(self, promise: Promise) -> int:
        """The configuration whose conformal threshold costs least on the choosing rows; ties to the default."""
        count = len(self.choosing.evidence.scores)
        costs = []
        for number in range(count):
            alone = self.choosing.only(number)
            costs.append(alone.cost(certify([], alone.evidence, promise, seed=self.seed).candidate))
        return min(range(count), key=lambda number: (costs[number], number != self.default))


def halves_of(
    scored: ScoredCache, numbers: Sequence[int], losses: NDArray[np.float64], default: int, seed: int
) -> Halves:
    """The halves of some configurations of a scored cache; ``losses`` [layers, samples] in the order of ids."""
    samples = scored.samples()
    part = certifying_part(samples.units, seed)
    scores = [scored.scores(number, CHOOSING) for number in numbers]
    halves = [
        Half(
            Evidence(
                [whole.take(rows) for whole in scores],
                losses[:, rows],
                samples.ids[rows],
                None if samples.groups is None else samples.groups[rows],
            ),
            samples.outcomes.take(rows),
        )
        for rows in (part.train, part.test)
    ]
    return Halves(halves[0], halves[1], default, seed)


def fastest(halves: Sequence[Halves], certificates: Sequence[Certificate], *, on_choosing: bool = False) -> int:
    """The position of the entry whose candidate costs least; without any, of the one that needs the fewest rows."""
    rows = [each.choosing if on_choosing else each.certifying for each in halves]
    costs = [half.cost(certificate.candidate) for half, certificate in zip(rows, certificates, strict=True)]
    needed = [certificate.units_needed or math.inf for certificate in certificates]
    return min(range(len(halves)), key=lambda entry: (costs[entry], needed[entry]))
