"""The numbers of one suite entry under one protocol, as rows of ``results.parquet``.

A row may come with its resamples, which stage three needs for paired tests: :class:`Measured` holds both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import RateTally
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.merged_parts import Merged, MergedReading
from exitbench.benchmarks.replay.tally import Tally, verdict
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Estimate
from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE, Ties
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.scoring.score_store import Samples
from exitbench.benchmarks.statistics.aurc_influence import risk_influence
from exitbench.benchmarks.statistics.delong import dis_estimate
from exitbench.benchmarks.statistics.intervals import intervals

Resampled = NDArray[np.float64]

TOGETHER = 1 << 16
"""Samples of a layer times layers that are ranked together; more would only take memory."""


@dataclass(frozen=True, eq=False)
class Measured:
    """One number with, where it was read off a curve, its resamples [resamples]."""

    row: Row
    resampled: Resampled | None = None


@dataclass(frozen=True, eq=False)
class Unmeasured:
    """A number whose interval is still to come, so that all of an entry's can be computed together."""

    row: Row
    value: float
    resampled: Resampled
    status: str


def measured_all(
    blank: Row, merged: Merged, samples: Samples, rates_speed_up: float, first_exit: int, ties: Ties = "half"
) -> list[Measured]:
    """Every number of one entry; ``blank`` has the key columns that all rows share, and the entry's own reason."""
    found: list[Measured | Unmeasured] = []
    found += ranking_rows(blank, merged.ranking(samples.outcomes.correct[:-1]), first_exit, ties)
    for point in merged.points:
        found += reading_rows(blank._replace(operating_point=point), merged.reading(point), samples)
    found += rate_rows(blank._replace(operating_point=at_speed_up(rates_speed_up)), merged, samples)
    return with_intervals(found)


def with_intervals(rows: Sequence[Measured | Unmeasured]) -> list[Measured]:
    """The rows in their order, each with its bootstrap interval.

    A status already given (unmatched) outweighs the interval's own.
    """
    asked = [one for one in rows if isinstance(one, Unmeasured)]
    if not asked:
        return [one for one in rows if isinstance(one, Measured)]
    draws = np.stack([one.resampled for one in asked])
    estimates = zip(intervals([one.value for one in asked], draws, asked[0].row.n), draws, strict=True)
    return [one if isinstance(one, Measured) else _estimated(one, *next(estimates)) for one in rows]


def _estimated(one: Unmeasured, estimate: Estimate, draws: Resampled) -> Measured:
    own = estimate.status if one.status == "ok" else one.status
    reason = joined(estimate.reason if own == estimate.status else "", one.row.reason)
    row = one.row._replace(value=one.value, low=estimate.low, high=estimate.high, std_err=estimate.std_err, status=own,
                      reason=reason)  # fmt: skip
    return Measured(row, draws)


