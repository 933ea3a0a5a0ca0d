"""When a loss on the scored rows counts as another one than was asked for."""

import pytest

from exitbench.benchmarks.protocols.merged_parts import realised_loss


@pytest.mark.parametrize(
    ("lost", "status", "reason"),
    [
        (0.4, "ok", ""),
        (0.5, "ok", ""),
        (2.5, "ok", "over by 2.00: loses 2.50 points on the scored rows"),
        (2.51, "unmatched", "loses 2.51 points on the scored rows, more than two standard errors beyond 0.5"),
    ],
)
def test_a_loss_may_be_over_by_two_standard_errors(lost: float, status: str, reason: str) -> None:
    assert realised_loss(lost, 0.5, error=1.0) == (status, reason)
