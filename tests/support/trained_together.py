"""``python -m tests.support.trained_together ENCODER DATA OUT``: every recipe, one after another, in this process or
in several that know of each other; starting them takes longer than all these trainings."""

import sys
from pathlib import Path

import torch

from exitbench.models.devices import leave_group
from exitbench.models.training.recipe_registry import load_recipes
from tests.support.trainings import OPTIONS, new_training

if __name__ == "__main__":
    torch.set_num_threads(1)
    encoder, data, out = map(Path, sys.argv[1:])
    for name in sorted(load_recipes().classes):
        new_training(encoder, data, out / name, OPTIONS, recipe=name).run()
    leave_group()
