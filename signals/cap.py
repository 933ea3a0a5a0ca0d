"""CAP, the certainty-aware probability: exit when the logits are decided and the feature is about the classes.

.. math:: s_m = \\mathrm{sigmoid}(E_m + \\alpha \\, \\mathrm{NSP}_m), \\qquad \\text{exit when } s_m < \\tau

with E the energy at T = 1: entry 0 of the softmax over ``[alpha NSP, l_1, ..., l_C]``, the probability of "none of
the classes". At ``alpha=0`` it ranks as energy, so ``e-lang`` is its ablation. ``center=true`` centres both parts.
A head of full rank has no null space (see :mod:`exitbench.signals.nsp`): CAP would be energy under another name, and
such a layer has no score and no exit.

Reference: He, Zhang, Miao, Yi, Hao, Zhang, Wei, *Improving Prediction Certainty Estimation for Reliable Early Exiting
via Null Space Projection*, IJCAI 2025.

Text and code: the same formula with different weights. The text chooses alpha per task out of 0.01, 0.1, 1 and 10; the
code's arguments default to ``alpha=1``, as here, and its script sets ``alpha=0.1``. Not of the score: no clip before
NSP's root (see :mod:`exitbench.signals.nsp`); one pooler is shared by all layers; exits are simulated; MNLI is matched
only.

Precision: order is kept everywhere; near 1, where float64 steps by 1.1e-16, scores tie when their energies, near +30,
are closer than about 1e-3. Negative energies, those of decided samples, keep full precision down to -700.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.head_algebra import Head
from exitbench.signals.contract.forms import Form
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference
from exitbench.signals.e_lang import energy
from exitbench.signals.nsp import NSP, empty_null_space, null_space_share, small_null_space


@dataclass(frozen=True)
class CAP(ExitSignal):
    """Energy and the null space share, as one probability of "none of the classes"."""

    name: ClassVar[str] = "cap"
    title: ClassVar[str] = "CAP"
    reference: ClassVar[Reference] = NSP.reference
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "offset_norm", "head"})
    forms: ClassVar[tuple[Form, ...]] = (
        Form("text", "alpha=0.01|0.1|1|10", "the weight chosen per task"),
        Form("code, default of its arguments", "alpha=1", "weight 1"),
        Form("code, its script", "alpha=0.1", "weight 0.1"),
    )
    beyond_the_score: ClassVar[tuple[str, ...]] = NSP.beyond_the_score

    alpha: float = parameter(1.0, grid=(0.01, 0.1, 1.0, 10.0), at_least=0, help="weight of the null space share")
    center: bool = parameter(False, help="subtract the class mean from W, b and the logits first")

    @property
    def shift_invariant(self) -> bool:
        return self.center

    def unscored_head(self, head: Head) -> str:
        return empty_null_space(head, center=self.center)

    def head_note(self, head: Head) -> str:
        return small_null_space(head, center=self.center)

    def score(self, layer: Layer) -> Tensor:
        share = null_space_share(layer, center=self.center)
        # Not torch.sigmoid: its last few samples of a batch may differ from the others in the last bit.
        undecided = energy(layer, center=self.center) + self.alpha * share
        return undecided.neg_().exp_().add_(1.0).reciprocal_()
