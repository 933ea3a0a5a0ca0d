"""The layers of a cache for signals to learn from, one at a time, their features block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.signals.contract.layer import (
    OUTPUT,
    FeatureRows,
    Input,
    Layer,
    LayerSlice,
    declared_layer,
    output_names,
)
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.contract.written_inputs import TensorCopies, head_tensors

GAP = 8
"""Rows of a cache that are read and not needed, before a reader skips them."""
TOGETHER = 4096
"""Rows that are read at once."""


class CalibrationLayers(Sequence[Layer]):
    """All layers of some samples of a cache, with what ``inputs`` name; each is read when it is asked for."""

    def __init__(self, cache: Cache, rows: NDArray[np.intp], inputs: frozenset[Input]) -> None:
        self.cache, self.rows, self.inputs = cache, rows, inputs
        self._heads: dict[int, TensorCopies] = {}
        self._asked: set[int] = set()
        self.on_new_layer: Callable[[], None] = lambda: None
        """Called when a layer is asked for that was not asked for before: how far a fit has come."""

    def of_rows(self, rows: Tensor) -> CalibrationLayers:
        """The layers with the samples at ``rows`` (an index or a mask) of these only; no others are read for them."""
        some = CalibrationLayers(self.cache, self.rows[rows.numpy()], self.inputs)
        some._heads, some._asked = self._heads, self._asked
        some.on_new_layer = self.on_new_layer
        return some

    def written_head(self) -> str:
        """The name of a head's tensor that was written into; empty where none was.

        All else that a layer holds is a copy, which nobody else is given.
        """
        return next(filter(None, (copies.written() for copies in self._heads.values())), "")

    def __len__(self) -> int:
        return self.cache.layers

    @overload
    def __getitem__(self, position: int) -> Layer: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Layer]: ...
    def __getitem__(self, position: int | slice) -> Layer | Sequence[Layer]:
        if isinstance(position, slice):
            return LayerSlice(self, range(len(self))[position])
        return self._layer(range(1, self.cache.layers + 1)[position])

    def _layer(self, index: int) -> Layer:
        cache = self.cache
        if index not in self._asked:
            self._asked.add(index)
            self.on_new_layer()
        layer = LayerOfCache(
            index=index,
            depth=cache.layers,
            classes=cache.classes,
            ids=torch.from_numpy(cache.ids[self.rows]),
            logits=cast(Tensor, Unread(lambda: self._stored(index, "logits"))),
            features=cast(Tensor, StoredFeatures(cache, index, self.rows)) if "features" in self.inputs else None,
            offset_norm=self._stored(index, "offset_norm") if "offset_norm" in self.inputs else None,
            head=cache.head(index) if "head" in self.inputs else None,
            outputs={name: self._stored(index, OUTPUT + name) for name in output_names(self.inputs)},
        )
        if layer.head is not None and index not in self._heads:
            self._heads[index] = TensorCopies(head_tensors(layer.head))
        return layer

    def _stored(self, index: int, name: Input) -> Tensor:
        """What the cache holds of an input at one layer, for the chosen samples, in their order."""
        first = stored_tensor(self.cache, index, slice(0, 1), name)
        taken = first.new_empty((len(self.rows), *first.shape[1:]))
        order, rising = self._order, self.rows[self._order]
        in_order = bool((order[1:] > order[:-1]).all())
        for block in self.cache.blocks():
            low, high = np.searchsorted(rising, (block.start, block.stop))
            if low < high:
                here = slice(int(rising[low]), int(rising[high - 1]) + 1)
                values = stored_tensor(self.cache, index, here, name)
                wanted = torch.from_numpy(rising[low:high] - here.start).to(values.device)
                if in_order:  # copied once
                    torch.index_select(values, 0, wanted, out=taken[low:high])
                else:
                    taken[torch.from_numpy(order[low:high])] = values[wanted]
        return taken

    @cached_property
    def _order(self) -> NDArray[np.intp]:
        """The positions of the samples, in the order in which the cache holds them."""
        return np.argsort(self.rows, kind="stable")


class StoredFeatures:
    """The features of some rows of a cache at one layer, [samples, width], read when they are asked for."""

    def __init__(self, cache: Cache, index: int, rows: NDArray[np.intp]) -> None:
        self.cache, self.index, self.rows = cache, index, rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples and width."""
        return len(self.rows), int(self.cache.features(self.index, slice(0, 1)).shape[1])

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, rows: Tensor) -> StoredFeatures:
        """Those at ``rows`` (an index or a mask), still unread."""
        return StoredFeatures(self.cache, self.index, self.rows[rows.numpy()])

    def __getitem__(self, rows: slice | Tensor, /) -> Tensor:
        wanted = self.rows[rows if isinstance(rows, slice) else rows.numpy()]
        order = np.argsort(wanted, kind="stable")
        rising = wanted[order]
        # Neighbours in the file are read together, and a long gap is passed over.
        cuts = np.flatnonzero(np.diff(rising) > GAP) + 1
        taken = self.cache.features(self.index, slice(0, 1))
        values = taken.new_empty((len(wanted), taken.shape[1]))
        for run in np.split(np.arange(len(rising)), cuts):
            for start in range(0, len(run), TOGETHER):
                part = run[start : start + TOGETHER]
                first, last = int(rising[part[0]]), int(rising[part[-1]])
                block = self.cache.features(self.index, slice(first, last + 1))
                values[torch.from_numpy(order[part])] = block[torch.from_numpy(rising[part] - first)]
        return values


