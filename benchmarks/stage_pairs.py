"""Stage three, per cache: areas over the common range, bounds, paired tests, and who may be called best.

A column of a table is one question (``at``, ``layer``, ``decisions``, ``measure``) under one protocol; its entries
are the suite's signals. Entries that are unmatched, undefined or unreliable take no part.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from numpy.typing import NDArray

from benchmarks import pictures
from benchmarks.adjust import against_best, holm
from benchmarks.bounds import final_layer, fixed_layer, oracle, random_at
from benchmarks.delong import two_sided
from benchmarks.intervals import differences
from benchmarks.measures import Measured, joined, speed_up_text, tally_rows, with_interval, with_intervals
from benchmarks.operating import area_below
from benchmarks.protocols import fold_numbers
from benchmarks.ranking import Ranking
from benchmarks.results import (
    BOUNDS,
    HIGHER_IS_BETTER,
    LOWER_IS_BETTER,
    Row,
    rows_of,
    rows_table,
    table_of,
    write_part,
)
from benchmarks.risk_error import risk_influence
from benchmarks.scored import ScoredCache
from benchmarks.settings import Settings
from benchmarks.stage_measures import draws_for, protocol_parts
from benchmarks.status import Difference
from benchmarks.suite import Ties
from benchmarks.weighted_curve import Drawn, resampled_exits

INFLUENCES = ("dis", "aurc", "excess_aurc")
"""Measures of one layer, whose errors come from influence values."""

Question = tuple[str, int | None, str, str]
"""The columns ``at``, ``layer``, ``decisions`` and ``measure``."""


@dataclass(frozen=True, eq=False)
class Compared:
    """One entry under one protocol, as stage two left it."""

    signal: str
    parameters: str
    reason: str
    resampled: dict[Question, NDArray[np.float64]]
    ranking: Ranking
    polyline: tuple[NDArray[np.float64], NDArray[np.float64]]
    band: tuple[NDArray[np.float64], NDArray[np.float64]]
    band_resampled: tuple[NDArray[np.float64], NDArray[np.float64]]
    ties: Ties = "half"

    @property
    def name(self) -> tuple[str, str]:
        return self.signal, self.parameters

    def influence(self, layer: int) -> dict[str, NDArray[np.float64]]:
        """What each sample adds to the error of the measures of one layer, by measure, each [samples]."""
        if layer not in self._influence:
            ranking = self.ranking.some_layers(slice(layer - 1, layer))
            area, excess = risk_influence(ranking, 1)
            self._influence[layer] = {"dis": ranking.influence(1, self.ties), "aurc": area, "excess_aurc": excess}
        return self._influence[layer]

    @cached_property
    def _influence(self) -> dict[int, dict[str, NDArray[np.float64]]]:
        return {}


def write_pairs(folder: Path, scored: ScoredCache, units: Sequence[Path], settings: Settings) -> None:
    """Compare the entries that the given unit folders hold, and write the cache's final rows and pairs."""
    rows = [row for unit in units for row in rows_of(pq.read_table(unit / "results.parquet"))]
    pairs: list[dict[str, Any]] = []
    coins: list[pa.Table] = []
    drawn = draws_for(scored, settings).all("test")
    for protocol in settings.protocols:
        entries = [one for unit in units for one in load_compared(unit, scored, settings, protocol)]
        place = {"cache": scored.cache, "model": scored.model, "task": scored.task, "split": scored.split,
                 "protocol": protocol}  # fmt: skip
        for entry, measured in zip(entries, area_rows(place, entries, scored), strict=True):
            rows.append(measured.row)
            if measured.resampled is not None:
                entry.resampled[question_of(measured.row)] = measured.resampled
        rows += bound_rows(place, scored, settings, drawn)
        coins.append(pictures.coin_rows({**place, "signal": "random", "parameters": ""}, scored.samples("test")))
        mine = {(row.signal, row.parameters, question_of(row)): row for row in rows if row.protocol == protocol}
        marked, found = compare(place, entries, mine)
        pairs += found
        rows = [marked.get(row.key, row) for row in rows]
    write_part(folder / "results.parquet", rows_table(rows))
    write_part(folder / "pairs.parquet", table_of("pairs", pairs))
    write_part(folder / "curves.parquet", pa.concat_tables(coins))


def question_of(row: Row) -> Question:
    """The part of a row's key that makes it a column of a table."""
    return row.at, row.layer, row.decisions, row.measure


