"""Stage two, per cache and signal: every number with its resamples, and what figures need.

One unit takes all configurations of one registry name, so that a grid's choice sees all its values and a
value that two entries share is measured once. Its folder then holds one parquet file per table, and, for the
entries that stage three compares, their resamples and rankings.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.protocols.choice import Choice, choose
from exitbench.benchmarks.protocols.merged_parts import Merged
from exitbench.benchmarks.protocols.part_curves import ConfigurationCurves
from exitbench.benchmarks.protocols.part_points import PartResult, evaluate_part
from exitbench.benchmarks.protocols.splits import Part, describe_choice, fold_numbers, parts_of
from exitbench.benchmarks.results.files import write_part
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import SCHEMAS, Row, rows_table
from exitbench.benchmarks.run import figure_rows as pictures
from exitbench.benchmarks.run.measured_rows import Measured, measured_all
from exitbench.benchmarks.scoring.configuration import grid_text
from exitbench.benchmarks.scoring.score_store import ScoredCache
from exitbench.benchmarks.statistics.bootstrap_weights import Draws, draws_of
from exitbench.benchmarks.suites.questions import Questions, layers_at
from exitbench.errors import InputError


@dataclass(frozen=True)
class Entry:
    """One line of a suite's signals: its configurations (positions in the scored cache) and what it is called."""

    signal: str
    parameters: str
    configurations: tuple[int, ...]


def entries_of(scored: ScoredCache, groups: Sequence[Sequence[int]]) -> list[Entry]:
    """The entries for groups of configurations, each named by the values its parameters take."""
    found = []
    for group in groups:
        facts = [scored.configurations[number] for number in group]
        found.append(Entry(facts[0].signal, grid_text(one.parameters for one in facts), tuple(group)))
    return found


def draws_for(scored: ScoredCache, questions: Questions) -> Draws:
    """The bootstrap weights of both sides, as many as the questions ask for."""
    held_out = "held-out" in questions.protocols
    return draws_of(scored, questions.seed, questions.resamples, held_out=held_out)


def protocol_parts(scored: ScoredCache, questions: Questions, protocol: str) -> tuple[Part, ...]:
    """The parts of a protocol on this cache."""
    calibration = scored.samples("calibration").size if protocol == "held-out" else None
    ids = scored.samples("test").ids
    return parts_of(protocol, ids, seed=questions.seed, count=questions.folds, calibration=calibration)


def evaluate_configurations(
    scored: ScoredCache, numbers: Sequence[int], questions: Questions
) -> tuple[dict[str, dict[int, list[PartResult]]], dict[str, tuple[Part, ...]], tuple[OperatingPoint, ...]]:
    """The results of some configurations of one signal: protocol to configuration to parts."""
    first = scored.configurations[numbers[0]]
    points = questions.operating_points(first.signal, first.integers)
    parts = {protocol: protocol_parts(scored, questions, protocol) for protocol in questions.protocols}
    draws = draws_for(scored, questions)
    results: dict[str, dict[int, list[PartResult]]] = {protocol: {} for protocol in questions.protocols}
    for number in numbers:
        curves = ConfigurationCurves(scored, number, draws, questions.every_speed_up)
        for protocol in questions.protocols:
            # A given threshold is the same under every protocol, so it is read once.
            asked = [point for point in points if point.kind != "tau" or protocol == questions.protocols[0]]
            results[protocol][number] = [evaluate_part(curves, part, questions, asked) for part in parts[protocol]]
    return results, parts, points


def usable_configurations(scored: ScoredCache, entry: Entry) -> tuple[list[int], str]:
    """The configurations of an entry that have scores (possibly none), and a note on those left out.

    Raises InputError when one failed.
    """
    facts = {number: scored.configurations[number] for number in entry.configurations}
    for one in facts.values():
        if one.problem and not one.left_out:
            raise InputError(one.problem)
    out = [one for one in facts.values() if one.left_out]
    kept = [number for number, one in facts.items() if not one.left_out]
    note = f"left out, they exit too late for this depth: {', '.join(one.parameters for one in out)}" if out else ""
    return kept, note


def write_measures(folder: Path, scored: ScoredCache, groups: Sequence[Sequence[int]], questions: Questions) -> None:
    """Measure the entries given as groups of configurations of one signal, and write the unit's files.

    An entry that could never exit in a network this shallow has no rows; the run's notes say so.
    """
    found = {entry: usable_configurations(scored, entry) for entry in entries_of(scored, groups)}
    kept = {entry: (usable, note) for entry, (usable, note) in found.items() if usable}
    entries = list(kept)
    numbers = list(dict.fromkeys(number for usable, _ in kept.values() for number in usable))
    if not numbers:
        UnitTables(scored, questions, ()).write(folder)
        return
    results, parts, points = evaluate_configurations(scored, numbers, questions)
    unit = UnitTables(scored, questions, points)
    for protocol in questions.protocols:
        single = {scored.configurations[entry.configurations[0]].parameters: entry for entry in entries
                  if len(entry.configurations) == 1}  # fmt: skip
        for number in numbers:
            facts = scored.configurations[number]
            merged = Merged([results[protocol][number]], parts[protocol], Choice.only(0, len(parts[protocol])))
            entry = single.get(facts.parameters)
            unit.add(protocol, facts.signal, facts.parameters, merged, [number], "", compared=entry is not None)
        for entry in entries:
            if len(entry.configurations) > 1:
                usable, note = kept[entry]
                candidates = [results[protocol][number] for number in usable]
                default = next((n for n, one in enumerate(usable) if scored.configurations[one].default), 0)
                choice = choose(candidates, default)
                merged = Merged(candidates, parts[protocol], choice)
                names = [scored.configurations[usable[int(one)]].parameters for one in choice.parts]
                reason = "; ".join(filter(None, (describe_choice(names), note)))
                unit.add(protocol, entry.signal, entry.parameters, merged, usable, reason, compared=True)
    unit.write(folder)


