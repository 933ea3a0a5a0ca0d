"""Training: one loop over steps that can stop anywhere and go on as if it had not.

A step's batch is a function of (seed, epoch), its dropout of (seed, step, rank), its learning rate of the
step; so weights, optimiser state and a step number are all a resumed run needs to end in the same weights.
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
    load_weights,
    read_progress,
    remove_checkpoints,
    save_checkpoint,
    starting_point,
    step_seed,
    training_lock,
)
from exitbench.models.training.interrupts import StopRequest
from exitbench.models.training.layer_scores import confusion_counts, layer_scores
from exitbench.models.training.learning_rates import TrainingOptions, parameter_groups, rate_factor
from exitbench.models.training.losses import Stage, exit_loss, open_for_training, stages
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
        self.stages = stages(options.loss, model.depth)
        self.accelerator: Accelerator = accelerator_for(device, options.precision)
        self.rank, self.ranks = self.accelerator.process_index, self.accelerator.num_processes
        self.report = report
        model.to(self.accelerator.device)
        self.epoch_steps = len(self._epoch_batches(0)) // self.ranks
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
                self._enter_stage(
                    self.stages[self.progress.step // (self.epoch_steps * self.options.epochs)], checkpoint
                )
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
            self.report(f"resuming after step {self.progress.step} of {self.total_steps}")
        elif resume:
            self.report(f"no checkpoint in {checkpoints_of(self.out)}: starting from the beginning")
        return checkpoint

    def _enter_stage(self, stage: Stage, checkpoint: Path | None) -> None:
        self.trained = open_for_training(self.model, stage, self.options.freeze_embeddings)
        self.stage = stage
        optimizer = torch.optim.AdamW(parameter_groups(self.trained, self.options), lr=0.0, fused=True)
        stage_steps = self.epoch_steps * self.options.epochs
        if checkpoint is not None and self.progress.step % stage_steps:
            load_moments(checkpoint, optimizer, self.trained)
        self.wrapped, self.optimizer = self.accelerator.prepare(self.model, optimizer)
        scaler = self.accelerator.scaler
        if scaler is not None and self.progress.scaler:  # pragma: no cover - needs a GPU
            scaler.load_state_dict(self.progress.scaler)

    def _run_stage(self, bar: ProgressBar) -> None:
        """Steps up to the end of the present stage; an interruption ends it after the step in hand."""
        stage_steps = self.epoch_steps * self.options.epochs
        end = (self.progress.step // stage_steps + 1) * stage_steps
        loss_sum = torch.tensor(self.progress.loss_sum, dtype=torch.float64, device=self.accelerator.device)
        while self.progress.step < end and not self.stopping:
            epoch, position = divmod(self.progress.step, self.epoch_steps)
            rank_batches = self._epoch_batches(epoch)[self.rank :: self.ranks][position : self.epoch_steps]
            started = time.perf_counter()
            for batch in self._batches(rank_batches):
                loss_sum += self._step(batch, stage_steps)
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
                if (due or self.stopping) and self.progress.step < self.total_steps:
                    self.progress.seconds += time.perf_counter() - started
                    started = time.perf_counter()
                    self._checkpoint()
                if self.stopping:
                    break

    def _step(self, batch: TokenBatch, stage_steps: int) -> Tensor:
        torch.manual_seed(step_seed(self.options.seed, self.progress.step, self.rank))
        self.model.train()
        factor = rate_factor(self.progress.step % stage_steps, stage_steps, self.options.warm_up)
        for group in self.optimizer.param_groups:
            group["lr"] = group["base_rate"] * factor
        assert batch.labels is not None
        with self.accelerator.autocast():
            logits = self.wrapped(batch)
        loss = exit_loss(logits.float(), batch.labels, self.stage.weights)
        self.accelerator.backward(loss)
        self.accelerator.clip_grad_norm_(list(self.trained.values()), self.options.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def _epoch_batches(self, epoch: int) -> list[list[int]]:
        return training_batches(self.train.lengths, self.options.batch_size, self.options.seed, epoch, self.ranks)

    def _batches(self, batches: list[list[int]]) -> Iterator[TokenBatch]:
        device = self.accelerator.device
        for batch_rows in batches:
            batch = self.train.batch(batch_rows)
            yield (batch.pin() if device.type == "cuda" else batch).to(device)

    def _finite(self, loss: float) -> float:
        if not math.isfinite(loss):
            raise InputError(
                f"expected a finite loss, found {loss} near step {self.progress.step}; lower the learning rates"
            )
        return loss

    def _close_epoch(self, epoch: int) -> str:
        """Score every layer on dev, remember it, and return the line to print."""
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
            save_checkpoint(self.out, self.model, optimizer, self.trained, self.progress, self.settings)
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
