"""Exit events against a walk along the layers of every sample."""

import numpy as np
import pytest

from exitbench.benchmarks.replay.exit_events import exit_events
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from tests.support.for_each import for_each


def literal_events(certainty: np.ndarray) -> set[tuple[int, int, int]]:
    """Sample, earlier and later layer of every move: the layers at which a sample is more certain than ever before."""
    depth, moves = len(certainty) + 1, set()
    for sample, column in enumerate(certainty.T):
        records = [layer for layer, value in enumerate(column, start=1) if value > max(column[: layer - 1], default=-9)]
        moves |= set(zip([sample] * len(records), records, [*records[1:], depth], strict=True))
    return moves


@for_each(seed=range(20))
def test_a_sample_moves_once_for_every_record_of_its_certainty(seed):
    rng = np.random.default_rng(seed)
    certainty = rng.integers(0, 4, (5, 12)).astype(float) if seed % 2 else rng.normal(size=(5, 12))
    events = exit_events(SignalScores(certainty, ">="))
    moves = list(zip(events.samples.tolist(), events.earlier.tolist(), events.later.tolist(), strict=True))
    assert set(moves) == literal_events(certainty)
    assert len(moves) == len(set(moves))
    value = [certainty[earlier - 1, sample] for sample, earlier, _ in moves]
    assert value == sorted(value, reverse=True)


def test_of_very_many_samples_each_moves_to_the_first_layer_at_last():
    certainty = np.random.default_rng(0).random((2, 400_000))
    events = exit_events(SignalScores(certainty, ">="))
    assert np.bincount(events.earlier)[1:].tolist() == [400_000, int((certainty[1] > certainty[0]).sum())]


def test_a_threshold_lies_between_numbers_whose_sum_is_beyond_all_numbers():
    _, between, _ = exit_events(SignalScores(np.array([[1.7e308, 1.6e308]]), ">=")).thresholds_at(np.arange(3))
    assert 1.6e308 < between <= 1.7e308


@pytest.mark.parametrize("fill", [0, 1])
def test_what_memory_held_before_plays_no_part(fill, monkeypatch):
    silent = np.array([[np.nan] * 3, [0.5, 0.2, 0.9], [0.6, 0.1, 0.9]])
    full = np.full
    monkeypatch.setattr(np, "empty", lambda shape, dtype=float: full(shape, fill, dtype))
    for certainty, first in ((silent, 2), (silent[1:], 1)):
        events = exit_events(SignalScores(certainty, ">="))
        moves = list(zip(events.samples.tolist(), events.earlier.tolist(), events.later.tolist(), strict=True))
        second, last = first + 1, first + 2
        assert sorted(moves) == [(0, first, second), (0, second, last), (1, first, last), (2, first, last)]
