"""Layers whose truth is known: a rule that says when an answer is right, or none at all."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.signals import ExitSignal, Layer, score_layers


def layers_from(logits: NDArray[np.floating], features: NDArray[np.floating] | None = None) -> list[Layer]:
    """Layers with these logits [layers, samples, classes] and features [layers, samples, width]."""
    depth, samples, classes = logits.shape
    return [
        Layer(
            index=index,
            depth=depth,
            classes=classes,
            ids=torch.arange(samples) * 3 + 1,
            logits=torch.from_numpy(np.asarray(logits[index - 1], dtype=np.float32)),
            features=None if features is None else torch.from_numpy(np.asarray(features[index - 1], dtype=np.float32)),
        )
        for index in range(1, depth + 1)
    ]


def agreement_decides(rows: int, seed: int, depth: int = 4) -> tuple[list[Layer], Tensor]:
    """Two classes, margins that say nothing; an answer that the layer before shares is right 19 times in 20, else 10.

    The label is drawn by the answers of the last two internal layers.
    """
    draw = np.random.default_rng(seed)
    answers = draw.integers(0, 2, (depth, rows))
    margins = draw.uniform(0.5, 2.0, (depth, rows))
    agrees = answers[depth - 2] == answers[depth - 3]
    right = draw.uniform(size=rows) < np.where(agrees, 0.95, 0.5)
    labels = np.where(right, answers[depth - 2], 1 - answers[depth - 2])
    logits = np.zeros((depth, rows, 2))
    np.put_along_axis(logits, answers[:, :, None], margins[:, :, None], axis=2)
    return layers_from(logits), torch.from_numpy(labels)


def nothing_decides(rows: int, seed: int, depth: int = 4, width: int = 6) -> tuple[list[Layer], Tensor]:
    """Two classes; right answers, two in three, have nothing to do with anything a layer shows."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(size=(depth, rows, 2)) * 2
    labels = np.where(draw.uniform(size=rows) < 2 / 3, logits[1].argmax(axis=1), 1 - logits[1].argmax(axis=1))
    # The second layer's answers agree with the label whatever its margin is; all else is noise.
    return layers_from(logits, draw.normal(size=(depth, rows, width))), torch.from_numpy(labels)


def auroc(signal: ExitSignal, layers: list[Layer], labels: Tensor, layer: int) -> float:
    """The share of (right, wrong) pairs that the certainty at ``layer`` (from 1) puts in order, by counting."""
    score = score_layers(signal, layers)[layer - 1]
    certainty = score if ">" in signal.exits_when else -score
    right = layers[layer - 1].prediction == labels
    lead = certainty[right][:, None] - certainty[~right][None, :]
    return float((lead > 0).double().mean() + (lead == 0).double().mean() / 2)
