"""What a function behind ``collect --network`` hands over: a network of any kind, with its rows.

The network answers exit by exit, so that what each exit costs can be counted while it runs. Whatever has the
wrong shape is refused here in one line that names the exit, before a cache exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from exitbench.errors import InputError

HEAD_SLACK = 1e-3
"""How far logits may lie from ``W x + b``, relative to the largest of them, before the heads are refused."""


@dataclass(frozen=True)
class Network:
    """A network with several exits, and the rows of one split.

    A function that ``exitbench collect --network FILE.py:function`` names is called once, with the name of the split,
    and returns this. Nothing else of the file is called.

    ``exits(batch)`` runs the network on a batch and gives its exits in order, each a tuple ``(logits, features)`` or
    ``(logits, features, outputs)``: logits [n, classes]; features [n, width of the exit], the head's input with dropout
    off, or None; outputs, extra numbers by name, each [n] or [n, k]. Written as a generator that computes an exit only
    when it is asked for it, what every exit costs is counted as it runs; a function that returns a list is taken at
    equal steps (layer over depth) unless ``costs`` are given.
    ``batch(rows)`` gives what ``exits`` takes for some row numbers, in their order; it is asked for consecutive rows.
    ``classes`` names the classes; ``labels`` [rows] are their numbers, or None, then ``rows`` says how many rows there
    are and an answer is right where it agrees with the last exit.
    ``heads`` has a pair (weight [classes, width], bias [classes]) or an ``nn.Linear`` for each exit, where all are
    linear: NSP and CAP need them. ``module`` is put into evaluation mode, and its weights decide whether a stopped
    collection may go on. ``ids`` [rows] are numbers of the samples (by default the row numbers), ``groups`` [rows] say
    which rows belong together.
    """

    exits: Callable[[Any], Iterable[tuple[Any, ...]]]
    batch: Callable[[Sequence[int]], Any]
    classes: Sequence[str]
    labels: Sequence[int] | Tensor | None = None
    rows: int | None = None
    heads: Sequence[nn.Linear | tuple[Any, Any]] | None = None
    module: nn.Module | None = None
    ids: Sequence[int] | Tensor | None = None
    groups: Sequence[int] | Tensor | None = None
    costs: Sequence[float] | None = None

    @property
    def total_rows(self) -> int:
        """How many rows there are; an InputError where labels and ``rows`` do not say."""
        if self.labels is None and self.rows is None:
            raise InputError("expected labels, or rows with the number of unlabelled rows, found neither")
        if self.labels is not None and self.rows is not None and len(self.labels) != self.rows:
            raise InputError(f"expected {self.rows} labels, as rows says, found {len(self.labels)}")
        total = len(self.labels) if self.labels is not None else int(self.rows or 0)
        for name, numbers in (("ids", self.ids), ("groups", self.groups)):
            if numbers is not None and len(numbers) != total:
                raise InputError(f"expected {total} {name}, one for each row, found {len(numbers)}")
        return total


@dataclass(frozen=True)
class ExitAnswers:
    """What a network said of n rows at one exit: logits [n, classes], features [n, width], outputs [n] or [n, k]."""

    logits: Tensor
    features: Tensor | None
    outputs: Mapping[str, Tensor] = field(default_factory=dict)


def exit_answers(given: Any, exit_number: int, rows: int, classes: int) -> ExitAnswers:
    """One exit as the network gave it, on the CPU; an InputError where it has not the form of the contract."""
    name = f"exit {exit_number}"
    if not isinstance(given, tuple) or len(given) not in (2, 3):
        size = f" of {len(given)}" if isinstance(given, tuple) else ""
        raise InputError(
            f"expected a tuple (logits, features) or (logits, features, outputs) at {name},"
            f" found a {type(given).__name__}{size}"
        )
    logits = _floating(given[0], f"logits at {name}")
    _expect(f"logits at {name}", logits, f"[{rows}, {classes}]", list(logits.shape) == [rows, classes])
    features = None if given[1] is None else _floating(given[1], f"features at {name}")
    if features is not None:
        fits = features.ndim == 2 and features.shape[0] == rows and features.shape[1] > 0
        _expect(f"features at {name}", features, f"[{rows}, width]", fits)
    extra = given[2] if len(given) == 3 and given[2] is not None else {}
    if not isinstance(extra, Mapping):
        raise InputError(f"expected outputs by name at {name}, found a {type(extra).__name__}")
    outputs = {}
    for key, value in extra.items():
        output = _floating(value, f"output {key} at {name}")
        fits = output.ndim in (1, 2) and output.shape[0] == rows
        _expect(f"output {key} at {name}", output, f"[{rows}] or [{rows}, k]", fits)
        outputs[str(key)] = output
    return ExitAnswers(logits, features, outputs)


def _floating(value: Any, name: str) -> Tensor:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = f"a tensor of {value.dtype}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise InputError(f"expected {name} as a tensor of real numbers, found {kind}")
    return value.detach().cpu()


def _expect(name: str, tensor: Tensor, shape: str, fits: bool) -> None:
    if not fits:
        raise InputError(f"expected {name} of shape {shape}, found {list(tensor.shape)}")


def head_pairs(network: Network, answers: Sequence[ExitAnswers]) -> list[tuple[Tensor, Tensor]] | None:
    """The heads as (weight [classes, width], bias [classes]); an InputError where they do not give the logits."""
    if network.heads is None:
        return None
    if len(network.heads) != len(answers):
        raise InputError(f"expected {len(answers)} heads, one for each exit, found {len(network.heads)}")
    pairs = []
    for number, (head, answer) in enumerate(zip(network.heads, answers, strict=True), 1):
        weight, bias = _weight_and_bias(head, number)
        if answer.features is None:
            raise InputError(f"expected the features that head {number} reads, found none at exit {number}")
        expected = [len(network.classes), answer.features.shape[1]]
        if list(weight.shape) != expected or list(bias.shape) != expected[:1]:
            raise InputError(
                f"expected head {number} of weight {expected} and bias {expected[:1]},"
                f" found {list(weight.shape)} and {list(bias.shape)}"
            )
        logits = answer.features.double() @ weight.double().T + bias.double()
        error = float((logits - answer.logits.double()).abs().max())
        if not error <= HEAD_SLACK * max(1.0, float(logits.abs().max())):
            raise InputError(
                f"expected the logits W x + b of head {number} at exit {number}, found them {error:.3g} away:"
                " features must be the head's own input, with dropout off"
            )
        pairs.append((weight, bias))
    return pairs


def _weight_and_bias(head: Any, number: int) -> tuple[Tensor, Tensor]:
    if isinstance(head, nn.Linear):
        own_bias: Tensor = torch.zeros(head.out_features) if head.bias is None else head.bias
        return head.weight.detach().cpu().float(), own_bias.detach().cpu().float()
    if not isinstance(head, tuple) or len(head) != 2:
        raise InputError(f"expected head {number} as (weight, bias) or nn.Linear, found a {type(head).__name__}")
    weight, bias = (torch.as_tensor(part).detach().cpu().float() for part in head)
    return weight, bias
