"""The point values of an entry under one deal of folds, by the question that each answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.calibration import calibration_errors
from exitbench.benchmarks.measures.equal_share import wrong_exits
from exitbench.benchmarks.measures.exit_rates import DECISIONS
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.replay.operating_points import mean_below
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint
from exitbench.benchmarks.results.vocabulary import EQUAL_SHARE, Ties

Values = dict[tuple[OperatingPoint, int | None, str, str], float]
"""Operating point, layer, decisions and measure, as a row of the results has them, to the value."""


def deal_values(merged: MergedParts, ties: Ties, *, is_probability: bool = False) -> Values:
    """Every value that the results have of an entry but its area, without intervals; NaN or absent where none is.

    ``is_probability`` says that its certainties are probabilities of being right, which may be calibrated.
    """
    ranking = merged.ranking(merged.samples.outcomes.correct[:-1])
    by_certainty = certainty_values(ranking, ties, is_probability=is_probability)
    return {**by_certainty, **point_values(merged), **rate_values(merged)}


def certainty_values(ranking: Ranking, ties: Ties, *, is_probability: bool) -> Values:
    """What rests on certainties alone, without an operating point."""
    values: Values = {}
    errors: list[float] = []
    for piece in ranking.pieces():
        values |= ranking_values(piece, ties, first=len(errors) + 1)
        errors += wrong_exits(piece).tolist()
    values |= equal_share_values(ranking, np.array(errors))
    return {**values, **calibration_values(ranking)} if is_probability else values


def ranking_values(ranking: Ranking, ties: Ties, first: int = 1) -> Values:
    """DIS, tied share, AURC and excess AURC at every layer of a ranking, which begins at layer ``first``."""
    columns = {
        "dis": ranking.dis(ties),
        "tied_share": ranking.tied_share,
        "aurc": ranking.aurc,
        "excess_aurc": ranking.excess_aurc,
    }
    return {
        (NOWHERE, layer, "", measure): float(value)
        for measure, column in columns.items()
        for layer, value in enumerate(column, start=first)
    }


def equal_share_values(ranking: Ranking, errors: NDArray[np.float64]) -> Values:
    """Both rates at equal exit shares, over all internal layers and at each; absent where no decision falls so.

    ``errors`` [layers] are the expected numbers of wrong exits.
    """
    values: Values = {}
    for measure, decisions in (("premature_rate", ranking.hard), ("delayed_rate", ranking.easy)):
        if decisions.sum():
            values[NOWHERE, None, EQUAL_SHARE, measure] = 100.0 * float(errors.sum()) / int(decisions.sum())
        for layer in np.flatnonzero(decisions):
            values[NOWHERE, int(layer) + 1, EQUAL_SHARE, measure] = 100.0 * float(errors[layer]) / int(decisions[layer])
    return values


def calibration_values(ranking: Ranking) -> Values:
    """ECE and Brier score at every internal layer with scores."""
    return {
        (NOWHERE, int(layer) + 1, "", measure): value
        for layer in np.flatnonzero(ranking.scored)
        for measure, (value, _) in calibration_errors(ranking.certainty[layer], ranking.right[layer]).items()
    }


def point_values(merged: MergedParts) -> Values:
    """Speed-up, scores and losses at every operating point, also at exactly a speed-up where that exists."""
    values: Values = {}
    for point in merged.operating_points:
        value = merged.at(point)
        values |= tally_values(merged, point, value.tally)
        if value.randomised is not None:
            values |= tally_values(merged, point, value.randomised, "randomised")
        if point.kind == "loss":
            values[point, None, "", "max_speed_up"] = value.speed_up
            values[point, None, "", "realised_loss"] = merged.loss(value)[0]
    return values


def tally_values(merged: MergedParts, point: OperatingPoint, tally: Tally, decisions: str = "") -> Values:
    """Speed-up, mean exit layer and task scores of one tally."""
    named: dict[str, float] = {"speed_up": float(tally.speed_up), "mean_exit_layer": float(tally.mean_exit_layer)}
    named |= {measure: float(tally.score(measure)) for measure in merged.samples.outcomes.measures}
    return {(point, None, decisions, measure): value for measure, value in named.items()}


def rate_values(merged: MergedParts) -> Values:
    """Both exit rates at their speed-up, over all layers and per layer, and over all layers at the other speed-ups."""
    point = merged.choices.rates
    values: Values = {}
    for decisions, (tally, _) in (("all", merged.every_decision), ("reached", merged.reached_decisions)):
        whole = tally.sum_layers()
        values[point, None, decisions, "premature_rate"] = float(whole.premature)
        values[point, None, decisions, "delayed_rate"] = float(whole.delayed)
        values[point, None, decisions, "exit_share"] = float(whole.exit_share)
        for measure, column in (("premature_rate", tally.premature), ("delayed_rate", tally.delayed)):
            for layer, value in enumerate(np.asarray(column), start=1):
                values[point, layer, decisions, measure] = float(value)
    for other in merged.further_speed_ups:
        for decisions, tally in zip(DECISIONS, merged.decisions_at(other), strict=True):
            whole = tally.sum_layers()
            values[other, None, decisions, "premature_rate"] = float(whole.premature)
            values[other, None, decisions, "delayed_rate"] = float(whole.delayed)
    return values


def area_value(merged: MergedParts, area_range: tuple[float, float]) -> float:
    """The mean score over a range of relative costs, from the band's curve; NaN where no cost is reached."""
    kept, (tally, _), measure = merged.reaches, merged.band, merged.samples.measure
    if not kept.any():
        return float("nan")
    final = float(merged.final[0].score(measure))
    return mean_below(tally.relative_cost[kept], tally.score(measure)[kept], final, *area_range)
