"""Vector scaling: every class of every exit with a scale and a shift of its own.

.. math:: l_{m,c}' = a_{m,c} \\, l_{m,c} + s_{m,c}

The cross entropy with the labels is convex in scale and shift; a penalty of 0.0001 on ``a - 1`` and ``s`` keeps it
finite where the rows are separated. Unlike a temperature it can change answers. Heads stay linear.

Reference: Guo, Pleiss, Sun, Weinberger, *On Calibration of Modern Neural Networks*, ICML 2017.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from exitbench.cache import Cache
from exitbench.derive.calibration_rows import Array, label_targets, stored_logit_blocks
from exitbench.derive.contract import AnswerMethod, Need
from exitbench.derive.descent import minimum
from exitbench.derive.scaled_answers import ScaledAnswers
from exitbench.derive.softmax_regression import Blocks, Targets, log_softmax
from exitbench.signals.contract.signal import Reference

PENALTY = 1e-4


@dataclass(frozen=True)
class VectorScaling(AnswerMethod):
    """A scale and a shift for every class of every exit."""

    name: ClassVar[str] = "vector"
    title: ClassVar[str] = "Vector scaling"
    reference: ClassVar[Reference] = Reference(
        "On Calibration of Modern Neural Networks", 2017, "https://proceedings.mlr.press/v70/guo17a.html"
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"labels"})

    def fit(self, calibration: Cache) -> ScaledAnswers:
        targets = label_targets(calibration)
        scales = [
            fitted_scales(stored_logit_blocks(calibration, [layer]), targets) for layer in range(1, calibration.layers)
        ]
        return ScaledAnswers(calibration, [(torch.from_numpy(a), torch.from_numpy(s)) for a, s in scales])


def fitted_scales(read: Blocks, targets: Targets) -> tuple[Array, Array]:
    """The scale and shift of every class, [classes] each, of smallest cross entropy.

    ``read`` gives blocks [1, samples, classes] of a layer's logits.
    """
    samples, classes = targets.shape

    def objective(flat: Array) -> tuple[float, Array]:
        scale, shift = flat[:classes], flat[classes:]
        away = scale - 1.0
        loss = PENALTY / 2 * float(away @ away + shift @ shift)
        slopes, start = PENALTY * np.concatenate([away, shift]), 0
        for (logits,) in read():
            said = log_softmax(scale * logits + shift)
            wanted = targets[start : start + len(logits)]
            start += len(logits)
            residual = (np.exp(said) - wanted) / samples
            loss -= float((wanted * said).sum()) / samples
            slopes += np.concatenate([(residual * logits).sum(axis=0), residual.sum(axis=0)])
        return loss, slopes

    start = np.concatenate([np.ones(classes), np.zeros(classes)])
    best = minimum(objective, start, gradient=1e-9)
    return best[:classes], best[classes:]
