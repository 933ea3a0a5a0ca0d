"""Temperature scaling: every exit's logits divided by the temperature that makes its labels most likely.

.. math:: l_m' = l_m / T_m

It changes no answer, only how sure an exit says it is, so that one threshold comes to mean the same at every layer.
With two classes no ranking within a layer moves; with more, that of max-softmax can. Heads stay linear: ``W / T`` and
``b / T``.

Reference: Guo, Pleiss, Sun, Weinberger, *On Calibration of Modern Neural Networks*, ICML 2017.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch

from exitbench.cache import Cache
from exitbench.derive.contract import AnswerMethod, Need
from exitbench.derive.scaled_answers import ScaledAnswers
from exitbench.signals.contract.layer import Layer
from exitbench.signals.contract.signal import Reference
from exitbench.signals.right_tool import fitted_temperature


@dataclass(frozen=True)
class Temperature(AnswerMethod):
    """One temperature per exit."""

    name: ClassVar[str] = "temperature"
    title: ClassVar[str] = "Temperature scaling"
    reference: ClassVar[Reference] = Reference(
        "On Calibration of Modern Neural Networks", 2017, "https://proceedings.mlr.press/v70/guo17a.html"
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"labels"})

    def fit(self, calibration: Cache) -> ScaledAnswers:
        labels, ids = torch.from_numpy(calibration.labels), torch.from_numpy(calibration.ids)
        depth, classes = calibration.layers, calibration.classes
        scales = []
        for index in range(1, depth):
            layer = Layer(index=index, depth=depth, classes=classes, ids=ids, logits=calibration.logits(index))
            scale = torch.full((classes,), 1.0 / fitted_temperature(layer, labels), dtype=torch.float64)
            scales.append((scale, torch.zeros(classes, dtype=torch.float64)))
        return ScaledAnswers(calibration, scales)
