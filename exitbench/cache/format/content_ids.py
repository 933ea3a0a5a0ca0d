"""Ids for rows that come without: hashes of their content, so that folds and resamples do not depend on their order.

Content is the label and the head inputs, never the logits: two networks, or two calibrations of one, give other logits
to the same sample, and it should stay in the same fold. Rows that are equal throughout are told apart by a number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

NO_CONTENT = (
    "no ids and no features: rows get their numbers as ids, so folds and resamples depend on the order of the rows"
)


class ContentIds:
    """Hands out ids, none of them twice; ``taken`` are those of rows that are already written."""

    def __init__(self, taken: Iterable[int] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[bytes, int] = {}

    def of(self, features: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """The ids [n] of rows with these head inputs, one [n, width] per layer, and labels [n]."""
        layers = [np.ascontiguousarray(layer.to(torch.float32).numpy(), dtype="<f4") for layer in features]
        ids = np.empty(len(layers[0]), dtype=np.int64)
        for row in range(len(ids)):
            digest = hashlib.blake2b(digest_size=16)
            if labels is not None:
                digest.update(int(labels[row]).to_bytes(8, "little", signed=True))
            for layer in layers:
                digest.update(layer[row].data)
            ids[row] = self._take(digest.digest())
        return torch.from_numpy(ids)

    def _take(self, content: bytes) -> int:
        """The first id of this content that no row has yet."""
        number = self._next.get(content, 1)
        while (candidate := _numbered(content, number)) in self._taken:
            number += 1
        self._taken.add(candidate)
        self._next[content] = number + 1
        return candidate


def _numbered(content: bytes, number: int) -> int:
    digest = hashlib.blake2b(content + number.to_bytes(8, "little"), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1  # ids are signed
