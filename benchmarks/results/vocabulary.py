"""The words that result files, suites and reports share: measures, bounds, protocols, levels."""

from __future__ import annotations

from typing import Literal

PROTOCOLS = ("in-sample", "cross-fit", "held-out")


MEDIAN, ALL = "median", "all"
"""Words that stand for thresholds in a suite."""


Ties = Literal["half", "strict"]


TIES: tuple[Ties, ...] = ("half", "strict")
"""What a tied pair counts for DIS: one half, or nothing."""


MEASURES = (
    "dis", "tied_share", "aurc", "excess_aurc", "premature_rate", "delayed_rate", "speed_up",
    "accuracy", "f1", "mean_accuracy_f1", "area", "max_speed_up",
)  # fmt: skip


HIGHER_IS_BETTER = frozenset({"dis", "accuracy", "f1", "mean_accuracy_f1", "area", "max_speed_up"})


LOWER_IS_BETTER = frozenset({"aurc", "excess_aurc", "premature_rate", "delayed_rate"})


STATUSES = ("ok", "undefined", "unmatched", "unreliable")


BOUNDS = frozenset({"oracle", "final", "fixed", "random"})
"""Signals that are printed for orientation and never compared."""
