"""Tiny multi-exit models with the caches collected from them, and the exit rule as a plain loop."""

import dataclasses
import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from exitbench.benchmarks.scoring.score_cache import fitted, score
from exitbench.cache import Cache, Task
from exitbench.models import Examples, MultiExitConfig, MultiExitModel, Tokens, tokenize
from exitbench.models.collecting import collect
from exitbench.signals import ExitSignal, Integers, LearnedSignal, load_registry
from exitbench.signals.registry.exit_policy import (
    CalibrationExits,
    ExitPolicy,
    PolicyModel,
    heads_digest,
    write_policy,
)
from tests.support.tiny_models import WORDS, save_backbone

REGISTRY = load_registry()


NOISE = 1e-5
"""Scores and logits closer than this may fall on either side: batches of other sizes add in another order."""


ROWS = 40


def model_of(folder: Path, family: str = "bert", classes: int = 2, depth: int = 6, **config: Any) -> MultiExitModel:
    """A random multi-exit model whose heads say different things about different texts."""
    encoder = save_backbone(folder / f"{family}-{classes}", family, depth=depth)
    names = tuple(f"class {number}" for number in range(classes))
    settings = {"pooling": "mean", "pooler": "per-layer", "task": "reviews", "max_length": 12, **config}
    model = MultiExitModel.from_backbone(encoder, MultiExitConfig(names, **settings), seed=1)
    with torch.no_grad():
        for m in range(1, model.depth + 1):
            model.head(m).weight.mul_(3)
            model.head(m).bias.normal_(generator=torch.Generator().manual_seed(m))
    return model


def texts(rows: int = ROWS, seed: int = 0, longest: int = 9) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, size=generator.integers(1, longest))) for _ in range(rows)]


@dataclass(frozen=True)
class Collected:
    """A model, the texts as it reads them, and the cache that `exitbench collect` makes of them."""

    model: MultiExitModel
    tokens: Tokens
    cache: Cache

    @property
    def decided(self) -> NDArray[np.bool_]:
        """Samples whose two largest logits are further apart than noise at every layer, [samples]."""
        margins = []
        for m in range(1, self.cache.layers + 1):
            top = self.cache.logits(m).topk(2, dim=1).values
            margins.append((top[:, 0] - top[:, 1]).numpy())
        return np.asarray(np.min(margins, axis=0) > NOISE)


def collected(
    folder: Path, family: str = "bert", classes: int = 2, *, features: str = "none", **config: Any
) -> Collected:
    model = model_of(folder, family, classes, **config)
    labels = np.random.default_rng(1).integers(0, classes, ROWS).tolist()
    tokens = tokenize(Examples(texts(), None, labels, model.config.classes), model.tokenizer, model.config.max_length)
    task = Task("reviews", model.config.classes)
    collect(model, tokens, task, "dev", folder / "cache", features=features, batch_size=16, device="cpu")
    return Collected(model, tokens, Cache(folder / "cache"))


def write_live_policy(path: Path, source: Collected, text: str) -> tuple[ExitPolicy, list[int]]:
    """A policy for the model of ``source``, at a threshold where exits differ, and the exits of its rows by a loop."""
    signal, cache = ready(text, source.cache), source.cache
    scores = score(cache, signal)
    threshold = gaps(scores, signal, cache.layers)[-1]
    exits = literal_exits(scores, signal, threshold)
    kept = [None if layer == cache.layers else float(scores[layer - 1, row]) for row, layer in enumerate(exits)]
    network, model = cache.manifest.model, source.model
    heads = heads_digest(*cache.head_tensors())
    made_for = PolicyModel(
        network.name, cache.layers, model.config.classes, heads, str(network.revision), "mean", "per-layer"
    )
    calibration = CalibrationExits(tuple(exits), tuple(kept))
    policy = ExitPolicy(signal, threshold, made_for, calibration, None, {})
    write_policy(path, policy)
    return policy, exits


def gaps(scores: NDArray[np.float64], signal: ExitSignal, depth: int) -> list[float]:
    """Two thresholds, each between two scores further apart than noise (or whole), after which exits differ most."""
    if isinstance(signal.thresholds, Integers):
        candidates = np.array(signal.thresholds.values(depth), dtype=float)
    else:
        ordered = np.unique(scores[signal.first_exit_layer - 1 :])
        candidates = (ordered[1:] + ordered[:-1])[np.diff(ordered) > 2 * NOISE * np.maximum(1, np.abs(ordered[1:]))] / 2
        candidates = candidates[:: max(1, len(candidates) // 30)]
    spread = [np.std(literal_exits(scores, signal, threshold)) for threshold in candidates]
    return [float(candidates[at]) for at in np.argsort(spread)[-2:]]


def literal_exits(scores: NDArray[np.float64], signal: ExitSignal, threshold: float) -> list[int]:
    """The rule as a plain loop over samples and layers."""
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal}[signal.exits_when]
    internal, samples = scores.shape
    exits = []
    for row in range(samples):
        for m in range(signal.first_exit_layer, internal + 1):
            if compare(scores[m - 1, row], threshold):
                exits.append(m)
                break
        else:
            exits.append(internal + 1)
    return exits


@functools.cache
def ready(text: str, cache: Cache) -> ExitSignal:
    """The signal of a text, fitted on the cache where it must be, as it comes back from JSON; once for all tests."""
    signal = REGISTRY.make(text)
    if isinstance(signal, LearnedSignal):
        signal = dataclasses.replace(signal, untaught=())  # so few samples would leave every layer out
    if not signal.needs_fit:
        return signal
    return type(signal).from_json(json.loads(json.dumps(fitted(signal, cache).to_json())))
