"""The algebra of a linear head: pseudo-inverse, rank decision and offset norms, which NSP and CAP are computed from.

For logits ``l = W x + b`` the offset ``o = pinv(W) b`` moves the bias into the feature: ``x~ = x + o``.
With P the projector on W's row space, ``||P x~||^2 = l^T (W W^T)^+ l``, so a null-space score needs the
logits, the small matrix ``(W W^T)^+`` and the *offset norm* ``||x~||``, but never the feature again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

RANK_TOLERANCE = 1e-4
"""Singular values below this part of the largest count as zero: the logits are only float32."""

BLOCK_ELEMENTS = 2**19
"""Elements converted to float32 at a time: 2 MB stay near the processor, and calls are few beside the work in them."""


@dataclass(frozen=True)
class Head:
    """One layer's linear classifier and its algebra, in float64; made by :func:`head_algebra`.

    ``weight`` [classes, width]; ``bias`` [classes]; ``gram_inverse`` [classes, classes] is the pseudo-inverse of
    ``W W^T``; ``offset`` [width] is ``pinv(W) b``; ``rank`` is the one rank decision behind them.
    """

    weight: Tensor
    bias: Tensor
    gram_inverse: Tensor
    offset: Tensor
    rank: int

    @property
    def width(self) -> int:
        """The number of features it reads."""
        return int(self.weight.shape[1])

    @cached_property
    def centered(self) -> Head:
        """The algebra after the class mean is taken from the rows of W and from b."""
        return head_algebra(self.weight - self.weight.mean(dim=0), self.bias - self.bias.mean())

    def to(self, device: torch.device | str) -> Head:
        """The same head on another device."""
        weight, bias = self.weight.to(device), self.bias.to(device)
        return Head(weight, bias, self.gram_inverse.to(device), self.offset.to(device), self.rank)


def head_algebra(weight: Tensor, bias: Tensor) -> Head:
    """The algebra of the head with ``weight`` [classes, width] and ``bias`` [classes].

    One singular value decomposition in float64 decides the rank (singular values below 1e-4 of the
    largest are dropped) and gives the offset ``pinv(W) b`` [width] and ``(W W^T)^+`` [classes, classes].

    >>> head = head_algebra(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([6.0, 4.0]))
    >>> head.offset.tolist(), head.rank
    ([2.0, 1.0], 2)
    """
    weight, bias = weight.detach().double(), bias.detach().double()
    left, singular, right = torch.linalg.svd(weight, full_matrices=False)
    largest = singular.max() if singular.numel() else singular.new_zeros(())
    kept = (singular > RANK_TOLERANCE * largest) & (singular > 0)
    inverse = torch.where(kept, 1 / torch.where(kept, singular, 1), 0)
    offset = right.T @ (inverse * (left.T @ bias))
    gram_inverse = (left * inverse**2) @ left.T
    return Head(weight, bias, gram_inverse, offset, int(kept.sum()))


def offset_norms(features: Tensor, offset: Tensor) -> Tensor:
    """``||x + o||`` of every row of ``features`` [samples, width], as float32 [samples].

    A row's norm depends on that row alone, bit for bit: never on the rows beside it, the size of a batch or the number
    of threads. Rows are converted into one reused float32 buffer, so memory does not grow with the samples.
    """
    shift = offset.to(device=features.device, dtype=torch.float32)
    if features.numel() <= BLOCK_ELEMENTS:
        return (features.float().contiguous() + shift).square_().sum(dim=1).sqrt_()
    samples, width = features.shape
    rows = max(1, BLOCK_ELEMENTS // width)
    norms = torch.empty(samples, dtype=torch.float32, device=features.device)
    buffer = torch.empty((rows, width), dtype=torch.float32, device=features.device)
    for block, sums in zip(torch.split(features, rows), torch.split(norms, rows), strict=True):
        squares = buffer[: len(block)].copy_(block).add_(shift).square_()
        # A sum keeps several running totals; a vector norm has a single one, and every addition waits for the last.
        torch.sum(squares, dim=1, out=sums)
    return norms.sqrt_()
