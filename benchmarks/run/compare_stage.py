"""Stage three, per cache: areas over the common range, bounds, paired tests, and who may be called best.

A column of a table is one question (``at``, ``layer``, ``decisions``, ``measure``) under one protocol; its entries
are the suite's signals. Entries that are unmatched, undefined or unreliable take no part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from numpy.typing import NDArray

from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.splits import fold_numbers
from exitbench.benchmarks.replay.bounds import final_layer, fixed_layer, oracle, random_at
from exitbench.benchmarks.replay.operating_points import area_below, areas_below
from exitbench.benchmarks.results.files import write_part
from exitbench.benchmarks.results.operating_point import FINAL, NOWHERE, at_speed_up, operating_point
from exitbench.benchmarks.results.schema import Row, rows_of, rows_table, table_of
from exitbench.benchmarks.run import figure_rows as pictures
from exitbench.benchmarks.run.compared_columns import Compared, compare, question_of
from exitbench.benchmarks.run.measure_stage import draws_for, protocol_parts
from exitbench.benchmarks.run.measured_rows import (
    Measured,
    joined,
    tally_rows,
    with_interval,
    with_intervals,
)
from exitbench.benchmarks.scoring.score_store import ScoredCache
from exitbench.benchmarks.statistics.resampled_curves import Drawn, resampled_exits
from exitbench.benchmarks.suites.questions import Questions


def write_pairs(folder: Path, scored: ScoredCache, units: Sequence[Path], questions: Questions) -> None:
    """Compare the entries that the given unit folders hold, and write the cache's final rows and pairs."""
    rows = [row for unit in units for row in rows_of(pq.read_table(unit / "results.parquet"))]
    pairs: list[dict[str, Any]] = []
    coins: list[pa.Table] = []
    drawn = draws_for(scored, questions).all("test")
    for protocol in questions.protocols:
        entries = [one for unit in units for one in load_compared(unit, scored, questions, protocol)]
        place = {"cache": scored.cache, "model": scored.model, "task": scored.task, "split": scored.split,
                 "protocol": protocol}  # fmt: skip
        for entry, measured in zip(entries, area_rows(place, entries, scored), strict=True):
            rows.append(measured.row)
            if measured.resampled is not None:
                entry.resampled[question_of(measured.row)] = measured.resampled
        rows += bound_rows(place, scored, questions, drawn)
        coins.append(pictures.coin_rows({**place, "signal": "random", "parameters": ""}, scored.samples("test")))
        mine = {(row.signal, row.parameters, question_of(row)): row for row in rows if row.protocol == protocol}
        marked, found = compare(place, entries, mine)
        pairs += found
        rows = [marked.get(row.key, row) for row in rows]
    write_part(folder / "results.parquet", rows_table(rows))
    write_part(folder / "pairs.parquet", table_of("pairs", pairs))
    write_part(folder / "curves.parquet", pa.concat_tables(coins))


def load_compared(unit: Path, scored: ScoredCache, questions: Questions, protocol: str) -> list[Compared]:
    """The entries of one unit under one protocol."""
    index = json.loads((unit / "compared.json").read_text(encoding="utf-8"))
    right = scored.samples("test").outcomes.correct[:-1]
    folds = fold_numbers(protocol_parts(scored, questions, protocol))
    found = []
    with np.load(unit / "compared.npz") as arrays:
        for number, entry in enumerate(index):
            if entry["protocol"] != protocol:
                continue
            draws = arrays[f"{number}-resampled"]
            resampled = {
                (operating_point(point), layer, kind, measure): draws[row]
                for row, (point, layer, kind, measure) in enumerate(entry["rows"])
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
                    questions.ties,
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
        return [Measured(blank._replace(status="undefined", reason=joined(reason, blank.reason))) for blank in blanks]
    found = []
    for blank, entry in zip(blanks, entries, strict=True):
        value = area_below(*entry.polyline, low, high)
        coarse = area_below(*entry.band, low, high)
        costs, scores = entry.band_resampled
        draws = areas_below(costs, scores, low, high)
        span = f"over relative costs {low:.4f} to {high:.4f}"
        found.append(with_interval(blank._replace(reason=joined(span, blank.reason)), value, draws + (value - coarse)))
    return with_intervals(found)


def bound_rows(place: Mapping[str, Any], scored: ScoredCache, questions: Questions, drawn: Drawn) -> list[Row]:
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
        point = FINAL if bound.name == "final" else NOWHERE
        layer = bound.layer if bound.name == "fixed" else None
        blank = Row(**place, signal=bound.name, parameters="", operating_point=point, layer=layer, measure="")
        assert bound.exits is not None
        draws = resampled_exits(bound.exits, outcomes, drawn)
        plain = tally_rows(blank, bound.tally, None, samples)
        spread = with_intervals(tally_rows(blank, bound.tally, draws, samples))
        # The speed-up of a fixed layer has no sampling error, which is no reason to call it unreliable.
        rows += [
            (one if bound.name != "oracle" and one.row.measure == "speed_up" else other).row
            for one, other in zip(plain, spread, strict=True)
        ]
    for speed_up in questions.every_speed_up:
        coin = random_at(outcomes, speed_up)
        blank = Row(**place, signal="random", parameters="", operating_point=at_speed_up(speed_up), measure="",
                    reason="the expected value of a coin")  # fmt: skip
        if coin is not None:
            rows += [one.row for one in tally_rows(blank, coin.tally, None, samples)]
    return rows
