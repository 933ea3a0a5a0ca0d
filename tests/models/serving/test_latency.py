"""Times of requests, by a clock that ticks once for every layer that runs: all of them can be counted by hand."""

import itertools

import numpy as np
import pytest

from exitbench.errors import InputError
from exitbench.models import EarlyExitClassifier, Tokens
from exitbench.models.serving.latency import (
    CONTINUOUS,
    EXITS,
    FULL,
    STATIC,
    RequestTimes,
    WallClock,
    clock_of,
    ratio_interval,
    time_requests,
)
from exitbench.models.timing import random_batch, random_model
from exitbench.signals import load_registry

DEPTH = 4


def counted(exit_layers: list[int], batch_size: int, texts: int = 5) -> dict[str, RequestTimes]:
    """The times of requests that exit at given layers, in layers that ran."""
    model = random_model(layers=DEPTH, width=64, intermediate=64, classes=2, positions=20)
    now = itertools.count()
    ticks = [0.0]
    for layer in model.backbone.encoder.layer:
        layer.register_forward_pre_hook(lambda module, inputs: ticks.__setitem__(0, 1.0 + next(now)))
    tokens = Tokens(random_batch(model, texts, 6).input_ids.tolist(), None, None, 0, 0)
    rows = time_requests(
        EarlyExitClassifier(model, load_registry().make("deebert"), 0.5),
        tokens,
        batch_sizes=[batch_size],
        requests=len(exit_layers),
        exit_layers=exit_layers,
        clock=WallClock(lambda: ticks[0]),
    )
    assert all(row.requests == len(exit_layers) and row.batch_size == batch_size for row in rows)
    return {row.way: row for row in rows}


@pytest.mark.long
def test_alone_a_request_waits_for_its_own_layers() -> None:
    exits = [1, 2, 4, 1] * 20
    rows = counted(exits, 1)
    assert list(rows) == [FULL, STATIC, EXITS, CONTINUOUS]
    for way in (EXITS, CONTINUOUS):
        assert rows[way].mean_layers == 2.0
        assert (rows[way].p50, rows[way].p95, rows[way].p99) == tuple(np.percentile(exits, [50, 95, 99]))
        assert rows[way].per_second == pytest.approx(1 / 2)
        assert rows[way].speed_up == pytest.approx(2.0)
    assert (rows[FULL].p50, rows[FULL].mean_layers, rows[FULL].per_second) == (4.0, 4.0, 1 / 4)
    assert (rows[FULL].speed_up, rows[FULL].speed_up_low, rows[FULL].speed_up_high) == (1.0, 1.0, 1.0)
    assert (rows[STATIC].p50, rows[STATIC].p99, rows[STATIC].mean_layers) == (2.0, 2.0, 2.0)


@pytest.mark.long
def test_a_static_network_between_two_depths_has_the_mean_of_both() -> None:
    rows = counted([1, 1, 2, 3] * 16, 1)
    assert rows[STATIC].mean_layers == pytest.approx(7 / 4, abs=1 / 64)
    assert {rows[STATIC].p50, rows[STATIC].p99} == {2.0}
    assert rows[STATIC].per_second == pytest.approx(4 / 7, abs=0.01)


@pytest.mark.long
def test_a_batch_that_is_answered_together_waits_for_its_slowest_and_a_continuous_one_does_not() -> None:
    # Of every eight requests one takes all layers: it holds up its batch, and nobody in a stream.
    exits = [1, 1, 1, 1, 1, 1, 1, 4] * 12
    rows = counted(exits, 8)
    assert rows[EXITS].p50 == rows[FULL].p50 == 4.0
    assert rows[CONTINUOUS].p50 < 4.0
    assert rows[CONTINUOUS].mean_layers == rows[EXITS].mean_layers == np.mean(exits)
    # Fewer, fuller batches: by a clock that counts batches that is what it saves.
    assert rows[CONTINUOUS].per_second > rows[EXITS].per_second == pytest.approx(8 / 4)


def test_every_way_has_the_same_requests_whatever_is_left_over() -> None:
    rows = counted([1, 3] * 25, 8, texts=3)
    assert {row.requests for row in rows.values()} == {50}
    assert rows[EXITS].mean_layers == rows[CONTINUOUS].mean_layers == 2.0


@pytest.mark.parametrize("requests", [8, 40])
def test_few_rounds_give_the_ratio_of_all_their_time(requests: int) -> None:
    # In a stream the first of two turns ends with samples inside: their time is the second's.
    rows = counted([1, 4] * (requests // 2), 8)
    for row in rows.values():
        assert row.speed_up == pytest.approx(row.per_second / rows[FULL].per_second)
        assert (row.speed_up_low is None) == (requests == 8)


def test_the_interval_of_a_ratio_is_that_of_its_linearisation() -> None:
    above, below = np.array([4.0, 5.0, 6.0, 5.0]), np.array([2.0, 2.0, 3.0, 3.0])
    ratio, low, high = ratio_interval(above, below)
    assert ratio == 2.0
    # Residuals 0, 1, 0, -1 over a mean of 2.5: a standard error of sqrt(2 / 3) / 2.5 / 2, three degrees of freedom.
    reach = 3.182446 * np.sqrt(2 / 3) / 2.5 / 2
    assert (low, high) == (pytest.approx(2 - reach), pytest.approx(2 + reach))


def test_without_texts_nothing_is_timed() -> None:
    model = random_model(layers=2, width=64, intermediate=64, classes=2, positions=20)
    classifier = EarlyExitClassifier(model, load_registry().make("deebert"), 0.5)
    with pytest.raises(InputError, match="expected texts to time and at least one request, found 0 and 3"):
        time_requests(classifier, Tokens([], None, None, 0, 0), batch_sizes=[1], requests=3)
    assert isinstance(clock_of(model.device), WallClock)
