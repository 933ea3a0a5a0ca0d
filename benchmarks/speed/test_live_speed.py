"""Live speed: a signal's step against one encoder layer, and what exits save by the clock.

Both are ratios of times measured in turns on one machine, so they hold on any. Run with

    pytest benchmarks/speed/test_live_speed.py --override-ini addopts= -s
"""

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
import torch

from benchmarks.curve import trade_off_curve
from benchmarks.operating import matched
from benchmarks.scored import signal_scores
from benchmarks.stage_scores import describe
from benchmarks.task_score import Outcomes
from exitbench.models import EarlyExitClassifier, MultiExitModel, Tokens
from exitbench.models.inference import live_layer, model_heads
from exitbench.models.timing import interleaved, measured_speed_up, random_batch, random_model
from signals import ExitSignal, load_registry, score_layers, validated_score

SIGNALS = ("deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap")
LARGEST_SHARE = 0.02
"""A signal's step may take this part of one encoder layer's time, 768 wide, one sample of 128 tokens."""

STEPS = 50
"""Steps timed in a row."""

SMALLEST_SPEED_UP = 1.7
"""By the clock, where layers are halved in batches of 32."""


@pytest.fixture(scope="module", autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def model() -> MultiExitModel:
    return random_model(layers=12, width=768, intermediate=3072, classes=2, positions=128)


@pytest.mark.parametrize("name", SIGNALS)
def test_a_step_costs_little_beside_a_layer(name: str, model: MultiExitModel) -> None:
    signal = load_registry().make(name)
    batch = random_batch(model, 1, 128)
    hidden, context = model.start(batch)
    heads, ids = model_heads(model), torch.zeros(1, dtype=torch.int64)
    features = model.pool(1, hidden, context)
    logits = model.logits(1, features)
    # A memory as it is amid the network: windows full, streaks begun.
    state = None
    for m in range(1, 6):
        _, state = signal.step(live_layer(signal, model, heads, m, ids, logits, features), state)

    def step() -> None:
        layer = live_layer(signal, model, heads, 6, ids, logits, features)
        score, _ = signal.step(layer, state)
        validated_score(signal, layer, score)

    def steps() -> None:
        # In isolation: right after a layer, a step mostly waits for the processor's caches to be its own again.
        for _ in range(STEPS):
            step()

    contenders: dict[str, Callable[[], object]] = {"step": steps, "layer": partial(model.advance, 6, hidden, context)}
    for run in contenders.values():
        run()
    seconds = interleaved(contenders, 20, clock=time.perf_counter)
    one_step, one_layer = float(np.median(seconds["step"])) / STEPS, float(np.median(seconds["layer"]))
    share, step_us, layer_ms = one_step / one_layer, 1e6 * one_step, 1e3 * one_layer
    sys.stdout.write(f"\n{name}: step {step_us:.0f} us, layer {layer_ms:.2f} ms, {share:.2%}\n")
    assert share <= LARGEST_SHARE


def test_half_the_layers_in_batches_of_32_save_at_least_1_7_by_the_clock(model: MultiExitModel) -> None:
    signal = load_registry().make("cap")
    batch = random_batch(model, 96, 32)
    threshold = threshold_for(model, signal, batch.input_ids, speed_up=2.0)
    tokens = Tokens(batch.input_ids.tolist(), None, None, 0, 0)
    classifier = EarlyExitClassifier(model, signal, threshold)
    found = [measured_speed_up(classifier, tokens, batch_size=32) for _ in range(3)]
    clock = float(np.median([one.by_clock for one in found]))
    sys.stdout.write(f"\nbatches of 32: {clock:.2f}x by the clock, {found[0].by_layers:.2f}x by layers\n")
    assert found[0].by_layers == pytest.approx(2.0, rel=0.03)
    assert clock >= SMALLEST_SPEED_UP


def threshold_for(model: MultiExitModel, signal: ExitSignal, ids: torch.Tensor, speed_up: float) -> float:
    """The threshold at which these very samples take ``depth / speed_up`` layers on average."""
    batch = Tokens(ids.tolist(), None, None, 0, 0).batch(range(len(ids)))
    features, logits = model.forward_all(batch)
    heads, rows = model_heads(model), torch.arange(len(ids))
    layers = [live_layer(signal, model, heads, m, rows, logits[m - 1], features[m - 1]) for m in range(1, model.depth)]
    scores = signal_scores(describe(signal, model.depth), score_layers(signal, layers).numpy())
    predictions = logits.argmax(dim=2).numpy()
    return matched(trade_off_curve(scores, Outcomes.of(predictions, predictions[-1])), speed_up).threshold
