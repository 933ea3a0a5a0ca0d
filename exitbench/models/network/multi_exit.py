"""The multi-exit network: a library encoder with a linear head after every layer.

Layers run one at a time (:meth:`MultiExitModel.advance`), so that a caller who stops early saves the
rest of the work. A model is saved as an ordinary Hugging Face folder: the encoder's own ``config.json``
with one section more, ``model.safetensors``, and the tokenizer beside them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModel

from exitbench.errors import InputError, did_you_mean, one_line
from exitbench.models.data.batches import TokenBatch
from exitbench.models.network.additions.contract import NetworkSizes
from exitbench.models.network.additions.registry import added_module
from exitbench.models.network.exit_outputs import ExitOutputs, GradientScales, LayerRun, scaled_gradient
from exitbench.models.network.families import Context, require_family
from exitbench.models.network.folders import (
    TRAINING,
    draft_folder,
    library_config,
    load_tokenizer,
    quiet_library,
    training_facts,
)
from exitbench.signals.contract.layer import State

Pooling = Literal["first", "mean"]
Pooler = Literal["shared", "per-layer", "none"]
SECTION = "exitbench"
"""Where ``config.json`` keeps what makes an encoder a multi-exit one."""


@dataclass(frozen=True)
class MultiExitConfig:
    """What a multi-exit model adds to its encoder's configuration."""

    classes: tuple[str, ...]
    pooling: Pooling = "first"
    pooler: Pooler = "shared"
    task: str = ""
    max_length: int = 128
    addition: str = ""
    """What a recipe added to the exits, as a text; empty for linear heads alone."""

    def __post_init__(self) -> None:
        for option, value, choices in (
            ("pooling", self.pooling, get_args(Pooling)),
            ("pooler", self.pooler, get_args(Pooler)),
        ):
            if value not in choices:
                nearest = did_you_mean(str(value), choices)
                raise InputError(f"expected {option} to be one of {', '.join(choices)}, found {value!r}.{nearest}")
        if len(self.classes) < 2 or len(set(self.classes)) < len(self.classes):
            raise InputError(f"expected two or more different classes, found {list(self.classes)}")

    @classmethod
    def from_json(cls, section: dict[str, Any]) -> Self:
        return cls(**{**section, "classes": tuple(section["classes"])})


