"""Adapters inside the layers that feed the exits alone, and fixed heads that are as far apart as they can be (DREE).

.. math:: s_m = \\mathrm{LN}_m\\bigl(a + \\mathrm{FFN}(a) + \\alpha\\, U_m \\mathrm{ReLU}(D_m a)\\bigr), \\qquad
    \\hat x_m = \\frac{\\mathrm{BN}_m(x_m)}{\\|\\mathrm{BN}_m(x_m)\\|}, \\qquad l_m = \\hat x_m E_m

with :math:`a` the output of the layer's attention; :math:`s_m` is pooled for exit :math:`m < M` and goes nowhere
else, the last exit pools the layer's own output. :math:`E_m` are the directions of ``exitbench derive etf``, kept as
the heads' weights; so features, which are the unit vectors, and heads are linear. A batch of one sample is normalised
as outside training, since one sample has no spread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from exitbench.derive.methods.etf import simplex_directions
from exitbench.errors import InputError
from exitbench.models.network.additions.contract import (
    AddedModule,
    ExitAddition,
    ExitReading,
    NetworkSizes,
    linear_operations,
)
from exitbench.models.network.families import Context, Family
from exitbench.signals.contract.layer import State
from exitbench.signals.contract.parameters import parameter


class AdapterModule(AddedModule):
    """A bottleneck and a layer norm for each internal exit, a batch norm for each exit."""

    fixed_heads: ClassVar[bool] = True

    def __init__(self, sizes: NetworkSizes, bottleneck: int, scale: float) -> None:
        super().__init__()
        if sizes.width < sizes.classes:
            raise InputError(
                f"addition adapters needs at least as many features as classes, found {sizes.width} features and "
                f"{sizes.classes} classes"
            )
        self.sizes, self.bottleneck, self.scale = sizes, bottleneck, scale
        inner = range(sizes.depth - 1)
        self.down = nn.ModuleList(nn.Linear(sizes.width, bottleneck) for _ in inner)
        self.up = nn.ModuleList(nn.Linear(bottleneck, sizes.width) for _ in inner)
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.width, eps=sizes.norm_epsilon) for _ in inner)
        self.batch_norms = nn.ModuleList(nn.BatchNorm1d(sizes.width) for _ in range(sizes.depth))

    @torch.no_grad()
    def renew(self, model: Any) -> None:
        if not model.family.opens_layers:
            raise InputError(
                f"addition adapters needs layers of attention, feed-forward and norm, found {model.family.name}"
            )
        for m, head in enumerate(model.heads, 1):
            directions = simplex_directions(self.sizes.width, self.sizes.classes, 0, m)
            head.weight.copy_(torch.from_numpy(directions.T))
            head.bias.zero_()
        for norm, layer in zip(self.norms, model.backbone.encoder.layer, strict=False):
            norm.load_state_dict(layer.output.LayerNorm.state_dict())

    def layer(self, family: Family, m: int, hidden: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        if m == self.sizes.depth:
            return super().layer(family, m, hidden, context)
        onward, attended, summed = family.opened_layer(m, hidden, context)
        side = summed + self.scale * self.up[m - 1](functional.relu(self.down[m - 1](attended)))
        return onward, self.norms[m - 1](side)

    def features(self, m: int, pooled: Tensor) -> Tensor:
        norm = self.batch_norms[m - 1]
        assert isinstance(norm, nn.BatchNorm1d)
        batch = norm.training and len(pooled) > 1
        values = functional.batch_norm(
            pooled, norm.running_mean, norm.running_var, norm.weight, norm.bias, batch, norm.momentum or 0.0, norm.eps
        )
        return functional.normalize(values, dim=1)

    def reading(
        self, m: int, features: Tensor, seen: Tensor, head: Callable[[Tensor], Tensor], memory: State
    ) -> ExitReading:
        return ExitReading(head(features), {})

    def operations(self, length: int) -> int:
        each = 2 * length * linear_operations(self.sizes.width, self.bottleneck) + 8 * length * self.sizes.width
        return (self.sizes.depth - 1) * each


@dataclass(frozen=True)
class AdapterExits(ExitAddition):
    """Adapters for the exits, and fixed heads."""

    name: ClassVar[str] = "adapters"
    title: ClassVar[str] = "Adapters and simplex heads"

    bottleneck: int = parameter(128, at_least=1, help="width inside an adapter")
    scale: float = parameter(8.0, above=0, help="of what an adapter adds")

    def build(self, sizes: NetworkSizes) -> AdapterModule:
        return AdapterModule(sizes, self.bottleneck, self.scale)
