"""A cache whose files are what its manifest lists, as far as they will be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from exitbench.cache import Cache
    from exitbench.signals.contract.signal import ExitSignal


def unchanged_cache(path: Path, signals: Sequence[ExitSignal] = ()) -> Cache:
    """Open a cache; an InputError if a file is damaged that ``signals`` read, or that labels and logits lie in.

    Feature files, which may be large, are hashed only where a signal reads them.
    """
    from exitbench.benchmarks.run.score_stage import reads_features
    from exitbench.cache import Cache

    cache = Cache(path)
    cache.require_unchanged(features=bool(signals) and reads_features(cache, signals))
    return cache
