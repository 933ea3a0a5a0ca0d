"""The numbers of one suite entry under one protocol, as rows of ``results.parquet``.

A row may come with its resamples, which stage three needs for paired tests: :class:`Measured` holds both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from benchmarks.delong import dis_estimate
from benchmarks.intervals import interval
from benchmarks.merged import Merged, MergedReading
from benchmarks.ranking import Ranking
from benchmarks.rates import RateTally
from benchmarks.results import Row
from benchmarks.risk_error import risk_influence
from benchmarks.scored import Samples
from benchmarks.suite import Ties
from benchmarks.task_score import Measure, Tally, verdict

Resampled = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """One number with, where it was read off a curve, its resamples [resamples]."""

    row: Row
    resampled: Resampled | None = None


def measured_all(
    blank: Row, merged: Merged, samples: Samples, rates_speed_up: float, first_exit: int, ties: Ties = "half"
) -> list[Measured]:
    """Every number of one entry; ``blank`` has the key columns that all rows share, and the entry's own reason."""
    found = ranking_rows(blank, merged.ranking(samples.outcomes.correct[:-1]), first_exit, ties)
    for at in merged.questions:
        found += reading_rows(replace(blank, at=at), merged.reading(at), samples)
    found += rate_rows(replace(blank, at=speed_up_text(rates_speed_up)), merged, samples)
    return found


def speed_up_text(speed_up: float) -> str:
    """How a speed-up is written in the ``at`` column."""
    return f"speed_up={speed_up:g}"


def ranking_rows(blank: Row, ranking: Ranking, first_exit: int, ties: Ties = "half") -> list[Measured]:
    """DIS, tied share, AURC and excess AURC at every internal layer."""
    rows: list[Measured] = []
    reach = float(ndtri(0.975))
    for layer in range(1, ranking.layers + 1):
        here_only = one_layer(ranking, layer)
        estimate = dis_estimate(here_only, 1, ties)
        early = f"before layer {first_exit}, the first that may exit" if layer < first_exit else ""
        here = replace(blank, layer=layer, n=ranking.samples, status=estimate.status,
                       reason=joined(estimate.reason, early, blank.reason))  # fmt: skip
        rows.append(
            Measured(
                replace(here, measure="dis", value=estimate.value, low=estimate.low, high=estimate.high,
                        std_err=estimate.std_err)
            )
        )  # fmt: skip
        defined = estimate.status != "undefined"
        tied = float(here_only.tied_share[0]) if defined else np.nan
        rows.append(Measured(replace(here, measure="tied_share", value=tied)))
        scored = bool(here_only.scored[0])
        errors = (
            risk_influence(here_only.certainty[0], here_only.right[0], ranking.folds)
            if scored
            else (np.array([np.nan]), np.array([np.nan]))
        )
        for measure, values, influence in zip(
            ("aurc", "excess_aurc"), (here_only.aurc, here_only.excess_aurc), errors, strict=True
        ):
            value, error = float(values[0]), float(np.linalg.norm(influence))
            # AURC exists wherever there are scores, also at a layer that makes no error at all.
            status = here.status if estimate.status != "undefined" else ("unreliable" if scored else "undefined")
            low = max(value - reach * error, 0.0) if scored else np.nan
            found = replace(here, measure=measure, value=value, low=low, high=value + reach * error)
            rows.append(Measured(replace(found, std_err=error, status=status)))
    return rows


def one_layer(ranking: Ranking, layer: int) -> Ranking:
    """The ranking at one layer (from 1) only, so that nothing is computed for the others."""
    return Ranking(ranking.certainty[layer - 1 : layer], ranking.right[layer - 1 : layer], ranking.folds)


def reading_rows(blank: Row, reading: MergedReading, samples: Samples) -> list[Measured]:
    """Speed-up and task scores at one reading; beside an unmatched one, the randomised values."""
    threshold = None if np.isnan(reading.threshold) else reading.threshold
    here = replace(blank, n=samples.size, threshold=threshold, reason=joined(reading.reason, blank.reason))
    if reading.status == "undefined":
        blanks = ["speed_up", *samples.outcomes.measures, *(["max_speed_up"] if blank.at.startswith("loss=") else [])]
        return [Measured(replace(here, measure=name, status="undefined", threshold=None)) for name in blanks]
    rows = tally_rows(here, reading.tally, reading.resampled, samples, reading.status)
    if blank.at.startswith("loss="):
        speed = next(one for one in rows if one.row.measure == "speed_up")
        rows.append(Measured(replace(speed.row, measure="max_speed_up"), speed.resampled))
    if reading.status == "unmatched" and reading.randomised is not None:
        how = "the expected value when randomising between the two neighbouring operating points"
        beside = replace(blank, n=samples.size, decisions="randomised", reason=joined(how, blank.reason))
        names: tuple[Measure | Literal["speed_up"], ...] = ("speed_up", *samples.outcomes.measures)
        for measure in names:
            rows.append(Measured(replace(beside, measure=measure, value=float(read(reading.randomised, measure)))))
    return rows


