"""The numbers of one suite entry under one protocol, as rows of ``results.parquet``.

A row may come with its resamples, which stage three needs for paired tests: :class:`Measured` holds both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import RateTally
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.part_points import ResampledPoint
from exitbench.benchmarks.replay.operating_points import MATCH_TOLERANCE, ROUNDING
from exitbench.benchmarks.replay.tally import Tally, verdict
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Estimate, joined
from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE, Ties
from exitbench.benchmarks.run.certainty_rows import calibration_rows, equal_share_rows
from exitbench.benchmarks.run.measurements import Question, question_of
from exitbench.benchmarks.scoring.groups import standard_error
from exitbench.benchmarks.scoring.outcomes import TASK_SCORES, Measure
from exitbench.benchmarks.scoring.score_store import Samples
from exitbench.benchmarks.statistics.aurc_influence import risk_influence
from exitbench.benchmarks.statistics.deals import deal_error, mean_over_deals, stretched
from exitbench.benchmarks.statistics.delong import dis_estimate, logit_interval
from exitbench.benchmarks.statistics.intervals import intervals
from exitbench.benchmarks.suites.questions import Questions

Resampled = NDArray[np.float64]
PointMeasure = Measure | Literal["speed_up", "mean_exit_layer"]

TOGETHER = 1 << 16
"""Samples of a layer times layers that are ranked together; more would only take memory."""


EXACT = "at exactly the speed-up asked for, on the scored samples' own curve: what tests and averages use"

Deals = Mapping[Question, NDArray[np.float64]]
"""The value of each further deal of folds, [deals], by the question it answers; NaN where a deal has none."""


@dataclass(frozen=True, eq=False)
class Measured:
    """One number with, where it was read off a curve, its resamples [resamples].

    Under several deals of folds the value is their mean, ``deals`` has the value of each, and the resamples, which are
    those of the first deal, lie around the mean without the spread between deals.
    """

    row: Row
    resampled: Resampled | None = None
    deals: NDArray[np.float64] | None = None


def measured_rows(
    blank: Row,
    merged: MergedParts,
    samples: Samples,
    questions: Questions,
    first_exit: int,
    further: Deals,
    *,
    is_probability: bool = False,
) -> list[Measured]:
    """Every number of one entry; ``blank`` has the key columns that all rows share, and the entry's own reason.

    ``further`` are the values of further deals of folds. ``is_probability`` says that its certainties are probabilities
    of being right, whose calibration is measured.
    """
    rows: list[Measured] = []
    primary = with_choice(blank, merged, merged.choices.primary)
    ranking = merged.ranking(samples.outcomes.correct[:-1])
    rows += ranking_rows(primary, ranking, first_exit, questions.ties)
    rows += [Measured(row) for row in equal_share_rows(primary, ranking)]
    if is_probability:
        rows += [Measured(row) for row in calibration_rows(primary, ranking)]
    for point in merged.operating_points:
        here = with_choice(blank, merged, point)._replace(operating_point=point)
        rows += point_rows(here, merged.at(point), samples)
        if point.kind == "loss":
            rows += loss_rows(here, merged, samples)
    rates_point = merged.choices.rates
    rows += rate_rows(with_choice(blank, merged, rates_point)._replace(operating_point=rates_point), merged, samples)
    return with_intervals([over_deals(measured, further) for measured in rows])


def with_choice(blank: Row, merged: MergedParts, point: OperatingPoint) -> Row:
    """The blank of rows that use what was chosen at an operating point: its words and its column."""
    words, chosen = merged.choices.described(point)
    return blank._replace(reason=joined(words, blank.reason), chosen=chosen)


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


def influence_interval(measure: str, value: float, error: float) -> tuple[float, float]:
    """The interval of a measure of one layer from its standard error: on the logit scale for DIS, else normal."""
    if measure == "dis":
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
    early = (
        f"no exit here: before layer {first_exit}, the first that may exit" if (blank.layer or 0) < first_exit else ""
    )
    here = blank._replace(
        status="no-exit" if early and estimate.status != "undefined" else estimate.status,
        reason=joined(early, estimate.reason, blank.reason),
    )
    defined, scored = estimate.status != "undefined", bool(ranking.scored[row])
    rows = [
        here._replace(
            measure="dis", value=estimate.value, low=estimate.low, high=estimate.high, std_err=estimate.std_err
        ),
        here._replace(measure="tied_share", value=float(ranking.tied_share[row]) if defined else np.nan),
    ]
    # AURC exists wherever there are scores, also at a layer that makes no error at all.
    status = here.status if defined else ("undefined" if not scored else "no-exit" if early else "unreliable")
    influences = risk_influence(ranking, row + 1)
    for measure, values, influence in zip(
        ("aurc", "excess_aurc"), (ranking.aurc, ranking.excess_aurc), influences, strict=True
    ):
        value, error = float(values[row]), standard_error(influence, ranking.groups) if scored else np.nan
        low = max(value - NORMAL_QUANTILE * error, 0.0) if scored else np.nan
        high = value + NORMAL_QUANTILE * error
        rows.append(here._replace(measure=measure, value=value, low=low, high=high, std_err=error, status=status))
    return [Measured(measured) for measured in rows]


def point_rows(blank: Row, value: ResampledPoint, samples: Samples) -> list[Measured]:
    """Speed-up and task scores at one operating point; beside one that is not near enough, the randomised values."""
    threshold = None if np.isnan(value.threshold) else value.threshold
    here = blank._replace(n=samples.size, threshold=threshold, reason=joined(value.reason, blank.reason))
    if value.status == "undefined":
        blanks = [
            "speed_up",
            *samples.outcomes.measures,
            *(["max_speed_up"] if blank.operating_point.kind == "loss" else []),
        ]
        return [Measured(here._replace(measure=name, status="undefined", threshold=None)) for name in blanks]
    rows = tally_rows(here, value.tally, value.resampled, samples, value.status)
    if blank.operating_point.kind == "loss":
        speed = next(measured for measured in rows if measured.row.measure == "speed_up")
        rows.append(replace(speed, row=speed.row._replace(measure="max_speed_up")))
    if value.status == "ok" and value.exactly is not None:
        exact = blank._replace(decisions="randomised", reason=joined(EXACT, blank.reason))
        rows += tally_rows(exact, value.exactly, value.exactly_resampled, samples)[1:]  # its speed-up is what was asked
    if value.randomised is not None and (
        value.status == "unmatched" or (value.status == "degenerate" and not _is_near(blank, value))
    ):
        how = "the expected value when randomising between the two neighbouring operating points"
        beside = blank._replace(n=samples.size, decisions="randomised", reason=joined(how, blank.reason))
        names: tuple[Measure | Literal["speed_up"], ...] = ("speed_up", *samples.outcomes.measures)
        for measure in names:
            rows.append(Measured(beside._replace(measure=measure, value=float(read(value.randomised, measure)))))
    return rows


def _is_near(blank: Row, value: ResampledPoint) -> bool:
    """Whether a degenerate value counts as being at the speed-up asked for."""
    asked = blank.operating_point.number
    return bool(abs(value.speed_up - asked) <= (MATCH_TOLERANCE + ROUNDING) * asked)


def loss_rows(blank: Row, merged: MergedParts, samples: Samples) -> list[Measured]:
    """The loss that the scored rows realise, in points: it stands beside the one that was asked for."""
    value = merged.at(blank.operating_point)
    here = blank._replace(measure="realised_loss", n=samples.size, reason=joined(value.reason, blank.reason))
    if value.status == "undefined":
        return [Measured(here._replace(status="undefined"))]
    lost, draws = merged.loss(value)
    return [Measured(here._replace(value=lost, status=value.status), draws)]


def tally_rows(
    blank: Row, tally: Tally, resampled: Tally | None, samples: Samples, status: str = "ok"
) -> list[Measured]:
    """Speed-up and task scores of one tally, ready for intervals where there are resamples."""
    rows: list[Measured] = []
    for measure in point_measures(samples):
        here = blank._replace(measure=measure, n=samples.size)
        value = float(read(tally, measure))
        if measure in TASK_SCORES:
            judged = verdict(tally, measure)
            if judged.status != "ok":
                rows.append(Measured(here._replace(status=judged.status, reason=joined(judged.reason, blank.reason))))
                continue
        draws = None if resampled is None else read(resampled, measure)
        rows.append(Measured(here._replace(value=value, status=status), draws))
    return rows


def point_measures(samples: Samples) -> tuple[PointMeasure, ...]:
    """What is read off an operating point; the mean exit layer, which otherwise the speed-up tells, only with costs."""
    layers: tuple[PointMeasure, ...] = () if samples.costs is None else ("mean_exit_layer",)
    return ("speed_up", *layers, *samples.outcomes.measures)


def read(tally: Tally, measure: PointMeasure) -> NDArray[np.float64]:
    """The speed-up, the mean exit layer or a task score of a tally, in its shape."""
    if measure == "speed_up":
        return tally.speed_up
    return tally.mean_exit_layer if measure == "mean_exit_layer" else tally.score(measure)


def rate_rows(blank: Row, merged: MergedParts, samples: Samples) -> list[Measured]:
    """Premature and delayed rates: ``all`` and ``reached`` over all layers, and both per layer."""
    point = blank.operating_point
    value = merged.at(point)
    status, threshold = value.status, None if np.isnan(value.threshold) else value.threshold
    here = blank._replace(n=samples.size, threshold=threshold, reason=joined(value.reason, blank.reason))
    every, every_draws = merged.every_decision
    reached, reached_draws = merged.reached_decisions
    together, together_draws = every.sum_layers(), every_draws.sum_layers()
    rows = _rates(here._replace(decisions="all"), together, together_draws, status)
    share = here._replace(decisions="all", measure="exit_share", value=float(together.exit_share), status=status)
    rows.append(Measured(share, together_draws.exit_share))
    rows += _rates(here._replace(decisions="reached"), reached.sum_layers(), reached_draws, status)
    for layer in range(1, samples.depth):
        there = here._replace(layer=layer)
        draws = _of_layer(every_draws, layer)
        rows += _rates(there._replace(decisions="all"), _of_layer(every, layer), draws, status)
        rows += _rates(there._replace(decisions="reached"), _of_layer(reached, layer), None, status)
    return rows


def _of_layer(tally: RateTally, layer: int) -> RateTally:
    sums = (tally.wrong_exits, tally.wrong_decisions, tally.right_continuations, tally.right_decisions)
    return RateTally(*(np.asarray(array)[layer - 1] for array in sums))


def _rates(blank: Row, tally: RateTally, draws: RateTally | None, status: str) -> list[Measured]:
    rows: list[Measured] = []
    for measure, kind in (("premature_rate", "wrong"), ("delayed_rate", "right")):
        here = blank._replace(measure=measure)
        value = float(tally.premature if kind == "wrong" else tally.delayed)
        if np.isnan(value):
            none = f"no decision falls on a {kind} prediction"
            rows.append(Measured(here._replace(status="undefined", reason=joined(none, blank.reason))))
            continue
        drawn = None if draws is None else np.asarray(draws.premature if kind == "wrong" else draws.delayed)
        rows.append(Measured(here._replace(value=value, status=status), drawn))
    return rows
