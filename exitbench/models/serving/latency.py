"""How long a request waits with exits as they really happen, beside the full network and a static one as deep.

All ways of answering are measured in one run and take turns, a few batches each, in an order that moves on by one every
round, so that a machine that slows down slows all of them. Each has a clock of its own, which stands while another has
its turn. Requests come in the order of the texts: a service does not sort its traffic by length.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import t as student

from exitbench.errors import InputError
from exitbench.models.answers import ExitRule
from exitbench.models.data.batches import TokenBatch, Tokens
from exitbench.models.inference import EarlyExitClassifier
from exitbench.models.serving.continuous import ContinuousBatch, Request
from exitbench.models.timing import LEVEL, plain_answer

FULL, STATIC, EXITS, CONTINUOUS = "full network", "static network", "exits", "continuous exits"
WAYS = {
    FULL: "all layers, then one head; a batch is answered together",
    STATIC: "the first layers only, as many as exits need on average",
    EXITS: "samples that exit leave their batch, which is answered together",
    CONTINUOUS: "samples that exit are answered at once, and the next ones take their place",
}
TURN = 32
"""Requests of a turn, or one batch where that is more."""


class Clock(Protocol):
    """Marks in time, and the seconds between two of them."""

    def mark(self) -> Any: ...

    def seconds(self, earlier: Any, later: Any) -> float: ...


@dataclass(frozen=True)
class WallClock:
    """The time of this process's machine."""

    now: Callable[[], float] = time.perf_counter

    def mark(self) -> float:
        return self.now()

    def seconds(self, earlier: float, later: float) -> float:
        return later - earlier


class EventClock:  # pragma: no cover - needs a GPU
    """Events in the queue of a GPU, which works while this process is already further on."""

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def seconds(self, earlier: torch.cuda.Event, later: torch.cuda.Event) -> float:
        later.synchronize()
        return float(earlier.elapsed_time(later)) / 1000


def clock_of(device: torch.device) -> Clock:
    """The clock that measures the work of a device."""
    return EventClock() if device.type == "cuda" else WallClock()


@dataclass(frozen=True)
class RequestTimes:
    """One way of answering at one batch size, in seconds per request; ``speed_up`` is that of requests per second.

    ``speed_up`` is the full network's time over its own, with a 95% interval from how they differ between rounds;
    none where there was one round only.
    """

    way: str
    batch_size: int
    requests: int
    mean_layers: float
    p50: float
    p95: float
    p99: float
    per_second: float
    speed_up: float
    speed_up_low: float | None
    speed_up_high: float | None


@dataclass(frozen=True)
class Traffic:
    """Requests by their numbers: the texts in their order, again from the first one where there are too few."""

    classifier: EarlyExitClassifier
    tokens: Tokens
    rule: ExitRule
    clock: Clock
    batch_size: int

    def tokens_of(self, number: int) -> Tokens:
        return self.tokens.only(number % len(self.tokens))

    def batch(self, numbers: Sequence[int]) -> TokenBatch:
        rows = [number % len(self.tokens) for number in numbers]
        return self.tokens.batch(rows).to(self.classifier.model.device)

    def layers(self, numbers: Sequence[int]) -> int:
        """Answer a batch with exits; how many layers its samples took together."""
        answers = self.classifier.answer(self.batch(numbers), torch.tensor(numbers), self.rule)
        return int(answers.exit_layers.sum())


@dataclass
class Way:
    """A way of answering, with what it was measured at: a wait for every request, seconds for every turn."""

    traffic: Traffic
    waits: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)
    layers: int = 0

    def turn(self, numbers: range, *, last: bool) -> None:
        """Answer some more requests; after the ``last`` ones nobody is left waiting."""
        raise NotImplementedError


@dataclass
class FixedBatches(Way):
    """Batches that begin and end together; ``depth`` is that of a network without exits, ``None`` for one with."""

    depth: float | None = None
    batches: int = 0

    def turn(self, numbers: range, *, last: bool) -> None:
        """Padding is outside the clock."""
        traffic, spent = self.traffic, 0.0
        model, autocast = traffic.classifier.model, traffic.classifier.autocast
        for at in range(0, len(numbers), traffic.batch_size):
            rows = numbers[at : at + traffic.batch_size]
            batch, ids = traffic.batch(rows), torch.tensor(rows)
            begun = traffic.clock.mark()
            if self.depth is None:
                layers = int(traffic.classifier.answer(batch, ids, traffic.rule).exit_layers.sum())
            else:
                # A mean depth between two whole ones: batches of either, as evenly spread as they can be.
                whole = int(self.depth * (self.batches + 1) + 0.5) - int(self.depth * self.batches + 0.5)
                plain_answer(model, batch, autocast, layers=whole)
                layers = whole * len(rows)
            seconds = traffic.clock.seconds(begun, traffic.clock.mark())
            self.batches += 1
            self.layers += layers
            self.waits += [seconds] * len(rows)
            spent += seconds
        self.turns.append(spent)


