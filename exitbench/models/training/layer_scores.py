"""The score of every layer on a labelled split, while training."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from exitbench.cache import Task
from exitbench.models.data.batches import Tokens, length_batches
from exitbench.models.network.multi_exit import MultiExitModel


def confusion_counts(model: MultiExitModel, tokens: Tokens, batch_size: int, rank: int = 0, ranks: int = 1) -> Tensor:
    """How often class i was answered with class j at each layer, [layers, classes, classes] int64.

    With several processes each counts its own batches; the sum over processes is the whole split's.
    """
    M, C = model.depth, len(model.config.classes)
    counts = torch.zeros(M, C * C, dtype=torch.int64, device=model.device)
    for _, labels, answers in _answers(model, tokens, batch_size, rank, ranks):
        for m in range(M):
            counts[m] += torch.bincount(labels * C + answers[m], minlength=C * C)
    return counts.view(M, C, C)


def right_answers(model: MultiExitModel, tokens: Tokens, batch_size: int, rank: int = 0, ranks: int = 1) -> Tensor:
    """Which samples each layer answers right, [layers, samples] int64 of 0 and 1; of several processes their sum."""
    right = torch.zeros(model.depth, len(tokens), dtype=torch.int64, device=model.device)
    for rows, labels, answers in _answers(model, tokens, batch_size, rank, ranks):
        right[:, rows] = (answers == labels).long()
    return right


@torch.no_grad()
def _answers(
    model: MultiExitModel, tokens: Tokens, batch_size: int, rank: int, ranks: int
) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Rows, their labels [samples] and every layer's answers [layers, samples], batch by batch of this process."""
    was_training = model.training
    model.eval()
    for rows in length_batches(tokens.lengths, range(len(tokens)), batch_size)[rank::ranks]:
        batch = tokens.batch(rows).to(model.device)
        assert batch.labels is not None
        yield rows, batch.labels, model(batch).logits.argmax(dim=2)
    model.train(was_training)


def layer_scores(counts: Tensor, task: Task) -> list[float]:
    """The task's metric in percent for every layer, from confusion counts [layers, classes, classes]."""
    if task.metric == "f1":
        true_positives = counts[:, 1, 1].double()
        actual_positives, predicted_positives = counts[:, 1].sum(1), counts[:, :, 1].sum(1)
        scores = 2 * true_positives / (actual_positives + predicted_positives).clamp(min=1)
    else:
        scores = counts.diagonal(dim1=1, dim2=2).sum(1).double() / counts.sum((1, 2))
    return [100 * float(score) for score in scores]
