"""The signals of one grid, scored and evaluated on one cache: what every threshold is chosen from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations, merged_parts
from exitbench.benchmarks.run.measure_stage import suite_entries
from exitbench.benchmarks.run.score_stage import score_signals
from exitbench.benchmarks.scoring.calibration_layers import check_inputs
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.benchmarks.scoring.score_store import ScoredCache
from exitbench.benchmarks.suites.questions import Questions
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal


@dataclass(frozen=True, eq=False, kw_only=True)
class EvaluatedGrid:
    """The ``usable`` signals of one or several grids on one cache, with their merged parts under every protocol.

    ``numbers`` are their positions in the scored cache.
    """

    cache: Cache
    usable: Sequence[ExitSignal]
    numbers: Sequence[int]
    questions: Questions
    scored: ScoredCache
    merged: Mapping[str, MergedParts]

    def chosen(self, point: OperatingPoint) -> ExitSignal:
        """The signal that is chosen on all samples for an operating point, fitted on them where it learns."""
        signal = self.usable[int(self.merged["in-sample"].choices.at(point).parts[0])]
        return fitted(signal, self.cache, target=self.questions.target) if signal.needs_fit else signal


def evaluate_grid(cache: Cache, signals: Sequence[ExitSignal], questions: Questions) -> EvaluatedGrid:
    """Score and evaluate; InputError where the cache lacks what a signal reads, or none can exit in its network."""
    for signal in signals:
        check_inputs(cache, signal)
    scored = score_signals(cache, signals, questions)
    (entry,) = suite_entries(scored, [range(len(signals))])
    untaught = [configuration.problem for configuration in scored.configurations if configuration.cannot_run]
    if not entry.usable and untaught:
        raise InputError(untaught[0])
    if not entry.usable:
        raise InputError(f"signal {signals[0].text} has no exit in a network of {cache.layers} layers")
    evaluation = evaluate_configurations(scored, entry.usable, questions)
    return EvaluatedGrid(
        cache=cache,
        usable=[signals[number] for number in entry.usable],
        numbers=entry.usable,
        questions=questions,
        scored=scored,
        merged={name: merged_parts(scored, evaluation, name, entry.usable, questions) for name in questions.protocols},
    )
