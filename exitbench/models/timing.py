"""Measured inference time: what asking a signal at every layer costs a running network.

Exits are made unreachable, so every contender runs all layers; what a signal adds is its heads, its own arithmetic
and nothing else. Contenders take turns, one batch each, in an order that moves on by one every round: a machine
that slows down slows all of them, and overheads are taken within a round.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from exitbench.errors import InputError
from exitbench.models.data.batches import TokenBatch, Tokens, length_batches
from exitbench.models.devices import autocast_dtype
from exitbench.models.exit_thresholds import unreachable_threshold
from exitbench.models.inference import EarlyExitClassifier
from exitbench.models.network.multi_exit import MultiExitConfig, MultiExitModel
from exitbench.signals import ExitSignal

PLAIN = "plain network"
"""The contender without exits: all layers, then one pooler and one head."""

LEVEL = 0.95


@dataclass(frozen=True)
class MedianInterval:
    """A median with an interval between two of the sorted values, right whatever the times are distributed like."""

    value: float
    low: float
    high: float


def median_interval(values: NDArray[np.float64], level: float = LEVEL) -> MedianInterval:
    """The median of ``values`` [rounds] between the order statistics that hold it with at least ``level``.

    With fewer than six values no such pair exists, and the smallest and largest are given.
    """
    ordered = np.sort(values)
    # The number of values below the true median is binomial; the interval's ends are that far from either end.
    outside = max(int(binom.ppf((1 - level) / 2, len(ordered), 0.5)), 1)
    return MedianInterval(float(np.median(ordered)), float(ordered[outside - 1]), float(ordered[-outside]))


@dataclass(frozen=True)
class MeasuredTime:
    """One contender: seconds per batch, and percent above the plain network of the same round."""

    name: str
    seconds: MedianInterval
    overhead: MedianInterval


def interleaved(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, NDArray[np.float64]]:
    """Seconds of every contender in every round, each [rounds].

    Every round begins one contender further on, so that nobody always runs after the same one. ``advance`` is called
    after each round.
    """
    if rounds < 1:
        raise InputError(f"expected at least one round, found {rounds}")
    names = list(contenders)
    seconds = {name: np.empty(rounds) for name in names}
    for turn in range(rounds):
        start = turn % len(names)
        for name in names[start:] + names[:start]:
            begun = clock()
            contenders[name]()
            seconds[name][turn] = clock() - begun
        advance()
    return seconds


def summary(seconds: Mapping[str, NDArray[np.float64]], reference: str = PLAIN) -> list[MeasuredTime]:
    """Medians with intervals, the overhead of each contender over ``reference`` in the same round."""
    return [
        MeasuredTime(name, median_interval(times), median_interval(100 * (times / seconds[reference] - 1)))
        for name, times in seconds.items()
    ]


def time_signals(
    model: MultiExitModel,
    signals: Sequence[ExitSignal],
    batch: TokenBatch,
    *,
    rounds: int,
    precision: str = "auto",
    advance: Callable[[], None] = lambda: None,
) -> list[MeasuredTime]:
    """The plain network and every signal on one batch, in one interleaved run, after a warm-up of each."""
    autocast = autocast_dtype(precision, model.device)
    batch = batch.to(model.device)
    contenders: dict[str, Callable[[], object]] = {PLAIN: partial(plain_answer, model, batch, autocast)}
    for signal in signals:
        classifier = EarlyExitClassifier(model, signal, unreachable_threshold(signal), precision=precision)
        contenders[signal.text] = partial(classifier.run_all_layers, batch)
    for run in contenders.values():
        run()
    return summary(interleaved(contenders, rounds, advance=advance))


@dataclass(frozen=True)
class SpeedUp:
    """What exits save on some texts: by the clock, and by counting layers."""

    plain_seconds: float
    live_seconds: float
    by_layers: float

    @property
    def by_clock(self) -> float:
        return self.plain_seconds / self.live_seconds


def measured_speed_up(
    classifier: EarlyExitClassifier, tokens: Tokens, *, batch_size: int, clock: Callable[[], float] = time.perf_counter
) -> SpeedUp:
    """Every batch of like length twice in turn: through the plain network, and with exits.

    Tokenising and padding are outside the clock: both sides need them.
    """
    model = classifier.model
    batches = [tokens.batch(rows) for rows in length_batches(tokens.lengths, range(len(tokens)), batch_size)]
    plain_answer(model, batches[0], classifier.autocast)
    classifier.run_all_layers(batches[0])
    seconds, layers = [0.0, 0.0], 0
    for turn, batch in enumerate(batches):
        for contender in ((0, 1), (1, 0))[turn % 2]:
            begun = clock()
            if contender == 0:
                plain_answer(model, batch, classifier.autocast)
            else:
                layers += int(classifier.answer(batch).exit_layers.sum())
            seconds[contender] += clock() - begun
    return SpeedUp(seconds[0], seconds[1], model.depth * len(tokens) / layers)


@torch.inference_mode()
def plain_answer(
    model: MultiExitModel, batch: TokenBatch, autocast: torch.dtype | None = None, *, layers: int | None = None
) -> torch.Tensor:
    """The class of every sample from the last layer alone, [samples] on the CPU: the network without exits.

    With ``layers`` the network ends there, with that layer's head.
    """
    depth = model.depth if layers is None else layers
    with torch.autocast(model.device.type, dtype=autocast, enabled=autocast is not None):
        hidden, context = model.start(batch.to(model.device))
        memory = None
        for m in range(1, depth):
            if model.added.linear:
                hidden = model.advance(m, hidden, context)
            else:  # the last exit reads what the others remember
                run = model.run_layer(m, hidden, context, memory)
                hidden, memory = run.hidden, run.memory
        return model.run_layer(depth, hidden, context, memory).logits.argmax(dim=1).cpu()


def random_model(
    *, layers: int, width: int, intermediate: int, classes: int, positions: int, pooler: str = "per-layer"
) -> MultiExitModel:
    """A BERT with random weights and no tokenizer: time depends on the shape, not on what was learned."""
    from transformers import AutoModel, BertConfig

    if width % 64:
        raise InputError(f"expected a width that is a multiple of 64, the width of an attention head, found {width}")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        settings = BertConfig(
            vocab_size=1000,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            intermediate_size=intermediate,
            max_position_embeddings=max(positions, 512),
        )
        names = tuple(f"class {number}" for number in range(classes))
        config = MultiExitConfig(names, "first", pooler)  # type: ignore[arg-type]
        backbone = AutoModel.from_config(settings, dtype=torch.float32)  # type: ignore[no-untyped-call]
        backbone.pooler = None
        return MultiExitModel(backbone, config).eval()


def random_batch(model: MultiExitModel, samples: int, tokens: int, seed: int = 0) -> TokenBatch:
    """``samples`` rows of ``tokens`` random ids without padding."""
    generator = torch.Generator().manual_seed(seed)
    vocabulary = int(model.backbone.config.vocab_size)
    ids = torch.randint(min(10, vocabulary - 1), vocabulary, (samples, tokens), generator=generator)
    return TokenBatch(ids, torch.ones_like(ids))
