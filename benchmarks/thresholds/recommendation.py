"""The answer of ``exitbench threshold`` as a value: a threshold, what to expect of it, and what is promised."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from exitbench.benchmarks.results.status import Estimate
from exitbench.signals.registry.exit_policy import CalibrationExits, Threshold

ESTIMATE_ONLY = "an estimate, not a promise"
"""What is said of a threshold without a guarantee: on new rows the limit is broken about every other time."""


@dataclass(frozen=True)
class Guarantee:
    """What is promised of a threshold, and what it rests on.

    ``limit`` is in the unit of the risk's loss: a share of rows, or of the Brier score. ``confidence`` is ``None`` for
    procedures that promise the mean. ``passed`` of ``grid`` candidates were certified with p-values up to ``level``;
    ``p_value`` is that of the last of them, or of the first that failed where none passed. ``signals`` were looked at.
    """

    risk: str
    limit: float
    confidence: float | None
    procedure: str
    method: str
    rows_choose: int
    rows_certify: int
    grid: int | None
    passed: int
    p_value: float | None
    level: float | None
    signals: int
    sentence: str


@dataclass(frozen=True)
class Recommendation:
    """A threshold with what to expect of it; scores and losses in points, ``loss`` against the final layer.

    ``rows_needed``, where no exit can be certified, is how many rows the cache would need in all, to choose and to
    certify, if further ones were like these; ``None`` where more would not help. ``calibration`` says where rows that
    the threshold is certified or chosen on exit, for an exit policy; it is no part of the JSON.
    """

    cache: str
    signal: dict[str, Any]
    text: str
    chosen: str
    exits_when: str
    threshold: Threshold
    speed_up: Estimate
    score: Estimate
    loss: Estimate
    measure: str
    final_score: float
    protocol: str
    samples: int
    target: str = "labels"
    guarantee: Guarantee | None = None
    rows_needed: int | None = None
    calibration: CalibrationExits | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values; ``signal`` is the chosen signal with what it learned, ready for ``from_json``."""
        record = asdict(replace(self, calibration=None)) | {"note": "" if self.guarantee is not None else ESTIMATE_ONLY}
        del record["calibration"]
        return record
