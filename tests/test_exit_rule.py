"""The exit rule is the one that a reader of the definition would write as a loop."""

from typing import get_args

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from exitbench.exit_rule import Direction, exits


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, (4, 6), elements=st.integers(0, 4).map(float)),
    st.sampled_from(get_args(Direction)),
    st.integers(1, 4),
    st.integers(-1, 5),
)
def test_exits_are_those_of_the_rule_read_aloud(
    scores: np.ndarray, direction: Direction, first: int, threshold: int
) -> None:
    comparison = {"<": float.__lt__, "<=": float.__le__, ">": float.__gt__, ">=": float.__ge__}[direction]
    expected = []
    for sample in range(6):
        layers = [m for m in range(first, 5) if comparison(float(scores[m - 1, sample]), float(threshold))]
        expected.append(layers[0] if layers else 5)
    assert exits(scores, direction, first, threshold).tolist() == expected


def test_a_nan_never_exits() -> None:
    scores = np.full((2, 1), np.nan)
    for direction in get_args(Direction):
        assert exits(scores, direction, 1, 0.0).tolist() == [3]