def load_compared(unit: Path, scored: ScoredCache, settings: Settings, protocol: str) -> list[Compared]:
    """The entries of one unit under one protocol."""
    index = json.loads((unit / "compared.json").read_text(encoding="utf-8"))
    right = scored.samples("test").outcomes.correct[:-1]
    folds = fold_numbers(protocol_parts(scored, settings, protocol))
    found = []
    with np.load(unit / "compared.npz") as arrays:
        for number, entry in enumerate(index):
            if entry["protocol"] != protocol:
                continue
            draws = arrays[f"{number}-resampled"]
            resampled = {
                (at, layer, kind, measure): draws[row] for row, (at, layer, kind, measure) in enumerate(entry["rows"])
            }
            cost, score = arrays[f"{number}-cost"], arrays[f"{number}-score"]
            exact = f"{number}-exact-cost" in arrays
            polyline = (
                (arrays[f"{number}-exact-cost"], arrays[f"{number}-exact-score"]) if exact else rising(cost, score)
            )
            found.append(
                Compared(
                    entry["signal"], entry["parameters"], entry["reason"], resampled,
                    Ranking(arrays[f"{number}-certainty"], right, folds), polyline, rising(cost, score),
                    (arrays[f"{number}-cost-resampled"], arrays[f"{number}-score-resampled"]),
                    settings.ties,
                )
            )  # fmt: skip
    return found


