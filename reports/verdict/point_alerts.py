"""Alerts about operating points that are not what was asked for: in speed-up, in loss, or no decision at all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from exitbench.benchmarks.results.schema import Row
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.verdict.alert import Alert, grouped, layer_or_point


def unmatched_alerts(shown: Iterable[Row], run: FinishedRun) -> list[Alert]:
    """One alert for all operating points that are too far from the wanted speed-up."""
    unmatched = [
        row
        for row in shown
        if row.status == "unmatched"
        and row.measure == "speed_up"
        and not row.decisions
        and row.operating_point.kind != "loss"
    ]
    meaning = (
        "On the scored rows the speed-up is more than 2 % from the wanted one. Such a cell takes no part in best, "
        "tests and averages; where the signal reaches both sides, the value at exactly that speed-up stands beside it."
    )
    return grouped(
        "caution", "unmatched", "{} not matched in speed-up", meaning, unmatched, run, layer_or_point, "operating point"
    )


def loss_alerts(shown: Sequence[Row], run: FinishedRun) -> list[Alert]:
    """Losses that the scored rows do not keep: clearly beyond the one asked for, or beyond it within the error."""
    beyond = [
        row
        for row in shown
        if row.measure == "realised_loss" and not math.isnan(row.value) and row.value > row.operating_point.number
    ]
    clearly = [row for row in beyond if row.status == "unmatched"]
    barely = [
        row for row in beyond if row.status == "ok" and float(fixed(row.value - row.operating_point.number, 2)) > 0
    ]
    return [
        *grouped(
            "caution",
            "loss-not-kept",
            "{} that lose more than was asked for",
            "The threshold kept to the loss where it was chosen, but on the scored rows it loses more than two "
            "standard errors beyond it (in brackets: asked for, lost). Such a speed-up is not to be had at that loss; "
            "it takes no part in best, tests and averages.",
            clearly,
            run,
            asked_and_lost,
            "operating point",
        ),
        *grouped(
            "note",
            "loss-over",
            "{} over the loss asked for, within the error",
            "On the scored rows they lose a little more than was asked for (in brackets: asked for, lost), by less "
            "than two standard errors.",
            barely,
            run,
            asked_and_lost,
            "operating point",
        ),
    ]


def asked_and_lost(row: Row) -> str:
    """The loss that was asked for and the one that the scored rows realise."""
    return f"{row.operating_point.number:g}: {fixed(row.value, 2)}"


def degenerate_alerts(shown: Iterable[Row], run: FinishedRun) -> list[Alert]:
    """One alert for all operating points at which the signal decides nothing."""
    degenerate = [
        row for row in shown if row.status == "degenerate" and row.measure == "speed_up" and not row.decisions
    ]
    meaning = (
        "Every sample exits at one and the same layer, so such a cell shows a fixed layer and not the signal. It takes "
        "no part in best, tests and averages."
    )
    return grouped(
        "caution", "degenerate", "{} without a decision", meaning, degenerate, run, layer_or_point, "operating point"
    )
