"""What the tests of the writer write: a tiny network's arrays, and a writer set up for them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file, save_file

from exitbench.cache import CacheWriter, Model, Task

LAYERS, CLASSES, WIDTH = 3, 2, 5
STARTED = {"started": "2026-01-01T00:00:00+00:00"}


def arrays(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(LAYERS, rows, WIDTH)).astype(np.float32)
    weight = rng.normal(size=(LAYERS, CLASSES, WIDTH)).astype(np.float32)
    bias = rng.normal(size=(LAYERS, CLASSES)).astype(np.float32)
    logits = np.einsum("mnw,mcw->mnc", features, weight) + bias[:, None]
    return {
        "labels": rng.integers(CLASSES, size=rows),
        "logits": logits.astype(np.float32),
        "features": features,
        "weight": weight,
        "bias": bias,
    }


def remove_norms(cache: Path) -> None:
    """Take the stored offset norms out of a cache, as another program may write it, hashes included."""
    manifest = json.loads((cache / "manifest.json").read_text())
    for entry in manifest["shards"]:
        path = cache / entry["file"]
        tensors = load_file(path)
        del tensors["offset_norm"]
        save_file(tensors, path)
        entry["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (cache / "manifest.json").write_text(json.dumps(manifest))


def writer(path: Path, data: dict[str, np.ndarray], **options: Any) -> CacheWriter:
    settings: dict[str, Any] = {
        "task": Task("demo", ("no", "yes")),
        "split": "dev",
        "model": Model("net", None, LAYERS, WIDTH),
        "heads": (data["weight"], data["bias"]),
        "feature_dtype": "float32",
        "shard_rows": 8,
        "provenance": STARTED,
    }
    return CacheWriter(path, **(settings | options))


def add(target: CacheWriter, data: dict[str, np.ndarray], rows: slice, **more: Any) -> None:
    batch = {"labels": data["labels"][rows], "logits": data["logits"][:, rows], "features": data["features"][:, rows]}
    target.add(**(batch | more))


def content(path: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in sorted(path.iterdir())}
