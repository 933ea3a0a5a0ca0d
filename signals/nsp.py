"""NSP: exit when little of the feature lies where the head cannot see it.

With ``o = pinv(W) b`` the head's bias becomes part of the feature, ``x~ = x + o``; with P the projector on the row
space of W,

.. math:: s_m = \\|\\tilde x - P \\tilde x\\| / \\|\\tilde x\\| \\in [0, 1], \\qquad \\text{exit when } s_m < \\tau

and ``s = 1`` at ``x~ = 0``. No feature is read: ``||P x~||^2 = l^T (W W^T)^+ l``, so the logits, one C x C matrix per
layer and the offset norm ``||x~||`` are enough: about 2N + 2C^2 operations in place of 2N^2.

``center=true`` takes the class mean out of W's rows, b and the logits first, which moves the offset as well. The
new offset norm follows from the old one, since ``x~ . o = b^T G l`` and ``||o||^2 = b^T G b`` with
``G = (W W^T)^+``, and likewise for the centred head:

    ||x + o_c||^2 = ||x~||^2 - 2 b^T G l + b^T G b + 2 b_c^T G_c l_c - b_c^T G_c b_c

All of it holds for a rank-deficient W: G removes the parts of b and l outside W's range. A head of full rank, with at
least as many classes as features, has no null space: such a layer has no score and no exit.

Reference: He, Zhang, Miao, Yi, Hao, Zhang, Wei, *Improving Prediction Certainty Estimation for Reliable Early Exiting
via Null Space Projection*, IJCAI 2025.

Text and code: the same formula, so there is one form. The code has no clip before the root: where rounding leaves
``1 - ||P x~||^2 / ||x~||^2`` below 0 it has a NaN, and such a sample silently never exits. That is a lost score, not
another one, and it needs a feature that lies within W's row space; on the committed caches the clip changes nothing.
Not of the score: NSP cannot be run alone there; one pooler is shared by all layers, so that features are another
network's; all layers are computed and the exits simulated.

Precision: logits and offset norms are float32, so ``s^2`` is good to about 1e-7 (times the spread of W's singular
values). Where s itself is near 0 the root makes that 3e-4; for s above 0.1 it is below 1e-6.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.head_algebra import Head
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference

SMALL_NULL_SPACE = 0.1
"""Up to this part of the features a null space is small: what it holds is mostly chance."""


def null_space_share(layer: Layer, *, center: bool = False) -> Tensor:
    """The share of each shifted feature's norm that lies outside W's row space, [samples] float64 in [0, 1].

    NaN for all where nothing lies outside, because the head has full rank: what rounding leaves there is noise.
    """
    if layer.head is None or layer.offset_norm is None:
        raise InputError(
            f"layer {layer.index}: the null space projection needs heads and offset norms, and this input has "
            f"{'no heads' if layer.head is None else 'no offset norms'}"
        )
    head, norm = layer.head, layer.offset_norm
    if empty_null_space(head, center=center):
        return layer.no_score()
    # NSP and every alpha of CAP ask for the same numbers.
    return layer.once(("null space share", center), lambda: outside_share(layer.logits64, norm.double(), head, center))


def empty_null_space(head: Head, *, center: bool = False) -> str:
    """Why a head has no null space to project on: its rank is the number of features; empty where it has one."""
    seen = head.centered if center else head
    if seen.rank < seen.width:
        return ""
    return f"the head has full rank, its null space is empty (rank {seen.rank} of {seen.width})"


def small_null_space(head: Head, *, center: bool = False) -> str:
    """A note on a head whose null space has few dimensions; empty for all other heads."""
    seen = head.centered if center else head
    left = seen.width - seen.rank
    if left > SMALL_NULL_SPACE * seen.width or left == 0:
        return ""
    dimensions = "1 dimension" if left == 1 else f"{left} dimensions"
    return f"the head has nearly full rank ({seen.rank} of {seen.width}): its null space has {dimensions}"


def outside_share(logits: Tensor, norm: Tensor, head: Head, center: bool) -> Tensor:
    """The same from float64 logits [samples, classes] and offset norms [samples]."""
    squared_norm = norm.square()
    if center:
        centered = head.centered
        logits_c = logits - logits.mean(dim=1, keepdim=True)
        squared_norm = squared_norm - moved(head, logits) + moved(centered, logits_c)
        logits, head = logits_c, centered
    inside = (logits * (logits @ head.gram_inverse)).sum(dim=1)
    # Of nothing all lies outside: whatever is seen inside, divided by infinity, is 0.
    seen = inside / torch.where(squared_norm <= 0.0, torch.inf, squared_norm)
    return seen.neg_().add_(1.0).clamp_(0.0, 1.0).sqrt_()


def moved(head: Head, logits: Tensor) -> Tensor:
    """How much the head's offset adds to the squared norm of each feature, ``||x + o||^2 - ||x||^2``, [samples]."""
    seen = head.gram_inverse @ head.bias
    return 2.0 * (logits @ seen) - head.bias @ seen


@dataclass(frozen=True)
class NSP(ExitSignal):
    """The share of the feature in the null space of the head."""

    name: ClassVar[str] = "nsp"
    title: ClassVar[str] = "NSP"
    reference: ClassVar[Reference] = Reference(
        "Improving Prediction Certainty Estimation for Reliable Early Exiting via Null Space Projection",
        2025,
        "https://doi.org/10.24963/ijcai.2025/898",
    )
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "offset_norm", "head"})
    beyond_the_score: ClassVar[tuple[str, ...]] = (
        "There is no clip before the root: rounding can give NaN, and such a sample silently never exits.",
        "NSP alone cannot be run.",
        "One pooler is shared by all layers; all layers are computed and the exits simulated; MNLI is matched only.",
    )

    center: bool = parameter(False, help="subtract the class mean from W, b and the logits first")

    @property
    def shift_invariant(self) -> bool:
        return self.center

    def unscored_head(self, head: Head) -> str:
        return empty_null_space(head, center=self.center)

    def head_note(self, head: Head) -> str:
        return small_null_space(head, center=self.center)

    def score(self, layer: Layer) -> Tensor:
        return null_space_share(layer, center=self.center)
