"""Reading a cache: memory-mapped, one layer at a time, nothing believed unchecked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.cache.format.arrays import layer_name
from exitbench.cache.format.files import child, file_bytes, refuse_changed
from exitbench.cache.format.finite import all_finite
from exitbench.cache.format.manifest import MANIFEST, Target
from exitbench.cache.format.manifest_file import read_manifest
from exitbench.cache.format.safetensors_file import open_tensors
from exitbench.cache.format.stored_shard import Shard, StoredLayer
from exitbench.errors import InputError, did_you_mean
from exitbench.head_algebra import Head, head_algebra, offset_norms

__all__ = ["Cache", "Head", "Shard", "head_algebra", "offset_norms"]

EVERYTHING = slice(None)


class Cache:
    """The per-layer outputs of one model on one split, read from a directory.

    Opening checks the manifest and the header, labels and ids of every shard; a tensor is checked for
    finite values when it is read. Layers count from 1; ``rows`` selects a contiguous range of samples.
    Every accessor returns tensors with the samples first, on ``device``.
    """

    def __init__(self, path: str | Path, *, device: torch.device | str = "cpu") -> None:
        self.path = Path(path)
        self.device = torch.device(device)
        self.manifest = read_manifest(self.path)
        if not self.manifest.complete:
            raise InputError(
                f"{self.path}: incomplete: {self.manifest.rows} rows are written; run the command that was"
                " collecting it again to resume"
            )
        # Of a link its own name, which is what the user wrote; of "." and ".." the folder's.
        self.name = Path(os.path.abspath(self.path)).name  # noqa: PTH100 - resolve() would follow the link
        self.rows = self.manifest.rows
        self.layers = self.manifest.model.layers
        self.classes = len(self.manifest.task.classes)
        self.width = self.manifest.model.width
        self.shards = self._open_shards()
        self._check_labels_and_ids()

    def _open_shards(self) -> list[Shard]:
        shards: list[Shard] = []
        for entry in self.manifest.shards:
            shards.append(Shard(self.path, self.manifest, entry, shards[-1].stop if shards else 0))
        stored = {shard.stored_norms is not None for shard in shards}
        if len(stored) > 1:
            raise InputError(f"{self.path}: expected offset_norm in all shards or in none, found it in some")
        return shards

    def _check_labels_and_ids(self) -> None:
        for shard in self.shards:
            if shard.stored_labels is None:
                continue
            labels = shard.stored_labels.block()
            wrong = torch.nonzero((labels < 0) | (labels >= self.classes))
            if len(wrong):
                row = int(wrong[0])
                raise InputError(
                    f"{shard.stored_labels.path}: expected labels in 0..{self.classes - 1},"
                    f" found {int(labels[row])} at row {row + shard.start}"
                )
        values, counts = np.unique(self.ids, return_counts=True)
        if len(values) < self.rows:
            twice = values[counts > 1][0]
            raise InputError(f"{self.path}: expected every id once, found id {twice} {counts.max()} times")

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The right class of every sample, [samples]; an InputError in a cache without labels."""
        stored = [shard.stored_labels for shard in self.shards if shard.stored_labels is not None]
        if not stored:
            raise InputError(f"{self.path}: expected labels, found a cache without them; judge by the target final")
        return np.concatenate([labels.copied().numpy() for labels in stored])

    @property
    def labelled(self) -> bool:
        return self.manifest.labelled

    def truth(self, target: Target | None = None) -> NDArray[np.int64]:
        """The answer that counts as right for every sample, [samples]: its label, or what the last layer says.

        Without a ``target`` it is the cache's own.
        """
        if (target or self.manifest.target) == "labels":
            return self.labels
        return np.asarray(self.logits(self.layers).argmax(dim=1).cpu().numpy())

    @cached_property
    def groups(self) -> NDArray[np.int64] | None:
        """The group of every sample, [samples], where rows belong together; else ``None``."""
        stored = [shard.stored_groups for shard in self.shards if shard.stored_groups is not None]
        return np.concatenate([groups.copied().numpy() for groups in stored]) if stored else None

    @property
    def costs(self) -> tuple[float, ...] | None:
        """The cumulative cost of exiting at each layer; ``None`` is layer over depth."""
        return self.manifest.costs

    @property
    def widths(self) -> tuple[int | None, ...]:
        """The feature width of every exit; ``None`` where it is not known."""
        return self.manifest.widths or (self.width,) * self.layers

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the extra outputs."""
        return tuple(output.name for output in self.manifest.outputs)

    @cached_property
    def ids(self) -> NDArray[np.int64]:
        """The identity of every sample, [samples]; all randomness is a function of it."""
        return np.concatenate([shard.stored_ids.copied().numpy() for shard in self.shards])

    @property
    def manifest_sha256(self) -> str:
        """The sha256 of the manifest's bytes, which pins every other file of the cache."""
        return hashlib.sha256(file_bytes(self.path / MANIFEST)).hexdigest()

    @property
    def has_features(self) -> bool:
        return self.manifest.feature_dtype is not None

    @property
    def has_heads(self) -> bool:
        return self.manifest.heads is not None

    @property
    def stores_offset_norms(self) -> bool:
        """Whether offset norms are stored, so that no feature need be read for them."""
        return self.shards[0].stored_norms is not None

    @property
    def has_offset_norms(self) -> bool:
        """Whether offset norms are stored, or can be computed from features and heads."""
        return self.stores_offset_norms or (self.has_features and self.has_heads)

    def require_unchanged(self, *, features: bool = True) -> None:
        """An InputError for the first file whose bytes are not those that the manifest lists.

        Feature files, which may be large, are left out where no ``features`` will be read.
        """
        unread = set() if features else {entry.features for entry in self.manifest.shards}
        for entry in self.manifest.files:
            if entry not in unread:
                refuse_changed(child(self.path, entry.file), entry.sha256)

    def to(self, device: torch.device | str) -> Cache:
        """The same cache, whose tensors are moved to ``device`` as they are read."""
        return Cache(self.path, device=device)

    def logits(self, layer: int, rows: slice = EVERYTHING) -> Tensor:
        """The logits of one layer, [samples, classes] float32; never opens a feature file."""
        return self._gather(layer, rows, lambda shard: shard.logits(layer))

    def features(self, layer: int, rows: slice = EVERYTHING) -> Tensor:
        """The head inputs of one layer, [samples, width of the layer] in the stored dtype."""
        return self._gather(layer, rows, lambda shard: shard.features(layer))

    def output(self, name: str, layer: int, rows: slice = EVERYTHING) -> Tensor:
        """An extra output at one layer, [samples] or [samples, k] float32."""
        if name not in self.output_names:
            names = ", ".join(self.output_names) or "none"
            raise InputError(
                f"{self.path}: expected an output {name!r}, found {names}.{did_you_mean(name, self.output_names)}"
            )
        return self._gather(layer, rows, lambda shard: shard.output(name, layer))

    def offset_norms(self, layer: int, rows: slice = EVERYTHING) -> Tensor:
        """``||x + o||`` at one layer, [samples] float32: stored, or computed in row blocks."""
        if self.stores_offset_norms:
            return self._gather(layer, rows, lambda shard: shard.offset_norms(layer))
        if not self.has_offset_norms:
            raise InputError(f"{self.path}: expected offset norms, or features and heads, found neither")
        offset = self.head(layer).offset.to("cpu")
        norms = [
            offset_norms(shard.features(layer).block(inner), offset) for shard, inner in self._shard_slices(layer, rows)
        ]
        result = norms[0] if len(norms) == 1 else torch.cat(norms)
        self._refuse_non_finite(result, f"{self.path}: features", layer, rows.indices(self.rows)[0])
        return result.to(self.device)

    def head(self, layer: int) -> Head:
        """The head of one layer with its algebra."""
        self._check_layer(layer)
        return self._heads[layer - 1]

    def read_heads_again(self) -> None:
        """Forget the heads that were handed out: somebody wrote into them."""
        self.__dict__.pop("_heads", None)

    @cached_property
    def _heads(self) -> list[Head]:
        weights, bias = self.head_tensors()
        return [head_algebra(weight, bias[m]).to(self.device) for m, weight in enumerate(weights)]

    def head_tensors(self) -> tuple[Sequence[Tensor], Tensor]:
        """The stored heads: the weights of every layer, [classes, width of the layer], and bias [layers, classes]."""
        entry = self.manifest.heads
        if entry is None:
            raise InputError(f"{self.path}: expected heads, found a cache that was imported without them")
        stored = open_tensors(self.path, entry.file)
        bias = stored.tensor("bias").expect(torch.float32, (self.layers, self.classes)).block()
        if self.manifest.widths is None:
            weight = stored.tensor("weight")
            weight.expect(torch.float32, (self.layers, self.classes, self.width or weight.shape[-1]))
            weights: Sequence[Tensor] = list(weight.block())
        else:
            weights = [
                stored.tensor(layer_name("weight", layer)).expect(torch.float32, (self.classes, width)).block()
                for layer, width in enumerate(self.manifest.widths, 1)
            ]
        for parts, name in ((weights, "weight"), (list(bias), "bias")):
            for layer, part in enumerate(parts, 1):
                if not all_finite(part):
                    raise InputError(
                        f"{stored.path}: expected finite numbers, found one in {name} of layer {layer} that is not"
                    )
        return weights, bias

    def predictions(self) -> NDArray[np.int64]:
        """The predicted class of every sample at every layer, [layers, samples]."""
        return np.stack([self.logits(m).argmax(dim=1).cpu().numpy() for m in range(1, self.layers + 1)])

    def blocks(self, rows: int = 8192) -> Iterator[slice]:
        """Contiguous ranges of at most ``rows`` samples that cover the cache and never cross a shard."""
        for shard in self.shards:
            for start in range(shard.start, shard.stop, rows):
                yield slice(start, min(start + rows, shard.stop))

    def _check_layer(self, layer: int) -> None:
        if not 1 <= layer <= self.layers:
            raise InputError(f"{self.path}: expected a layer in 1..{self.layers}, found {layer}")

    def _shard_slices(self, layer: int, rows: slice) -> Iterator[tuple[Shard, slice]]:
        """The shards that hold ``rows``, each with its own part of them."""
        self._check_layer(layer)
        start, stop, step = rows.indices(self.rows)
        if step != 1:
            raise InputError(f"{self.path}: expected a contiguous range of rows, found steps of {step}")
        for shard in self.shards:
            low, high = max(start, shard.start), min(stop, shard.stop)
            if low < high or (shard is self.shards[0] and start >= stop):
                yield shard, slice(low - shard.start, max(high, low) - shard.start)

    def _gather(self, layer: int, rows: slice, stored: Callable[[Shard], StoredLayer]) -> Tensor:
        parts = list(self._shard_slices(layer, rows))
        total = sum(inner.stop - inner.start for _, inner in parts)
        whole: Tensor | None = None
        filled = 0
        for shard, inner in parts:
            source = stored(shard)
            block, tensor = source.block(inner), source.tensor
            self._refuse_non_finite(block, f"{tensor.path}: {tensor.name}", layer, shard.start + inner.start)
            if len(parts) == 1:
                return block.to(self.device)
            # Copied at once: every block that is kept keeps a file open.
            whole = block.new_empty((total, *block.shape[1:])) if whole is None else whole
            whole[filled : filled + len(block)] = block
            filled += len(block)
        assert whole is not None
        return whole.to(self.device)

    def _refuse_non_finite(self, block: Tensor, source: str, layer: int, start: int) -> None:
        if not all_finite(block):
            finite = torch.isfinite(block)
            row = int(torch.nonzero(~finite)[0, 0])
            value = block[row][~finite[row]].reshape(-1)[0].item()
            raise InputError(f"{source}: expected finite numbers, found {value} at layer {layer}, row {row + start}")
