"""A small training and the same written out by hand, for the tests of training."""

import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from exitbench.cache import TASKS
from exitbench.models.data.batches import TokenBatch, Tokens, tokenize, training_batches
from exitbench.models.data.labelled import load_examples
from exitbench.models.network.multi_exit import MultiExitConfig, MultiExitModel
from exitbench.models.training.checkpoints import step_seed
from exitbench.models.training.learning_rates import TrainingOptions
from exitbench.models.training.recipe_registry import load_recipes
from exitbench.models.training.training import Training

SST2 = TASKS["sst2"]
OPTIONS = TrainingOptions(epochs=2, batch_size=16, learning_rate=1e-3, head_learning_rate=5e-3)


def new_model(encoder: Path, pooling: str = "mean", pooler: str = "per-layer", addition: str = "") -> MultiExitModel:
    config = MultiExitConfig(SST2.classes, pooling, pooler, "sst2", addition=addition)  # type: ignore[arg-type]
    return MultiExitModel.from_backbone(encoder, config, seed=0)


def split_tokens(model: MultiExitModel, reviews: Path, split: str) -> Tokens:
    return tokenize(load_examples("sst2", split, reviews), model.tokenizer, 128)


def new_training(encoder: Path, reviews: Path, out: Path, options: TrainingOptions = OPTIONS, **more: Any) -> Training:
    recipe = load_recipes().make(more.pop("recipe", "sum"))
    model = more.pop("model", None) or new_model(encoder, addition=recipe.addition)
    train, dev = (split_tokens(model, reviews, split) for split in ("train", "dev"))
    train = more.pop("wrap", lambda tokens: tokens)(train)
    return Training(model, train, dev, SST2, recipe, options, out, **{"checkpoint_every": 0, **more})


@dataclass(frozen=True)
class Alarming(Tokens):
    """Tokens whose batch number ``at`` sends this process a real signal, as Ctrl-C or a scheduler does."""

    at: int = 0
    number: int = signal.SIGINT
    calls: list[int] = field(default_factory=list)

    def batch(self, rows: Any) -> TokenBatch:
        self.calls.append(1)
        if len(self.calls) == self.at:
            os.kill(os.getpid(), self.number)
        return super().batch(rows)


def alarming(at: int, number: int) -> Any:
    return lambda tokens: Alarming(**vars(tokens), at=at, number=number)


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_weights(first: Path, second: Path) -> None:
    first_weights, second_weights = weights(first), weights(second)
    assert first_weights.keys() == second_weights.keys()
    assert all(torch.equal(first_weights[name], second_weights[name]) for name in first_weights)


def plain_loop(encoder: Path, reviews: Path, options: TrainingOptions, ranks: int) -> MultiExitModel:
    """The same training written out by hand: AdamW, decay for matrices, a triangle of learning rates."""
    model = new_model(encoder).train()
    tokens = split_tokens(model, reviews, "train")
    named = list(model.named_parameters())
    optimizers = [
        (rate, torch.optim.AdamW([p for n, p in named if belongs(n, p)], weight_decay=decay))
        for rate, belongs, decay in (
            (options.learning_rate, lambda n, p: n.startswith("backbone") and p.ndim > 1, options.weight_decay),
            (options.learning_rate, lambda n, p: n.startswith("backbone") and p.ndim == 1, 0.0),
            (
                options.head_learning_rate,
                lambda n, p: not n.startswith("backbone") and p.ndim > 1,
                options.weight_decay,
            ),
            (options.head_learning_rate, lambda n, p: not n.startswith("backbone") and p.ndim == 1, 0.0),
        )
    ]
    epochs = [
        training_batches(tokens.lengths, options.batch_size, options.seed, epoch, ranks)
        for epoch in range(options.epochs)
    ]
    rounds = [epoch[start : start + ranks] for epoch in epochs for start in range(0, len(epoch), ranks)]
    warm = round(0.1 * len(rounds))
    for step, group in enumerate(rounds):
        model.zero_grad()
        for rank, rows in enumerate(group):
            torch.manual_seed(step_seed(options.seed, step, rank))
            batch = tokens.batch(rows)
            logits = model(batch).logits
            loss = sum(nn.functional.cross_entropy(logits[m], batch.labels) for m in range(model.depth))
            (loss / ranks).backward()  # type: ignore[union-attr]
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        factor = (step + 1) / warm if step < warm else (len(rounds) - step) / (len(rounds) - warm)
        for rate, optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate * factor
            optimizer.step()
    return model.eval()


def assert_close_weights(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, value in expected.items():
        # Attention does not change when all keys move together, so the true gradient of a key's bias
        # is zero and Adam makes steps of its rounding noise.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(
                actual[name], value, atol=1e-5, rtol=1e-3, msg=lambda text, n=name: f"{n}: {text}"
            )
