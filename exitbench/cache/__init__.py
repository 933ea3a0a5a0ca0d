"""What was collected: per-layer logits and features on disk, in JSON and safetensors only.

The names are imported when they are first used: reading a manifest needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exitbench.cache.arrays import import_arrays
    from exitbench.cache.card import cache_card
    from exitbench.cache.compaction import compact
    from exitbench.cache.heads import Head, head_algebra, offset_norms
    from exitbench.cache.manifest import Manifest, Model, Task, read_manifest
    from exitbench.cache.reader import Cache
    from exitbench.cache.synthetic import synthetic_cache
    from exitbench.cache.tasks import TASKS
    from exitbench.cache.verification import verify
    from exitbench.cache.writer import CacheWarning, CacheWriter

HOMES = {
    "import_arrays": "arrays",
    "cache_card": "card",
    "compact": "compaction",
    "Head": "heads",
    "head_algebra": "heads",
    "offset_norms": "heads",
    "Manifest": "manifest",
    "Model": "manifest",
    "Task": "manifest",
    "read_manifest": "manifest",
    "Cache": "reader",
    "synthetic_cache": "synthetic",
    "TASKS": "tasks",
    "verify": "verification",
    "CacheWarning": "writer",
    "CacheWriter": "writer",
}

__all__ = [
    "TASKS",
    "Cache",
    "CacheWarning",
    "CacheWriter",
    "Head",
    "Manifest",
    "Model",
    "Task",
    "cache_card",
    "compact",
    "head_algebra",
    "import_arrays",
    "offset_norms",
    "read_manifest",
    "synthetic_cache",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'exitbench.cache' has no attribute {name!r}")
    return getattr(importlib.import_module(f"exitbench.cache.{HOMES[name]}"), name)
