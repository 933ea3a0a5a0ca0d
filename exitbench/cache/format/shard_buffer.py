"""The rows of one shard while they arrive, gathered into the tensors of its files."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from exitbench.cache.format.arrays import FEATURE_DTYPES, layer_name
from exitbench.cache.format.cache_rows import CacheRows, Features, each_layer
from exitbench.cache.format.finite import all_finite
from exitbench.cache.format.manifest import Manifest
from exitbench.errors import InputError


class ShardBuffer:
    """The rows of one shard while they arrive, in the layout and dtypes of the file."""

    def __init__(self, plan: Manifest, rows: range) -> None:
        self.plan, self.first, self.capacity, self.filled = plan, rows.start, len(rows), 0
        self._parts: list[CacheRows] = []

    @property
    def position(self) -> int:
        """The row that comes next."""
        return self.first + self.filled

    @property
    def full(self) -> bool:
        return self.filled == self.capacity

    def take(self, batch: CacheRows) -> CacheRows:
        """Take what fits, and return the rest."""
        count = min(len(batch), self.capacity - self.filled)
        part = batch.rows(0, count)
        if part.ids is None:
            part = replace(part, ids=torch.arange(self.position, self.position + count))
        self._parts.append(self._stored(part))
        self.filled += count
        return batch.rows(count, len(batch))

    def _stored(self, part: CacheRows) -> CacheRows:
        """The part in the dtypes of the file, copied, since the caller may reuse its arrays."""
        return replace(
            part,
            logits=part.logits.clone(),
            labels=None if part.labels is None else part.labels.clone(),
            features=self._stored_features(part.features),
            ids=None if part.ids is None else part.ids.clone(),
            offset_norm=None if part.offset_norm is None else part.offset_norm.clone(),
            groups=None if part.groups is None else part.groups.clone(),
            outputs={name: output.clone() for name, output in part.outputs.items()},
        )

    def _stored_features(self, features: Features | None) -> Features | None:
        dtype = self.plan.feature_dtype
        if features is None or dtype is None:
            return None
        stored = each_layer(features, lambda part: part.to(FEATURE_DTYPES[dtype], copy=True))
        for layer, (now, before) in enumerate(zip(stored, features, strict=True), 1):
            if not all_finite(now):
                row = int(torch.nonzero(~torch.isfinite(now))[0, 0])
                raise InputError(
                    f"expected features that fit {dtype}, found {float(before[row].abs().max()):g} at layer {layer},"
                    f" row {self.position + row}; bfloat16 and float32 hold larger numbers"
                )
        return stored

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The tensors of the shard's file, and those of its feature file, which may be none."""
        if len({part.offset_norm is not None for part in self._parts}) > 1:
            raise InputError("expected offset norms for all batches or for none, found them for some")
        parts = self._parts
        tensors: dict[str, Tensor] = {}
        for name, axis in (("labels", 0), ("ids", 0), ("groups", 0), ("logits", 1), ("offset_norm", 1)):
            held = [tensor for part in parts if (tensor := getattr(part, name)) is not None]
            if held:
                tensors[name] = torch.cat(held, dim=axis)
        for output in self.plan.outputs:
            tensors[f"output.{output.name}"] = torch.cat([part.outputs[output.name] for part in parts], dim=1)
        return tensors, self._feature_tensors()

    def _feature_tensors(self) -> dict[str, Tensor]:
        features = [part.features for part in self._parts if part.features is not None]
        together = [part for part in features if isinstance(part, Tensor)]
        if together:
            return {"features": torch.cat(together, dim=1)}
        by_layer = zip(*features, strict=True)
        return {layer_name("features", layer): torch.cat(layers) for layer, layers in enumerate(by_layer, 1)}
