"""Past and future states (GPFEE) on a frozen network: an exit reads all states so far and imagines the later ones.

.. math:: \\mathrm{past}_m = \\sum_{j \\le m} (s_j V_j + v_j), \\qquad
    \\mathrm{future}_m = \\sum_{j > m} (\\hat s_{m \\to j} V_j + v_j), \\qquad
    \\hat s_{m \\to j} = \\tanh(s_m I_j + c_j)

.. math:: l_m = 2 g_m \\odot \\mathrm{past}_m + (2 - 2 g_m) \\odot \\mathrm{future}_m, \\qquad
    g_m = \\sigma\\Bigl(\\tanh\\bigl(\\tfrac1m \\sum_{j \\le m} (s_j G_j + d_j)\\bigr) A + a\\Bigr)

The states are the cached head inputs. The loss is the published one, half of the mean cross entropy weighted by the
layer plus half of the mean ``1 - cos`` between imagined and later states; the published network trains all of itself
with it, this trains what is added to a frozen one, as the code of Zero Time Waste does (AdamW, learning rate 0.001,
weight decay 0.0001, batches of 32, five epochs). The problem is not convex: a seed decides the start and the order of
the rows.

Reference: Liao, Zhang, Ren, Su, Sun, He, *A Global Past-Future Early Exit Method for Accelerating Inference of
Pre-trained Language Models*, NAACL 2021.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from exitbench.cache import Cache
from exitbench.derive.contract import AnswerMethod, DerivedAnswers, Need
from exitbench.derive.fit_steps import Solution, step
from exitbench.errors import InputError
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference

BATCH, RATE, DECAY = 32, 1e-3, 1e-4
Rows = np.ndarray[tuple[int], np.dtype[np.intp]]


class PastFuture(torch.nn.Module):
    """What is added to the network: maps of every layer's state, and one gate; ``states`` are [samples, width] each."""

    def __init__(self, layers: int, width: int, classes: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def weights(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.randn(*shape, generator=generator) / shape[-2] ** 0.5)

        def zeros(*shape: int) -> torch.nn.Parameter:
            return torch.nn.Parameter(torch.zeros(*shape))

        self.imagine, self.imagine_shift = weights(layers, width, width), zeros(layers, width)
        self.answer, self.answer_shift = weights(layers, width, classes), zeros(layers, classes)
        self.gate, self.gate_shift = weights(layers, width, classes), zeros(layers, classes)
        self.mix, self.mix_shift = weights(classes, classes), zeros(classes)

    def imagined(self, state: Tensor, layer: int) -> Tensor:
        """The states of all layers after ``layer`` (from 1), [later layers, samples, width]."""
        return torch.tanh(state @ self.imagine[layer:] + self.imagine_shift[layer:, None])

    def parts(self, state: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """What the state of ``layer`` adds to answer and gate of every exit from there on, [samples, classes] each."""
        answer = state @ self.answer[layer - 1] + self.answer_shift[layer - 1]
        return answer, state @ self.gate[layer - 1] + self.gate_shift[layer - 1]

    def mixed(self, layer: int, past: Tensor, hints: Tensor, imagined: Tensor) -> Tensor:
        """The answer [samples, classes] at ``layer`` from the sums of :meth:`parts` so far and the imagined states."""
        future = (imagined @ self.answer[layer:] + self.answer_shift[layer:, None]).sum(dim=0)
        gate = torch.sigmoid(torch.tanh(hints / layer) @ self.mix + self.mix_shift)
        return 2 * gate * past + (2 - 2 * gate) * future

    def exit_logits(self, states: list[Tensor], imagined: Tensor) -> Tensor:
        """The answer [samples, classes] at the layer of the last of ``states``."""
        answers, hints = zip(*(self.parts(state, layer) for layer, state in enumerate(states, 1)), strict=True)
        return self.mixed(len(states), torch.stack(answers).sum(dim=0), torch.stack(hints).sum(dim=0), imagined)

    def loss(self, states: list[Tensor], labels: Tensor) -> Tensor:
        """Half of the layer-weighted cross entropy, half of the distance between imagined and later states."""
        exits = range(1, len(states))
        wrong, unlike = labels.new_zeros((), dtype=torch.float32), labels.new_zeros((), dtype=torch.float32)
        for layer in exits:
            imagined, later = self.imagined(states[layer - 1], layer), torch.stack(states[layer:])
            logits = self.exit_logits(states[:layer], imagined)
            wrong = wrong + layer * torch.nn.functional.cross_entropy(logits, labels)
            unlike = unlike + (1 - torch.nn.functional.cosine_similarity(imagined, later, dim=2)).mean()
        return (wrong / sum(exits) + unlike / len(exits)) / 2


class PastFutureAnswers(DerivedAnswers):
    """The answers of the trained maps."""

    not_linear = "a past-future exit mixes the states of all layers through a gate, which is not linear in the features"

    def __init__(self, maps: PastFuture) -> None:
        self.maps = maps.eval()

    @torch.inference_mode()
    def logits(self, source: Cache, rows: slice) -> list[Tensor]:
        states: list[Tensor] = []
        answers = []
        for layer in range(1, source.layers):
            states.append(source.features(layer, rows).float())
            answers.append(self.maps.exit_logits(states, self.maps.imagined(states[-1], layer)))
        return answers


@dataclass(frozen=True)
class PastFutureHeads(AnswerMethod):
    """Exits that read all states so far and imagine the later ones."""

    name: ClassVar[str] = "past-future"
    title: ClassVar[str] = "Past and future states (GPFEE, frozen)"
    reference: ClassVar[Reference] = Reference(
        "A Global Past-Future Early Exit Method for Accelerating Inference of Pre-trained Language Models",
        2021,
        "https://aclanthology.org/2021.naacl-main.162",
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"features", "labels"})

    epochs: int = parameter(5, at_least=1, help="passes over the rows")
    seed: int = parameter(0, at_least=0, help="of the start and the order of the rows")

    def fit(self, calibration: Cache) -> PastFutureAnswers:
        if len(set(calibration.widths)) > 1:
            raise InputError(
                f"method {self.text} maps states to states, so all exits need one width, found {calibration.widths}"
            )
        maps = PastFuture(calibration.layers, calibration.widths[0] or 0, calibration.classes, self.seed)
        optimizer = torch.optim.AdamW(maps.parameters(), lr=RATE, weight_decay=DECAY)
        states_of = state_reader(calibration)
        for epoch in range(self.epochs):

            def trained(epoch: int = epoch) -> dict[str, Tensor]:
                for rows in batches(calibration, epoch, self.seed):
                    states = states_of(rows)
                    optimizer.zero_grad()
                    loss = maps.loss(states, torch.from_numpy(calibration.labels[rows]))
                    loss.backward()  # type: ignore[no-untyped-call]
                    optimizer.step()
                return training_state(maps, optimizer)

            go_on_from(step(trained), maps, optimizer)
        return PastFutureAnswers(maps)


def training_state(maps: PastFuture, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Everything that the next pass over the rows depends on: the maps, and what the optimiser remembers of each."""
    names = [name for name, _ in maps.named_parameters()]
    remembered = optimizer.state_dict()["state"]
    state = {f"maps/{name}": tensor for name, tensor in maps.state_dict().items()}
    for number, name in enumerate(names):
        state |= {f"optimizer/{name}/{what}": tensor for what, tensor in remembered.get(number, {}).items()}
    return state


def go_on_from(state: Solution, maps: PastFuture, optimizer: torch.optim.Optimizer) -> None:
    """Put maps and optimiser into a state that :func:`training_state` gave."""
    remembered: dict[int, dict[str, Tensor]] = {}
    for number, (name, _) in enumerate(maps.named_parameters()):
        before = f"optimizer/{name}/"
        remembered[number] = {key.removeprefix(before): state[key] for key in state if key.startswith(before)}
    optimizer.load_state_dict({**optimizer.state_dict(), "state": remembered})
    maps.load_state_dict({key.removeprefix("maps/"): state[key] for key in state if key.startswith("maps/")})


def batches(cache: Cache, epoch: int, seed: int) -> Iterator[Rows]:
    """The rows of every batch of a pass, in a seeded order of the ids: it does not matter how a cache is sorted."""
    by_id = np.argsort(cache.ids, kind="stable")
    order = by_id[np.random.default_rng([seed, epoch]).permutation(cache.rows)]
    for start in range(0, cache.rows, BATCH):
        yield order[start : start + BATCH]


def state_reader(cache: Cache, most: int = 2**26) -> Callable[[Rows], list[Tensor]]:
    """Gives the features of any rows in their order, [rows, width] float32 for each layer.

    They are held where they have at most ``most`` elements (128 MB in half precision); of a larger cache each row is
    read where it lies, so that memory holds a batch.
    """
    layers = range(1, cache.layers + 1)
    if cache.rows * sum(width or 0 for width in cache.widths) <= most:
        held = [cache.features(layer) for layer in layers]
        return lambda rows: [features[torch.from_numpy(rows)].float() for features in held]
    return lambda rows: [
        torch.cat([cache.features(layer, slice(int(row), int(row) + 1)) for row in rows]).float() for layer in layers
    ]