@dataclass(frozen=True)
class Unread:
    """What a cache holds, still unread."""

    read: Callable[[], Tensor]


class LayerOfCache(Layer):
    """A layer whose logits and features stay in the cache until they are asked for; logits are then read once."""

    @property
    def samples(self) -> int:
        return len(self.ids)

    @property
    def logits(self) -> Tensor:
        """The logits, [samples, classes]."""
        stored = self.__dict__["logits"]
        if isinstance(stored, Unread):
            self.__dict__["logits"] = stored = stored.read()
        return cast(Tensor, stored)

    @logits.setter
    def logits(self, stored: Tensor) -> None:
        self.__dict__["logits"] = stored

    @property
    def features(self) -> Tensor | None:
        """All features, [samples, width], in memory from now on only for whoever asks."""
        stored = self.feature_rows
        return stored if stored is None or isinstance(stored, Tensor) else stored[:]

    @features.setter
    def features(self, stored: FeatureRows | None) -> None:
        self.__dict__["features"] = stored

    @property
    def feature_rows(self) -> FeatureRows | None:
        return cast("FeatureRows | None", self.__dict__["features"])

    def _features_at(self, rows: Tensor) -> Tensor | None:
        stored = self.feature_rows
        if stored is None:
            return None
        return cast(Tensor, stored.take(rows) if isinstance(stored, StoredFeatures) else stored[rows])

    def _features_shown(self, declared: bool) -> Tensor | None:
        return cast("Tensor | None", self.feature_rows if declared else None)


def read_layer(cache: Cache, index: int, rows: slice, inputs: frozenset[Input]) -> Layer:
    """One layer of a row block, with what ``inputs`` name; logits and ids are always there."""
    return declared_layer(
        inputs,
        index=index,
        depth=cache.layers,
        classes=cache.classes,
        ids=torch.from_numpy(cache.ids[rows].copy()),
        read=lambda name: stored_tensor(cache, index, rows, name),
        head=lambda: cache.head(index),
    )


def stored_tensor(cache: Cache, index: int, rows: slice, name: Input) -> Tensor:
    """What a cache holds of an input at one layer, for a row block."""
    if name.startswith(OUTPUT):
        return cache.output(name.removeprefix(OUTPUT), index, rows)
    read = {"logits": cache.logits, "features": cache.features, "offset_norm": cache.offset_norms}[name]
    return read(index, rows)


def check_inputs(cache: Cache, signal: ExitSignal) -> None:
    """Raise InputError naming signal and cache when the signal cannot run there."""
    if reason := cannot_run(cache, signal):
        raise InputError(reason)


def cannot_run(cache: Cache, signal: ExitSignal) -> str:
    """Why the signal cannot run on the cache: it lacks a declared input, or pooler or widths are wrong for it."""
    if lacks := lacking(cache, signal):
        return f"signal {signal.text} reads {lacks}"
    if unsuited := signal.unsuited(cache.manifest.model.pooler):
        return f"cache {cache.name}: {unsuited}"
    widths = cache.widths[:-1]
    if signal.needs_one_width and len(set(widths)) > 1:
        listed = ", ".join(map(str, widths))
        return f"signal {signal.text} treats all layers alike, and in cache {cache.name} they have the widths {listed}"
    return ""


def lacking(cache: Cache, signal: ExitSignal) -> str:
    """What the signal reads and the cache does not hold, with the name of the cache; empty where nothing is missing."""
    held = {"features": cache.has_features, "head": cache.has_heads, "offset_norm": cache.has_offset_norms}
    words = {"features": "features", "head": "heads", "offset_norm": "offset norms"}
    missing = [words[item] for item in sorted(signal.inputs) if not held.get(item, True)]
    missing += [f"the output {name!r}" for name in output_names(signal.inputs) if name not in cache.output_names]
    if not missing:
        return ""
    # The cache may say why: its answers are not linear, so that no head gives them. Offset norms are the heads' own.
    why = cache.manifest.no_heads if {"heads", "offset norms"} & set(missing) else ""
    return f"{' and '.join(missing)}, which cache {cache.name} does not hold" + (f" ({why})" if why else "")