@dataclass
class Stream(Way):
    """Continuous batching: as many requests as a batch holds are inside, and whoever is answered asks the next one."""

    spent: float = 0.0
    begun: dict[int, float] = field(default_factory=dict)
    """When, on its own clock, each request came that is still inside."""

    def __post_init__(self) -> None:
        size = self.traffic.batch_size
        self.stream = ContinuousBatch(self.traffic.classifier, batch_size=size, in_flight=size, rule=self.traffic.rule)

    def turn(self, numbers: range, *, last: bool) -> None:
        """A request waits from the moment when there is room for it; those inside stay there between turns."""
        clock = self.traffic.clock
        for number in numbers:
            self.stream.add(Request(number, number, self.traffic.tokens_of(number)))
        start = now = clock.mark()
        came: dict[int, Any] = {}
        went: dict[int, Any] = {}
        while self.stream.waiting or (last and len(self.stream)):
            for request in islice(self.stream.waiting, self.stream.in_flight - self.stream.inside):
                came[request.number] = now
            answered = self.stream.step()
            now = clock.mark()
            for request, answer in answered:
                went[request.number] = now
                self.layers += answer.exit_layer
        # Marks become times when the turn is over: a GPU is not made to wait for its clock.
        self.begun |= {number: self.spent + clock.seconds(start, mark) for number, mark in came.items()}
        for number, mark in went.items():
            self.waits.append(self.spent + clock.seconds(start, mark) - self.begun.pop(number))
        self.turns.append(clock.seconds(start, now))
        self.spent += self.turns[-1]


def forced(exit_layers: Sequence[int], device: torch.device) -> ExitRule:
    """Exits at given layers [requests] whatever the scores are; ids are numbers of requests."""
    layers = torch.tensor(exit_layers, device=device)
    return lambda m, ids, scores: layers[ids] == m


def time_requests(
    classifier: EarlyExitClassifier,
    tokens: Tokens,
    *,
    batch_sizes: Sequence[int],
    requests: int,
    exit_layers: Sequence[int] | None = None,
    clock: Clock | None = None,
    advance: Callable[[int], None] = lambda count: None,
) -> list[RequestTimes]:
    """Every way of answering so many ``requests`` at every batch size.

    ``exit_layers`` [requests] says where each exits, the signal being asked all the same; without it its thresholds do.
    ``advance`` is called with the number of requests after every round.
    """
    if not len(tokens) or requests < 1:
        raise InputError(f"expected texts to time and at least one request, found {len(tokens)} and {requests}")
    device = classifier.model.device
    rule = classifier.passes if exit_layers is None else forced(exit_layers, device)
    measured = []
    depth: float | None = None
    for size in batch_sizes:
        traffic = Traffic(classifier, tokens, rule, clock or clock_of(device), size)
        if depth is None:  # found while everything warms up
            depth = mean_depth(traffic, requests)
        plain_answer(classifier.model, traffic.batch(range(min(size, requests))), classifier.autocast)
        ways = {
            FULL: FixedBatches(traffic, depth=float(classifier.model.depth)),
            STATIC: FixedBatches(traffic, depth=depth),
            EXITS: FixedBatches(traffic),
            CONTINUOUS: Stream(traffic),
        }
        take_turns(list(ways.values()), requests, size, advance)
        full = np.array(ways[FULL].turns)
        measured += [summarised(name, way, full) for name, way in ways.items()]
    return measured


def mean_depth(traffic: Traffic, requests: int) -> float:
    """The mean exit layer of the requests."""
    chunks = [range(at, min(at + TURN, requests)) for at in range(0, requests, TURN)]
    return sum(map(traffic.layers, chunks)) / requests


def take_turns(ways: Sequence[Way], requests: int, batch_size: int, advance: Callable[[int], None]) -> None:
    """Every way answers all requests, some a turn; every round begins one way further on."""
    turn = -(-TURN // batch_size) * batch_size
    for number, at in enumerate(range(0, requests, turn)):
        rows = range(at, min(at + turn, requests))
        start = number % len(ways)
        for way in (*ways[start:], *ways[:start]):
            way.turn(rows, last=rows.stop == requests)
        advance(len(rows))


def summarised(name: str, way: Way, full: NDArray[np.float64]) -> RequestTimes:
    """Percentiles, and how much faster than the ``full`` network, whose turns took so long, [rounds]."""
    p50, p95, p99 = np.percentile(way.waits, [50, 95, 99]).tolist()
    count = len(way.waits)
    ratio, low, high = ratio_interval(full, np.array(way.turns))
    return RequestTimes(
        way=name,
        batch_size=way.traffic.batch_size,
        requests=count,
        mean_layers=way.layers / count,
        p50=p50,
        p95=p95,
        p99=p99,
        per_second=count / sum(way.turns),
        speed_up=ratio,
        speed_up_low=low,
        speed_up_high=high,
    )


def ratio_interval(above: NDArray[np.float64], below: NDArray[np.float64]) -> tuple[float, float | None, float | None]:
    """The ratio of two sums over rounds, each [rounds], with its interval by the influence of every round.

    Not a mean of ratios: samples stay inside a stream between its turns, so its first turn is short and its last long.
    """
    rounds, ratio = len(above), float(above.sum() / below.sum())
    if rounds < 2:
        return ratio, None, None
    influence = (above - ratio * below) / below.mean()
    reach = float(student.ppf((1 + LEVEL) / 2, rounds - 1) * influence.std(ddof=1) / np.sqrt(rounds))
    return ratio, max(ratio - reach, 0.0), ratio + reach
