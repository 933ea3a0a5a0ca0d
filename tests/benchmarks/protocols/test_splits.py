"""Parts of protocols by name, and the folds inside a part."""

import numpy as np
import pytest

from exitbench.benchmarks.protocols.splits import inner_folds, parts_of
from exitbench.benchmarks.statistics.hashed_randomness import folds

IDS = np.arange(100, 400)


def test_parts_have_a_label_for_people_and_a_variant_for_fits() -> None:
    (held_out,) = parts_of("held-out", IDS, seed=3, count=4, calibration=7)
    assert (held_out.label, held_out.variant, held_out.train_role) == ("calibration cache", "held-out", "calibration")
    assert (held_out.train.tolist(), held_out.test.tolist()) == ([True] * 7, [True] * 300)
    first, second = parts_of("cross-fit", IDS, seed=3, count=2)
    assert [(part.label, part.variant) for part in (first, second)] == [("fold 1", "fold-0"), ("fold 2", "fold-1")]


@pytest.mark.parametrize(("count", "own"), [(2, False), (3, False), (4, True), (5, True)])
def test_a_parts_own_folds_serve_inside_it_where_three_are_left(count: int, own: bool) -> None:
    for part in parts_of("cross-fit", IDS, seed=3, count=count):
        used = inner_folds(part, IDS, 3)
        assert np.array_equal(used, folds(IDS, 3, count)) == own
        if not own:
            assert set(used.tolist()) == set(range(5)), "five, dealt anew"