def tally_rows(
    blank: Row, tally: Tally, resampled: Tally | None, samples: Samples, status: str = "ok"
) -> list[Measured]:
    """Speed-up and task scores of one tally, with intervals where there are resamples."""
    rows = []
    names: tuple[Measure | Literal["speed_up"], ...] = ("speed_up", *samples.outcomes.measures)
    for measure in names:
        here = replace(blank, measure=measure, n=samples.size)
        value = float(read(tally, measure))
        if measure != "speed_up":
            said = verdict(tally, measure)
            if said.status != "ok":
                rows.append(Measured(replace(here, status=said.status, reason=joined(said.reason, blank.reason))))
                continue
        draws = None if resampled is None else read(resampled, measure)
        rows.append(with_interval(here, value, draws, status))
    return rows


def read(tally: Tally, measure: Measure | Literal["speed_up"]) -> NDArray[np.float64]:
    """The speed-up or a task score of a tally, in its shape."""
    return tally.speed_up if measure == "speed_up" else tally.score(measure)


def with_interval(blank: Row, value: float, draws: Resampled | None, status: str = "ok") -> Measured:
    """A row with its bootstrap interval; a status already given (unmatched) outweighs the interval's own."""
    if draws is None:
        return Measured(replace(blank, value=value, status=status))
    estimate = interval(value, draws, blank.n)
    own = estimate.status if status == "ok" else status
    reason = joined(estimate.reason if own == estimate.status else "", blank.reason)
    return Measured(
        replace(blank, value=value, low=estimate.low, high=estimate.high, std_err=estimate.std_err, status=own,
                reason=reason),
        draws,
    )  # fmt: skip


def rate_rows(blank: Row, merged: Merged, samples: Samples) -> list[Measured]:
    """Premature and delayed rates: ``all`` and ``reached`` over all layers, and both per layer."""
    reading = merged.reading(blank.at) if blank.at in merged.questions else None
    status, reason = ("ok", "") if reading is None else (reading.status, reading.reason)
    threshold = None if reading is None or np.isnan(reading.threshold) else reading.threshold
    here = replace(blank, n=samples.size, threshold=threshold, reason=joined(reason, blank.reason))
    every, every_draws = merged.every_decision
    reached, reached_draws = merged.reached_decisions
    rows = _rates(replace(here, decisions="all"), every.sum_layers(), every_draws.sum_layers(), status)
    rows += _rates(replace(here, decisions="reached"), reached.sum_layers(), reached_draws, status)
    for layer in range(1, samples.depth):
        there = replace(here, layer=layer)
        draws = _of_layer(every_draws, layer)
        rows += _rates(replace(there, decisions="all"), _of_layer(every, layer), draws, status)
        rows += _rates(replace(there, decisions="reached"), _of_layer(reached, layer), None, status)
    return rows


def _of_layer(tally: RateTally, layer: int) -> RateTally:
    return RateTally(
        *(np.asarray(one)[layer - 1] for one in (tally.wrong_exits, tally.wrong_decisions, tally.right_continuations,
                                                 tally.right_decisions))
    )  # fmt: skip


def _rates(blank: Row, tally: RateTally, draws: RateTally | None, status: str) -> list[Measured]:
    rows = []
    for measure, kind in (("premature_rate", "wrong"), ("delayed_rate", "right")):
        here = replace(blank, measure=measure)
        value = float(tally.premature if kind == "wrong" else tally.delayed)
        if np.isnan(value):
            none = f"no decision falls on a {kind} prediction"
            rows.append(Measured(replace(here, status="undefined", reason=joined(none, blank.reason))))
            continue
        drawn = None if draws is None else np.asarray(draws.premature if kind == "wrong" else draws.delayed)
        rows.append(with_interval(here, value, drawn, status))
    return rows


def joined(*reasons: str) -> str:
    """Reasons as one clause after another, without the empty ones."""
    return "; ".join(dict.fromkeys(filter(None, reasons)))
