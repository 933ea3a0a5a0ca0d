"""The words and levels that suites, results and reports share: protocols, measures, bounds, confidence."""

from __future__ import annotations

from typing import Literal

RESULTS_SCHEMA = 2
"""The number in ``run.json`` that says which columns the result files have."""

PROTOCOLS = ("in-sample", "cross-fit", "held-out")
CERTIFIED = "certified"
"""The protocol of promises, whatever protocols a suite names: half of the rows choose, the other half certify."""

MEDIAN, ALL, PER_LAYER = "median", "all", "per-layer"
"""Words for thresholds in a suite."""

Schedule = Literal["shared", "quota", "greedy"]
SCHEDULES: tuple[Schedule, ...] = ("shared", "quota", "greedy")
"""One threshold for all layers, or thresholds of each layer's own: from exit quotas, or from a greedy search."""

Ties = Literal["half", "strict"]
TIES: tuple[Ties, ...] = ("half", "strict")
"""What a tied pair counts for DIS: one half, or nothing."""

HIGHER_IS_BETTER = frozenset({"dis", "accuracy", "f1", "mean_accuracy_f1", "area", "max_speed_up"})
EXIT_RATES = ("premature_rate", "delayed_rate")
LOWER_IS_BETTER = frozenset({"aurc", "excess_aurc", *EXIT_RATES, "ece", "brier"})
FIT_SIZES = ("fitted_parameters", "fitted_rows")
"""How many numbers a signal that learns was given by its fit, and on how many samples: means over a protocol's fits."""

TRAINING_ROWS = "fitted on rows that the network was trained on"
"""The reason on all rows of a signal that learned from such rows: there the network is surer than it is elsewhere."""

CERTIFIED_SPEED_UP = "certified_speed_up"
PROMISED_HARMS = (2.0, 1.0)
PROMISED_CONFIDENCE = 0.9
"""What every run tries to promise: so many points of harm at most, with this confidence."""

MEASURES = (
    HIGHER_IS_BETTER
    | LOWER_IS_BETTER
    | {"tied_share", "speed_up", "realised_loss", "exit_share", *FIT_SIZES, CERTIFIED_SPEED_UP}
)

EQUAL_SHARE = "equal-share"
"""The decisions of exit rates at equal exit shares: at each layer as many samples exit as it gets right."""

DETECTABLE, ADJUSTED = "detectable", "adjusted"
"""The signal of rows that say how small a difference could be shown, and its parameters where all pairs count."""

BOUNDS = frozenset({"oracle", "final", "fixed", "random", DETECTABLE})
"""Signals that tables show for orientation and never compare."""

AVERAGE = "average"
"""The task of rows that average over the tasks of one model, and the model of those over the models of one task."""

SIGNIFICANCE = 0.05
"""A difference is claimed up to this adjusted p-value."""

NORMAL_QUANTILE = 1.959963984540054
"""Standard errors from a value to the end of its 95% interval: the 97.5% quantile of the normal distribution."""


def is_claimed(p_adjusted: float) -> bool:
    """Whether a difference with this adjusted p-value is claimed: marks, tables, verdict and findings all ask here.

    At exactly 5% it is, as in Holm's procedure; without a test (NaN) it is not.
    """
    return p_adjusted <= SIGNIFICANCE
