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
from exitbench.derive.calibration_rows import Array, label_targets, logits64
from exitbench.derive.contract import AnswerMethod, Need
from exitbench.derive.descent import minimum
from exitbench.derive.scaled_answers import ScaledAnswers
from exitbench.derive.softmax_regression import log_softmax
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
        scales = [fitted_scales(logits64(calibration, layer), targets) for layer in range(1, calibration.layers)]
        return ScaledAnswers(calibration, [(torch.from_numpy(a), torch.from_numpy(s)) for a, s in scales])


def fitted_scales(logits: Array, targets: Array) -> tuple[Array, Array]:
    """The scale and shift of every class, [classes] each, of smallest cross entropy; both inputs [samples, classes]."""
    samples, classes = logits.shape

    def objective(flat: Array) -> tuple[float, Array]:
        scale, shift = flat[:classes], flat[classes:]
        said = log_softmax(scale * logits + shift)
        residual = (np.exp(said) - targets) / samples
        away = scale - 1.0
        loss = -float((targets * said).sum()) / samples + PENALTY / 2 * float(away @ away + shift @ shift)
        slopes = (residual * logits).sum(axis=0) + PENALTY * away
        return loss, np.concatenate([slopes, residual.sum(axis=0) + PENALTY * shift])

    start = np.concatenate([np.ones(classes), np.zeros(classes)])
    best = minimum(objective, start, gradient=1e-9)
    return best[:classes], best[classes:]
