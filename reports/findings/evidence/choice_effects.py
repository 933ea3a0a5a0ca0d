"""What choices change in the task score: the value of a grid, a switch, calibration, thresholds, the protocol.

No choice is known by name. A *switch* is a parameter in which two entries of one signal differ; a signal *of* another
one is held against that one; per-layer thresholds are the run's own pairs; a protocol is held against in-sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.vocabulary import PER_LAYER, is_claimed
from exitbench.reports.findings.choices import USED, Spread, mean, score_spreads
from exitbench.reports.findings.duels import Duel, Duels, single
from exitbench.reports.findings.evidence.contested_runs import ContestedRun, RunsTogether, dot_of
from exitbench.reports.findings.evidence.dot_charts import Dot
from exitbench.reports.findings.evidence.estimates import CacheValue, TasksEstimate, mean_over_tasks
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry


@dataclass(frozen=True)
class ScoreChange:
    """What a choice changes on one cache, for one signal (or in the mean over signals)."""

    cache: CacheMetadata
    dot: Dot
    std_err: float = math.nan


@dataclass(frozen=True)
class ChoiceEffect:
    """What one choice changes, cache by cache."""

    choice: str
    changes: tuple[ScoreChange, ...]

    @property
    def estimate(self) -> TasksEstimate:
        """The mean over tasks; several signals on one cache are averaged first, as if they erred alike."""
        by_cache: dict[str, list[ScoreChange]] = {}
        for change in self.changes:
            by_cache.setdefault(change.cache.name, []).append(change)
        values = [
            CacheValue(
                changes[0].cache.task,
                changes[0].cache.model,
                mean([change.dot.value for change in changes]),
                mean([change.std_err for change in changes]),
            )
            for changes in by_cache.values()
        ]
        return mean_over_tasks(values)


def choice_effects(contests: Iterable[ContestedRun]) -> list[ChoiceEffect]:
    """Every choice that has numbers; of a cache in several runs, those of the first count."""
    effects: dict[str, dict[str, list[ScoreChange]]] = {}
    for contest in contests:
        own: dict[str, dict[str, list[ScoreChange]]] = {}
        for choice, change in run_changes(contest.run, contest.protocol):
            own.setdefault(choice, {}).setdefault(change.cache.name, []).append(change)
        for choice, by_cache in own.items():
            known = effects.setdefault(choice, {})
            for name, changes in by_cache.items():
                known.setdefault(name, changes)
    return [
        ChoiceEffect(choice, tuple(itertools.chain.from_iterable(by_cache.values())))
        for choice, by_cache in effects.items()
    ]


def run_changes(run: FinishedRun, protocol: str) -> Iterator[tuple[str, ScoreChange]]:
    """Every change of one run, with the name of its choice."""
    caches = {cache.name: cache for cache in run.caches}
    for first, second, name in switches(run):
        for duel in tested_scores(run, protocol, first, second):
            yield name, ScoreChange(caches[duel.question[0]], dot_of(duel), duel.std_err)
    yield from per_layer_changes(run, protocol, caches)
    if protocol != "in-sample" and "in-sample" in run.protocols:
        for cache in run.caches:
            moved = protocol_moves(run, cache, protocol)
            if moved:
                yield f"{protocol} less in-sample, mean over signals", ScoreChange(cache, Dot(mean(moved)))


def switches(run: FinishedRun) -> Iterator[tuple[RunEntry, RunEntry, str]]:
    """Pairs of entries, the changed one first: two of a signal that differ in one parameter, or one *of* another."""
    for plain, changed in itertools.permutations(run.entries, 2):
        if plain.signal == changed.signal and run.entries.index(plain) < run.entries.index(changed):
            differ = [name for name, value in changed.settings.items() if plain.settings.get(name) != value]
            if len(differ) == 1:
                name = differ[0]
                value, before = changed.settings[name], plain.settings[name]
                yield changed, plain, f"{changed.title}: {name}={value} less {before}"
        elif changed.settings.get("of") == plain.signal and not plain.written:
            yield changed, plain, f"{run.label(changed.signal, changed.parameters)} less {plain.title}"


def tested_scores(run: FinishedRun, protocol: str, first: RunEntry, second: RunEntry) -> list[Duel]:
    """The first entry against the second by task score at the primary speed-up, on every cache that compares them."""
    duels = Duels(run, protocol, first, [second])
    scores = single(duels.score(second, float(run.suite["primary_speed_up"])))
    return [duel for duel in scores if duel.pair is not None and not math.isnan(duel.difference)]


def per_layer_changes(
    run: FinishedRun, protocol: str, caches: Mapping[str, CacheMetadata]
) -> Iterator[tuple[str, ScoreChange]]:
    """Thresholds of each layer's own less the shared one, at the primary speed-up, of all signals."""
    primary = at_speed_up(float(run.suite["primary_speed_up"]))
    for pair in run.pair_rows.where(decisions=(PER_LAYER,), protocol=(protocol,), operating_point=(primary,)):
        if not pair["cache"] or math.isnan(pair["difference"]):
            continue
        cache = caches[pair["cache"]]
        if pair["measure"] != cache.measure:
            continue
        schedule = pair["parameters_a"].rpartition("thresholds=")[2]
        dot = Dot(pair["difference"], pair["low"], pair["high"], is_claimed(pair["p_adjusted"]))
        name = f"thresholds of each layer ({schedule}) less one for all"
        yield name, ScoreChange(cache, dot, float(pair["std_err"]))


def protocol_moves(run: FinishedRun, cache: CacheMetadata, protocol: str) -> list[float]:
    """The score of every signal under a protocol less that in-sample, where both are near the primary speed-up."""
    at = at_speed_up(float(run.suite["primary_speed_up"]))
    moved = []
    for entry in run.entries:
        before, after = (
            run.row(cache, each, entry.signal, entry.parameters, cache.measure, at) for each in ("in-sample", protocol)
        )
        if before is not None and after is not None and before.status in USED and after.status in USED:
            moved.append(after.value - before.value)
    return [value for value in moved if not math.isnan(value)]


def grid_spreads(evidence: RunsTogether) -> list[tuple[CacheMetadata, Spread]]:
    """How far the values of the subject's grid lie apart on every cache, where two of them have a score."""
    spreads: dict[str, tuple[CacheMetadata, Spread]] = {}
    for contest in evidence.contests:
        if not contest.subject.is_grid:
            continue
        of_run = score_spreads(contest.run, contest.subject, contest.subject, contest.protocol)
        for cache, spread in zip(contest.run.caches, of_run, strict=True):
            if not math.isnan(spread.width):
                spreads.setdefault(cache.name, (cache, spread))
    return list(spreads.values())


def varied_names(contests: Sequence[ContestedRun]) -> str:
    """The parameters of the subject's grid."""
    return " and ".join(next((contest.subject.varied for contest in contests if contest.subject.is_grid), ()))
