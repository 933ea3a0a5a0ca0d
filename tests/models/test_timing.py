"""Timing in turns, medians with intervals, and the sizes of real networks."""

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import binom

from exitbench.errors import InputError
from exitbench.models import EarlyExitClassifier, MultiExitConfig, MultiExitModel, Tokens
from exitbench.models.network.families import FAMILIES
from exitbench.models.network.sizes import network_sizes, parameter_counts
from exitbench.models.timing import (
    PLAIN,
    interleaved,
    measured_speed_up,
    median_interval,
    plain_answer,
    random_batch,
    random_model,
    summary,
    time_signals,
)
from exitbench.signals import load_registry
from tests.support.tiny_models import save_backbone, tiny_backbone


def small(classes: int = 2) -> MultiExitModel:
    return random_model(layers=3, width=64, intermediate=96, classes=classes, positions=20)


def test_contenders_take_turns_and_every_place_is_taken_equally_often() -> None:
    order: list[str] = []
    contenders = {name: (lambda name=name: order.append(name)) for name in "abc"}
    interleaved(contenders, rounds=6)
    rounds = [order[at : at + 3] for at in range(0, 18, 3)]
    assert all(sorted(entry) == ["a", "b", "c"] for entry in rounds)
    for position in range(3):
        assert Counter(entry[position] for entry in rounds) == {"a": 2, "b": 2, "c": 2}


def test_the_clock_is_read_around_each_call() -> None:
    now = itertools.count()
    spent = {"slow": 5, "fast": 1}

    def spend(name: str) -> None:
        for _ in range(spent[name]):
            next(now)

    ticks = interleaved({name: (lambda name=name: spend(name)) for name in spent}, 4, clock=lambda: float(next(now)))
    assert ticks["slow"].tolist() == [6.0] * 4
    assert ticks["fast"].tolist() == [2.0] * 4


def test_a_machine_that_slows_down_moves_no_overhead() -> None:
    plain = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    measured = {entry.name: entry for entry in summary({PLAIN: plain, "cap": 1.1 * plain})}
    assert measured["cap"].overhead.value == pytest.approx(10)
    assert measured["cap"].overhead.low == pytest.approx(10)
    assert measured["cap"].overhead.high == pytest.approx(10)
    assert measured["cap"].seconds.value == pytest.approx(8.8)
    assert measured[PLAIN].overhead.value == 0


@pytest.mark.parametrize("rounds", [6, 9, 15, 21, 40])
def test_the_interval_of_a_median_holds_what_it_promises_and_not_much_more(rounds: int) -> None:
    measured = median_interval(np.arange(1.0, rounds + 1))
    assert measured.value == (rounds + 1) / 2
    assert measured.low + measured.high == rounds + 1
    # The true median lies below value number k with probability P(Binomial(n, 1/2) < k).
    k = int(measured.low)
    assert 2 * binom.cdf(k - 1, rounds, 0.5) <= 0.05
    assert 2 * binom.cdf(k, rounds, 0.5) > 0.05


def test_few_rounds_give_the_whole_range() -> None:
    measured = median_interval(np.array([3.0, 1.0, 2.0]))
    assert (measured.low, measured.value, measured.high) == (1.0, 2.0, 3.0)


def test_every_signal_is_timed_on_every_layer_beside_the_plain_network() -> None:
    model = small()
    registry = load_registry()
    signals = [registry.make(text) for text in ("deebert", "pabee", "cap[alpha=0.1]")]
    layers: list[int] = []
    for layer in model.backbone.encoder.layer:
        layer.register_forward_pre_hook(lambda module, inputs: layers.append(len(inputs[0])))
    rounds = 4
    measured = time_signals(model, signals, random_batch(model, 2, 20), rounds=rounds)
    assert [entry.name for entry in measured] == [PLAIN, "deebert", "pabee", "cap[alpha=0.1]"]
    assert all(0 < entry.seconds.low <= entry.seconds.value <= entry.seconds.high for entry in measured)
    assert len(layers) == len(measured) * (rounds + 1) * model.depth
    assert set(layers) == {2}


def test_the_plain_network_is_the_last_layer_of_all() -> None:
    model = small(classes=3)
    batch = random_batch(model, 6, 20)
    with torch.no_grad():
        assert torch.equal(plain_answer(model, batch), model(batch).logits[-1].argmax(dim=1))


def test_random_inputs_and_models_are_the_same_every_time() -> None:
    model = small()
    assert torch.equal(random_batch(model, 2, 9).input_ids, random_batch(model, 2, 9).input_ids)
    assert torch.equal(model.head(2).weight, small().head(2).weight)


def test_a_width_without_whole_attention_heads_is_refused() -> None:
    with pytest.raises(InputError, match="a multiple of 64, the width of an attention head, found 100"):
        random_model(layers=2, width=100, intermediate=64, classes=2, positions=20)


def test_no_round_is_no_measurement() -> None:
    with pytest.raises(InputError, match="at least one round, found 0"):
        interleaved({"a": lambda: None}, 0)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_sizes_of_every_family_are_found(family: str) -> None:
    model = MultiExitModel(tiny_backbone(family), MultiExitConfig(("no", "yes")))
    sizes = network_sizes(model)
    assert (sizes["layers"], sizes["width"], sizes["intermediate"]) == (4, 16, 32)
    assert sizes["positions"] == 160


@pytest.mark.parametrize(("pooler", "poolers"), [("none", 0), ("shared", 1), ("per-layer", 4)])
def test_heads_and_poolers_are_counted_in_the_weights(pooler: str, poolers: int, tmp_path: Path) -> None:
    config = MultiExitConfig(("a", "b", "c"), "mean", pooler)  # type: ignore[arg-type]
    counts = parameter_counts(MultiExitModel.from_backbone(save_backbone(tmp_path / "encoder"), config))
    head, dense = 16 * 3 + 3, 16 * 16 + 16
    assert counts["heads"] == 4 * head
    assert counts["poolers"] == poolers * dense
    assert counts["extra"] == 3 * head + max(poolers - 1, 0) * dense


def test_the_speed_up_by_the_clock_is_taken_over_the_same_batches() -> None:
    model = small()
    signal = load_registry().make("deebert")
    ids = random_batch(model, 7, 9).input_ids.tolist()
    tokens = Tokens(ids, None, None, 0, 0)
    now = itertools.count()
    exits_at_once = EarlyExitClassifier(model, signal, float("inf"))
    measured = measured_speed_up(exits_at_once, tokens, batch_size=3, clock=lambda: float(next(now)))
    assert measured.by_layers == 3.0
    # Three batches, one tick each on either side.
    assert (measured.plain_seconds, measured.live_seconds, measured.by_clock) == (3.0, 3.0, 1.0)
    assert measured_speed_up(EarlyExitClassifier(model, signal, -1.0), tokens, batch_size=7).by_layers == 1.0
