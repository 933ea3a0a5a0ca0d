"""Training: one loop over steps that can stop anywhere and go on as if it had not.

A step's batch is a function of (seed, epoch), its dropout of (seed, step, rank), its learning rate of the
step; so weights, optimiser state, what the recipe remembers and a step number are all a resumed run needs to end in the
same weights.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from exitbench.cache import Task
from exitbench.errors import InputError
from exitbench.models.data.batches import TokenBatch, Tokens, training_batches
from exitbench.models.devices import accelerator_for, library_versions
from exitbench.models.network.multi_exit import MultiExitModel
from exitbench.models.training.checkpoints import (
    Progress,
    checkpoints_of,
    load_moments,
    load_recipe_state,
    load_weights,
    read_progress,
    remove_checkpoints,
    save_checkpoint,
    starting_point,
    step_seed,
    training_lock,
)
from exitbench.models.training.interrupts import StopRequest
from exitbench.models.training.layer_scores import confusion_counts, layer_scores, right_answers
from exitbench.models.training.learning_rates import TrainingOptions, parameter_groups, rate_factor
from exitbench.models.training.opened_weights import open_for_training
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe, equilibrium
from exitbench.progress import ProgressBar

LOOK_EVERY = 10
"""Steps between two looks at the loss: each look makes a GPU wait."""


@dataclass(frozen=True)
class TrainingResult:
    """What came of it: ``finished`` is false when it was stopped and can be resumed."""

    finished: bool
    steps: int
    history: list[dict[str, Any]]


class Training:
    """One training of one model towards the folder ``out``."""

    def __init__(
        self,
        model: MultiExitModel,
        train: Tokens,
        dev: Tokens,
        task: Task,
        recipe: TrainingRecipe,
        options: TrainingOptions,
        out: Path,
        *,
        device: str = "auto",
        checkpoint_every: int = 200,
        metadata: dict[str, Any] | None = None,
        command: str = "",
        report: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.model, self.train, self.dev, self.task, self.options, self.out = model, train, dev, task, options, out
        self.checkpoint_every, self.metadata, self.command = checkpoint_every, metadata or {}, command
        self.recipe, self.stages = recipe, recipe.stages(model.depth)
        if options.gradient_equilibrium and type(recipe).gradient_scales is not TrainingRecipe.gradient_scales:
            raise InputError(f"recipe {recipe.name} decides itself how gradients flow, found --gradient-equilibrium")
        if model.config.addition != recipe.addition:
            raise InputError(
                f"expected a network with {recipe.addition or 'nothing'!r} added for the recipe {recipe.name}, "
                f"found {model.config.addition!r}"
            )
        self.accelerator: Accelerator = accelerator_for(device, options.precision)
        self.rank, self.ranks = self.accelerator.process_index, self.accelerator.num_processes
        self.report = report
        model.to(self.accelerator.device)
        restarts = any(stage.restart for stage in self.stages)
        self.first_weights = {name: value.clone() for name, value in model.state_dict().items()} if restarts else {}
        self.state: RecipeState = self._on_device(recipe.start(model.depth, len(train)))
        self.epoch_steps: int = len(self._epoch_batches(0)) // self.ranks
        self.total_steps = self.epoch_steps * options.epochs * len(self.stages)
        self.progress = Progress()
        self.request = StopRequest()
        self.stopping = False
        self.trained: dict[str, nn.Parameter] = {}
        self.optimizer: Any = None
        self.wrapped: Any = None

    @property
    def settings(self) -> dict[str, Any]:
        """What a resumed training must agree on."""
        model = {**asdict(self.model.config), "classes": list(self.model.config.classes)}
        return {
            "recipe": self.recipe.text,
            **asdict(self.options),
            **self.metadata,
            "exits": model,
            "processes": self.ranks,
            "train_rows": len(self.train),
            "dev_rows": len(self.dev),
            "versions": library_versions(),
        }

    def run(self, resume: bool = False) -> TrainingResult:
        """Train to the end, or until interrupted; then write the model, or a checkpoint."""
        with training_lock(self.out) if self.rank == 0 else nullcontext():
            return self._run(resume)

    def _run(self, resume: bool) -> TrainingResult:
        checkpoint = self._starting_point(resume)
        with (
            ProgressBar("training", self.total_steps, done=self.progress.step, visible=self.rank == 0) as bar,
            self.request,
        ):
            while self.progress.step < self.total_steps and not self.stopping:
                self._enter_stage(self.stages[self.progress.step // self.stage_steps], checkpoint)
                checkpoint = None
                self._run_stage(bar)
        finished = self.progress.step == self.total_steps
        if finished:
            self._write_result()
        return TrainingResult(finished, self.progress.step, self.progress.history)

    def _starting_point(self, resume: bool) -> Path | None:
        checkpoint = starting_point(self.out, resume)
        if checkpoint is not None:
            self.progress = read_progress(checkpoint, self.settings)
            load_weights(checkpoint, self.model)
            self.state = self._on_device(load_recipe_state(checkpoint))
            self.report(f"resuming after step {self.progress.step} of {self.total_steps}")
        elif resume:
            self.report(f"no checkpoint in {checkpoints_of(self.out)}: starting from the beginning")
        return checkpoint

    @property
    def stage_steps(self) -> int:
        return self.epoch_steps * self.options.epochs

    def _on_device(self, state: RecipeState) -> RecipeState:
        return {name: value.to(self.accelerator.device) for name, value in state.items()}

    def _enter_stage(self, stage: Stage, checkpoint: Path | None) -> None:
        if stage.restart and self.progress.step % self.stage_steps == 0:
            self.model.load_state_dict(self.first_weights)
        if stage.renew and self.progress.step % self.stage_steps == 0:
            self.model.added.renew(self.model)
        self.trained = open_for_training(self.model, stage, self.options.freeze_embeddings)
        self.stage = stage
        optimizer = torch.optim.AdamW(parameter_groups(self.trained, self.options), lr=0.0, fused=True)
        if checkpoint is not None and self.progress.step % self.stage_steps:
            load_moments(checkpoint, optimizer, self.trained)
        self.wrapped, self.optimizer = self.accelerator.prepare(self.model, optimizer)
        scaler = self.accelerator.scaler
        if scaler is not None and self.progress.scaler:  # pragma: no cover - needs a GPU
            scaler.load_state_dict(self.progress.scaler)

    def _run_stage(self, bar: ProgressBar) -> None:
        """Steps up to the end of the present stage; an interruption ends it after the step in hand."""
        end = (self.progress.step // self.stage_steps + 1) * self.stage_steps
        loss_sum = torch.tensor(self.progress.loss_sum, dtype=torch.float64, device=self.accelerator.device)
        while self.progress.step < end and not self.stopping:
            epoch, position = divmod(self.progress.step, self.epoch_steps)
            rank_batches = self._epoch_batches(epoch)[self.rank :: self.ranks][position : self.epoch_steps]
            started = time.perf_counter()
            for rows, batch in self._batches(rank_batches):
                loss_sum += self._step(rows, batch)
                self.progress.step += 1
                in_epoch = (self.progress.step - 1) % self.epoch_steps + 1
                due = self.checkpoint_every > 0 and self.progress.step % self.checkpoint_every == 0
                self.stopping = self._anyone_stopped()
                epoch_ends = in_epoch == self.epoch_steps
                if due or epoch_ends or self.stopping or self.progress.step % LOOK_EVERY == 0:
                    self.progress.loss_sum = self._finite(float(loss_sum))
                    bar.advance(0, f"loss {self.progress.loss_sum / in_epoch:.4f}")
                bar.advance()
                if epoch_ends:
                    self.progress.seconds += time.perf_counter() - started
                    started = time.perf_counter()
                    bar.print_line(self._close_epoch(epoch))
                    loss_sum.zero_()
                    if self.progress.step == end and self.stage.asks:
                        self._tell_recipe()
                if (due or self.stopping) and self.progress.step < self.total_steps:
                    self.progress.seconds += time.perf_counter() - started
                    started = time.perf_counter()
                    self._checkpoint()
                if self.stopping:
                    break

    def _step(self, rows: list[int], batch: TokenBatch) -> Tensor:
        torch.manual_seed(step_seed(self.options.seed, self.progress.step, self.rank))
        self.model.train()
        moment = self._moment(rows)
        factor = rate_factor(moment.step, moment.steps, self.options.warm_up)
        for group in self.optimizer.param_groups:
            group["lr"] = group["base_rate"] * factor
        assert batch.labels is not None
        depth = self.model.depth
        balanced = self.options.gradient_equilibrium
        scales = equilibrium(depth) if balanced else self.recipe.gradient_scales(depth, moment)
        with self.accelerator.autocast():
            exits = self.wrapped(batch, scales)
        loss = self.recipe.loss(exits, batch.labels, moment, self.state)
        # What a step leaves out gets a gradient of zero, as in public code and in every process of several.
        unused = sum((output.sum() for output in exits.outputs.values()), exits.logits.sum())
        self.accelerator.backward(loss + 0.0 * unused)
        self.accelerator.clip_grad_norm_(list(self.trained.values()), self.options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        if self.ranks > 1:
            for value in self.state.values():
                torch.distributed.all_reduce(value, torch.distributed.ReduceOp.MAX)
        return loss.detach()

    def _moment(self, rows: list[int]) -> Moment:
        stage, step = divmod(self.progress.step, self.stage_steps)
        epoch, epoch_step = divmod(step, self.epoch_steps)
        numbers = torch.tensor(rows, device=self.accelerator.device)
        return Moment(stage, step, self.stage_steps, epoch, self.options.epochs, epoch_step, numbers)

    def _tell_recipe(self) -> None:
        """Let the recipe know which training rows each layer answers right."""
        right = right_answers(self.model, self.train, 2 * self.options.batch_size, self.rank, self.ranks)
        stage = (self.progress.step - 1) // self.stage_steps
        self.recipe.after_stage(stage, self.accelerator.reduce(right).bool(), self.state)

    def _epoch_batches(self, epoch: int) -> list[list[int]]:
        return training_batches(self.train.lengths, self.options.batch_size, self.options.seed, epoch, self.ranks)

    def _batches(self, batches: list[list[int]]) -> Iterator[tuple[list[int], TokenBatch]]:
        device = self.accelerator.device
        for batch_rows in batches:
            batch = self.train.batch(batch_rows)
            yield batch_rows, (batch.pin() if device.type == "cuda" else batch).to(device)

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise InputError(
                f"expected a finite loss, found {loss} near step {self.progress.step}; lower the learning rates"
            )
        return loss

    def _close_epoch(self, epoch: int) -> str:
        """Score every layer on dev, remember it, and return the line to print."""
        if self.ranks > 1:
            # Batch norms count in each process what it sees; the first one's counts are those that are kept.
            for buffer in self.model.buffers():
                torch.distributed.broadcast(buffer, 0)
        counts = confusion_counts(self.model, self.dev, 2 * self.options.batch_size, self.rank, self.ranks)
        scores = layer_scores(self.accelerator.reduce(counts), self.task)
        seconds = sum(entry["seconds"] for entry in self.progress.history)
        self.progress.history.append(
            {
                "epoch": epoch + 1,
                "stage": self.stage.name,
                "loss": self.progress.loss_sum / self.epoch_steps,
                "seconds": self.progress.seconds - seconds,
                "metric": self.task.metric,
                "scores": scores,
            }
        )
        self.progress.loss_sum = 0.0
        epochs = self.options.epochs * len(self.stages)
        listed = " ".join(f"{score:.1f}" for score in scores)
        loss = self.progress.history[-1]["loss"]
        return f"epoch {epoch + 1}/{epochs}: loss {loss:.4f}, dev {self.task.metric} by layer {listed}"

    def _checkpoint(self) -> None:
        if self.accelerator.scaler is not None:  # pragma: no cover - needs a GPU
            self.progress.scaler = self.accelerator.scaler.state_dict()
        if self.rank == 0:
            optimizer = getattr(self.optimizer, "optimizer", self.optimizer)
            save_checkpoint(self.out, self.model, optimizer, self.trained, self.state, self.progress, self.settings)
        self.accelerator.wait_for_everyone()

    def _write_result(self) -> None:
        if self.rank == 0:
            self.model.eval()
            notes = {
                "command": self.command,
                "settings": self.settings,
                "steps": self.progress.step,
                "history": self.progress.history,
            }
            self.model.save_pretrained(self.out, notes)
            remove_checkpoints(self.out)
        self.accelerator.wait_for_everyone()

    def _anyone_stopped(self) -> bool:
        """Whether this process, or any other of the same training, was asked to stop."""
        if self.ranks == 1:
            return self.request.made
        flag = torch.tensor(int(self.request.made), device=self.accelerator.device)
        return bool(self.accelerator.reduce(flag).item())
