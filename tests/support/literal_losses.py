"""The loss of every recipe written out in plain numbers, one sample and one layer at a time."""

import math
from collections.abc import Callable
from typing import Any

import torch

from exitbench.models.training.recipe import Moment, RecipeState

Logits = list[list[list[float]]]
"""[layers][samples][classes]"""


def log_softmax(row: list[float]) -> list[float]:
    top = max(row)
    total = top + math.log(sum(math.exp(value - top) for value in row))
    return [value - total for value in row]


def softmax(row: list[float]) -> list[float]:
    return [math.exp(value) for value in log_softmax(row)]


def ce(logits: Logits, labels: list[int], m: int) -> float:
    """The mean cross entropy of layer ``m`` (from 1)."""
    return sum(-log_softmax(row)[label] for row, label in zip(logits[m - 1], labels, strict=True)) / len(labels)


def mean_kl(logits: Logits, teacher: int, student: int) -> float:
    pairs = zip(logits[teacher - 1], logits[student - 1], strict=True)
    return sum(
        sum(p * (math.log(p) - said) for p, said in zip(softmax(t), log_softmax(s), strict=True)) for t, s in pairs
    ) / len(logits[0])


def total_ce(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    return sum(ce(logits, labels, m) for m in range(1, len(logits) + 1))


def final_then(second: Callable[..., float]) -> Callable[..., float]:
    """The last layer's cross entropy in the first stage, something else in the second."""

    def loss(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
        return second(logits, labels, moment, state) if moment.stage else ce(logits, labels, len(logits))

    return loss


def self_distillation(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    M, taught = len(logits), 0.0
    for m in range(M - 1):
        for teacher, student in zip(logits[M - 1], logits[m], strict=True):
            wanted, said = softmax([v / 3 for v in teacher]), log_softmax([v / 3 for v in student])
            taught -= sum(p * s for p, s in zip(wanted, said, strict=True)) / len(labels)
    return total_ce(logits, labels, moment, state) + 2 * 9 * taught


def mutual(later_only: bool) -> Callable[..., float]:
    def loss(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
        layers = range(1, len(logits) + 1)
        pairs = [(t, m) for m in layers for t in layers if (t > m if later_only else t != m)]
        return total_ce(logits, labels, moment, state) + 0.5 * sum(mean_kl(logits, t, m) for t, m in pairs)

    return loss


def sdn(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    M, t = len(logits), moment.epoch + 1
    weights = [min(m / M, 0.01 + t * (m / M) / moment.epochs) for m in range(1, M)]
    return ce(logits, labels, M) + sum(w * ce(logits, labels, m) for m, w in enumerate(weights, 1))


def cosee(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    """Normalised energy, the first epoch's range [0, 1], two thresholds; the draws are the test's own."""
    M, n, beta = len(logits), len(labels), 10 * moment.step / moment.steps
    energy = [[1 / (1 + sum(math.exp(v) for v in row)) for row in layer] for layer in logits]
    torch.manual_seed(5)
    loss = 0.0
    for tau in torch.rand(2).tolist():
        for i in range(n):
            leaves = next((m for m in range(1, M) if energy[m - 1][i] < tau), M)
            weights = [math.exp(-beta * abs(m - leaves)) for m in range(1, M + 1)]
            for m in range(1, M + 1):
                loss += weights[m - 1] / sum(weights) * -log_softmax(logits[m - 1][i])[labels[i]] / n / 2
    behind = []
    for m in range(M - 1):
        answers = [row.index(max(row)) == label for row, label in zip(logits[m], labels, strict=True)]
        right = [energy[m][i] for i in range(n) if answers[i]]
        wrong = [energy[m][i] for i in range(n) if not answers[i]]
        if right and wrong:
            behind.append(max(0.0, sum(right) / len(right) - sum(wrong) / len(wrong) + 0.3))
    return loss + 0.1 * sum(behind) / len(behind)


def difficulty_aware(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    rows, M = moment.rows.tolist(), len(logits)
    if moment.stage < 2:
        seen = [i for i, row in enumerate(rows) if int(state["part"][row]) != moment.stage]
        return sum(-log_softmax(logits[m][i])[labels[i]] / len(seen) for m in range(M) for i in seen)
    loss = total_ce(logits, labels, moment, state)
    for m in range(M - 1):
        hard = [i for i, row in enumerate(rows) if state["hard"][m, row]]
        easy = [i for i in range(len(rows)) if i not in hard]
        (only,) = hard  # one hard row at each layer, so that nothing is left to chance
        certainty = [max(softmax(row)) for row in logits[m]]
        behind = [max(0.0, 0.5 - (certainty[i] - certainty[only])) for i in easy]
        loss += 0.5 / (M - 1) * sum(behind) / len(easy)
    return loss


def alternating(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    if moment.epoch_step % 2 == 0:
        return ce(logits, labels, len(logits))
    return total_ce(logits, labels, moment, state)


def lte(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    M, unit = len(logits), SHOWN["lte"].tolist()
    wrong = [
        (unit[m][i] - (row.index(max(row)) == labels[i])) ** 2 for m in range(M) for i, row in enumerate(logits[m])
    ]
    exits = [M] if moment.epoch_step % 2 == 0 else range(1, M)
    return sum(ce(logits, labels, m) for m in exits) + sum(wrong) / len(wrong)


def ponder(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    M, n, loss = len(logits), len(labels), 0.0
    prior = [0.1 * 0.9 ** (m - 1) for m in range(1, M)]
    prior.append(1 - sum(prior))
    for i in range(n):
        gone = 0.0
        for m in range(M):
            hazard = 1 / (1 + math.exp(-float(SHOWN["hazard"][m, i])))
            share = 0.05 / M if gone > 0.95 else hazard * (1 - gone)
            gone += hazard * (1 - gone)
            loss += share * -log_softmax(logits[m][i])[labels[i]] / n
            loss += 0.5 * prior[m] * math.log(prior[m] / share) / n
    return loss


def policy(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    """Rows 0, 3 and 6 are wrong at layers 1, 2 and 3 alone: their memorised layers are 2, 3 and (the last wrong) 3."""
    M, n, loss = len(logits), len(labels), 0.0
    if moment.stage == 0:
        return sum(m * ce(logits, labels, m) for m in range(1, M + 1)) / sum(range(1, M + 1))
    memorised = {0: 2, 3: 3, 6: 3}
    for i, row in enumerate(moment.rows.tolist()):
        still_there = 1.0
        for m in range(1, M + 1):
            leaves = still_there * (float(SHOWN["policy"][m - 1, i]) if m < M else 1.0)
            price = 0.02785 * m * (1 - memorised.get(row, 1) / M)
            loss += leaves * (-log_softmax(logits[m - 1][i])[labels[i]] + price) / n
            still_there -= leaves
    return loss


def past_future(logits: Logits, labels: list[int], moment: Moment, state: RecipeState) -> float:
    layers = range(1, len(logits) + 1)
    weighted = sum(m * ce(logits, labels, m) for m in layers) / sum(layers)
    return (weighted + float(SHOWN["imitation"].double().mean())) / 2


SHOWN = {
    "lte": torch.rand(3, 7, generator=torch.Generator().manual_seed(1)),
    "hazard": 4 * torch.randn(3, 7, generator=torch.Generator().manual_seed(2)),
    "policy": torch.cat([torch.rand(2, 7, generator=torch.Generator().manual_seed(3)), torch.ones(1, 7)]),
    "imitation": torch.rand(2, 7, generator=torch.Generator().manual_seed(4)),
}
"""What additions say in the tests of losses, [layers, samples] each."""


LITERAL: dict[str, Callable[[Logits, list[int], Moment, Any], float]] = {
    "sum": total_ce,
    "mean": lambda logits, labels, *more: total_ce(logits, labels, *more) / len(logits),
    "depth-weighted": lambda logits, labels, *more: (
        sum(m * ce(logits, labels, m) for m in range(1, len(logits) + 1)) / sum(range(1, len(logits) + 1))
    ),
    "two-stage": final_then(lambda logits, labels, *more: sum(ce(logits, labels, m) for m in range(1, len(logits)))),
    "mixed": final_then(total_ce),
    "alternating": alternating,
    "distilled": final_then(
        lambda logits, labels, *more: sum(mean_kl(logits, len(logits), m) for m in range(1, len(logits)))
    ),
    "self-distillation[weight=2,temperature=3]": self_distillation,
    "mutual[weight=0.5]": mutual(later_only=False),
    "mutual[weight=0.5,teachers=later]": mutual(later_only=True),
    "sdn": sdn,
    "detached": total_ce,
    "cosee[thresholds=2]": cosee,
    "difficulty-aware": difficulty_aware,
    "lte": lte,
    "ponder": ponder,
    "policy": policy,
    "past-future": past_future,
    "disentangled": final_then(lambda logits, labels, *more: (2 * ce(logits, labels, 1) + ce(logits, labels, 2)) / 3),
}
"""By the recipe's text: parameters away from their defaults where the default would hide one."""
