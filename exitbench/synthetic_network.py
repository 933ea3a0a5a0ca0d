"""One synthetic multi-exit network: seeded heads and samples, layers that get better with depth.

A sample has a class and a difficulty that it keeps through all layers. In the space of the classes its feature is the
class direction, stronger layer by layer, plus noise that partly persists; outside that space it carries more the harder
it is, so that null-space scores have something to find. :func:`exitbench.cache.synthetic_cache` writes such samples to
disk, and the conformance checks of signals hold them in memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

PERSISTENT = 0.7
"""Share of the class-space noise that a sample keeps from layer to layer."""

STRENGTHS = (0.6, 2.6)
"""Strength of the class direction at the first and at the last layer, in units of the noise."""


@dataclass(frozen=True)
class SyntheticNetwork:
    """Class directions [layers, width, classes] and heads roughly along them; made by :func:`synthetic_network`.

    ``weight`` [layers, classes, width] and ``bias`` [layers, classes] are the heads.
    """

    directions: Tensor
    weight: Tensor
    bias: Tensor
    strengths: tuple[float, float]
    seed: int

    def samples(self, start: int, count: int) -> tuple[Tensor, Tensor]:
        """Labels [count] and features [layers, count, width] of the block that begins at row ``start``."""
        generator = seeded_generator(self.seed, 1_000 + start)
        layers, width, classes = self.directions.shape
        labels = torch.randint(classes, (count,), generator=generator)
        difficulty = torch.rand((count, 1), generator=generator)
        persistent = torch.randn((count, classes), generator=generator)
        features = torch.empty((layers, count, width))
        shallow, deep = self.strengths
        for m, directions in enumerate(self.directions):
            strength = shallow + (deep - shallow) * m / max(1, layers - 1)
            fresh = torch.randn((count, classes), generator=generator)
            noise = math.sqrt(PERSISTENT) * persistent + math.sqrt(1 - PERSISTENT) * fresh
            target = torch.nn.functional.one_hot(labels, classes) * strength * (1.5 - difficulty)
            inside = target + (0.3 + 0.7 * difficulty) * noise
            outside = (0.5 + difficulty) * torch.randn((count, width), generator=generator)
            outside = outside - (outside @ directions) @ directions.T
            features[m] = inside @ directions.T + outside
        return labels, features


def synthetic_network(
    layers: int, classes: int, width: int, seed: int, *, strengths: tuple[float, float] = STRENGTHS
) -> SyntheticNetwork:
    """The network of a seed, as good at its first and its last layer as ``strengths`` say.

    The same arguments give the same numbers.
    """
    generator = seeded_generator(seed, 1)
    random = torch.randn((layers, width, max(classes, 1)), generator=generator)
    directions = torch.linalg.qr(random)[0] if width >= classes else random / math.sqrt(width)
    gain = torch.linspace(1.0, 2.0, layers)[:, None, None]
    tilt = 0.02 * torch.randn((layers, classes, width), generator=generator)
    weight = gain * directions.transpose(1, 2) + tilt
    bias = 0.1 * torch.randn((layers, classes), generator=generator)
    return SyntheticNetwork(directions, weight, bias, strengths, seed)


def seeded_generator(seed: int, stream: int) -> torch.Generator:
    """A generator of random numbers for one purpose (a stream) under one seed."""
    return torch.Generator().manual_seed((seed * 1_000_003 + stream) % 2**63)
