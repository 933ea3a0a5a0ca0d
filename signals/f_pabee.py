"""F-PABEE: exit when the answers of several layers in a row hardly differed from the layer before.

.. math:: s_m = \\max_{m-t < j \\le m} D(p_{j-1}, p_j), \\qquad \\text{exit when } s_m < \\tau

with, for ``p = p_{j-1}`` and ``q = p_j``, the divergence D one of ``kl`` = KL(p||q), ``reverse-kl`` = KL(q||p),
``symmetric-kl`` (their mean), ``jsd`` = (KL(p||r) + KL(q||r)) / 2 with ``r = (p + q) / 2``, and ``mean-entropy`` =
H(r), which is no divergence: of two equal answers it is their entropy, not 0. The window takes the divergences there
are (none at layer 1, which has no score), and no sample exits before layer t + 1.

Reference: Gao, Zhu, Gao, Yin, *F-PABEE: Flexible-Patience-Based Early Exiting for Single-Label and Multi-Label Text
Classification Tasks*, ICASSP 2023.

Text and code: the text's formula is ``divergence=jsd``, the default. What the public code calls JSD is the entropy of
the mean of the two distributions, ``divergence=mean-entropy``: low where both layers are sure of the same class, so it
ranks about as entropy does. The DIS that the NSP paper prints for F-PABEE (71 to 81 on SST-2) fits this form. The
code's second stream also skips a layer, which no cache can show: it is a way of computing, not of scoring.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.forms import Form
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.patience import empty_window, largest, push
from exitbench.signals.contract.signal import ExitSignal, Reference


def kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Kullback-Leibler divergence KL(p||q) in nats, [samples], from log-probabilities [samples, classes]."""
    return (log_p.exp() * (log_p - log_q)).sum(dim=1)


def jsd(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats, [samples], from log-probabilities [samples, classes].

    With ``d = |log p - log q|`` of a class and r the mean of p and q, ``log(r / max(p, q)) = log((1 + exp(-d)) / 2)``
    and ``log(r / min(p, q))`` is larger by d, so one logarithm serves both sides. Written with expm1 and log1p it is
    precise for every d: near 0, where two confident answers that agree lie, a difference of logarithms would keep
    nothing of a value that is itself almost 0.
    """
    apart = (log_p - log_q).abs()
    above = torch.log1p(torch.expm1(-apart) / 2)
    larger, smaller = torch.maximum(log_p, log_q).exp(), torch.minimum(log_p, log_q).exp()
    return (larger * above + smaller * (above + apart)).sum(dim=1) / -2


def mean_entropy(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Entropy of the mean of two distributions in nats, [samples], from log-probabilities [samples, classes].

    The logarithm of the mean r is that of the larger of p and q, less what :func:`jsd` calls ``above``: precise also
    where both answers are almost certain and the logarithm is almost 0.
    """
    log_r = torch.maximum(log_p, log_q) + torch.log1p(torch.expm1(-(log_p - log_q).abs()) / 2)
    return -(log_r.exp() * log_r).sum(dim=1)


def divergence(kind: str, log_p: Tensor, log_q: Tensor) -> Tensor:
    """The named divergence between two layers' answers, [samples], never below 0."""
    if kind == "kl":
        value = kl(log_p, log_q)
    elif kind == "reverse-kl":
        value = kl(log_q, log_p)
    elif kind == "symmetric-kl":
        value = (kl(log_p, log_q) + kl(log_q, log_p)) / 2
    elif kind == "mean-entropy":
        value = mean_entropy(log_p, log_q)
    else:
        value = jsd(log_p, log_q)
    return value.clamp(min=0.0)


@dataclass(frozen=True)
class FPABEE(ExitSignal):
    """The largest of the last few divergences between neighbouring layers."""

    name: ClassVar[str] = "f-pabee"
    title: ClassVar[str] = "F-PABEE"
    reference: ClassVar[Reference] = Reference(
        "F-PABEE: Flexible-Patience-Based Early Exiting for Single-Label and Multi-Label Text Classification Tasks",
        2023,
        "https://arxiv.org/abs/2305.11916",
    )
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True
    forms: ClassVar[tuple[Form, ...]] = (
        Form("text", "divergence=jsd", "the Jensen-Shannon divergence of two neighbouring answers"),
        Form("code", "divergence=mean-entropy", "the entropy of the mean of two neighbouring answers"),
    )
    beyond_the_score: ClassVar[tuple[str, ...]] = ("Its second stream skips a layer.",)

    divergence: str = parameter(
        "jsd",
        choices=("jsd", "mean-entropy", "kl", "reverse-kl", "symmetric-kl"),
        help="how two layers' answers are compared",
    )
    patience: int = parameter(2, grid=(1, 2, 3, 4, 5, 6), at_least=1, help="how many divergences in a row")

    @property
    def first_exit_layer(self) -> int:
        return self.patience + 1

    @property
    def first_scored_layer(self) -> int:
        return 2

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        log_q = layer.log_probabilities
        if state is None:
            return layer.no_score(), (log_q, empty_window(log_q, self.patience))
        log_p, window = state
        # Every patience asks for the same divergence; the earlier answers are part of what tells it apart.
        key = ("divergence", self.divergence, log_p)
        window = push(window, layer.once(key, lambda: divergence(self.divergence, log_p, log_q)))
        return largest(window), (log_q, window)
