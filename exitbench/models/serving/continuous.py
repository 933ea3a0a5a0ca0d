"""Continuous batching: a sample that exits is answered at once, and a new one takes its place in the network.

A batch that is filled once shrinks from exit to exit, and its last layers run for a few samples. Here samples wait
before every layer for others that have come as far, whatever batch those began in. What belongs to a sample (hidden
states, padding, the signal's memory) travels with it, and a layer always runs for samples of that layer alone, so
exits and answers are those of any other batches, up to float noise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from exitbench.errors import InputError
from exitbench.models.answers import Answer, Answers, ExitRule
from exitbench.models.data.batches import TokenBatch, Tokens
from exitbench.models.inference import EarlyExitClassifier
from exitbench.models.network.families import Context
from exitbench.signals import State, join_states, take_state

OVERTAKEN = 2
"""A sample overtaken by so many times the network's fill goes first: more gives fuller batches and longer waits."""


@dataclass(frozen=True)
class Request:
    """One sample on its way: its place among all requests, its id, its tokens alone, and what the caller knows it by.

    The ``id`` is for signals that read ids and for the answer.
    """

    number: int
    id: int
    tokens: Tokens
    key: Any = None

    @property
    def length(self) -> int:
        return len(self.tokens.ids[0])


@dataclass(frozen=True)
class Travellers:
    """Samples that wait before one layer: hidden states [samples, tokens, width], padding [samples, tokens], state.

    ``context`` is what their layers share, ``None`` where others have joined or padding was cut since it was made.
    """

    requests: tuple[Request, ...]
    hidden: Tensor
    padding: Tensor
    state: State = None
    context: Context | None = None

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def ids(self) -> Tensor:
        """The ids of the samples, [samples], on the device of their hidden states."""
        return torch.tensor([request.id for request in self.requests], device=self.hidden.device)

    def take(self, rows: Sequence[int]) -> Travellers:
        """The samples at ``rows``, with no more padding than the longest of them needs."""
        requests = tuple(self.requests[row] for row in rows)
        index = torch.tensor(rows, dtype=torch.int64, device=self.hidden.device)
        longest = max(request.length for request in requests)
        uncut = longest == self.hidden.shape[1]
        return Travellers(
            requests,
            self.hidden[index, :longest],
            self.padding[index, :longest],
            take_state(self.state, index),
            self.context.take(index) if uncut and self.context is not None else None,
        )


def merged_groups(groups: Sequence[Travellers]) -> Travellers:
    """Several groups before one layer as one, padded to the longest."""
    if len(groups) == 1:
        return groups[0]
    longest = max(group.hidden.shape[1] for group in groups)
    missing = [longest - group.hidden.shape[1] for group in groups]
    return Travellers(
        tuple(request for group in groups for request in group.requests),
        torch.cat([functional.pad(group.hidden, (0, 0, 0, more)) for group, more in zip(groups, missing, strict=True)]),
        torch.cat([functional.pad(group.padding, (0, more)) for group, more in zip(groups, missing, strict=True)]),
        join_states([group.state for group in groups]),
    )


