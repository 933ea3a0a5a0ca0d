"""The parts of ``fixtures/README.md`` on networks with several caches: how each was trained, and what it answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import make_cifar_caches
import make_recipe_caches
import numpy as np
import text_networks

from exitbench.cache import Cache, cache_card

CACHES = Path(__file__).resolve().parents[1] / "fixtures" / "caches"

CIFAR_TRAINING = {
    "resnet20": "The pretrained ResNet-20, fine-tuned for {steps} steps of 64 images by its last exit; then linear"
    " heads on the frozen, pooled features of the other blocks (logistic regression on {heads:,} training images).",
    "resnet20-joint": "`resnet20`, trained further for {joint} steps of 64 images by the sum of all exits' cross"
    " entropies.",
    "resnet56": "As `resnet20`, with the pretrained ResNet-56 and {steps} steps.",
}


@dataclass(frozen=True)
class Family:
    """A network and those of its caches that are there."""

    name: str
    training: str
    caches: tuple[Cache, ...]


def families() -> Iterator[Family]:
    """Every network with a cache in the folder, in the order in which they are made."""
    for name, layers in make_cifar_caches.NETWORKS.items():
        steps, joint, heads = (
            make_cifar_caches.STEPS[layers],
            make_cifar_caches.JOINT_STEPS,
            make_cifar_caches.HEAD_ROWS,
        )
        training = CIFAR_TRAINING[name].format(steps=steps, joint=joint, heads=heads)
        yield Family(name, training, present(f"{name}-cifar10-{split}" for split in make_cifar_caches.SPLITS))
    for network in text_networks.NETWORKS:
        command = " ".join(["exitbench", *network.train_words])
        yield Family(
            network.name, f"```\n{command}\n```", present(network.cache_name(split) for split in network.splits)
        )

    for trained in make_recipe_caches.NETWORKS:
        command = " ".join(["exitbench", *trained.train_words(make_recipe_caches.ROWS)])
        yield Family(trained.name, f"```\n{command}\n```", present(iter([f"{trained.name}-dev"])))


def present(names: Iterator[str]) -> tuple[Cache, ...]:
    """Those of the caches that are in the folder."""
    return tuple(Cache(CACHES / name) for name in names if (CACHES / name / "manifest.json").is_file())


def effective_rows(cache: Cache) -> float:
    """How many independent rows the grouped rows are worth for the last layer's accuracy: n over the design effect.

    The design effect is the variance of the accuracy when whole groups are drawn, over that of as many single rows.
    """
    right = (cache.predictions()[-1] == cache.truth()).astype(np.float64)
    deviation = right - right.mean()
    _, numbers = np.unique(np.asarray(cache.groups), return_inverse=True)
    by_group = np.bincount(numbers, weights=deviation)
    return float(len(right) * np.square(deviation).sum() / np.square(by_group).sum())


def layer_table(caches: Sequence[Cache]) -> str:
    """The accuracy of every layer of every cache; with many layers, every third."""
    layers = caches[0].layers
    shown = [layer for layer in range(1, layers + 1) if layers <= 12 or layer % 3 == 0]
    lines = [f"| layer | {' | '.join(map(str, shown))} |", f"|---|{'--:|' * len(shown)}"]
    for cache in caches:
        accuracy = cache_card(cache)["accuracy_per_layer"]
        values = " | ".join(f"{accuracy[layer - 1]:.1f}" for layer in shown)
        lines.append(f"| `{cache.name}` | {values} |")
    return "\n".join(lines)


def section(family: Family) -> str:
    """The part on one network."""
    notes = [
        f"`{cache.name}`: {cache.rows:,} rows in {len(np.unique(np.asarray(cache.groups))):,} groups, for the last"
        f" layer's accuracy worth {effective_rows(cache):,.0f} independent rows."
        for cache in family.caches
        if cache.groups is not None
    ]
    notes += [
        f"`{cache.name}` has no labels: its rows show agreement with the last layer."
        for cache in family.caches
        if not cache.labelled
    ]
    commands = "\n".join(cache_card(cache)["provenance"]["command"] for cache in family.caches)
    parts = [f"### {family.name}", family.training, f"```\n{commands}\n```", layer_table(family.caches), *notes]
    return "\n\n".join(parts) + "\n"
