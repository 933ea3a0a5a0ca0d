"""Premature and delayed exit rates, over all internal layers and at each."""

from __future__ import annotations

import numpy as np

from exitbench.benchmarks.measures.exit_rates import DECISIONS, RateTally
from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import joined
from exitbench.benchmarks.run.rows.measured import Measured
from exitbench.benchmarks.scoring.score_store import Samples

NO_INTERVAL = "exit rates have intervals at the suite's rates_speed_up only"


def rate_rows(blank: Row, merged: MergedParts, samples: Samples) -> list[Measured]:
    """Premature and delayed rates: ``all`` and ``reached`` over all layers, and both per layer."""
    point = blank.operating_point
    value = merged.at(point)
    status, reason = value.status, joined(value.reason, blank.reason)
    here = blank._replace(n=samples.size, threshold=value.printed_threshold, reason=reason)
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


def further_rate_rows(blank: Row, merged: MergedParts, samples: Samples) -> list[Measured]:
    """Both rates over all layers at a speed-up other than the rates' own: what an explorer shows, without intervals."""
    value = merged.at(blank.operating_point)
    reason = joined(value.reason, blank.reason, NO_INTERVAL)
    here = blank._replace(n=samples.size, threshold=value.printed_threshold, reason=reason)
    rows: list[Measured] = []
    for decisions, tally in zip(DECISIONS, merged.decisions_at(blank.operating_point), strict=True):
        rows += _rates(here._replace(decisions=decisions), tally.sum_layers(), None, value.status)
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