class ContinuousBatch:
    """The samples inside a network; ``step`` runs one layer for one batch of them.

    At most ``batch_size`` samples go through a layer together, and at most ``in_flight`` (by default twice as many)
    are inside; the others wait in the order they came. Not safe for several threads.
    """

    def __init__(
        self,
        classifier: EarlyExitClassifier,
        *,
        batch_size: int = 32,
        in_flight: int | None = None,
        rule: ExitRule | None = None,
    ) -> None:
        if batch_size < 1 or (in_flight is not None and in_flight < 1):
            raise InputError(f"expected batches and a network of at least one sample, found {batch_size}, {in_flight}")
        self.classifier = classifier
        self.batch_size = batch_size
        self.in_flight = 2 * batch_size if in_flight is None else in_flight
        self.rule = classifier.passes if rule is None else rule
        self.waiting: deque[Request] = deque()
        self.running: tuple[Request, ...] = ()
        """The samples of the batch that runs, or ran last: those who are lost if it fails."""
        self._before: dict[int, list[Travellers]] = {}
        self._newest = -1

    def __len__(self) -> int:
        """How many samples wait or are inside."""
        return len(self.waiting) + self.inside

    @property
    def inside(self) -> int:
        return sum(len(group) for groups in self._before.values() for group in groups)

    def add(self, request: Request) -> None:
        """A new sample, at the end of those that wait."""
        self.waiting.append(request)

    @torch.no_grad()  # not inference mode, where writes into what the signal is given are not counted
    def step(self) -> list[tuple[Request, Answer]]:
        """Let samples in, run one layer for one batch, and give the answers of those who exit there."""
        model = self.classifier.model
        with self.classifier.precision():
            self._admit()
            if not self._before:
                return []
            m, group = self._next_batch()
            self.running = group.requests
            context = group.context or model.family.context(group.hidden, group.padding)
            outcome = self.classifier.layer(m, group.hidden, context, group.ids, group.state, self.rule)
        moved = Travellers(group.requests, outcome.hidden, group.padding, outcome.state, context)
        exiting = [] if outcome.exits is None else outcome.exits.nonzero().squeeze(1).tolist()
        if len(exiting) < len(group):
            gone = set(exiting)
            stay = [row for row in range(len(group)) if row not in gone]
            self._before.setdefault(m + 1, []).append(moved.take(stay) if exiting else moved)
        if not exiting:
            return []
        answers = Answers.blank(len(exiting), len(model.config.classes), model.device)
        answers.put(torch.arange(len(exiting), device=model.device), m, outcome)
        answered = [group.requests[row] for row in exiting]
        ids = [request.id for request in answered]
        return list(zip(answered, self.classifier.named(ids, answers.cpu()), strict=True))

    def _admit(self) -> None:
        """Embed as many of the waiting samples as there is room for."""
        room = min(self.in_flight - self.inside, len(self.waiting))
        if room <= 0:
            return
        requests = self.running = tuple(self.waiting.popleft() for _ in range(room))
        batch = padded(requests).to(self.classifier.model.device)
        hidden, context = self.classifier.model.start(batch)
        self._newest = requests[-1].number
        self._before.setdefault(1, []).append(Travellers(requests, hidden, batch.attention_mask, context=context))

    def _next_batch(self) -> tuple[int, Travellers]:
        """The layer to run and the samples to run it for, who leave the ones that wait there."""
        m = self._next_layer()
        group = merged_groups(self._before.pop(m))
        if len(group) <= self.batch_size:
            return m, group
        # The oldest and those of like length, because padding is computed like any other token.
        oldest = min(range(len(group)), key=lambda row: group.requests[row].number)
        length = group.requests[oldest].length
        near = sorted(range(len(group)), key=lambda row: (row != oldest, abs(group.requests[row].length - length)))
        self._before[m] = [group.take(sorted(near[self.batch_size :]))]
        return m, group.take(sorted(near[: self.batch_size]))

    def _next_layer(self) -> int:
        """The layer before which the most samples wait, the deepest of several; or the oldest sample's, if overdue."""
        counts = {m: sum(map(len, groups)) for m, groups in self._before.items()}
        oldest = {
            m: min(request.number for group in groups for request in group.requests)
            for m, groups in self._before.items()
        }
        first = min(oldest, key=lambda m: oldest[m])
        if self._newest - oldest[first] >= OVERTAKEN * self.in_flight:
            return first
        return max(counts, key=lambda m: (min(counts[m], self.batch_size), m))


def padded(requests: Sequence[Request]) -> TokenBatch:
    """The tokens of some requests, padded to the longest of them."""
    parts = [request.tokens for request in requests]
    types = [part.types[0] for part in parts if part.types is not None]
    tokens = Tokens([part.ids[0] for part in parts], types or None, None, parts[0].pad_id, 0)
    return tokens.batch(range(len(parts)))


def continuous_answers(
    classifier: EarlyExitClassifier,
    tokens: Tokens,
    *,
    batch_size: int = 32,
    in_flight: int | None = None,
    first_id: int = 0,
    in_order: bool = True,
) -> Iterator[Answer]:
    """One answer per tokenised text, each as soon as it is there; with ``in_order`` after those before it."""
    batch = ContinuousBatch(classifier, batch_size=batch_size, in_flight=in_flight)
    for row in range(len(tokens)):
        batch.add(Request(row, first_id + row, tokens.only(row)))
    early: dict[int, Answer] = {}
    following = 0
    while len(batch):
        for request, answer in batch.step():
            if not in_order:
                yield answer
                continue
            early[request.number] = answer
            while following in early:
                yield early.pop(following)
                following += 1
