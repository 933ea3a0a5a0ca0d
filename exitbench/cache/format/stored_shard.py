"""One shard of a cache as it lies on the disk: which tensors it has, and where each layer of them begins."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from exitbench.cache.format.arrays import FEATURE_DTYPES, layer_name
from exitbench.cache.format.manifest import Manifest, ShardEntry
from exitbench.cache.format.safetensors_file import StoredTensor, TensorFile, open_tensors
from exitbench.errors import InputError


class StoredLayer(NamedTuple):
    """One layer of a stored tensor: at ``position`` in one of all layers, or one of its own (no position)."""

    tensor: StoredTensor
    position: tuple[int, ...]

    def block(self, rows: slice) -> Tensor:
        """Some samples of the layer, memory-mapped."""
        return self.tensor.block(*self.position, rows=rows)


class Shard:
    """One shard of a cache; feature files are opened only when features are asked for."""

    def __init__(self, directory: Path, manifest: Manifest, entry: ShardEntry, start: int) -> None:
        self.directory, self.manifest, self.entry = directory, manifest, entry
        self.start, self.stop = start, start + entry.rows
        self.rows = entry.rows
        self.file: TensorFile = open_tensors(directory, entry.file)
        layers, classes = manifest.model.layers, len(manifest.task.classes)
        self.stored_labels = self._per_row("labels") if manifest.labelled else None
        self.stored_ids = self._per_row("ids")
        self.stored_groups = self._per_row("groups") if manifest.groups else None
        self.stored_logits = self.file.tensor("logits").expect(torch.float32, (layers, self.rows, classes))
        self.stored_norms: StoredTensor | None = None
        if "offset_norm" in self.file.tensors:
            self.stored_norms = self.file.tensor("offset_norm").expect(torch.float32, (layers, self.rows))
        self.stored_outputs: dict[str, StoredTensor] = {}
        for output in manifest.outputs:
            shape = (layers, self.rows) if output.size is None else (layers, self.rows, output.size)
            self.stored_outputs[output.name] = self.file.tensor(f"output.{output.name}").expect(torch.float32, shape)

    def _per_row(self, name: str) -> StoredTensor:
        return self.file.tensor(name).expect(torch.int64, (self.rows,))

    @cached_property
    def _feature_file(self) -> TensorFile:
        """The file of the features, opened here, on first use."""
        if self.entry.features is None:
            raise InputError(f"{self.directory}: expected features, found a compact cache without them")
        return open_tensors(self.directory, self.entry.features.file)

    @cached_property
    def _features(self) -> StoredTensor:
        """The features of all layers, [layers, rows, width]."""
        tensor = self._feature_file.tensor("features")
        width = self.manifest.model.width or tensor.shape[-1]
        dtype = FEATURE_DTYPES[self.manifest.feature_dtype or "float32"]
        return tensor.expect(dtype, (self.manifest.model.layers, self.rows, width))

    def features(self, layer: int) -> StoredLayer:
        """The features of one layer (from 1), [rows, width]."""
        if self.manifest.widths is None:
            return StoredLayer(self._features, (layer - 1,))
        dtype = FEATURE_DTYPES[self.manifest.feature_dtype or "float32"]
        tensor = self._feature_file.tensor(layer_name("features", layer))
        return StoredLayer(tensor.expect(dtype, (self.rows, self.manifest.widths[layer - 1])), ())

    def logits(self, layer: int) -> StoredLayer:
        """The logits of one layer, [rows, classes]."""
        return StoredLayer(self.stored_logits, (layer - 1,))

    def offset_norms(self, layer: int) -> StoredLayer:
        """The stored offset norms of one layer, [rows]."""
        assert self.stored_norms is not None
        return StoredLayer(self.stored_norms, (layer - 1,))

    def output(self, name: str, layer: int) -> StoredLayer:
        """One extra output at one layer, [rows] or [rows, k]."""
        return StoredLayer(self.stored_outputs[name], (layer - 1,))
