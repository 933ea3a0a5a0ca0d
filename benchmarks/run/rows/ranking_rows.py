"""How well scores rank right answers above wrong ones at every internal layer: DIS, tied share, AURC, excess AURC."""

from __future__ import annotations

import itertools

import numpy as np

from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import joined
from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE, Ties
from exitbench.benchmarks.run.rows.measured import Measured
from exitbench.benchmarks.scoring.groups import standard_error
from exitbench.benchmarks.statistics.aurc_influence import risk_influence
from exitbench.benchmarks.statistics.delong import dis_estimate


def ranking_rows(blank: Row, ranking: Ranking, first_exit: int, ties: Ties = "half") -> list[Measured]:
    """DIS, tied share, AURC and excess AURC at every internal layer."""
    rows: list[Measured] = []
    layers = itertools.count(1)
    for here in ranking.pieces():
        for row in range(here.layers):
            named = blank._replace(layer=next(layers), n=ranking.samples)
            rows += _layer_rows(named, here, row, first_exit, ties)
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
