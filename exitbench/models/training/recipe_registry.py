"""Recipes found in files: those of ``exitbench/models/recipes`` and of directories that the user names."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path

from exitbench.models.training.recipe import TrainingRecipe
from exitbench.signals.registry.found_classes import FoundClasses

PACKAGE = "exitbench.models.recipes"


def load_recipes(directories: Sequence[Path | str] = ()) -> FoundClasses[TrainingRecipe]:
    """All recipes of this package and of each directory; a file of the user's that does not load is an InputError."""
    package = importlib.import_module(PACKAGE)
    return FoundClasses(TrainingRecipe, package, directories)  # type: ignore[type-abstract]
