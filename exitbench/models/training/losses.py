"""The parts that losses are made of."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional


def sample_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The cross entropy of every layer and sample, [layers, samples]; logits [layers, samples, classes]."""
    layers, samples, classes = logits.shape
    repeated = labels.expand(layers, samples).reshape(-1)
    each = functional.cross_entropy(logits.reshape(-1, classes), repeated, reduction="none")
    return each.view(layers, samples)


def exit_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy of every layer, [layers]."""
    return sample_losses(logits, labels).mean(dim=1)


def soft_cross_entropy(teacher: Tensor, student: Tensor, temperature: float = 1.0) -> Tensor:
    """The cross entropy of the student's softmax towards the teacher's, [..., samples]; nothing flows to the teacher.

    Both are logits [..., samples, classes], divided by the temperature.
    """
    wanted = (teacher.detach() / temperature).softmax(dim=-1)
    return -(wanted * (student / temperature).log_softmax(dim=-1)).sum(dim=-1)


def divergence_from(teacher: Tensor, student: Tensor, temperature: float = 1.0) -> Tensor:
    """The KL divergence of the student's softmax from the teacher's, as :func:`soft_cross_entropy` takes them."""
    entropy = soft_cross_entropy(teacher, teacher.detach(), temperature)
    return soft_cross_entropy(teacher, student, temperature) - entropy


def depth_weights(like: Tensor) -> Tensor:
    """``m / (1 + ... + M)`` for every layer, [layers], on the device and in the type of ``like`` [layers]."""
    numbers = like.new_tensor(range(1, len(like) + 1))
    return numbers / numbers.sum()
