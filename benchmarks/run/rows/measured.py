"""A row with the resamples behind it, its interval, and its mean over several deals of folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Estimate, joined
from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE
from exitbench.benchmarks.run.measurements import Question, question_of
from exitbench.benchmarks.statistics.deals import deal_error, mean_over_deals, stretched
from exitbench.benchmarks.statistics.delong import logit_interval
from exitbench.benchmarks.statistics.intervals import intervals

Resampled = NDArray[np.float64]


Deals = Mapping[Question, NDArray[np.float64]]
"""The value of each further deal of folds, [deals], by the question it answers; NaN where a deal has none."""


@dataclass(frozen=True, eq=False)
class Measured:
    """One number with, where it was read off a curve, its resamples [resamples].

    Under several deals of folds the value is their mean, ``deals`` has the value of each, and the resamples, which are
    those of the first deal, lie around the mean without the spread between deals. ``fit_error`` is the part of its
    error that comes from fitting.
    """

    row: Row
    resampled: Resampled | None = None
    deals: NDArray[np.float64] | None = None
    fit_error: float = 0.0


def with_intervals(rows: Sequence[Measured]) -> list[Measured]:
    """The rows in their order, those with resamples with their bootstrap intervals, all computed together.

    A status already given (unmatched, degenerate) outweighs the interval's own.
    """
    drawn = [measured for measured in rows if measured.resampled is not None]
    if not drawn:
        return list(rows)
    values = [measured.row.value for measured in drawn]
    draws = np.stack([measured.resampled for measured in drawn if measured.resampled is not None])
    errors = [0.0 if measured.deals is None else float(deal_error(measured.deals)) for measured in drawn]
    estimates = iter(intervals(values, stretched(draws, values, errors), drawn[0].row.n))
    return [measured if measured.resampled is None else _estimated(measured, next(estimates)) for measured in rows]


def _estimated(measured: Measured, estimate: Estimate) -> Measured:
    row = measured.row
    status = estimate.status if row.status == "ok" else row.status
    reason = joined(estimate.reason if status == estimate.status else "", row.reason)
    row = row._replace(low=estimate.low, high=estimate.high, std_err=estimate.std_err, status=status, reason=reason)
    return replace(measured, row=row)


def over_deals(measured: Measured, further: Deals) -> Measured:
    """A number of the first deal as the mean over all deals; one that the first deal has not, or only it, stays."""
    row = measured.row
    others = further.get(question_of(row))
    if others is None or np.isnan(row.value):
        return measured
    deals = np.array([row.value, *others])
    value = mean_over_deals(deals)
    moved = None if measured.resampled is None else measured.resampled + (value - row.value)
    row = row._replace(value=value)
    if measured.resampled is None and not np.isnan(row.std_err):  # an error from influence values
        error = float(np.hypot(row.std_err, deal_error(deals)))
        low, high = influence_interval(row.measure, value, error)
        row = row._replace(std_err=error, low=low, high=high)
    return Measured(row, moved, deals)


FITTED = "the error has what other fits change added"
"""What a number of a signal that learns says where its error knows of the fit."""


def with_fit_error(measured: Measured, errors: Mapping[Question, float]) -> Measured:
    """A number whose error comes from influence values, with the error of fitting added where there is one."""
    row = measured.row
    added = errors.get(question_of(row))
    if added is None or measured.resampled is not None or np.isnan(row.std_err):
        return measured
    error = float(np.hypot(row.std_err, added))
    low, high = influence_interval(row.measure, row.value, error)
    reason = joined(row.reason, FITTED)
    return replace(measured, row=row._replace(std_err=error, low=low, high=high, reason=reason), fit_error=added)


def influence_interval(measure: str, value: float, error: float) -> tuple[float, float]:
    """The interval of a measure from its standard error: for DIS and exit rates on the logit scale, else normal."""
    if measure in ("dis", "premature_rate", "delayed_rate"):
        return logit_interval(value, error)
    return max(value - NORMAL_QUANTILE * error, 0.0), value + NORMAL_QUANTILE * error


def with_reasons(rows: Sequence[Measured], reasons: Mapping[int, str]) -> list[Measured]:
    """The rows, those of a layer that has no score with the reason why."""
    return [
        replace(measured, row=row._replace(reason=joined(row.reason, reasons[row.layer])))
        if (row := measured.row).layer in reasons and row.layer is not None
        else measured
        for measured in rows
    ]