class UnitTables:
    """Collects the rows of one unit and writes its files."""

    def __init__(self, scored: ScoredCache, questions: Questions, points: Sequence[OperatingPoint]) -> None:
        self.scored, self.questions, self.points = scored, questions, points
        self.samples = scored.samples("test")
        self.rows: list[Row] = []
        self.tables: dict[str, list[pa.Table]] = {name: [] for name in SCHEMAS}
        self.compared: list[dict[str, Any]] = []
        self.arrays: dict[str, Any] = {}

    def add(
        self,
        protocol: str,
        signal: str,
        parameters: str,
        merged: Merged,
        numbers: Sequence[int],
        reason: str,
        *,
        compared: bool,
    ) -> None:
        """Take in one configuration or entry; what is ``compared`` also leaves figures and resamples."""
        scored = self.scored
        place: dict[str, Any] = {
            "cache": scored.cache, "model": scored.model, "task": scored.task, "split": scored.split,
            "protocol": protocol, "signal": signal, "parameters": parameters,
        }  # fmt: skip
        first_exit = max(scored.configurations[numbers[int(one)]].first_exit_layer for one in merged.choice.parts)
        blank = Row(**place, measure="", reason=reason)
        questions = self.questions
        found = measured_all(blank, merged, self.samples, questions.rates_speed_up, first_exit, questions.ties)
        if len(numbers) > 1:  # a threshold means something else under every value of a grid
            found = [one for one in found if one.row.operating_point.kind != "tau"]
        self.rows += [one.row for one in found]
        if compared:
            self._keep_for_pairs(blank, merged, found)
            self._draw(place, protocol, merged, numbers)

    def _keep_for_pairs(self, blank: Row, merged: Merged, found: Sequence[Measured]) -> None:
        number = len(self.compared)
        drawn = [one for one in found if one.resampled is not None]
        tally, resampled = merged.band
        measure = self.samples.measure
        self.arrays |= {
            f"{number}-resampled": np.array([one.resampled for one in drawn]).reshape(len(drawn), -1),
            f"{number}-certainty": merged.certainty,
            f"{number}-cost": tally.relative_cost[merged.reaches],
            f"{number}-score": tally.score(measure)[merged.reaches],
            f"{number}-cost-resampled": resampled.relative_cost[merged.reaches],
            f"{number}-score-resampled": resampled.score(measure)[merged.reaches],
        }
        self.compared.append(
            {
                "protocol": blank.protocol,
                "signal": blank.signal,
                "parameters": blank.parameters,
                "reason": blank.reason,
                "rows": [
                    [row.operating_point.text, row.layer, row.decisions, row.measure]
                    for row in (measured.row for measured in drawn)
                ],
            }
        )

    def _draw(self, place: dict[str, Any], protocol: str, merged: Merged, numbers: Sequence[int]) -> None:
        samples, tables = self.samples, self.tables
        measure = samples.measure
        exact = protocol == "in-sample"
        named = []
        for point in self.points:
            if point.kind == "tau":
                continue
            reading = merged.reading(point)
            named.append(reading.threshold)
            if reading.exits is not None:
                tables["samples"].append(pictures.sample_rows(place, point, reading.exits, samples))
                tables["histograms"].append(pictures.exit_histogram_rows(place, point, reading.exits, samples))
        if exact:
            number = numbers[int(merged.choice.parts[0])]
            curve = ConfigurationCurves(self.scored, number, Draws({}), ()).whole(merged.parts[0].variant, "test")
            tables["curves"].append(pictures.exact_points(place, curve, measure, named))
            self.arrays |= {
                f"{len(self.compared) - 1}-exact-cost": curve.relative_cost[::-1],
                f"{len(self.compared) - 1}-exact-score": curve.score(measure)[::-1],
            }
        tables["curves"].append(pictures.band_rows(place, merged, measure, points=not exact))
        sign = 1 if self.scored.configurations[numbers[0]].direction in (">", ">=") else -1
        for layer in layers_at(self.questions.layers, samples.depth):
            certainty, right = merged.certainty[layer - 1], samples.outcomes.correct[layer - 1]
            if not np.isnan(certainty[0]):
                tables["histograms"].append(pictures.score_histogram_rows(place, sign * certainty, right, layer))
                parts = fold_numbers(merged.parts)
                tables["risk_coverage"].append(pictures.risk_coverage_rows(place, certainty, right, parts, layer))

    def write(self, folder: Path) -> None:
        """Leave all files of the unit."""
        self.tables["results"] = [rows_table(self.rows)]
        for name, found in self.tables.items():
            if name != "pairs":
                write_part(folder / f"{name}.parquet", pa.concat_tables([pictures.empty(name), *found]))
        np.savez(folder / "compared.npz", **self.arrays)
        (folder / "compared.json").write_text(json.dumps(self.compared) + "\n", encoding="utf-8")
