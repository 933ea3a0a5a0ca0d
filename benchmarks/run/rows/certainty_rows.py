"""Rows that need certainties only, no operating point: exit rates at equal shares, and calibration."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.calibration import calibration_errors
from exitbench.benchmarks.measures.equal_share import EqualShareErrors, equal_share_errors
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Verdict, joined
from exitbench.benchmarks.results.vocabulary import EQUAL_SHARE, EXIT_RATES, NORMAL_QUANTILE
from exitbench.benchmarks.scoring.groups import standard_error
from exitbench.benchmarks.statistics.delong import logit_interval


def equal_share_rows(blank: Row, ranking: Ranking) -> list[Row]:
    """Both rates at equal exit shares, over all internal layers and at each."""
    here = blank._replace(decisions=EQUAL_SHARE, n=ranking.samples)
    unscored = [str(layer) for layer in range(1, ranking.layers + 1) if not ranking.scored[layer - 1]]
    reason = f"no score at layer {', '.join(unscored)}: all samples tied there" if unscored else ""
    nowhere = Verdict("undefined", "the signal has no score at any layer")
    verdict = Verdict() if ranking.scored.any() else nowhere
    together = here._replace(reason=joined(verdict.reason or reason, blank.reason))
    judged = [
        (equal_share_errors(piece, layer), piece.verdict(layer))
        for piece in ranking.pieces()
        for layer in range(1, piece.layers + 1)
    ]
    errors = [of_layer for of_layer, _ in judged]
    rows = rate_rows_of(together, sum(errors[1:], start=errors[0]), verdict, ranking.groups)
    for number, (of_layer, verdict) in enumerate(judged, start=1):
        there = here._replace(layer=number, reason=joined(verdict.reason, blank.reason))
        rows += rate_rows_of(there, of_layer, verdict, ranking.groups)
    return rows


def rate_rows_of(
    blank: Row, errors: EqualShareErrors, verdict: Verdict, groups: NDArray[np.int64] | None = None
) -> list[Row]:
    """Premature and delayed rate of some layers, with intervals on the logit scale."""
    rows = []
    for measure in EXIT_RATES:
        here = blank._replace(measure=measure, status=verdict.status)
        value = errors.rate(measure)
        if verdict.status == "undefined" or np.isnan(value):
            none = "" if verdict.reason else "no decision falls on such a prediction"
            rows.append(here._replace(status="undefined", reason=joined(none, blank.reason)))
            continue
        error = standard_error(errors.influence(measure), groups)
        low, high = logit_interval(value, error)
        if error == 0.0 and verdict.status == "ok":
            here = here._replace(status="unreliable", reason=joined("the standard error is 0", blank.reason))
        rows.append(here._replace(value=value, low=low, high=high, std_err=error))
    return rows


def calibration_rows(blank: Row, ranking: Ranking) -> list[Row]:
    """ECE and Brier score at every internal layer, of a signal whose certainty is the probability of being right."""
    rows = []
    for layer in range(1, ranking.layers + 1):
        if not ranking.scored[layer - 1]:
            continue
        certainty, right = ranking.certainty[layer - 1], ranking.right[layer - 1]
        for measure, (value, influence) in calibration_errors(certainty, right).items():
            error = standard_error(influence, ranking.groups)
            reach = NORMAL_QUANTILE * error
            rows.append(
                blank._replace(
                    measure=measure,
                    layer=layer,
                    n=ranking.samples,
                    value=value,
                    low=max(value - reach, 0.0),
                    high=value + reach,
                    std_err=error,
                    status="ok" if error > 0.0 else "unreliable",
                    reason=blank.reason if error > 0.0 else joined("the standard error is 0", blank.reason),
                )
            )
    return rows
