"""What choices change in the task score: the value of a grid, a switch, calibration, thresholds, the protocol.

No choice is known by name. A *switch* is a parameter in which two entries of one signal differ; a signal *of* another
one is held against that one; per-layer thresholds are the run's own pairs; a protocol is held against in-sample.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.vocabulary import PER_LAYER, is_claimed
from exitbench.reports.findings.choices import protocol_changes, score_spreads
from exitbench.reports.findings.dot_charts import Dot
from exitbench.reports.findings.duels import Duels, single
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_entry import RunEntry


@dataclass(frozen=True)
class ChoiceEffect:
    """What one choice changes, a dot for every cache (and signal); ``is_spread`` where it is largest less smallest."""

    choice: str
    dots: tuple[Dot, ...]
    is_spread: bool = False

    def with_more(self, other: ChoiceEffect) -> ChoiceEffect:
        """The same choice on further caches."""
        return replace(self, dots=(*self.dots, *other.dots))


def choice_effects(run: FinishedRun, subject: RunEntry, protocol: str) -> Iterator[ChoiceEffect]:
    """Every choice of a run that has numbers."""
    if subject.is_grid:
        spreads = score_spreads(run, subject, subject, protocol)
        widths = [Dot(spread.width, claimed=False) for spread in spreads if not math.isnan(spread.width)]
        yield ChoiceEffect(f"{subject.title}: {' and '.join(subject.varied)}, max − min", tuple(widths), True)
    for first, second, name in switches(run):
        yield ChoiceEffect(name, difference_dots(run, protocol, first, second))
    yield from per_layer_effects(run, protocol)
    if protocol != "in-sample" and "in-sample" in run.protocols:
        moved = [value for change in protocol_changes(run, "in-sample", protocol) for value in change.scores]
        yield ChoiceEffect(f"{protocol} less in-sample, all signals", tuple(map(Dot, moved)))


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


def difference_dots(run: FinishedRun, protocol: str, first: RunEntry, second: RunEntry) -> tuple[Dot, ...]:
    """The first entry less the second by task score at the primary speed-up, on every cache that compares them."""
    duels = Duels(run, protocol, first, [second])
    dots = []
    for duel in single(duels.score(second, float(run.suite["primary_speed_up"]))):
        if duel.pair is not None and not math.isnan(duel.difference):
            low, high = sorted((duel.sign * float(duel.pair["low"]), duel.sign * float(duel.pair["high"])))
            dots.append(Dot(duel.difference, low, high, is_claimed(float(duel.pair["p_adjusted"]))))
    return tuple(dots)


def per_layer_effects(run: FinishedRun, protocol: str) -> Iterator[ChoiceEffect]:
    """Thresholds of each layer's own less the shared one, at the primary speed-up, of all signals."""
    primary = at_speed_up(float(run.suite["primary_speed_up"]))
    effects: dict[str, list[Dot]] = {}
    for pair in run.pair_rows:
        asked = (pair["decisions"], pair["protocol"], pair["operating_point"])
        if asked != (PER_LAYER, protocol, primary) or not pair["cache"] or math.isnan(pair["difference"]):
            continue
        schedule = pair["parameters_a"].rpartition("thresholds=")[2]
        dot = Dot(pair["difference"], pair["low"], pair["high"], is_claimed(pair["p_adjusted"]))
        effects.setdefault(f"thresholds of each layer ({schedule}) less one for all", []).append(dot)
    yield from (ChoiceEffect(name, tuple(dots)) for name, dots in effects.items())
