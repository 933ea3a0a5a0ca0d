"""exitbench: every early-exit signal on the same cached outputs of a multi-exit network.

The names below are the documented interface; each is imported when it is first used, so that
``import exitbench`` costs nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from benchmarks.evaluate import evaluate, replay
    from benchmarks.scoring import score
    from exitbench.cache import Cache, CacheWriter
    from signals import ExitSignal, Layer

HOMES = {
    "Cache": "exitbench.cache",
    "CacheWriter": "exitbench.cache",
    "ExitSignal": "signals",
    "Layer": "signals",
    "evaluate": "benchmarks.evaluate",
    "replay": "benchmarks.evaluate",
    "score": "benchmarks.scoring",
}

__all__ = ["Cache", "CacheWriter", "ExitSignal", "Layer", "evaluate", "replay", "score"]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'exitbench' has no attribute {name!r}")
    return getattr(importlib.import_module(HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
