"""Several finished runs about one signal: its duels with every opponent on every cache, each cache counted once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from exitbench.benchmarks.results.vocabulary import is_claimed
from exitbench.reports.findings.choices import mean
from exitbench.reports.findings.duels import Duel, Duels, single
from exitbench.reports.findings.evidence.dot_charts import Dot
from exitbench.reports.findings.evidence.estimates import CacheValue
from exitbench.reports.findings.findings import contestants
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry

SHIFTED = "final"
"""The target of runs in which rows without labels are judged; their numbers are of the shift only."""


@dataclass(frozen=True)
class CacheDuels:
    """The subject against one opponent on one cache: by score at the primary speed-up, and by DIS layer by layer."""

    cache: CacheMetadata
    score: Duel
    dis: tuple[Duel, ...]

    @property
    def score_value(self) -> CacheValue:
        """The difference of the scores."""
        return cache_value([self.score], self.cache)

    @property
    def dis_value(self) -> CacheValue:
        """The mean difference of DIS over the layers; their errors are taken to agree wholly."""
        return cache_value(self.dis, self.cache)


class ContestedRun:
    """One run with its subject and opponents, under the protocol that it is read by."""

    def __init__(self, run: FinishedRun, subject: RunEntry, others: Sequence[RunEntry]) -> None:
        self.run, self.subject, self.others = run, subject, tuple(others)
        self.protocol = run.leading_protocol()
        self.duels = Duels(run, self.protocol, subject, others)

    def against(self, other: RunEntry) -> list[CacheDuels]:
        """The subject against one opponent, cache by cache; rows without labels judge nobody."""
        primary = float(self.run.suite["primary_speed_up"])
        scores = {duel.question[0]: duel for duel in single(self.duels.score(other, primary))}
        by_layer: dict[str, list[Duel]] = {}
        for duel in self.duels.dis(other):
            by_layer.setdefault(duel.question[0], []).append(duel)
        return [
            CacheDuels(cache, scores[cache.name], tuple(by_layer.get(cache.name, ())))
            for cache in self.run.caches
            if cache.target == "labels"
        ]


class RunsTogether:
    """Some runs that ask about one subject; those without findings are left out. Raises ValueError without any."""

    def __init__(self, runs: Iterable[FinishedRun]) -> None:
        self.contests = [ContestedRun(run, *named) for run in runs if (named := contestants(run)) is not None]
        if not self.contests:
            raise ValueError("expected runs whose suites have [findings], found none")
        self.subject = self.contests[0].subject.title
        self.rival = self.contests[0].others[0].title

    @cached_property
    def opponents(self) -> list[str]:
        """The titles of all opponents, in the order of the suites."""
        return list(dict.fromkeys(other.title for contest in self.contests for other in contest.others))

    @cached_property
    def duels(self) -> dict[str, list[CacheDuels]]:
        """Opponent to the duels on every cache that has both; a cache of several runs counts in the first."""
        duels_on: dict[str, dict[str, CacheDuels]] = {title: {} for title in self.opponents}
        for contest in self.contests:
            for other in contest.others:
                for duels in contest.against(other):
                    duels_on[other.title].setdefault(duels.cache.name, duels)
        return {title: list(by_cache.values()) for title, by_cache in duels_on.items()}

    @cached_property
    def caches(self) -> list[CacheMetadata]:
        """Every cache once."""
        return list({cache.name: cache for contest in self.contests for cache in contest.run.caches}.values())

    @property
    def speed_ups(self) -> list[float]:
        """The primary speed-ups of the runs."""
        return sorted({float(contest.run.suite["primary_speed_up"]) for contest in self.contests})


def cache_value(duels: Sequence[Duel], cache: CacheMetadata) -> CacheValue:
    """The mean of some duels' differences on one cache, of which the rows are the same; NaN where none is known."""
    known = [duel for duel in duels if not math.isnan(duel.difference)]
    return CacheValue(
        cache.task, cache.model, mean([duel.difference for duel in known]), mean([duel.std_err for duel in known])
    )


def dot_of(duel: Duel) -> Dot:
    """A duel as a dot with its interval."""
    pair = duel.pair
    if pair is None:
        return Dot(math.nan)
    low, high = sorted((duel.sign * float(pair["low"]), duel.sign * float(pair["high"])))
    return Dot(duel.difference, low, high, is_claimed(float(pair["p_adjusted"])))
