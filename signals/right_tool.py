"""Right-Tool: exit when the largest calibrated probability is high.

.. math:: s_m = \\max_c \\mathrm{softmax}(l_m / T_m)_c, \\qquad \\text{exit when } s_m \\ge \\tau

``temperature=none`` takes ``T_m = 1``; ``temperature=fitted`` takes the ``T_m`` that minimises the negative
log-likelihood of layer m on the calibration samples.

Reference: Schwartz, Stanovsky, Swayamdipta, Dodge, Smith, *The Right Tool for the Job: Matching Model and Instance
Complexities*, ACL 2020.

Text and code: both divide by temperatures fitted on the development set, ``temperature=fitted``; the NSP paper compares
with the plain softmax score, ``temperature=none``, the default here. Not of the score: the published network has four
exits only; here every internal layer is one.

The fit: the likelihood is convex in ``1 / T``, so its minimum is where the derivative changes sign; that root is
found in ``ln T`` between T = 0.05 and T = 100. When the calibration samples are separated perfectly the likelihood
has no minimum (T would go to 0) and the lower bound is taken; when a layer is worse than guessing, the upper one.
When all logits are equal every T is as good, and T = 1 is taken.

Precision: next to 1 float64 steps by 1.1e-16. Scores of two classes never come in the wrong order, but two margins
near 30 tie when they are closer than about 1e-3, and near 25 when closer than 1e-5; below 22 no two margins of float32
logits tie. Entropy tells all of them apart.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.forms import Form
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import ExitSignal, Reference
from exitbench.signals.contract.taken_layers import ById, logit_blocks

COLDEST, HOTTEST = 0.05, 100.0


@dataclass(frozen=True)
class RightTool(ExitSignal):
    """Largest softmax probability, calibrated or not."""

    name: ClassVar[str] = "right-tool"
    title: ClassVar[str] = "Right-Tool"
    reference: ClassVar[Reference] = Reference(
        "The Right Tool for the Job: Matching Model and Instance Complexities",
        2020,
        "https://aclanthology.org/2020.acl-main.593",
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True
    probability_of: ClassVar[str] = "right"
    forms: ClassVar[tuple[Form, ...]] = (
        Form("text and code", "temperature=fitted", "the largest probability after one fitted temperature per layer"),
        Form("as a baseline of the NSP paper", "temperature=none", "the largest probability as the head gives it"),
    )
    beyond_the_score: ClassVar[tuple[str, ...]] = ("The published network has four exits only.",)

    temperature: str = parameter("none", choices=("none", "fitted"), help="one temperature per layer, or none")
    temperatures: tuple[float, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.temperature == "fitted" and self.temperatures is None

    def score(self, layer: Layer) -> Tensor:
        if self.temperature == "none":
            return layer.log_probabilities.amax(dim=1).exp()
        if self.temperatures is None:
            raise InputError(f"signal {self.text} must be fitted on a calibration set before it can score")
        if layer.index > len(self.temperatures):
            raise InputError(
                f"signal {self.text} was fitted on {len(self.temperatures)} layers, found layer {layer.index}"
            )
        cooled = dataclasses.replace(layer, logits=layer.logits64 / self.temperatures[layer.index - 1])
        return cooled.log_probabilities.amax(dim=1).exp()

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        if self.temperature == "none":
            return self
        ordered = ById(calibration)
        labels = labels[ordered.rows] if len(labels) == len(ordered.rows) else labels
        return dataclasses.replace(self, temperatures=tuple(fitted_temperature(layer, labels) for layer in ordered))


def fitted_temperature(layer: Layer, labels: Tensor) -> float:
    """The temperature in [0.05, 100] under which the labels [samples] are most likely given the layer's logits."""
    if labels.shape != (layer.samples,) or layer.samples == 0:
        raise InputError(
            f"fitting layer {layer.index} needs one label for each of {layer.samples} samples (at least one), "
            f"found labels of shape {list(labels.shape)}"
        )
    if int(labels.min()) < 0 or int(labels.max()) >= layer.classes:
        raise InputError(
            f"fitting layer {layer.index}: expected labels 0..{layer.classes - 1}, "
            f"found {int(labels.min())}..{int(labels.max())}"
        )
    of_label = layer.logits.gather(1, labels.to(layer.logits.device)[:, None])[:, 0].double()
    # brentq leaves a function that refers to itself, and so keeps what it can reach until the next collection of
    # cycles: through this list it reaches the layer while it is at work, and nothing afterwards.
    held = [layer]

    def slope(log_temperature: float) -> float:
        """Derivative of the mean negative log-likelihood with respect to 1 / T."""
        temperature = math.exp(log_temperature)
        logits = (block.logits64 for block in logit_blocks(held[0]))
        expected = torch.cat([(torch.softmax(part / temperature, dim=1) * part).sum(dim=1) for part in logits])
        return float((expected - of_label).mean())

    low, high = math.log(COLDEST), math.log(HOTTEST)
    at_low, at_high = slope(low), slope(high)
    if at_low == 0.0 and at_high == 0.0:
        return 1.0
    if at_low <= 0.0:
        return COLDEST
    if at_high >= 0.0:
        return HOTTEST
    from scipy.optimize import brentq  # half a second to load, and only a fit needs it

    root = brentq(slope, low, high, xtol=1e-12, rtol=1e-12)
    held.clear()
    return math.exp(root)
