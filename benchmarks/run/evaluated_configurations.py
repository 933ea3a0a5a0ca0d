"""Some configurations of one signal under every protocol: evaluated part by part, then merged, with what was chosen.

A run, ``threshold`` and ``infer --calibrate`` share this way from scores to numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exitbench.benchmarks.protocols.choice import Choices
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.part_curves import PartCurves
from exitbench.benchmarks.protocols.part_points import evaluate_part, evaluate_part_exactly
from exitbench.benchmarks.protocols.part_result import PartResult
from exitbench.benchmarks.protocols.splits import Part, parts_of
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.scoring.score_store import ScoredCache
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import BootstrapWeights, bootstrap_weights
from exitbench.benchmarks.suites.questions import Questions


@dataclass(frozen=True)
class EvaluatedConfigurations:
    """Some configurations of one signal under every protocol: results by protocol and configuration, [parts] each."""

    parts: Mapping[str, tuple[Part, ...]]
    results: Mapping[str, Mapping[int, list[PartResult]]]
    operating_points: tuple[OperatingPoint, ...]
    further: Sequence[Deal]


@dataclass(frozen=True)
class Deal:
    """A further deal of folds: its parts, and [parts] point values of each configuration that is dealt so often."""

    parts: tuple[Part, ...]
    results: Mapping[int, list[PartResult]]


def cache_weights(scored: ScoredCache, questions: Questions) -> BootstrapWeights:
    """The bootstrap weights of both roles, as many as the questions ask for."""
    held_out = "held-out" in questions.protocols
    return bootstrap_weights(scored, questions.seed, questions.resamples, held_out=held_out)


def protocol_parts(scored: ScoredCache, questions: Questions, protocol: str, deal: int = 0) -> tuple[Part, ...]:
    """The parts of a protocol on this cache, of cross-fitting those of one deal."""
    calibration = scored.samples("calibration").size if protocol == "held-out" else None
    units = scored.samples("test").units
    return parts_of(protocol, units, seed=questions.seed, count=questions.folds, calibration=calibration, deal=deal)


def evaluate_configurations(
    scored: ScoredCache, numbers: Sequence[int], questions: Questions
) -> EvaluatedConfigurations:
    """Evaluate some configurations of one signal at every operating point, under every protocol."""
    first = scored.configurations[numbers[0]]
    points = questions.operating_points(first.signal, first.integers)
    parts = {protocol: protocol_parts(scored, questions, protocol) for protocol in questions.protocols}
    weights = cache_weights(scored, questions)
    results: dict[str, dict[int, list[PartResult]]] = {protocol: {} for protocol in questions.protocols}
    deals = {number: questions.deals_of(learns=scored.configurations[number].learns) for number in numbers}
    most = max(deals.values()) if "cross-fit" in questions.protocols else 1
    further: list[tuple[tuple[Part, ...], dict[int, list[PartResult]]]]
    further = [(protocol_parts(scored, questions, "cross-fit", deal), {}) for deal in range(1, most)]
    chosen_points = [point for point in points if point.kind != "tau"]
    for number in numbers:
        curves = PartCurves(scored, number, weights, questions.every_speed_up)
        for protocol in questions.protocols:
            # A given threshold is the same under every protocol, so it is evaluated once.
            asked = [point for point in points if point.kind != "tau" or protocol == questions.protocols[0]]
            results[protocol][number] = [evaluate_part(curves, part, questions, asked) for part in parts[protocol]]
        for dealt, by_number in further[: deals[number] - 1]:
            by_number[number] = [evaluate_part_exactly(curves, part, questions, chosen_points) for part in dealt]
    return EvaluatedConfigurations(parts, results, points, [Deal(dealt, by_number) for dealt, by_number in further])


def default_position(scored: ScoredCache, numbers: Sequence[int]) -> int:
    """Which of some configurations has most parameters at their defaults; the first of several."""
    return min(range(len(numbers)), key=lambda position: scored.configurations[numbers[position]].changed)


def choices_among(
    scored: ScoredCache,
    evaluation: EvaluatedConfigurations,
    protocol: str,
    numbers: Sequence[int],
    questions: Questions,
) -> Choices:
    """The choices among some configurations, each at a position in the scored cache, under one protocol."""
    return _choices(scored, evaluation.results[protocol], numbers, questions)


def _choices(
    scored: ScoredCache, results: Mapping[int, list[PartResult]], numbers: Sequence[int], questions: Questions
) -> Choices:
    configurations = [scored.configurations[number] for number in numbers]
    several = len({configuration.signal for configuration in configurations}) > 1
    names = [configuration.text if several else configuration.parameters for configuration in configurations]
    return Choices([results[number] for number in numbers], names, default_position(scored, numbers), questions)


def merged_parts(
    scored: ScoredCache,
    evaluation: EvaluatedConfigurations,
    protocol: str,
    numbers: Sequence[int],
    questions: Questions,
) -> MergedParts:
    """The parts of a protocol with what it chose among some configurations, and those of further deals of folds."""
    samples = scored.samples("test")
    deals = [
        MergedParts(_choices(scored, deal.results, numbers, questions), deal.parts, samples)
        for deal in (evaluation.further if protocol == "cross-fit" else ())
        if all(number in deal.results for number in numbers)
    ]
    choices = choices_among(scored, evaluation, protocol, numbers, questions)
    return MergedParts(choices, evaluation.parts[protocol], samples, deals)
