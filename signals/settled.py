"""Settled: would the rest of the network change this answer, and would that do any good?

.. math:: s_m = \\sigma\\big((1 - w)\\, a_m + w\\, h_m\\big), \\qquad \\text{exit when } s_m \\ge \\tau

``a`` is the log-odds that the last layer gives the same answer, ``h`` the log-odds that exiting here is *harmless*: not
so that this answer is wrong and the last layer's right. Both come from logistic regressions on what this and earlier
layers said about the current answer, the columns of :mod:`exitbench.signals.meta`. An exit costs a right answer only
where it is harmful, so a hopeless sample, which no layer gets right, may exit at once; but harmful exits are rare, and
few rows teach little about them. Agreement is common, needs no label and is learned quickly. ``learns=both`` (w = 1/2)
takes the mean of the two on the scale on which they are learned; ``agreement`` (0) and ``harmlessness`` (1) are its
halves.

This is exitbench's own signal, not a published one; ``docs/own-signal.md`` says how it was designed and what it is
worth.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.logistic import Weights, logistic_weights, probability
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Reference
from exitbench.signals.contract.taken_layers import few_enough
from exitbench.signals.meta import calibration_columns, history_columns

PENALTY = 0.03
"""Chosen on the caches of the design; three times that of ``meta``, because harmful exits are rare."""


SHARES = {"both": 0.5, "agreement": 0.0, "harmlessness": 1.0}
"""The share of harmlessness in the score; the rest is agreement."""


@dataclass(frozen=True)
class Settled(LearnedSignal):
    """The probability that an answer is settled: that running on would not turn it from wrong to right."""

    name: ClassVar[str] = "settled"
    title: ClassVar[str] = "Settled"
    reference: ClassVar[Reference] = Reference("exitbench, docs/own-signal.md", 2026, "")
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True

    learns: str = parameter("both", choices=tuple(SHARES), help="what the score is learned from")
    weights: tuple[Weights, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.weights is None

    def told_apart(self) -> tuple[str, str]:
        return ("harmless exits", "harmful") if self.learns == "harmlessness" else ("as the last layer's", "other")

    def lessons(self, calibration: Sequence[Layer], labels: Tensor) -> Iterator[Tensor]:
        final = calibration[-1].prediction
        if self.learns == "harmlessness":
            return (harmless(layer.prediction, final, labels) for layer in calibration)
        return (layer.prediction == final for layer in calibration)

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        calibration, labels = few_enough(calibration, labels, calibration[0].classes + len(calibration))
        final = calibration[-1].prediction
        share = SHARES[self.learns]
        every_weights = []
        for layer, columns in calibration_columns(calibration):
            design = columns.cpu().numpy()
            agreement = logistic_weights(design, (layer.prediction == final).cpu().numpy(), penalty=PENALTY)
            harm = harmless(layer.prediction, final, labels).cpu().numpy()
            harmlessness = logistic_weights(design, harm, penalty=PENALTY)
            # The mean of two linear functions is one: this is all that a score needs.
            every_weights.append(
                tuple(
                    (1 - share) * agree + share * no_harm
                    for agree, no_harm in zip(agreement, harmlessness, strict=True)
                )
            )
        return dataclasses.replace(self, weights=tuple(every_weights))

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        self.require_layer(layer, self.weights)
        assert self.weights is not None
        columns, history = history_columns(layer, state)
        return probability(columns, self.weights[layer.index - 1]), history


def harmless(answer: Tensor, final: Tensor, labels: Tensor) -> Tensor:
    """Where exiting with ``answer`` does not lose a right answer of the last layer, [samples] bool."""
    return (answer == labels) | (final != labels)
