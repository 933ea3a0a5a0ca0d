"""Layers to test signals with: from plain logits, and of a made-up network whose answers firm up with depth."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from exitbench.signals import Layer, Registry, load_registry
from exitbench.signals.conformance.harness import one_thread

LayersOf = Callable[[NDArray[np.floating]], list[Layer]]


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    """The tensors of these tests are as small as those of the checks."""
    with one_thread():
        yield


def make_layers(logits: NDArray[np.floating]) -> list[Layer]:
    depth, samples, classes = logits.shape
    return [
        Layer(
            index=index,
            depth=depth,
            classes=classes,
            ids=torch.arange(samples),
            logits=torch.from_numpy(np.asarray(logits[index - 1], dtype=np.float32)),
        )
        for index in range(1, depth + 1)
    ]


@pytest.fixture(scope="session")
def layers_of() -> LayersOf:
    """A function from logits [layers, samples, classes] to layers."""
    return make_layers


@pytest.fixture(scope="session")
def real_looking() -> Callable[..., NDArray[np.float32]]:
    """A function that draws logits [layers, samples, classes] whose margins grow with depth, hard samples wavering."""

    def draw(seed: int, depth: int = 12, samples: int = 60, classes: int = 2) -> NDArray[np.float32]:
        rng = np.random.default_rng(seed)
        label = rng.integers(0, classes, samples)
        ease = rng.uniform(0, 6, samples)
        walk = rng.normal(size=(depth, samples, classes)).cumsum(axis=0) * 0.4
        rise = np.linspace(0.1, 1.0, depth)[:, None, None] * ease[:, None] * np.eye(classes)[label]
        return (walk + rise).astype(np.float32)

    return draw


@pytest.fixture(scope="session")
def registry() -> Registry:
    return load_registry()
