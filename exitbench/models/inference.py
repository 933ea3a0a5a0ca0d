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
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

import torch
from torch import Tensor

from exitbench.cache import Head, head_algebra, offset_norms
from exitbench.errors import InputError, one_line
from exitbench.exit_rule import PASSES
from exitbench.models.answers import Answer, Answers, ExitRule, LayerOutcome
from exitbench.models.data.batches import TokenBatch, Tokens, length_batches, tokenize
from exitbench.models.data.labelled import Examples
from exitbench.models.devices import autocast_dtype, processes
from exitbench.models.exit_thresholds import layer_thresholds, require_exits, unreachable_threshold
from exitbench.models.network.exit_outputs import LayerRun
from exitbench.models.network.families import Context
from exitbench.models.network.multi_exit import MultiExitModel
from exitbench.models.network.same_model import require_policy_model
from exitbench.signals import ExitSignal, Layer, State, load_registry, take_state, validated_score
from exitbench.signals.contract.layer import OUTPUT, Input, declared_layer
from exitbench.signals.contract.written_inputs import TensorVersions, layer_tensors
from exitbench.signals.registry.exit_policy import read_policy


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
            require_exits(signal, level, model.depth, model.added.outputs)
        if unsuited := signal.unsuited(model.config.pooler):
            raise InputError(unsuited)
        self.model = model.eval()
        self.signal = signal
        self.autocast = autocast_dtype(precision, model.device)
        wants_head = bool({"head", "offset_norm"} & signal.inputs)
        if wants_head and not model.added.linear:
            raise InputError(
                f"signal {signal.text} reads linear heads, and the exits of this network are not linear "
                f"({model.added.not_linear})"
            )
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
        classifier = cls(network, policy.signal, policy.layer_thresholds(), precision=precision)
        classifier.require_running(Path(path))
        return classifier

    def require_running(self, source: Path) -> None:
        """An InputError unless the signal runs at every layer: what it learned may be a stranger's and fit nothing."""
        tokens = torch.zeros((1, 2), dtype=torch.int64)
        try:
            self.run_all_layers(TokenBatch(tokens, torch.ones_like(tokens)))
        except InputError:
            raise
        except Exception as error:  # whatever a signal meets in values that are not its own
            problem = f"{type(error).__name__}: {one_line(error)}"
            raise InputError(f"{source}: expected a signal that runs in this network, found {problem}") from error

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
        for rows in length_batches(tokens.lengths, range(len(tokens)), batch_size):
            ids = torch.tensor(rows, dtype=torch.int64) + first_id
            answers.update(zip(rows, self.named(ids.tolist(), self.answer(tokens.batch(rows), ids)), strict=True))
        return [answers[row] for row in range(len(tokens))]

    def named(self, ids: Sequence[int], answers: Answers) -> list[Answer]:
        """The answers of a batch one by one, with the names of their classes."""
        columns = (answers.predictions, answers.exit_layers, answers.scores, answers.probabilities)
        names, depth = self.model.config.classes, self.model.depth
        return [
            Answer(number, names[class_index], class_index, layer, None if layer == depth else score, tuple(shares))
            for number, class_index, layer, score, shares in zip(
                ids, *(column.tolist() for column in columns), strict=True
            )
        ]

    def answer(self, batch: TokenBatch, ids: Tensor | None = None, rule: ExitRule | None = None) -> Answers:
        """The answers of one padded batch; ``ids`` [samples] are for signals that read them.

        Another ``rule`` than that of the thresholds may say who exits.
        """
        return self._run(batch, ids, self.passes if rule is None else rule)

    def run_all_layers(self, batch: TokenBatch) -> Answers:
        """The same work with exits that nothing reaches: every layer runs, every signal step is taken."""
        never = unreachable_threshold(self.signal)
        compare = PASSES[self.signal.exits_when]
        return self._run(batch, None, lambda m, ids, scores: compare(scores, never))

    def warm_up(self, samples: int = 1) -> None:
        """Run every layer once on ``samples`` texts of full length, so that the first request is not slow."""
        if samples < 1:
            raise InputError(f"expected at least one sample to warm up with, found {samples}")
        longest = " ".join(["warm"] * self.model.config.max_length)
        self.run_all_layers(self.tokens([longest] * samples).batch(range(samples)))

    def passes(self, m: int, ids: Tensor, scores: Tensor) -> Tensor:
        """Which samples exit at layer ``m`` by their scores [samples]: the rule of this classifier."""
        exits: Tensor = PASSES[self.signal.exits_when](scores, self.thresholds[m - 1])
        return exits

    def layer(
        self, m: int, hidden: Tensor, context: Context, ids: Tensor, state: State, rule: ExitRule
    ) -> LayerOutcome:
        """Run layer ``m`` for some samples and ask the signal there; at the last layer all exit and nobody is asked."""
        memory, signal_state = (None, None) if state is None else state
        run = self.model.run_layer(m, hidden, context, memory)
        if m == self.model.depth:
            return LayerOutcome(run.hidden, run.logits, None, torch.ones_like(ids, dtype=torch.bool), state)
        scores, signal_state = self._step(m, ids, run, signal_state)
        exits = None if m < self.signal.first_exit_layer else rule(m, ids, scores)
        return LayerOutcome(run.hidden, run.logits, scores, exits, (run.memory, signal_state))

    @torch.no_grad()  # not inference mode, where writes into what the signal is given are not counted
    def _run(self, batch: TokenBatch, ids: Tensor | None, rule: ExitRule) -> Answers:
        model, device = self.model, self.model.device
        inside = torch.arange(batch.samples, device=device)
        ids = inside if ids is None else ids.to(device)
        answers = Answers.blank(batch.samples, len(model.config.classes), device)
        state: State = None
        with self.precision():
            hidden, context = model.start(batch.to(device))
            for m in range(1, model.depth + 1):
                outcome = self.layer(m, hidden, context, ids, state, rule)
                hidden, state, exits = outcome.hidden, outcome.state, outcome.exits
                exiting = 0 if exits is None else int(exits.sum())
                if exits is None or exiting == 0:
                    continue
                answers.put(inside[exits], m, outcome)
                if exiting == len(inside):
                    break
                remaining = exits.logical_not().nonzero().squeeze(1)
                inside, ids, hidden = inside[remaining], ids[remaining], hidden[remaining]
                context, state = context.take(remaining), take_state(state, remaining)
        return answers.cpu()

    def precision(self) -> contextlib.AbstractContextManager[object]:
        """Where layers run: in half precision if this classifier does."""
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.model.device.type, dtype=self.autocast)

    def _step(self, m: int, ids: Tensor, run: LayerRun, state: State) -> tuple[Tensor, State]:
        layer = live_layer(self.signal, self.model, self.heads, m, ids, run.logits, run.features, run.outputs)
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
    outputs: Mapping[str, Tensor] = MappingProxyType({}),
) -> Layer:
    """What layer ``m`` shows a signal: ids, logits, and of the rest only what the signal declares to read."""

    def read(name: Input) -> Tensor:
        return offset_norms(features, heads[m - 1].offset) if name == "offset_norm" else shown[name]

    shown = {"logits": logits, "features": features}
    shown |= {OUTPUT + name: values for name, values in outputs.items()}
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
    heads = model.head_arrays()
    assert heads is not None, "asked for only where logits are linear"
    weight, bias = heads
    return [head_algebra(weight[m], bias[m]).to(model.device) for m in range(model.depth - 1)]
