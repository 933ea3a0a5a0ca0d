"""Token batches: texts become ids once, then padded tensors of samples of like length.

Tokens are kept as lists of different lengths and padded per batch, and batches are made of samples of
similar length, because padding is computed like any other token. The order of training batches is a
function of (seed, epoch) alone, so that a resumed run sees the same batches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exitbench.models.data.labelled import Examples

CHUNK = 1024
"""How many texts are tokenised at a time."""

POOL = 50
"""Training batches are sorted by length within pools of this many batches, so that order stays random."""


@dataclass(frozen=True)
class TokenBatch:
    """Samples padded to one length: ids, mask (1 for a token) and token types are [samples, tokens]."""

    input_ids: Tensor
    attention_mask: Tensor
    token_type_ids: Tensor | None = None
    labels: Tensor | None = None

    @property
    def samples(self) -> int:
        return int(self.input_ids.shape[0])

    def to(self, device: torch.device) -> TokenBatch:
        """The batch on another device; copies from pinned memory do not wait."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin(self) -> TokenBatch:
        """The batch in page-locked memory, from which a GPU copies while it computes."""
        return self._each(lambda tensor: tensor.pin_memory())

    def _each(self, change: Any) -> TokenBatch:
        fields: dict[str, Any] = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        changed: dict[str, Any] = {name: None if value is None else change(value) for name, value in fields.items()}
        return TokenBatch(**changed)


@dataclass(frozen=True)
class Tokens:
    """All samples of a split as ids of different lengths, ready to be padded into batches."""

    ids: Sequence[Sequence[int]]
    types: Sequence[Sequence[int]] | None
    labels: Tensor | None
    pad_id: int
    cut: int
    """How many texts were longer than the limit and lost their end."""

    sample_ids: Tensor | None = None
    groups: Tensor | None = None
    """Numbers of the samples, and which belong together, [samples], where the data has them."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Tokens per sample, [samples]."""
        return np.array([len(row) for row in self.ids], dtype=np.int64)

    def only(self, row: int) -> Tokens:
        """One sample alone, without its label."""
        types = None if self.types is None else self.types[row : row + 1]
        return Tokens(self.ids[row : row + 1], types, None, self.pad_id, 0)

    def batch(self, rows: Sequence[int]) -> TokenBatch:
        """The samples at ``rows``, padded to the longest of them."""
        longest = max(len(self.ids[row]) for row in rows)
        ids = np.full((len(rows), longest), self.pad_id, dtype=np.int64)
        mask = np.zeros((len(rows), longest), dtype=np.int64)
        types = np.zeros((len(rows), longest), dtype=np.int64)
        for position, row in enumerate(rows):
            length = len(self.ids[row])
            ids[position, :length] = self.ids[row]
            mask[position, :length] = 1
            if self.types is not None:
                types[position, :length] = self.types[row]
        return TokenBatch(
            torch.from_numpy(ids),
            torch.from_numpy(mask),
            None if self.types is None else torch.from_numpy(types),
            None if self.labels is None else self.labels[list(rows)],
        )


def tokenize(examples: Examples, tokenizer: Any, max_length: int) -> Tokens:
    """Every text (or pair of texts) as ids of at most ``max_length`` tokens, special ones included."""
    ids: list[list[int]] = []
    types: list[list[int]] | None = [] if "token_type_ids" in tokenizer.model_input_names else None
    cut = 0
    for start in range(0, len(examples), CHUNK):
        chunk = slice(start, start + CHUNK)
        pairs = None if examples.pairs is None else list(examples.pairs[chunk])
        # Twice only for the long ones: the first pass tells which are long, whatever the tokenizer's class.
        encoded = dict(tokenizer(list(examples.texts[chunk]), pairs, verbose=False))
        for row, row_ids in enumerate(encoded["input_ids"]):
            if len(row_ids) > max_length:
                cut += 1
                short = tokenizer(
                    examples.texts[start + row],
                    None if examples.pairs is None else examples.pairs[start + row],
                    truncation=True,
                    max_length=max_length,
                )
                for name, rows in encoded.items():
                    rows[row] = short[name]
        ids.extend(encoded["input_ids"])
        if types is not None:
            types.extend(encoded["token_type_ids"])
    labels, sample_ids, groups = (
        None if numbers is None else torch.tensor(numbers, dtype=torch.int64)
        for numbers in (examples.labels, examples.ids, examples.groups)
    )
    return Tokens(ids, types, labels, int(tokenizer.pad_token_id), cut, sample_ids, groups)


def training_batches(
    lengths: np.ndarray[Any, np.dtype[np.int64]], batch_size: int, seed: int, epoch: int, ranks: int = 1
) -> list[list[int]]:
    """Rows of every batch of one epoch: shuffled, samples of like length together.

    With several processes rank r takes batches r, r + ranks, ...; the few batches that do not make a
    full round are left out, so that all processes take the same number of steps.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    batches: list[list[int]] = []
    for start in range(0, len(order), POOL * batch_size):
        pool = order[start : start + POOL * batch_size]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        batches.extend(pool[at : at + batch_size].tolist() for at in range(0, len(pool), batch_size))
    shuffled = [batches[index] for index in generator.permutation(len(batches))]
    return shuffled[: len(shuffled) - len(shuffled) % ranks] if len(shuffled) >= ranks else shuffled[:1] * ranks


def length_batches(lengths: np.ndarray[Any, np.dtype[np.int64]], rows: range, batch_size: int) -> list[list[int]]:
    """The rows of a range in batches of like length, longest first so that memory is known at once."""
    order = np.argsort(-lengths[rows.start : rows.stop], kind="stable") + rows.start
    return [order[at : at + batch_size].tolist() for at in range(0, len(order), batch_size)]