class MultiExitModel(nn.Module):
    """An encoder of M layers with M linear heads; layers count from 1.

    ``start``, then for m = 1..M ``advance``, ``pool`` and ``logits``; exit whenever the answer is good
    enough. Samples that have exited are dropped with ``hidden[rows]`` and ``context.take(rows)``.
    """

    def __init__(self, backbone: Any, config: MultiExitConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = backbone
        self.family = require_family(backbone.config.model_type)(backbone)
        M, N, C = self.depth, self.width, len(config.classes)
        poolers = {"shared": 1, "per-layer": M, "none": 0}[config.pooler]
        self.poolers = nn.ModuleList(nn.Linear(N, N) for _ in range(poolers))
        epsilon = float(getattr(backbone.config, "layer_norm_eps", 1e-12))
        self.added = added_module(config.addition, NetworkSizes(M, N, C, epsilon))
        heads = (1 if self.added.one_head else M) if self.added.linear else 0
        self.heads = nn.ModuleList(nn.Linear(N, C) for _ in range(heads))
        self.dropout = nn.Dropout(float(getattr(backbone.config, "hidden_dropout_prob", 0.1)))
        spread = float(backbone.config.initializer_range)
        for linear in (*self.poolers, *self.heads):
            assert isinstance(linear, nn.Linear)
            nn.init.normal_(linear.weight, std=spread)
            nn.init.zeros_(linear.bias)
        self.added.renew(self)
        self.tokenizer: Any = None
        self.name = ""
        self.made_by: dict[str, str | int] = {}
        """Recipe, seed, epochs and rows of its training, as far as its folder says."""

    @property
    def depth(self) -> int:
        """The number of layers, M."""
        return self.family.depth

    @property
    def width(self) -> int:
        """The width of a head's input, N."""
        return self.family.width

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def head(self, m: int) -> nn.Linear:
        """The linear classifier after layer ``m``; only where logits are linear in the features."""
        return cast(nn.Linear, self.heads[min(m, len(self.heads)) - 1])

    def start(self, batch: TokenBatch) -> tuple[Tensor, Context]:
        """Hidden states before layer 1, [samples, tokens, width], and the context of this batch."""
        return self.family.embed(batch.input_ids, batch.attention_mask, batch.token_type_ids)

    def advance(self, m: int, hidden: Tensor, context: Context) -> Tensor:
        """Hidden states after layer ``m``, from those after layer m - 1."""
        return self.family.layer(m, hidden, context)

    def pool(self, m: int, hidden: Tensor, context: Context) -> Tensor:
        """The input of head ``m``, [samples, width] float32: one vector per sample, after its pooler."""
        if self.config.pooling == "first":
            vector = hidden[:, 0]
        else:
            weight = context.padding.unsqueeze(-1).to(hidden.dtype)
            vector = (hidden * weight).sum(1) / weight.sum(1)
        if len(self.poolers):
            vector = torch.tanh(self.poolers[min(m, len(self.poolers)) - 1](vector))
        return vector.float()

    def logits(self, m: int, features: Tensor) -> Tensor:
        """The answer of head ``m``, [samples, classes]; always float32, also under autocast."""
        head = self.head(m)
        with torch.autocast(features.device.type, enabled=False):
            return functional.linear(features.float(), head.weight, head.bias)

    def run_layer(
        self, m: int, hidden: Tensor, context: Context, memory: State = None, scales: tuple[float, float] | None = None
    ) -> LayerRun:
        """Layer ``m`` with its exit, from the hidden states and the memory after layer m - 1.

        ``scales`` change gradients, and nothing else: those of the exit, and those of the layers above.
        """
        hidden, read = self.added.layer(self.family, m, hidden, context)
        if scales is not None:
            read, hidden = scaled_gradient(read, scales[0]), scaled_gradient(hidden, scales[1])
        features = self.added.features(m, self.pool(m, read, context))
        # Dropout is the identity outside training; the features returned never carry it.
        seen = self.dropout(features)
        said = self.added.reading(m, features, seen, partial(self.logits, m), memory)
        return LayerRun(hidden, features, said.logits, said.outputs, said.memory)

    def forward(self, batch: TokenBatch, scales: GradientScales | None = None) -> ExitOutputs:
        """What every layer says; ``scales`` has a pair for every layer."""
        hidden, context = self.start(batch)
        runs: list[LayerRun] = []
        for m in range(1, self.depth + 1):
            memory = runs[-1].memory if runs else None
            runs.append(self.run_layer(m, hidden, context, memory, None if scales is None else scales[m - 1]))
            hidden = runs[-1].hidden
        features = torch.stack([run.features for run in runs])
        outputs = {name: torch.stack([run.outputs[name] for run in runs]) for name in self.added.outputs}
        if self.training:
            outputs |= self.added.for_the_loss(features)
        return ExitOutputs(features, torch.stack([run.logits for run in runs]), outputs)

    def head_arrays(self) -> tuple[Tensor, Tensor] | None:
        """All heads as weight [layers, classes, width] and bias [layers, classes], detached, on the CPU.

        ``None`` where logits are not linear in the features.
        """
        if not self.added.linear:
            return None
        heads = [self.head(m) for m in range(1, self.depth + 1)]
        weight = torch.stack([head.weight.detach().cpu() for head in heads])
        return weight, torch.stack([head.bias.detach().cpu() for head in heads])

    def fingerprint(self) -> str:
        """Sixteen hex digits that stand for all weights: it distinguishes two models of one name."""
        digest = hashlib.sha256()
        for name, value in sorted(self.exit_state().items()):
            digest.update(name.encode())
            digest.update(value.cpu().numpy().data)
        return digest.hexdigest()[:16]

    @classmethod
    def from_backbone(cls, source: str | Path, config: MultiExitConfig, seed: int = 0) -> Self:
        """A new multi-exit model on a pretrained encoder: a folder, or a name on the hub.

        Heads start random (a function of ``seed``); with first-token pooling, poolers start from the
        encoder's own pretrained pooler if it has one.
        """
        settings = library_config(source)
        require_family(settings.model_type)
        with torch.random.fork_rng(), quiet_library():
            torch.manual_seed(seed)
            try:
                backbone, report = AutoModel.from_pretrained(
                    str(source), config=settings, dtype=torch.float32, output_loading_info=True
                )
            except (OSError, ValueError, SafetensorError) as error:
                raise InputError(f"expected the weights of an encoder in {source}, found: {one_line(error)}") from error
            model = cls(backbone, config)
        missing = [key for key in report["missing_keys"] if "pooler" not in key]
        if missing:
            raise InputError(
                f"expected the weights of a {settings.model_type} encoder in {source}, found none for {missing[0]}"
            )
        own_pooler_is_trained = not any("pooler" in key for key in report["missing_keys"])
        model._adopt_pooler(own_pooler_is_trained)
        model.tokenizer = load_tokenizer(source)
        model.name = Path(str(source)).name
        return model.eval()

    def _adopt_pooler(self, is_trained: bool) -> None:
        """Take over the encoder's own first-token pooler, then drop it: only the exits' poolers run."""
        pooler = getattr(self.backbone, "pooler", None)
        if pooler is None:
            return
        dense = pooler if isinstance(pooler, nn.Linear) else pooler.dense
        if is_trained and self.config.pooling == "first":
            for exit_pooler in self.poolers:
                exit_pooler.load_state_dict(dense.state_dict())
        self.backbone.pooler = None

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """A multi-exit model saved by :meth:`save_pretrained`, in eval mode on the CPU."""
        folder = Path(folder)
        settings = library_config(folder)
        section = getattr(settings, SECTION, None)
        if section is None:
            raise InputError(
                f"expected a model with exits in {folder}, found a plain {settings.model_type} encoder; "
                "make one with `exitbench train`"
            )
        require_family(settings.model_type)
        with torch.random.fork_rng(), quiet_library():
            model = cls(
                AutoModel.from_config(settings, dtype=torch.float32),  # type: ignore[no-untyped-call]
                MultiExitConfig.from_json(section),
            )
        model._adopt_pooler(is_trained=False)
        try:
            model.load_exit_state(load_file(folder / "model.safetensors"))
        except (OSError, RuntimeError, SafetensorError) as error:
            raise InputError(
                f"expected the weights of this model in {folder / 'model.safetensors'}, found: {one_line(error)}"
            ) from error
        model.tokenizer = load_tokenizer(folder)
        model.name, model.made_by = folder.resolve().name, training_facts(folder)
        return model.eval()

    def exit_state(self) -> dict[str, Tensor]:
        """All weights under the names they have on disk: the encoder's as the library names them."""
        prefix = self.backbone.base_model_prefix
        state = {}
        for key, value in self.state_dict().items():
            head, _, rest = key.partition(".")
            state[f"{prefix}.{rest}" if head == "backbone" else f"exits.{key}"] = value.detach().contiguous()
        return state

    def load_exit_state(self, state: dict[str, Tensor]) -> None:
        """Weights by their names on disk back into the model; every one must be there."""
        prefix = f"{self.backbone.base_model_prefix}."
        renamed = {}
        for key, value in state.items():
            name = key.removeprefix(prefix) if key.startswith(prefix) else key.removeprefix("exits.")
            renamed[f"backbone.{name}" if key.startswith(prefix) else name] = value
        self.load_state_dict(renamed)

    def save_pretrained(self, folder: str | Path, training: dict[str, Any] | None = None) -> None:
        """Write the folder under a temporary name, then rename it: a half-written one never has the name.

        ``training`` says how the model was made; it is kept beside the weights as ``training.json``.
        """
        with draft_folder(Path(folder)) as draft:
            self._write(draft)
            if training is not None:
                text = json.dumps(training, indent=2, sort_keys=True)
                (draft / TRAINING).write_text(text + "\n", encoding="utf-8")

    def _write(self, folder: Path) -> None:
        settings = self.backbone.config.to_dict()
        settings[SECTION] = {**asdict(self.config), "classes": list(self.config.classes)}
        settings["architectures"] = [type(self.backbone).__name__]
        settings["id2label"] = {str(index): name for index, name in enumerate(self.config.classes)}
        settings["label2id"] = {name: index for index, name in enumerate(self.config.classes)}
        settings["dtype"] = "float32"
        text = json.dumps(settings, indent=2, sort_keys=True)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")
        # The format mark is what the library itself writes and asks for when it reads.
        save_file(self.exit_state(), folder / "model.safetensors", metadata={"format": "pt"})
        if self.tokenizer is not None:
            self.tokenizer.save_pretrained(folder)
