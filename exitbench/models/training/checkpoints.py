"""Checkpoints of an unfinished training: weights, optimiser, the recipe's memory and place, in safetensors and JSON.

A checkpoint takes its name when it is whole; the one before it is removed after that. Nothing of the
random state needs keeping: the batches are a function of (seed, epoch), dropout of (seed, step, rank).
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from exitbench.atomic_files import PARTIAL, make_directory
from exitbench.errors import InputError, one_line
from exitbench.models.network.folders import draft_folder
from exitbench.models.network.multi_exit import MultiExitModel
from exitbench.models.training.recipe import RecipeState
from exitbench.output_folder import locked

STEP_DIGITS = 8


@dataclass
class Progress:
    """How far a training has come: steps done, the loss summed since the epoch began, scores of past epochs."""

    step: int = 0
    loss_sum: float = 0.0
    seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    scaler: dict[str, Any] = field(default_factory=dict)


def checkpoints_of(out: Path) -> Path:
    """Where the checkpoints of a training towards ``out`` lie until it is finished."""
    return out.with_name(f"{out.name}.training")


def latest_checkpoint(out: Path) -> Path | None:
    """The newest whole checkpoint of a training towards ``out``."""
    checkpoints = all_checkpoints(out)
    return checkpoints[-1] if checkpoints else None


def all_checkpoints(out: Path) -> list[Path]:
    """Every whole checkpoint of a training towards ``out``, the newest last."""
    return sorted(checkpoints_of(out).glob(f"step-{'[0-9]' * STEP_DIGITS}"))


@contextmanager
def training_lock(out: Path) -> Iterator[None]:
    """Keep a second training away from the checkpoints towards ``out``; their folder goes when nothing is in it."""
    folder = checkpoints_of(out)
    make_directory(folder)
    try:
        with locked(folder):
            yield
    finally:
        with suppress(OSError):
            folder.rmdir()


def remove_checkpoints(out: Path) -> None:
    """Remove the checkpoints of a finished training, and their folder unless somebody else has put something there."""
    for checkpoint in [*all_checkpoints(out), *checkpoints_of(out).glob(f".step-*{PARTIAL}")]:
        shutil.rmtree(checkpoint)
    with suppress(OSError):
        checkpoints_of(out).rmdir()


def starting_point(out: Path, resume: bool) -> Path | None:
    """The checkpoint to go on from, ``None`` for a new training; an error if either would overwrite something."""
    if out.exists():
        raise InputError(f"expected a new folder for the model, found {out}")
    checkpoint = latest_checkpoint(out)
    if checkpoint is not None and not resume:
        raise InputError(
            f"expected a new training, found an unfinished one in {checkpoints_of(out)}: "
            "go on with --resume, or remove that folder"
        )
    return checkpoint


def save_checkpoint(
    out: Path,
    model: MultiExitModel,
    optimizer: torch.optim.Optimizer,
    trained: dict[str, nn.Parameter],
    state: RecipeState,
    progress: Progress,
    settings: dict[str, Any],
) -> Path:
    """Write a checkpoint and remove the older ones; returns its folder."""
    target = checkpoints_of(out) / f"step-{progress.step:0{STEP_DIGITS}d}"
    moments: dict[str, Tensor] = {}
    for name, parameter in trained.items():
        for key, value in optimizer.state.get(parameter, {}).items():
            moments[f"{name}|{key}"] = value.detach().cpu().contiguous()
    with draft_folder(target) as draft:
        save_file(model.exit_state(), draft / "model.safetensors", metadata={"format": "pt"})
        save_file(moments, draft / "optimizer.safetensors")
        save_file({name: value.cpu().contiguous() for name, value in state.items()}, draft / "recipe.safetensors")
        record = {
            "step": progress.step,
            "loss_sum": progress.loss_sum,
            "seconds": progress.seconds,
            "history": progress.history,
            "scaler": progress.scaler,
            "settings": settings,
        }
        (draft / "progress.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    for older in all_checkpoints(out):
        if older != target:
            shutil.rmtree(older)
    return target


def read_progress(checkpoint: Path, settings: dict[str, Any]) -> Progress:
    """The place a checkpoint was written at; it must come from a training with the same settings."""
    try:
        record = json.loads((checkpoint / "progress.json").read_text(encoding="utf-8"))
        earlier = record.pop("settings")
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"expected a whole checkpoint in {checkpoint}, found: {one_line(error)}") from error
    # Through JSON, as the earlier settings went: a tuple would differ from its own list.
    now = json.loads(json.dumps(settings))
    for name in sorted(earlier.keys() | now.keys()):
        if earlier.get(name) != now.get(name):
            raise InputError(
                f"expected the settings of the training in {checkpoint.parent} to resume it: "
                f"{name} was {earlier.get(name)!r}, found {now.get(name)!r}"
            )
    return Progress(**record)


def load_weights(checkpoint: Path, model: MultiExitModel) -> None:
    """The checkpoint's weights into the model."""
    model.load_exit_state(_tensors(checkpoint / "model.safetensors"))


def load_recipe_state(checkpoint: Path) -> RecipeState:
    """What the recipe remembered when the checkpoint was written."""
    return _tensors(checkpoint / "recipe.safetensors")


def load_moments(checkpoint: Path, optimizer: torch.optim.Optimizer, trained: dict[str, nn.Parameter]) -> None:
    """The checkpoint's optimiser state, each tensor onto the device of its parameter."""
    for key, value in _tensors(checkpoint / "optimizer.safetensors").items():
        name, _, moment = key.rpartition("|")
        parameter = trained[name]
        optimizer.state[parameter][moment] = value.to(parameter.device)


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(f"expected a whole checkpoint in {path.parent}, found: {one_line(error)}") from error


def step_seed(seed: int, step: int, rank: int) -> int:
    """The seed of one step's dropout, different for every (seed, step, rank)."""
    digest = hashlib.sha256(f"{seed} {step} {rank}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
