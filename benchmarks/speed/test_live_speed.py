"""Live speed: a signal's step against one encoder layer, what asking it adds to the whole, what exits save."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
import torch

from exitbench.benchmarks.measures.network_cost import published_overheads
from exitbench.benchmarks.replay.operating_points import matched
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.configuration import configuration_of, signal_scores
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.speed.harness.ratios import Measured, Ratio, duration
from exitbench.benchmarks.speed.harness.rows import Record, RecordOne, SpeedRow, Topic
from exitbench.models import EarlyExitClassifier, MultiExitModel, Tokens
from exitbench.models.inference import live_layer, model_heads
from exitbench.models.timing import PLAIN, interleaved, measured_speed_up, random_batch, time_signals
from exitbench.signals import ExitSignal, load_registry, score_layers, validated_score

SIGNALS = ("deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap")
STEPS = 50
"""Steps timed in a row."""

STEP = {
    name: SpeedRow(
        f"step-{name}", f"a step of {name} / one encoder layer, by the clock", "lower", goal=0.02, unit="%", margin=0.6
    )
    for name in SIGNALS
}
WHOLE = {
    name: SpeedRow(
        f"whole-{name}",
        f"the network with {name} asked at every layer / the plain network, by the clock",
        "lower",
        margin=0.1,
    )
    for name in SIGNALS
}
BATCHES = SpeedRow(
    "batch-32",
    "the plain network / the network with exits that halve the layers, batches of 32, by the clock",
    "higher",
    goal=1.7,
    margin=0.15,
)
TOPIC = Topic(
    "Live inference",
    f"""
A network of BERT-base's shape with random weights, one sample of 128 tokens. *Step*: the signal's arithmetic at
layer 6, offset norm and checks included, {STEPS} in a row, against the layer itself. *Whole*: all 12 layers with a
head and the signal after each, exits made unreachable, against the plain network with one head. The published
overheads of the whole stand beside them; they were measured on a GPU, where the network is faster and small
operations wait to be started, so they are no yardstick for a processor. *Batches*: 96 samples of 32 tokens at a
threshold where CAP takes half the layers.
""",
    (*STEP.values(), *WHOLE.values(), BATCHES),
)


@pytest.fixture(scope="module", autouse=True)
def inference() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.mark.parametrize("name", SIGNALS)
def test_a_step_costs_little_beside_a_layer(name: str, bert_base: MultiExitModel, record_ratio: RecordOne) -> None:
    model = bert_base
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

    def compare() -> Measured:
        contenders: dict[str, Callable[[], object]] = {
            "step": steps,
            "layer": partial(model.advance, 6, hidden, context),
        }
        for run in contenders.values():
            run()
        seconds = interleaved(contenders, 20, clock=time.perf_counter)
        return Ratio(float(np.median(seconds["step"])) / STEPS, float(np.median(seconds["layer"]))).measured()

    record_ratio(STEP[name], compare)


def test_asking_a_signal_at_every_layer_adds_little_to_the_whole(
    bert_base: MultiExitModel, record_ratios: Record
) -> None:
    registry, batch = load_registry(), random_batch(bert_base, 1, 128)
    signals = [registry.make(name) for name in SIGNALS]
    published = published_overheads()

    def compare() -> dict[SpeedRow, Measured]:
        timings = {timing.name: timing for timing in time_signals(bert_base, signals, batch, rounds=15)}
        rows = {}
        for signal in signals:
            timing = timings[signal.text]
            times = f"{duration(timing.seconds.value)} / {duration(timings[PLAIN].seconds.value)}"
            over = f"measured {timing.overhead.value:+.1f}%"
            paper = f"published {published[signal.title][1]:+.1f}%" if signal.title in published else "none published"
            rows[WHOLE[signal.name]] = Measured(1 + timing.overhead.value / 100, f"{times}; {over}, {paper}")
        return rows

    record_ratios(compare)


def test_half_the_layers_in_batches_of_32_save_most_of_half_the_time(
    bert_base: MultiExitModel, record_ratio: RecordOne
) -> None:
    signal = load_registry().make("cap")
    batch = random_batch(bert_base, 96, 32)
    threshold = threshold_for(bert_base, signal, batch.input_ids, speed_up=2.0)
    tokens = Tokens(batch.input_ids.tolist(), None, None, 0, 0)
    classifier = EarlyExitClassifier(bert_base, signal, threshold)

    def compare() -> Measured:
        timings = [measured_speed_up(classifier, tokens, batch_size=32) for _ in range(3)]
        assert timings[0].by_layers == pytest.approx(2.0, rel=0.03)
        plain = float(np.median([timing.plain_seconds for timing in timings]))
        live = float(np.median([timing.live_seconds for timing in timings]))
        return Ratio(plain, live).measured(f"{timings[0].by_layers:.2f}x by layers")

    record_ratio(BATCHES, compare)


def threshold_for(model: MultiExitModel, signal: ExitSignal, ids: torch.Tensor, speed_up: float) -> float:
    """The threshold at which these very samples take ``depth / speed_up`` layers on average."""
    batch = Tokens(ids.tolist(), None, None, 0, 0).batch(range(len(ids)))
    features, logits, _ = model(batch)
    heads, rows = model_heads(model), torch.arange(len(ids))
    layers = [live_layer(signal, model, heads, m, rows, logits[m - 1], features[m - 1]) for m in range(1, model.depth)]
    scores = signal_scores(configuration_of(signal, model.depth), score_layers(signal, layers).numpy())
    predictions = logits.argmax(dim=2).numpy()
    return matched(trade_off_curve(scores, Outcomes.of(predictions, predictions[-1])), speed_up).threshold
