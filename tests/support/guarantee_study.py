"""Are promises kept? Rows drawn with replacement from a committed cache, which is then the population.

Each draw is a cache of so many rows. The verb's own steps are taken on it: halves by a hash of ids (here the position
in the draw), a path from the choosing half, a certificate from the other. The risk of the threshold that comes out is
its mean loss over the whole population: known, not estimated. Beside it stands the naive choice, the riskiest
candidate whose mean loss on all rows of the draw is within the limit.

``python -m tests.support.guarantee_study --draws 1000`` runs it, stores the counts and writes the table on the page.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.guarantees.candidates import Candidate, losses_at, shared_path
from exitbench.benchmarks.guarantees.certify import Evidence, ProcedureName, Promise
from exitbench.benchmarks.guarantees.halves import Half, Halves
from exitbench.benchmarks.guarantees.losses import RISKS, layer_losses
from exitbench.benchmarks.guarantees.split import choosing_rows
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.configuration import configuration_of, signal_scores
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache
from exitbench.places import FIXTURES
from exitbench.signals import load_registry

STORED = FIXTURES / "studies" / "guarantees.csv"
PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
BEGIN, END = "<!-- written by tests/support/guarantee_study.py: begin -->", "<!-- end -->"
CACHE, SIGNAL, ROWS, CONFIDENCE = "mpnet-base-sst2-dev", "deebert", 872, 0.9
NAIVE = "naive"
QUESTIONS: tuple[tuple[str, float, str], ...] = (
    *(("consistency", limit, "learn-then-test") for limit in (0.01, 0.02)),
    *(("harm", limit, "learn-then-test") for limit in (0.01, 0.02)),
    *(("gap", limit, "learn-then-test") for limit in (0.01, 0.02)),
    ("error", 0.1, "learn-then-test"),
    ("consistency", 0.02, "risk-control"),
    ("harm", 0.02, "risk-control"),
    ("gap", 0.02, "risk-control"),
    ("consistency", 0.01, "conformal-consistency"),
    ("consistency", 0.02, "conformal-consistency"),
    ("consistency", 0.02, NAIVE),
    ("harm", 0.02, NAIVE),
    ("gap", 0.01, NAIVE),
    ("gap", 0.02, NAIVE),
)


@dataclass
class Kept:
    """How one question went: draws that broke the limit, and sums of the true risk, its square and the speed-up."""

    risk: str
    limit: float
    procedure: str
    draws: int = 0
    broken: int = 0
    total: float = 0.0
    squares: float = 0.0
    speed_ups: float = 0.0
    without_exit: int = 0

    def add(self, true_risk: float, speed_up: float, *, exits: bool) -> None:
        self.draws += 1
        self.broken += true_risk > self.limit + 1e-12
        self.total, self.squares = self.total + true_risk, self.squares + true_risk**2
        self.speed_ups += speed_up
        self.without_exit += not exits

    @property
    def share_broken(self) -> float:
        return self.broken / self.draws

    @property
    def mean_risk(self) -> float:
        return self.total / self.draws

    @property
    def share_error(self) -> float:
        """The Monte Carlo error of the share, at the promised one."""
        return math.sqrt(CONFIDENCE * (1 - CONFIDENCE) / self.draws)

    @property
    def mean_error(self) -> float:
        """The Monte Carlo error of the mean risk."""
        variance = max(self.squares / self.draws - self.mean_risk**2, 0.0)
        return math.sqrt(variance / self.draws)


@dataclass(frozen=True, eq=False)
class Population:
    """The scores, answers and losses of all rows of the committed cache."""

    cache: Cache = field(default_factory=lambda: Cache(FIXTURES / "caches" / CACHE))

    def __post_init__(self) -> None:
        signal = load_registry().make(SIGNAL)
        predictions, truth = self.cache.predictions(), self.cache.labels
        object.__setattr__(
            self, "scores", signal_scores(configuration_of(signal, self.cache.layers), score(self.cache, signal))
        )
        object.__setattr__(self, "outcomes", Outcomes.of(predictions, truth))
        names = dict.fromkeys(risk for risk, _, _ in QUESTIONS)
        losses = {name: layer_losses(RISKS[name], predictions, truth) for name in names}
        object.__setattr__(self, "losses", losses)

    def half(self, risk: str, rows: NDArray[np.intp], ids: NDArray[np.int64]) -> Half:
        """Some drawn rows, under ids of their own."""
        evidence = Evidence([self.scores.take(rows)], self.losses[risk][:, rows], ids)
        return Half(evidence, self.outcomes.take(rows))

    def true_values(self, risk: str, candidate: Candidate | None) -> tuple[float, float]:
        """Risk and speed-up of a candidate over all rows."""
        everything = self.half(risk, np.arange(self.cache.rows), self.cache.ids)
        exits = everything.exits(candidate)
        return float(losses_at(self.losses[risk], exits).mean()), 1 / everything.cost(candidate)


def studied(draws: int, first: int = 0, rows: int = ROWS) -> list[Kept]:
    """Every question on so many draws, from the one at ``first`` on."""
    population = Population()
    counts = [Kept(*question) for question in QUESTIONS]
    for draw in range(first, first + draws):
        taken = np.random.default_rng([19, draw]).integers(population.cache.rows, size=rows)
        ids = np.arange(rows, dtype=np.int64)
        chooses = choosing_rows(ids, draw)
        for risk in population.losses:
            parts = [population.half(risk, taken[mask], ids[mask]) for mask in (chooses, ~chooses)]
            halves = Halves(parts[0], parts[1], 0, draw)
            for count in counts:
                if count.risk == risk:
                    candidate = chosen(count, halves, population.half(risk, taken, ids))
                    count.add(*population.true_values(risk, candidate), exits=candidate is not None)
    return counts


def chosen(count: Kept, halves: Halves, whole: Half) -> Candidate | None:
    """The candidate that a procedure, or the naive choice on all rows, ends with."""
    if count.procedure == NAIVE:
        return naive(whole, count.limit)
    procedure: ProcedureName = count.procedure  # type: ignore[assignment]
    return halves.certificate(Promise(RISKS[count.risk], count.limit, CONFIDENCE, procedure)).candidate


def naive(whole: Half, limit: float) -> Candidate | None:
    """The last candidate of the rows' own path before their mean loss first exceeds the limit."""
    curve = trade_off_curve(whole.evidence.scores[0], whole.outcomes)
    best = None
    for candidate in shared_path([curve], whole.evidence.losses):
        if losses_at(whole.evidence.losses, whole.exits(candidate)).mean() > limit:
            break
        best = candidate
    return best


