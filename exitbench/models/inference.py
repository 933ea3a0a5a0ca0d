"""Live inference: early exit in a running model, at the layer where a signal passes its threshold.

The layers after an exit are not computed. With one sample the forward pass simply ends; in a batch the
samples that have exited are dropped from the hidden states, the masks and the signal's memory, and the
next layer runs for the others only. Signals are driven as in the replay of a cache, so a signal written
for the benchmark needs no further line here.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from exitbench.cache import Head, head_algebra, offset_norms
from exitbench.errors import InputError
from exitbench.exit_rule import PASSES
from exitbench.models.data.batches import TokenBatch, Tokens, length_batches, tokenize
from exitbench.models.data.labelled import Examples
from exitbench.models.devices import autocast_dtype, processes
from exitbench.models.exit_thresholds import layer_thresholds, require_exits, unreachable_threshold
from exitbench.models.network.multi_exit import MultiExitModel
from exitbench.models.network.same_model import require_policy_model
from exitbench.signals import ExitSignal, Layer, State, load_registry, take_state, validated_score
from exitbench.signals.contract.layer import Input, declared_layer
from exitbench.signals.contract.written_inputs import TensorVersions, layer_tensors
from exitbench.signals.registry.exit_policy import read_policy


@dataclass(frozen=True)
class Answer:
    """The answer to one text: its class, the layer that answered (from 1), and the score there.

    ``score`` is the signal's number at the exit layer; ``None`` at the last layer, which asks no signal.
    ``probabilities`` are the softmax of that layer's logits, one for each class of the model.
    """

    id: int
    label: str
    class_index: int
    exit_layer: int
    score: float | None
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class Answers:
    """The answers of a batch as tensors on the CPU, each [samples]; ``scores`` is NaN at the last layer.

    ``probabilities`` [samples, classes] float64.
    """

    predictions: Tensor
    exit_layers: Tensor
    scores: Tensor
    probabilities: Tensor


class EarlyExitClassifier:
    """A multi-exit model with one signal and its threshold, or one for every internal layer, ready to answer.

    Nothing changes during a call, so one object may serve several threads. ``threshold`` is on the
    signal's own scale (``exitbench threshold`` reads one off a cache); an infinite one means always or
    never. ``precision`` is as in ``exitbench collect``: exits equal a cache's only in the cache's precision.
    """

    def __init__(
        self,
        model: MultiExitModel,
        signal: ExitSignal,
        threshold: float | Sequence[float],
        *,
        precision: str = "auto",
    ) -> None:
        self.thresholds = layer_thresholds(threshold, model.depth)
        for level in self.thresholds:
            require_exits(signal, level, model.depth)
        if unsuited := signal.unsuited(model.config.pooler):
            raise InputError(unsuited)
        self.model = model.eval()
        self.signal = signal
        self.autocast = autocast_dtype(precision, model.device)
        wants_head = bool({"head", "offset_norm"} & signal.inputs)
        self.heads: list[Head] = model_heads(model) if wants_head else []
        # Cutting a long text changes a tokenizer's settings for a moment, so this object keeps its own and
        # lets one thread at a time use it.
        self._tokenizer = copy.deepcopy(model.tokenizer)
        self._one_at_a_time = threading.Lock()

    @classmethod
    def from_pretrained(
        cls,
        folder: str | Path,
        signal: ExitSignal | str,
        threshold: float,
        *,
        device: str = "auto",
        precision: str = "auto",
    ) -> Self:
        """The model in ``folder`` on ``device``; ``signal`` may be a text such as ``cap[alpha=0.1]``."""
        chosen = load_registry().make(signal) if isinstance(signal, str) else signal
        model = MultiExitModel.from_pretrained(folder).to(processes(device).device)
        return cls(model, chosen, threshold, precision=precision)

    @classmethod
    def from_policy(
        cls,
        path: str | Path,
        model: MultiExitModel | str | Path,
        *,
        signals_dir: Sequence[str | Path] = (),
        device: str = "auto",
        precision: str = "auto",
    ) -> Self:
        """The policy in a file, for a ``model`` or the one in a folder; an InputError where it is for another one.

        No code is loaded from the policy: a signal of your own is found in the folders of ``signals_dir``.
        """
        policy = read_policy(Path(path), load_registry([Path(folder) for folder in signals_dir]))
        network = model if isinstance(model, MultiExitModel) else MultiExitModel.from_pretrained(model)
        require_policy_model(network, policy, Path(path))
        network.to(processes(device).device)
        return cls(network, policy.signal, policy.layer_thresholds(), precision=precision)

    def predict(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, batch_size: int = 32, first_id: int = 0
    ) -> list[Answer]:
        """One answer per text (or pair of texts), in their order; ids count from ``first_id``.

        Texts of like length go through the network together. Texts beyond the model's limit are cut.
        """
        return self.answers(self.tokens(texts, pairs), batch_size=batch_size, first_id=first_id)

    def tokens(self, texts: Sequence[str], pairs: Sequence[str] | None = None) -> Tokens:
        """The texts as the network reads them; ``.cut`` counts those that lost their end."""
        if self._tokenizer is None:
            raise InputError("expected a model with its tokenizer, found one without")
        if pairs is not None and len(pairs) != len(texts):
            raise InputError(f"expected as many second texts as texts, found {len(pairs)} and {len(texts)}")
        with self._one_at_a_time:
            return tokenize(
                Examples(texts, pairs, None, self.model.config.classes), self._tokenizer, self.model.config.max_length
            )

    def answers(self, tokens: Tokens, *, batch_size: int = 32, first_id: int = 0) -> list[Answer]:
        """One answer per tokenised text, in their order."""
        answers: dict[int, Answer] = {}
        names = self.model.config.classes
        for rows in length_batches(tokens.lengths, range(len(tokens)), batch_size):
            ids = torch.tensor(rows, dtype=torch.int64) + first_id
            batch_answers = self.answer(tokens.batch(rows), ids)
            columns = (
                batch_answers.predictions.tolist(),
                batch_answers.exit_layers.tolist(),
                batch_answers.scores.tolist(),
                batch_answers.probabilities.tolist(),
            )
            for row, class_index, layer, score, shares in zip(rows, *columns, strict=True):
                exit_score = None if layer == self.model.depth else score
                answers[row] = Answer(first_id + row, names[class_index], class_index, layer, exit_score, tuple(shares))
        return [answers[row] for row in range(len(tokens))]

    def answer(self, batch: TokenBatch, ids: Tensor | None = None) -> Answers:
        """The answers of one padded batch; ``ids`` [samples] are for signals that read them."""
        return self._run(batch, ids, self.thresholds)

    def run_all_layers(self, batch: TokenBatch) -> Answers:
        """The same work with exits that nothing reaches: every layer runs, every signal step is taken."""
        return self._run(batch, None, [unreachable_threshold(self.signal)] * (self.model.depth - 1))

    def warm_up(self, samples: int = 1) -> None:
        """Run every layer once on ``samples`` texts of full length, so that the first request is not slow."""
        if samples < 1:
            raise InputError(f"expected at least one sample to warm up with, found {samples}")
        longest = " ".join(["warm"] * self.model.config.max_length)
        self.run_all_layers(self.tokens([longest] * samples).batch(range(samples)))

    @torch.no_grad()  # not inference mode, where writes into what the signal is given are not counted
    def _run(self, batch: TokenBatch, ids: Tensor | None, thresholds: Sequence[float]) -> Answers:
        model, signal, depth = self.model, self.signal, self.model.depth
        device, passes = model.device, PASSES[self.signal.exits_when]
        inside = torch.arange(batch.samples, device=device)
        ids = inside if ids is None else ids.to(device)
        predictions = torch.empty(batch.samples, dtype=torch.int64, device=device)
        exit_layers = torch.full_like(predictions, depth)
        scores = torch.full((batch.samples,), torch.nan, dtype=torch.float64, device=device)
        shares = torch.empty((batch.samples, len(model.config.classes)), dtype=torch.float64, device=device)
        state: State = None
        with self._precision():
            hidden, context = model.start(batch.to(device))
            for m in range(1, depth + 1):
                hidden = model.advance(m, hidden, context)
                features = model.pool(m, hidden, context)
                logits = model.logits(m, features)
                if m == depth:
                    predictions[inside] = logits.argmax(dim=1)
                    shares[inside] = logits.double().softmax(dim=1)
                    break
                score, state = self._step(m, ids, logits, features, state)
                if m < signal.first_exit_layer:
                    continue
                exits = passes(score, thresholds[m - 1])
                exiting = int(exits.sum())
                if exiting == 0:
                    continue
                exited = inside[exits]
                predictions[exited] = logits[exits].argmax(dim=1)
                shares[exited] = logits[exits].double().softmax(dim=1)
                exit_layers[exited] = m
                scores[exited] = score[exits]
                if exiting == len(inside):
                    break
                remaining = exits.logical_not().nonzero().squeeze(1)
                inside, ids, hidden = inside[remaining], ids[remaining], hidden[remaining]
                context, state = context.take(remaining), take_state(state, remaining)
        return Answers(predictions.cpu(), exit_layers.cpu(), scores.cpu(), shares.cpu())

    def _precision(self) -> contextlib.AbstractContextManager[object]:
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.type, dtype=self.autocast)

    def _step(self, m: int, ids: Tensor, logits: Tensor, features: Tensor, state: State) -> tuple[Tensor, State]:
        layer = live_layer(self.signal, self.model, self.heads, m, ids, logits, features)
        versions = TensorVersions(layer_tensors(layer))
        if self.autocast is None:
            score, state = self.signal.step(layer, state)
        else:
            # Signals are promised the arithmetic of the replay, which knows no half precision.
            with torch.autocast(self.model.device.type, enabled=False):
                score, state = self.signal.step(layer, state)
        if written := versions.written():
            if self.heads:
                self.heads = model_heads(self.model)  # the next call begins with clean ones
            raise InputError(f"signal {self.signal.text} at layer {m} wrote into {written}, which it may only read")
        return validated_score(self.signal, layer, score), state


def live_layer(
    signal: ExitSignal,
    model: MultiExitModel,
    heads: Sequence[Head],
    m: int,
    ids: Tensor,
    logits: Tensor,
    features: Tensor,
) -> Layer:
    """What layer ``m`` shows a signal: ids, logits, and of the rest only what the signal declares to read."""

    def read(name: Input) -> Tensor:
        return offset_norms(features, heads[m - 1].offset) if name == "offset_norm" else outputs[name]

    outputs = {"logits": logits, "features": features}
    return declared_layer(
        signal.inputs,
        index=m,
        depth=model.depth,
        classes=len(model.config.classes),
        ids=ids,
        read=read,
        head=lambda: heads[m - 1],
    )


def model_heads(model: MultiExitModel) -> list[Head]:
    """The algebra of every internal head, computed once per model, on the model's device."""
    weight, bias = model.head_arrays()
    return [head_algebra(weight[m], bias[m]).to(model.device) for m in range(model.depth - 1)]
