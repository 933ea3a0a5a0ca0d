"""Easy rows more certain than hard ones (CascadeBERT's regulariser), at every internal exit of one network.

.. math:: L = \\sum_m \\mathrm{CE}_m + w \\, \\frac{1}{M-1} \\sum_{m<M} \\operatorname{mean}_{i \\text{ easy}}
    \\max\\bigl(0,\\ \\varepsilon - (c_{im} - c_{jm})\\bigr)

with :math:`c` the largest softmax probability and :math:`j` a hard row of the batch, drawn for each easy row; 0 where a
batch lacks one of the two kinds. A row is hard for an exit where a network that has not seen it answers it wrong
there. For that the training first goes ``folds`` times from the same start without one part of the rows each, and then
once more, from the same start, with all of them: ``folds + 1`` stages. The public code reads difficulty from a file
that it does not make, one bit per row, and regularises the small model of a cascade.

Reference: Li, Lin, Chen, Ren, Li, Zhou, Sun, *CascadeBERT: Accelerating Inference of Pre-trained Language Models via
Calibrated Complete Models Cascade*, Findings of EMNLP 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses, sample_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class DifficultyAware(TrainingRecipe):
    """All exits at once, and easy rows more certain than hard ones."""

    name: ClassVar[str] = "difficulty-aware"
    title: ClassVar[str] = "Difficulty-aware (CascadeBERT)"
    reference: ClassVar[Reference] = Reference(
        "CascadeBERT: Accelerating Inference of Pre-trained Language Models via Calibrated Complete Models Cascade",
        2021,
        "https://arxiv.org/abs/2012.14682",
    )
    exit_rule: ClassVar[str] = "right-tool"
    published: ClassVar[str] = "5 epochs at 2e-5, batches of 16; a cascade of two networks"

    weight: float = parameter(0.5, at_least=0, help="of the regulariser")
    margin: float = parameter(0.5, at_least=0, help="by how much an easy row should be more certain")
    folds: int = parameter(2, at_least=2, help="parts of the rows, each judged by a network that has not seen it")

    def stages(self, depth: int) -> tuple[Stage, ...]:
        every = tuple(range(1, depth + 1))
        names = [f"without part {part + 1} of {self.folds}" for part in range(self.folds)]
        parts = [Stage(name, every, restart=number > 0, asks=True) for number, name in enumerate(names)]
        return (*parts, Stage("all rows", every, restart=True))

    def start(self, depth: int, rows: int) -> RecipeState:
        shuffled = torch.randperm(rows, generator=torch.Generator().manual_seed(0))
        return {"part": shuffled % self.folds, "hard": torch.zeros(depth, rows, dtype=torch.uint8)}

    def after_stage(self, stage: int, right: Tensor, state: RecipeState) -> None:
        unseen = state["part"] == stage
        state["hard"][:, unseen] = right[:, unseen].logical_not().to(torch.uint8)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        if moment.stage < self.folds:
            seen = state["part"][moment.rows] != moment.stage
            each = sample_losses(exits.logits, labels)
            return each[:, seen].mean(dim=1).sum() if bool(seen.any()) else 0.0 * each.sum()
        total = exit_losses(exits.logits, labels).sum()
        certainty = exits.logits.softmax(dim=2).amax(dim=2)
        hard = state["hard"][:, moment.rows].bool()
        for m in range(len(certainty) - 1):
            easy_rows, hard_rows = certainty[m, ~hard[m]], certainty[m, hard[m]]
            if len(easy_rows) and len(hard_rows):
                drawn = hard_rows[torch.randint(len(hard_rows), (len(easy_rows),), device=hard_rows.device)]
                behind = (self.margin - (easy_rows - drawn)).clamp(min=0).mean()
                total = total + self.weight * behind / (len(certainty) - 1)
        return total
