"""Where a row with some key stands in a result file: sixteen bytes a row, where a dictionary of keys takes hundreds."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

import numpy as np

Key = tuple[Hashable, ...]


class KeyIndex:
    """The positions of rows by their ``keys``, of which ``key_at`` gives the one at a position again.

    Keys are found by their hashes and then compared, so that two keys with one hash are no mistake.
    """

    def __init__(self, keys: Iterable[Key], key_at: Callable[[int], Key]) -> None:
        hashes = np.fromiter(map(hash, keys), dtype=np.int64)
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]
        self._key_at = key_at

    def __getitem__(self, key: Key) -> int:
        """The position of the last row with this key, as in a dictionary."""
        first, end = (np.searchsorted(self._hashes, np.int64(hash(key)), side) for side in ("left", "right"))
        for position in self._order[first:end][::-1].tolist():
            if self._key_at(position) == key:
                return int(position)
        raise KeyError(key)
