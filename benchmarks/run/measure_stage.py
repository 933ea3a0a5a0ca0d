"""Stage two, per cache and signal: every number with its resamples, and what figures are drawn from.

One unit takes all configurations of one registry name, so that a grid's choice sees all its values and a
value that two entries share is measured once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.guarantees.promised_rows import promised_rows
from exitbench.benchmarks.protocols.deal_values import area_value, deal_values
from exitbench.benchmarks.protocols.entry_curve import CurvePiece, in_sample_pieces, rising_curve
from exitbench.benchmarks.protocols.fit_errors import fit_errors
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.part_curves import PartCurves
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import joined
from exitbench.benchmarks.results.vocabulary import FIT_SIZES, TRAINING_ROWS
from exitbench.benchmarks.run.across_caches.average_errors import SOURCES, SourceKey, row_sources
from exitbench.benchmarks.run.evaluated_configurations import (
    EvaluatedConfigurations,
    cache_weights,
    default_position,
    evaluate_configurations,
    merged_parts,
)
from exitbench.benchmarks.run.measurements import ComparedEntry, MeasuredSignal, Question, question_of
from exitbench.benchmarks.run.rows.figure_rows import FigureData
from exitbench.benchmarks.run.rows.measured import Measured, with_reasons
from exitbench.benchmarks.run.rows.measured_rows import measured_rows, score_influences, with_choice
from exitbench.benchmarks.run.rows.per_layer_rows import per_layer_rows
from exitbench.benchmarks.scoring.configuration import Configuration, grid_text
from exitbench.benchmarks.scoring.score_store import Role, ScoredCache
from exitbench.benchmarks.statistics.crossed_errors import ErrorSource
from exitbench.benchmarks.suites.questions import Questions
from exitbench.errors import InputError

NOT_REPEATED = "learned: resamples repeat the choice of the threshold, not the fit"
"""What every number of a signal that learns says of its interval."""


@dataclass(frozen=True)
class SuiteEntry:
    """One line of a suite's signals: its configurations (positions in the scored cache) and what it is called.

    ``usable`` are those that can exit in a network of this depth; ``note`` says which were left out.
    """

    signal: str
    parameters: str
    configurations: tuple[int, ...]
    usable: tuple[int, ...]
    note: str


def suite_entries(scored: ScoredCache, groups: Sequence[Sequence[int]]) -> list[SuiteEntry]:
    """The entries for groups of configurations, each named by the values its parameters take.

    Raises InputError when a configuration failed.
    """
    return [_suite_entry({number: scored.configurations[number] for number in group}) for group in groups]


def _suite_entry(group: Mapping[int, Configuration]) -> SuiteEntry:
    for configuration in group.values():
        if configuration.problem and not configuration.left_out:
            raise InputError(configuration.problem)
    left_out = [configuration for configuration in group.values() if configuration.left_out]
    too_late = [configuration.parameters for configuration in left_out if not configuration.cannot_run]
    unread = [configuration.parameters for configuration in left_out if configuration.cannot_run]
    notes = [
        f"left out, they exit too late for this depth: {', '.join(too_late)}" if too_late else "",
        f"left out, the cache lacks what they read: {', '.join(unread)}" if unread else "",
    ]
    return SuiteEntry(
        signal=next(iter(group.values())).signal,
        parameters=grid_text(configuration.parameters for configuration in group.values()),
        configurations=tuple(group),
        usable=tuple(number for number, configuration in group.items() if not configuration.left_out),
        note="; ".join(filter(None, notes)),
    )


def measure_signal(
    scored: ScoredCache, groups: Sequence[Sequence[int]], questions: Questions, tables: Collection[str]
) -> MeasuredSignal:
    """Measure the entries given as groups of configurations of one signal.

    ``tables`` names the result files that are wanted; figure data and resamples are made only for those. An entry that
    could never exit in a network this shallow has no rows; the run's notes say so.
    """
    entries = [entry for entry in suite_entries(scored, groups) if entry.usable]
    numbers = list(dict.fromkeys(number for entry in entries for number in entry.usable))
    measuring = _Measuring(scored, questions, tables)
    if numbers:
        evaluation = evaluate_configurations(scored, numbers, questions)
        for protocol in questions.protocols:
            measuring.add_single_values(protocol, evaluation, numbers, entries)
            measuring.add_choices(protocol, evaluation, entries)
    return MeasuredSignal(
        measuring.rows, measuring.figure_data.tables(), measuring.compared, measuring.pairs, measuring.sources
    )


class _Measuring:
    """Collects rows, figure data and compared entries of one unit."""

    def __init__(self, scored: ScoredCache, questions: Questions, tables: Collection[str]) -> None:
        self.scored, self.questions = scored, questions
        self.samples = scored.samples("test")
        self.rows: list[Row] = []
        self.figure_data = FigureData(self.samples, questions.layers, tables)
        self.compared: list[ComparedEntry] = []
        self.pairs: list[dict[str, Any]] = []
        self.keeps_sources = SOURCES in tables
        self.sources: dict[SourceKey, ErrorSource] = {}

    def add_single_values(
        self, protocol: str, evaluation: EvaluatedConfigurations, numbers: Sequence[int], entries: Sequence[SuiteEntry]
    ) -> None:
        """Take in every configuration by itself; those that are an entry of their own are compared."""
        alone = {entry.configurations[0] for entry in entries if len(entry.configurations) == 1}
        for number in numbers:
            merged = merged_parts(self.scored, evaluation, protocol, [number], self.questions)
            blank = self._blank(protocol, number, self.scored.configurations[number].parameters)
            rows = self._measure(blank, merged, [number])
            if number in alone:
                self._compare(blank, rows, merged, [number], evaluation.operating_points)

    def add_choices(self, protocol: str, evaluation: EvaluatedConfigurations, entries: Sequence[SuiteEntry]) -> None:
        """Take in every grid with the value that the protocol chose."""
        for entry in entries:
            if len(entry.configurations) == 1:
                continue
            merged = merged_parts(self.scored, evaluation, protocol, entry.usable, self.questions)
            blank = self._blank(protocol, entry.usable[0], entry.parameters)
            blank = blank._replace(reason=joined(entry.note, blank.reason))
            rows = self._measure(blank, merged, entry.usable)
            self._compare(blank, rows, merged, entry.usable, evaluation.operating_points)

    def _blank(self, protocol: str, number: int, parameters: str) -> Row:
        """What all rows of an entry share."""
        configuration = self.scored.configurations[number]
        key, signal = self.scored.key_columns, configuration.signal
        fitted_on: Role = "calibration" if protocol == "held-out" else "test"
        marks = [NOT_REPEATED, *([TRAINING_ROWS] if fitted_on in self.scored.trained_on else [])]
        reason = joined(*marks) if configuration.learns else ""
        return Row(**key, protocol=protocol, signal=signal, parameters=parameters, measure="", reason=reason)

    def _measure(self, blank: Row, merged: MergedParts, numbers: Sequence[int]) -> list[Measured]:
        primary = merged.choices.at(merged.choices.primary)
        first_exit = max(self.scored.configurations[numbers[int(number)]].first_exit_layer for number in primary.parts)
        is_probability = self.scored.configurations[numbers[0]].is_probability
        further = self._further(merged, is_probability=is_probability)
        fitting = self._fit_errors(merged, numbers)
        rows = measured_rows(
            blank, merged, self.samples, self.questions, first_exit, further, fitting, is_probability=is_probability
        )
        for number in set(primary.parts.tolist()):
            configuration = self.scored.configurations[numbers[int(number)]]
            unscored = {layer: why for protocol, layer, why in configuration.unscored if protocol == blank.protocol}
            rows = with_reasons(with_reasons(rows, unscored), dict(configuration.head_notes))
        rows += self._fit_sizes(blank, merged, [numbers[int(at)] for at in primary.parts])
        if len(numbers) > 1:  # a threshold means something else under every value of a grid
            rows = [measured for measured in rows if measured.row.operating_point.kind != "tau"]
        self.rows += [measured.row for measured in rows]
        if self.keeps_sources:
            self.sources |= row_sources(rows)
        return rows

    def _fit_sizes(self, blank: Row, merged: MergedParts, numbers: Sequence[int]) -> list[Measured]:
        """How large the fits were that the configuration of each part was given; nothing where nothing was learned."""
        chosen = [self.scored.configurations[number] for number in numbers]
        if not all(configuration.learns for configuration in chosen):
            return []
        sizes = [
            {variant: counts for variant, *counts in configuration.fits}[part.variant]
            for configuration, part in zip(chosen, merged.parts, strict=True)
        ]
        here = with_choice(blank, merged, merged.choices.primary)._replace(n=self.samples.size)
        return [
            Measured(here._replace(measure=measure, value=float(np.mean(counts))))
            for measure, counts in zip(FIT_SIZES, zip(*sizes, strict=True), strict=True)
        ]

    def _fit_errors(self, merged: MergedParts, numbers: Sequence[int]) -> dict[Question, float]:
        """What fitting adds to the errors of the configurations that the parts chose at the primary speed-up."""
        chosen = [numbers[int(at)] for at in merged.choices.at(merged.choices.primary).parts]
        first = self.scored.configurations[chosen[0]]
        if not first.learns or len(merged.parts) == 1:
            return {}
        out_of_fold = [
            self.scored.scores(number, part.variant).certainty
            for number, part in zip(chosen, merged.parts, strict=True)
        ]
        return fit_errors(
            merged.parts,
            merged.certainty,
            out_of_fold,
            self.samples.outcomes.correct[:-1],
            self.samples.units,
            seed=self.questions.seed,
            ties=self.questions.ties,
            is_probability=first.is_probability,
        )

    def _further(self, merged: MergedParts, *, is_probability: bool) -> dict[Question, NDArray[np.float64]]:
        """The values of further deals by question, NaN for a deal without one."""
        values = [deal_values(deal, self.questions.ties, is_probability=is_probability) for deal in merged.deals]
        every = dict.fromkeys(question for deal in values for question in deal)
        return {question: np.array([deal.get(question, np.nan) for deal in values]) for question in every}

    def _compare(
        self,
        blank: Row,
        rows: Sequence[Measured],
        merged: MergedParts,
        numbers: Sequence[int],
        points: Sequence[OperatingPoint],
    ) -> None:
        pieces: list[CurvePiece] = []
        if blank.protocol == "in-sample":
            every_score = [self.scored.scores(number, merged.parts[0].variant) for number in numbers]
            curves = [trade_off_curve(scores, self.samples.outcomes) for scores in every_score]
            pieces = in_sample_pieces(curves, merged)
        tally, resampled = merged.band
        measure, kept = self.samples.measure, merged.reaches
        exact_cost, exact_score = rising_curve(pieces, measure) if pieces else (None, None)
        at_each_cost = "" if merged.choices.single else "parameters chosen at each cost"
        self.compared.append(
            ComparedEntry(
                protocol=blank.protocol,
                signal=blank.signal,
                parameters=blank.parameters,
                reason=joined(at_each_cost, blank.reason),
                resampled={question_of(value.row): value.resampled for value in rows if value.resampled is not None},
                certainty=merged.certainty,
                cost=tally.relative_cost[kept],
                score=tally.score(measure)[kept],
                cost_resampled=resampled.relative_cost[kept],
                score_resampled=resampled.score(measure)[kept],
                area_deals=np.array([area_value(deal, self.questions.area_range) for deal in merged.deals]),
                deals={question_of(value.row): value.deals for value in rows if value.deals is not None},
                fit_errors={question_of(value.row): value.fit_error for value in rows if value.fit_error},
                influence=score_influences(merged),
                exact_cost=exact_cost,
                exact_score=exact_score,
                chose=not merged.choices.single,
            )
        )
        first = self.scored.configurations[numbers[0]]
        if self.questions.promises and blank.protocol == self.questions.protocols[0]:
            default = default_position(self.scored, numbers)
            # What a learned signal's rows say of resamples is not about these, which have none.
            named = blank._replace(reason="") if first.learns else blank
            self.rows += promised_rows(named, self.scored, numbers, default, self.questions.seed)
        if self.questions.per_layer(first.signal) and first.integers is None:
            self._add_per_layer(blank, merged, numbers)
        sign = 1 if first.direction in (">", ">=") else -1
        self.figure_data.add(blank, merged, points, sign=sign, pieces=pieces)

    def _add_per_layer(self, blank: Row, merged: MergedParts, numbers: Sequence[int]) -> None:
        """Take in an entry once more, with thresholds of each layer's own beside the one that its layers share."""
        weights = cache_weights(self.scored, self.questions)
        curves = [PartCurves(self.scored, number, weights, self.questions.every_speed_up) for number in numbers]
        rows, pairs = per_layer_rows(blank, merged, curves, self.questions, weights.all("test"))
        self.rows += rows
        self.pairs += pairs