def rising(cost: NDArray[np.float64], score: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A curve with rising cost; merged folds may cross by a hair where thresholds are close."""
    order = np.argsort(cost, kind="stable")
    return cost[order], score[order]


def area_rows(place: Mapping[str, Any], entries: Sequence[Compared], scored: ScoredCache) -> list[Measured]:
    """The area of every entry over the costs that all of them reach.

    The value is that of the exact curve (in-sample) or of the merged curve; resamples are read on the band's costs,
    and moved by what the coarser curve differs from the exact one.
    """
    samples = scored.samples("test")
    if not entries:
        return []
    blanks = [
        Row(**place, signal=one.signal, parameters=one.parameters, measure="area", n=samples.size, reason=one.reason)
        for one in entries
    ]
    usable = [one for one in entries if len(one.polyline[0]) > 1 and len(one.band[0]) > 1]
    low = max((float(one.polyline[0][0]) for one in usable), default=1.0)
    high = min((float(one.polyline[0][-1]) for one in usable), default=0.0)
    if len(usable) < len(entries) or low >= high:
        reason = "the compared signals have no range of costs in common"
        return [Measured(blank.but(status="undefined", reason=joined(reason, blank.reason))) for blank in blanks]
    found = []
    for blank, entry in zip(blanks, entries, strict=True):
        value = area_below(*entry.polyline, low, high)
        coarse = area_below(*entry.band, low, high)
        costs, scores = entry.band_resampled
        draws = areas_below(costs, scores, low, high)
        span = f"over relative costs {low:.4f} to {high:.4f}"
        found.append(with_interval(blank.but(reason=joined(span, blank.reason)), value, draws + (value - coarse)))
    return with_intervals(found)


def areas_below(
    costs: NDArray[np.float64], scores: NDArray[np.float64], low: float, high: float
) -> NDArray[np.float64]:
    """The area below each of many polylines [points, resamples] from ``low`` to ``high``, level beyond their ends."""
    order = np.argsort(costs, axis=0, kind="stable")
    x, y = np.take_along_axis(costs, order, axis=0), np.take_along_axis(scores, order, axis=0)
    width = np.diff(x, axis=0)
    slope = np.divide(np.diff(y, axis=0), width, out=np.zeros_like(width), where=width > 0)
    left, right = np.clip(x[:-1], low, high), np.clip(x[1:], low, high)
    middle = y[:-1] + ((left + right) / 2 - x[:-1]) * slope
    ends = np.maximum(np.minimum(x[0], high) - low, 0) * y[0] + np.maximum(high - np.maximum(x[-1], low), 0) * y[-1]
    return np.asarray(((right - left) * middle).sum(axis=0) + ends)


def bound_rows(place: Mapping[str, Any], scored: ScoredCache, settings: Settings, drawn: Drawn) -> list[Row]:
    """Oracle, final layer, every fixed layer, and a coin at the suite's speed-ups."""
    samples = scored.samples("test")
    outcomes = samples.outcomes
    rows: list[Row] = []
    bounds = [
        oracle(outcomes),
        final_layer(outcomes),
        *(fixed_layer(outcomes, m) for m in range(1, outcomes.depth + 1)),
    ]
    for bound in bounds:
        at = "final" if bound.name == "final" else ""
        layer = bound.layer if bound.name == "fixed" else None
        blank = Row(**place, signal=bound.name, parameters="", at=at, layer=layer, measure="")
        assert bound.exits is not None
        draws = resampled_exits(bound.exits, outcomes, drawn)
        plain = tally_rows(blank, bound.tally, None, samples)
        spread = with_intervals(tally_rows(blank, bound.tally, draws, samples))
        # The speed-up of a fixed layer has no sampling error, which is no reason to call it unreliable.
        rows += [
            (one if bound.name != "oracle" and one.row.measure == "speed_up" else other).row
            for one, other in zip(plain, spread, strict=True)
        ]
    for speed_up in settings.read_speed_ups:
        coin = random_at(outcomes, speed_up)
        blank = Row(**place, signal="random", parameters="", at=speed_up_text(speed_up), measure="",
                    reason="the expected value of a coin")  # fmt: skip
        if coin is not None:
            rows += [one.row for one in tally_rows(blank, coin.tally, None, samples)]
    return rows


def is_compared(question: Question) -> bool:
    """Whether a column is a contest: more or less is better, and the entries stand at comparable points."""
    at, layer, decisions, measure = question
    single_layer_reached = decisions == "reached" and layer is not None  # has no resamples
    if at.startswith("tau=") or decisions == "randomised" or single_layer_reached:
        return False
    if at.startswith("loss="):
        return measure == "max_speed_up"
    return measure in HIGHER_IS_BETTER | LOWER_IS_BETTER


def compare(
    place: Mapping[str, Any], entries: Sequence[Compared], rows: Mapping[tuple[str, str, Question], Row]
) -> tuple[dict[tuple[Any, ...], Row], list[dict[str, Any]]]:
    """Rows with their marks, by key, and the pairs of all columns."""
    entries = [one for one in entries if one.signal not in BOUNDS]
    questions = dict.fromkeys(
        question for (signal, parameters, question) in rows
        if is_compared(question) and any(one.name == (signal, parameters) for one in entries)
    )  # fmt: skip
    marked: dict[tuple[Any, ...], Row] = {}
    pairs: list[dict[str, Any]] = []
    for question in questions:
        column = [(entry, rows.get((*entry.name, question))) for entry in entries]
        present = [(entry, row) for entry, row in column if row is not None and row.status == "ok"]
        if not present:
            continue
        measure = question[3]
        tests = tested(present)
        p_value = paired_p_value(tests)
        values = [row.value for _, row in present]
        marks = against_best(values, p_value, larger_is_better=measure in HIGHER_IS_BETTER)
        for number, (_, row) in enumerate(present):
            best, tied = bool(marks.best[number]), bool(marks.tied_with_best[number])
            marked[row.key] = row.but(best=best, tied_with_best=tied)
        adjusted = holm([test.p_value for test in tests.values()])
        first = int(np.flatnonzero(marks.best)[0]) if marks.best.any() else -1
        for (pair, test), over_pairs in zip(tests.items(), adjusted, strict=True):
            other = pair[1] if pair[0] == first else pair[0]
            against = float(marks.adjusted[other]) if first in pair else None
            pairs.append(pair_row(place, question, present[pair[0]][0].name, present[pair[1]][0].name, test,
                                  present[0][1].n, float(over_pairs), against))  # fmt: skip
    return marked, pairs


def paired_p_value(tests: Mapping[tuple[int, int], Difference]) -> Callable[[int, int], float]:
    """The p-value of a pair, in either order."""
    return lambda a, b: tests[min(a, b), max(a, b)].p_value


def pair_row(
    place: Mapping[str, Any],
    question: Question,
    first: tuple[str, str],
    second: tuple[str, str],
    test: Difference,
    n: int,
    adjusted: float,
    against_best: float | None,
) -> dict[str, Any]:
    """One row of ``pairs.parquet``."""
    at, layer, decisions, measure = question
    return {
        **place, "at": at, "layer": layer, "decisions": decisions, "measure": measure,
        "signal_a": first[0], "parameters_a": first[1], "signal_b": second[0], "parameters_b": second[1],
        "difference": test.value, "low": test.low, "high": test.high, "std_err": test.std_err, "n": n,
        "p_value": test.p_value, "p_adjusted": adjusted, "p_against_best": against_best,
        "status": test.status, "reason": test.reason,
    }  # fmt: skip


def tested(present: Sequence[tuple[Compared, Row]]) -> dict[tuple[int, int], Difference]:
    """The paired differences of all entries of one column: DeLong and influence values, or the bootstrap."""
    pairs = list(itertools.combinations(range(len(present)), 2))
    values = np.array([row.value for _, row in present])
    question = question_of(present[0][1])
    _, layer, _, measure = question
    if measure in INFLUENCES and layer is not None:
        influence = [entry.influence(layer)[measure] for entry, _ in present]
        errors = (float(np.linalg.norm(influence[a] - influence[b])) for a, b in pairs)
        found = [
            normal_difference(float(values[a] - values[b]), one) for (a, b), one in zip(pairs, errors, strict=True)
        ]
    else:
        found = differences(values, np.stack([entry.resampled[question] for entry, _ in present]), pairs)
    return dict(zip(pairs, found, strict=True))


def normal_difference(value: float, std_err: float) -> Difference:
    """A difference tested with the normal law; without variance, p is 1 if equal and undefined otherwise."""
    nan = float("nan")
    if np.isnan(std_err) or np.isnan(value):
        return Difference(value, nan, nan, nan, nan, "undefined", "there is no paired test for one of the tasks")
    p_value = float(two_sided(np.array(value), np.array(std_err)))
    if np.isnan(p_value):
        return Difference(value, nan, nan, std_err, nan, "undefined", "the difference has no variance but is not zero")
    reach = 1.959963984540054 * std_err
    return Difference(value, value - reach, value + reach, std_err, p_value)
