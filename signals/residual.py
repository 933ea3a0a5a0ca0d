"""Residual, the feature part of ViM: exit when little of the feature lies outside the directions that features take.

.. math:: s_m = -\\|V^\\top (x + o)\\|, \\qquad \\text{exit when } s_m \\ge \\tau

with ``o = pinv(W) b`` (as in NSP) and V the eigenvectors of ``sum (x + o)(x + o)^T`` over the calibration samples
beyond the D largest: D = 1000 from a width of 2048 on, 512 from 768 on, half the width below; never more than half the
calibration samples. With D near their number they have next to no residual themselves: of 557 and 697 samples of width
768 on the committed SST-2 cache, fresh ones have 11 and 4 times as much at D = 512, so that no threshold carries over
from one fit to another; at half the samples it is 2.2 times in both.

Reference: Wang, Li, Feng, Zhang, *ViM: Out-Of-Distribution with Virtual-logit Matching*, CVPR 2022.

Where published code differs: it takes the principal space of training features of the last layer, of which there are
many more than D. It asks whether an input is typical, which is another question than whether the answer is right.
Of V and the principal directions U the smaller is kept, in float32: ``V^T z`` and ``z - U U^T z`` are equally long.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import (
    Packed,
    block_slices,
    lengths,
    pack,
    require_features,
    require_rows,
    second_moment,
    unpack,
)
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import learned
from exitbench.signals.contract.signal import ExitSignal, Reference
from exitbench.signals.contract.taken_layers import ById

Basis = tuple[bool, Packed]
"""Whether the directions are the principal ones, and the directions."""


@dataclass(frozen=True)
class Residual(ExitSignal):
    """The norm of the feature outside its principal space."""

    name: ClassVar[str] = "residual"
    title: ClassVar[str] = "Residual (ViM)"
    reference: ClassVar[Reference] = Reference(
        "ViM: Out-Of-Distribution with Virtual-logit Matching", 2022, "https://arxiv.org/abs/2203.10807"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features", "head"})

    bases: tuple[Basis, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.bases is None

    @cached_property
    def outsides(self) -> list["Outside"]:
        """The space outside the principal one at each layer."""
        return [Outside.of(basis) for basis in self.bases or ()]

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        bases = tuple(fitted_basis(self.text, layer) for layer in ById(calibration)[:-1])
        return dataclasses.replace(self, bases=bases)

    def score(self, layer: Layer) -> Tensor:
        if self.bases is None or layer.index > len(self.bases):
            raise InputError(f"signal {self.text} must be fitted on a calibration set with layer {layer.index} first")
        return -outside_norm(self.text, layer, self.outsides[layer.index - 1])


@dataclass(frozen=True, eq=False)
class Outside:
    """The space outside the principal one: by its own directions [width, width - D], or by the principal ones.

    ``directions`` are in float64, ``principal`` says which they are.
    """

    directions: Tensor
    principal: bool

    @classmethod
    def of(cls, basis: Basis) -> "Outside":
        """From a fitted value."""
        return cls(unpack(basis[1]), basis[0])

    def norm(self, features: Tensor, offset: Tensor) -> Tensor:
        """The length of the part of each ``x + o`` that lies there, [samples] float64."""
        shifted = features.double() + offset
        directions = self.directions.to(shifted.device)
        part = shifted @ directions
        return lengths(shifted - part @ directions.T if self.principal else part)


def principal_dimensions(width: int, samples: int) -> int:
    """How many directions count as principal: the publication's rule, but at most half the samples."""
    published = 1000 if width >= 2048 else 512 if width >= 768 else width // 2
    return min(published, samples // 2)


def fitted_basis(signal: str, layer: Layer) -> Basis:
    """The directions that shifted features take most, or those that they take least, whichever are fewer."""
    from scipy.linalg import eigh

    if layer.head is None:
        raise InputError(f"layer {layer.index}: signal {signal} needs heads, and this input has none")
    features = require_rows(signal, layer)
    moment = second_moment(features, layer.head.offset.cpu().numpy())
    _, vectors = eigh(moment, driver="evd")  # all of them in half the time that LAPACK takes for two thirds
    outside = len(moment) - principal_dimensions(len(moment), len(features))
    principal = 0 < len(moment) - outside < outside
    vectors = vectors[:, outside:] if principal else vectors[:, :outside]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return principal, pack(vectors * signs, "float32")


def outside_norm(signal: str, layer: Layer, outside: Outside) -> Tensor:
    """The norm of each shifted feature outside the principal space, [samples] float64."""
    if layer.head is None:
        raise InputError(f"layer {layer.index}: signal {signal} needs heads, and this input has none")
    return outside.norm(require_features(signal, layer), layer.head.offset)


def mean_outside_norm(signal: str, layer: Layer, outside: Outside) -> float:
    """The mean of :func:`outside_norm` over the layer's samples, block by block."""
    features = require_rows(signal, layer)
    assert layer.head is not None
    norms = torch.empty(len(features), dtype=torch.float64)
    for rows in block_slices(features):  # into one array: small ones kept between large ones would scatter memory
        norms[rows] = outside.norm(features[rows], layer.head.offset)
    return float(norms.mean())