def ranking_rows(blank: Row, ranking: Ranking, first_exit: int, ties: Ties = "half") -> list[Measured]:
    """DIS, tied share, AURC and excess AURC at every internal layer."""
    rows: list[Measured] = []
    together = max(TOGETHER // ranking.samples, 1)
    for start in range(0, ranking.layers, together):
        here = ranking.some_layers(slice(start, start + together))
        for row in range(here.layers):
            rows += _layer_rows(blank._replace(layer=start + row + 1, n=ranking.samples), here, row, first_exit, ties)
    return rows


def _layer_rows(blank: Row, ranking: Ranking, row: int, first_exit: int, ties: Ties) -> list[Measured]:
    """The ranking's numbers at one of its rows, which is the layer that ``blank`` names."""
    estimate = dis_estimate(ranking, row + 1, ties)
    early = f"before layer {first_exit}, the first that may exit" if (blank.layer or 0) < first_exit else ""
    here = blank._replace(status=estimate.status, reason=joined(estimate.reason, early, blank.reason))
    defined, scored = estimate.status != "undefined", bool(ranking.scored[row])
    rows = [
        here._replace(
            measure="dis", value=estimate.value, low=estimate.low, high=estimate.high, std_err=estimate.std_err
        ),
        here._replace(measure="tied_share", value=float(ranking.tied_share[row]) if defined else np.nan),
    ]
    # AURC exists wherever there are scores, also at a layer that makes no error at all.
    status = here.status if defined else ("unreliable" if scored else "undefined")
    influences = risk_influence(ranking, row + 1)
    for measure, values, influence in zip(
        ("aurc", "excess_aurc"), (ranking.aurc, ranking.excess_aurc), influences, strict=True
    ):
        value, error = float(values[row]), float(np.linalg.norm(influence)) if scored else np.nan
        low = max(value - NORMAL_QUANTILE * error, 0.0) if scored else np.nan
        high = value + NORMAL_QUANTILE * error
        rows.append(here._replace(measure=measure, value=value, low=low, high=high, std_err=error, status=status))
    return [Measured(one) for one in rows]


def reading_rows(blank: Row, reading: MergedReading, samples: Samples) -> list[Measured | Unmeasured]:
    """Speed-up and task scores at one reading; beside an unmatched one, the randomised values."""
    threshold = None if np.isnan(reading.threshold) else reading.threshold
    here = blank._replace(n=samples.size, threshold=threshold, reason=joined(reading.reason, blank.reason))
    if reading.status == "undefined":
        blanks = [
            "speed_up",
            *samples.outcomes.measures,
            *(["max_speed_up"] if blank.operating_point.kind == "loss" else []),
        ]
        return [Measured(here._replace(measure=name, status="undefined", threshold=None)) for name in blanks]
    rows = tally_rows(here, reading.tally, reading.resampled, samples, reading.status)
    if blank.operating_point.kind == "loss":
        speed = next(one for one in rows if one.row.measure == "speed_up")
        rows.append(replace(speed, row=speed.row._replace(measure="max_speed_up")))
    if reading.status == "unmatched" and reading.randomised is not None:
        how = "the expected value when randomising between the two neighbouring operating points"
        beside = blank._replace(n=samples.size, decisions="randomised", reason=joined(how, blank.reason))
        names: tuple[Measure | Literal["speed_up"], ...] = ("speed_up", *samples.outcomes.measures)
        for measure in names:
            rows.append(Measured(beside._replace(measure=measure, value=float(read(reading.randomised, measure)))))
    return rows


def tally_rows(
    blank: Row, tally: Tally, resampled: Tally | None, samples: Samples, status: str = "ok"
) -> list[Measured | Unmeasured]:
    """Speed-up and task scores of one tally, ready for intervals where there are resamples."""
    rows: list[Measured | Unmeasured] = []
    names: tuple[Measure | Literal["speed_up"], ...] = ("speed_up", *samples.outcomes.measures)
    for measure in names:
        here = blank._replace(measure=measure, n=samples.size)
        value = float(read(tally, measure))
        if measure != "speed_up":
            said = verdict(tally, measure)
            if said.status != "ok":
                rows.append(Measured(here._replace(status=said.status, reason=joined(said.reason, blank.reason))))
                continue
        draws = None if resampled is None else read(resampled, measure)
        rows.append(with_interval(here, value, draws, status))
    return rows


def read(tally: Tally, measure: Measure | Literal["speed_up"]) -> NDArray[np.float64]:
    """The speed-up or a task score of a tally, in its shape."""
    return tally.speed_up if measure == "speed_up" else tally.score(measure)


def with_interval(blank: Row, value: float, draws: Resampled | None, status: str = "ok") -> Measured | Unmeasured:
    """A number, or what :func:`with_intervals` makes one of."""
    if draws is None:
        return Measured(blank._replace(value=value, status=status))
    return Unmeasured(blank, value, draws, status)


def rate_rows(blank: Row, merged: Merged, samples: Samples) -> list[Measured | Unmeasured]:
    """Premature and delayed rates: ``all`` and ``reached`` over all layers, and both per layer."""
    point = blank.operating_point
    reading = merged.reading(point) if point in merged.points else None
    status, reason = ("ok", "") if reading is None else (reading.status, reading.reason)
    threshold = None if reading is None or np.isnan(reading.threshold) else reading.threshold
    here = blank._replace(n=samples.size, threshold=threshold, reason=joined(reason, blank.reason))
    every, every_draws = merged.every_decision
    reached, reached_draws = merged.reached_decisions
    rows = _rates(here._replace(decisions="all"), every.sum_layers(), every_draws.sum_layers(), status)
    rows += _rates(here._replace(decisions="reached"), reached.sum_layers(), reached_draws, status)
    for layer in range(1, samples.depth):
        there = here._replace(layer=layer)
        draws = _of_layer(every_draws, layer)
        rows += _rates(there._replace(decisions="all"), _of_layer(every, layer), draws, status)
        rows += _rates(there._replace(decisions="reached"), _of_layer(reached, layer), None, status)
    return rows


def _of_layer(tally: RateTally, layer: int) -> RateTally:
    return RateTally(
        *(np.asarray(one)[layer - 1] for one in (tally.wrong_exits, tally.wrong_decisions, tally.right_continuations,
                                                 tally.right_decisions))
    )  # fmt: skip


def _rates(blank: Row, tally: RateTally, draws: RateTally | None, status: str) -> list[Measured | Unmeasured]:
    rows: list[Measured | Unmeasured] = []
    for measure, kind in (("premature_rate", "wrong"), ("delayed_rate", "right")):
        here = blank._replace(measure=measure)
        value = float(tally.premature if kind == "wrong" else tally.delayed)
        if np.isnan(value):
            none = f"no decision falls on a {kind} prediction"
            rows.append(Measured(here._replace(status="undefined", reason=joined(none, blank.reason))))
            continue
        drawn = None if draws is None else np.asarray(draws.premature if kind == "wrong" else draws.delayed)
        rows.append(with_interval(here, value, drawn, status))
    return rows


def joined(*reasons: str) -> str:
    """Reasons as one clause after another, without the empty ones."""
    return "; ".join(dict.fromkeys(filter(None, reasons)))
