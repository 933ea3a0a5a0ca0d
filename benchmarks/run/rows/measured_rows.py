"""All numbers of one suite entry under one protocol; those at operating points are made here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.set_aside import set_aside
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.part_result import ResampledPoint
from exitbench.benchmarks.replay.operating_points import MATCH_TOLERANCE, ROUNDING
from exitbench.benchmarks.replay.tally import Tally, score_influence, score_verdict
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import joined
from exitbench.benchmarks.run.measurements import Question
from exitbench.benchmarks.run.rows.certainty_rows import calibration_rows, equal_share_rows
from exitbench.benchmarks.run.rows.exit_rate_rows import further_rate_rows, rate_rows
from exitbench.benchmarks.run.rows.measured import Deals, Measured, over_deals, with_fit_error, with_intervals
from exitbench.benchmarks.run.rows.ranking_rows import ranking_rows
from exitbench.benchmarks.scoring.outcomes import TASK_SCORES, Measure
from exitbench.benchmarks.scoring.score_store import Samples
from exitbench.benchmarks.suites.questions import Questions

PointMeasure = Measure | Literal["speed_up", "mean_exit_layer"]


EXACT = "at exactly the speed-up asked for, on the scored samples' own curve: what tests and averages use"


def measured_rows(
    blank: Row,
    merged: MergedParts,
    samples: Samples,
    questions: Questions,
    first_exit: int,
    further: Deals,
    fitting: Mapping[Question, float],
    *,
    is_probability: bool = False,
) -> list[Measured]:
    """Every number of one entry; ``blank`` has the key columns that all rows share, and the entry's own reason.

    ``further`` are the values of further deals of folds, ``fitting`` the errors that come from fits.
    ``is_probability`` says that its certainties are probabilities of being right, whose calibration is measured.
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
    for point in merged.further_speed_ups:
        here = with_choice(blank, merged, point)._replace(operating_point=point)
        rows += further_rate_rows(here, merged, samples)
    return with_intervals([with_fit_error(over_deals(measured, further), fitting) for measured in rows])


def with_choice(blank: Row, merged: MergedParts, point: OperatingPoint) -> Row:
    """The blank of rows that use what was chosen at an operating point: its words and its column."""
    words, chosen = merged.choices.described(point)
    return blank._replace(reason=joined(words, blank.reason), chosen=chosen)


def point_rows(blank: Row, value: ResampledPoint, samples: Samples) -> list[Measured]:
    """Speed-up and task scores at one operating point; beside one that is not near enough, the randomised values."""
    shared = joined(value.reason, blank.reason)
    here = blank._replace(n=samples.size, threshold=value.printed_threshold, reason=shared)
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
            judged = score_verdict(tally, measure)
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


def score_influences(merged: MergedParts) -> dict[Question, NDArray[np.float64]]:
    """How much each scored sample moves every task score near a speed-up, [samples] each: means over deals of folds.

    Nothing where a choice among configurations or another cache has a part in the scores, which these leave out.
    """
    if not merged.choices.single or merged.parts[0].train_role != "test":
        return {}
    influences: dict[Question, NDArray[np.float64]] = {}
    for point in merged.operating_points:
        if point.kind != "speed_up":
            continue
        dealt = [deal.at(point).exits for deal in (merged, *merged.deals)]
        for measure in merged.samples.outcomes.measures:
            moved = [score_influence(exits, merged.samples.outcomes, measure) for exits in dealt if exits is not None]
            influences[point, None, "", measure] = set_aside(np.mean(moved, axis=0))
    return influences