def broken_promises(counts: Iterable[Kept]) -> list[str]:
    """What was not kept, up to two Monte Carlo errors: the share of broken limits, or the mean risk."""
    problems = []
    for count in counts:
        allowed = 1 - CONFIDENCE + 2 * count.share_error
        if count.procedure == "learn-then-test" and count.share_broken > allowed:
            problems.append(f"{count.risk} {count.limit:g}: broken in {count.share_broken:.1%} of draws")
        mean = count.limit + 2 * count.mean_error
        if count.procedure in ("risk-control", "conformal-consistency") and count.mean_risk > mean:
            problems.append(f"{count.risk} {count.limit:g} by {count.procedure}: mean risk {count.mean_risk:.4f}")
    return problems


COLUMNS = ("risk", "limit", "procedure", "draws", "broken", "total", "squares", "speed_ups", "without_exit")


def store(counts: Sequence[Kept], file: Path = STORED) -> None:
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(COLUMNS)
        for count in counts:
            values = [getattr(count, name) for name in COLUMNS]
            writer.writerow([f"{value:.9g}" if isinstance(value, float) else value for value in values])


def stored(file: Path = STORED) -> list[Kept]:
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            Kept(
                row["risk"],
                float(row["limit"]),
                row["procedure"],
                int(row["draws"]),
                int(row["broken"]),
                float(row["total"]),
                float(row["squares"]),
                float(row["speed_ups"]),
                int(row["without_exit"]),
            )
            for row in csv.DictReader(lines)
        ]


def study_table(counts: Sequence[Kept]) -> str:
    """The counts for the page."""
    lines = [
        "| risk | limit | procedure | limit broken | mean true risk | mean speed-up | do not exit |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {count.risk} | {count.limit:g} | {count.procedure} | {count.share_broken:.1%} | "
        f"{count.mean_risk:.4f} ± {count.mean_error:.4f} | {count.speed_ups / count.draws:.2f}x | "
        f"{count.without_exit / count.draws:.1%} |"
        for count in counts
    ]
    return "\n".join([*lines, ""])


def with_table(page: str, table: str) -> str:
    """The page with another table between its markers."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def main() -> None:
    """Run the study, then write its counts and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, required=True, help="draws; 0 writes the page again")
    options = parser.parse_args()
    if options.draws:
        STORED.parent.mkdir(exist_ok=True)
        store(studied(options.draws))
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), study_table(stored())), encoding="utf-8")


if __name__ == "__main__":
    main()
