"""What a page has room for: everything of most runs; of hundreds of caches the parts that a reader opens first.

Parts are offered by importance. Of what is left out the page keeps the name, and says which command makes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

from exitbench.reports.page.packed import Packing, packed
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.tables.table import Table

PAGE_BYTES = 5_000_000
"""As large as a page may get."""
MOST_MISSES = 5
"""After so many parts in a row that found no room, no further one is made to be tried."""

Key = TypeVar("Key", bound=Hashable)


class PageRoom:
    """The signs that are still free in a page."""

    def __init__(self, free: int) -> None:
        self.free = max(0, free)

    def spend(self, data: Any) -> None:
        """Take away what a page holds in any case."""
        self.free = max(0, self.free - len(packed(data)))

    def kept(self, share: float, parts: Iterable[tuple[Key, Callable[[], Any]]]) -> dict[Key, Any]:
        """The data of the parts that fit into a share of what is free, by key; the rest stays free for others."""
        allowed, used, misses, packing = int(share * self.free), 0, 0, Packing()
        kept: dict[Key, Any] = {}
        for key, data_of in parts:
            data = data_of()
            size = packing.add(data, allowed - used)
            if size is None:
                misses += 1
                if misses >= MOST_MISSES:
                    break
                continue
            misses = 0
            used += size
            kept[key] = data
        self.free -= used
        return kept


def by_network(caches: Sequence[CacheMetadata]) -> list[CacheMetadata]:
    """The first network of every model and task, then the second of each, and so on."""
    first, others = first_networks(caches)
    return [*first, *(by_network(others) if others else [])]


def first_networks(caches: Sequence[CacheMetadata]) -> tuple[list[CacheMetadata], list[CacheMetadata]]:
    """The first network of every model and task, and all others."""
    seen: set[tuple[str, str, str]] = set()
    first: list[CacheMetadata] = []
    others: list[CacheMetadata] = []
    for cache in caches:
        key = (cache.model, cache.split, cache.task)
        (others if key in seen else first).append(cache)
        seen.add(key)
    return first, others


def by_question(tables: Sequence[Table], leading: Sequence[str], average: str) -> list[int]:
    """The positions of tables by importance: of the leading protocols first, and of every question in turn.

    Tables of the pairs on one task come after all others; ``average`` is how the names of those over tasks begin.
    """
    seen: Counter[tuple[bool, bool, str]] = Counter()
    ranked = []
    for position, table in enumerate(tables):
        is_single = table.name.startswith("differences-") and not table.name.startswith(average)
        key = (is_single, table.protocol not in ("", *leading), table.topic)
        ranked.append((*key[:2], seen[key], position))
        seen[key] += 1
    return [position for *_, position in sorted(ranked)]


def group_names(run: FinishedRun, cache: CacheMetadata) -> list[str]:
    """What a reader chooses a cache by where there are many: its model, its task, and the seed of its network.

    Without a seed of its own a network goes by the name of its cache.
    """
    several_splits = len({other.split for other in run.caches}) > 1
    model = f"{cache.model}, {cache.split}" if several_splits else cache.model
    return [model, run.plain_task(cache), run.network_names[cache.name]]
