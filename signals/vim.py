"""ViM: exit when the logits outweigh a virtual logit made of the feature's residual.

.. math:: s_m = \\mathrm{logsumexp}(l_m) - \\alpha_m \\|V^\\top (x + o)\\|, \\qquad \\text{exit when } s_m \\ge \\tau

with V and o as in ``residual`` and :math:`\\alpha_m` the mean of the largest logit over the mean of that norm on the
calibration samples. ``sigmoid(-s)`` is the softmax probability of the virtual class: CAP's form, with the residual's
norm in the place of NSP.

Reference: Wang, Li, Feng, Zhang, *ViM: Out-Of-Distribution with Virtual-logit Matching*, CVPR 2022.

Where published code differs: principal space and alpha come from training features of the last layer; with few
calibration samples D is smaller, without which alpha would differ by a factor between fits: see ``residual``.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import learned
from exitbench.signals.contract.signal import ExitSignal, Reference
from exitbench.signals.contract.taken_layers import ById
from exitbench.signals.residual import Basis, Outside, Residual, fitted_basis, mean_outside_norm, outside_norm


@dataclass(frozen=True)
class ViM(ExitSignal):
    """Energy less the virtual logit of the residual."""

    name: ClassVar[str] = "vim"
    title: ClassVar[str] = "ViM"
    reference: ClassVar[Reference] = Residual.reference
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features", "head"})

    bases: tuple[Basis, ...] | None = learned()
    alphas: tuple[float, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.alphas is None

    @cached_property
    def outsides(self) -> list[Outside]:
        """The space outside the principal one at each layer."""
        return [Outside.of(basis) for basis in self.bases or ()]

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        bases, alphas = [], []
        for layer in ById(calibration)[:-1]:
            basis = fitted_basis(self.text, layer)
            residual = mean_outside_norm(self.text, layer, Outside.of(basis))
            bases.append(basis)
            alphas.append(float(layer.logits.amax(dim=1).double().mean()) / max(residual, 1e-12))
        return dataclasses.replace(self, bases=tuple(bases), alphas=tuple(alphas))

    def score(self, layer: Layer) -> Tensor:
        if self.alphas is None or layer.index > len(self.alphas):
            raise InputError(f"signal {self.text} must be fitted on a calibration set with layer {layer.index} first")
        norm = outside_norm(self.text, layer, self.outsides[layer.index - 1])
        return -layer.energy - self.alphas[layer.index - 1] * norm
