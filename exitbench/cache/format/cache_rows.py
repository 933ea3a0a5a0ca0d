"""A batch on its way into a cache: checked against the plan, in the stored dtypes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from exitbench.cache.format.arrays import FEATURE_DTYPES, as_tensor, layer_name
from exitbench.cache.format.finite import all_finite
from exitbench.cache.format.manifest import Manifest
from exitbench.errors import InputError
from exitbench.head_algebra import offset_norms

Features = Tensor | tuple[Tensor, ...]
"""Head inputs of some samples: [layers, n, width], or one [n, width of the layer] for each layer."""


def each_layer(features: Features, change: Callable[[Tensor], Tensor]) -> Features:
    """What ``change`` makes of the features: of all layers at once, or one by one where widths differ."""
    return change(features) if isinstance(features, Tensor) else tuple(map(change, features))


def cut_rows(features: Features, start: int, stop: int) -> Features:
    """The samples ``start`` to ``stop`` of some features."""
    if isinstance(features, Tensor):
        return features[:, start:stop]
    return tuple(layer[start:stop] for layer in features)


@dataclass(frozen=True)
class CacheRows:
    """Some samples at all layers: logits [layers, n, classes], features, outputs [layers, n] or [layers, n, k]."""

    logits: Tensor
    labels: Tensor | None
    features: Features | None
    ids: Tensor | None
    offset_norm: Tensor | None
    groups: Tensor | None = None
    outputs: Mapping[str, Tensor] = field(default_factory=dict)
    rounded: bool = False

    @classmethod
    def make(
        cls,
        *,
        logits: Tensor | ArrayLike,
        labels: Tensor | ArrayLike | None,
        features: Tensor | ArrayLike | Sequence[Tensor | ArrayLike] | None,
        ids: Tensor | ArrayLike | None,
        offset_norm: Tensor | ArrayLike | None,
        groups: Tensor | ArrayLike | None = None,
        outputs: Mapping[str, Tensor | ArrayLike] | None = None,
        ragged: bool = False,
    ) -> CacheRows:
        """Rows in the stored dtypes; ``rounded`` is whether any float64 value was rounded.

        ``ragged`` features come layer by layer, in the widths of the layers.
        """
        scores = as_tensor(logits, whole=False, name="logits")
        inputs = None if features is None else _features(features, ragged=ragged)
        norms = None if offset_norm is None else as_tensor(offset_norm, whole=False, name="offset_norm")
        extra = {name: as_tensor(part, whole=False, name=f"output {name}") for name, part in (outputs or {}).items()}
        parts = [scores, norms, *extra.values(), *(inputs if isinstance(inputs, tuple) else [inputs])]
        return cls(
            logits=scores.float(),
            labels=None if labels is None else as_tensor(labels, whole=True, name="labels").long(),
            features=None if inputs is None else each_layer(inputs, _stored_dtype),
            ids=None if ids is None else as_tensor(ids, whole=True, name="ids").long(),
            offset_norm=None if norms is None else norms.float(),
            groups=None if groups is None else as_tensor(groups, whole=True, name="groups").long(),
            outputs={name: part.float() for name, part in extra.items()},
            rounded=any(part is not None and part.dtype is torch.float64 for part in parts),
        )

    def __len__(self) -> int:
        return int(self.logits.shape[1]) if self.logits.ndim > 1 else 0

    def rows(self, start: int, stop: int) -> CacheRows:
        """The samples ``start`` to ``stop`` of this batch."""
        return replace(
            self,
            logits=self.logits[:, start:stop],
            labels=None if self.labels is None else self.labels[start:stop],
            features=None if self.features is None else cut_rows(self.features, start, stop),
            ids=None if self.ids is None else self.ids[start:stop],
            offset_norm=None if self.offset_norm is None else self.offset_norm[:, start:stop],
            groups=None if self.groups is None else self.groups[start:stop],
            outputs={name: output[:, start:stop] for name, output in self.outputs.items()},
        )

    def with_offset_norms(self, offsets: list[Tensor]) -> CacheRows:
        """The same batch with ``||x + o||`` of its features, one offset per layer."""
        assert self.features is not None
        norms = [offset_norms(layer, offset) for layer, offset in zip(self.features, offsets, strict=True)]
        return replace(self, offset_norm=torch.stack(norms))

    def check(self, plan: Manifest, start: int) -> None:
        """Refuse wrong shapes, labels outside the classes and values that are not finite."""
        if self.labels is not None and self.labels.ndim != 1:
            raise InputError(f"expected labels [n], found {list(self.labels.shape)}")
        self._check_presence(plan)
        n = len(self) if self.labels is None else len(self.labels)
        layers, classes = plan.model.layers, len(plan.task.classes)
        _expect("logits", self.logits, (layers, n, classes))
        if self.features is not None:
            self._check_features(plan, self.features, n)
        if self.offset_norm is not None:
            _expect("offset_norm", self.offset_norm, (layers, n))
        for name, part in (("ids", self.ids), ("groups", self.groups)):
            if part is not None:
                _expect(name, part, (n,))
        for output in plan.outputs:
            shape = (layers, n) if output.size is None else (layers, n, output.size)
            _expect(f"output {output.name}", self.outputs[output.name], shape)
        if self.labels is not None:
            wrong = torch.nonzero((self.labels < 0) | (self.labels >= classes))
            if len(wrong):
                row = int(wrong[0])
                label = int(self.labels[row])
                raise InputError(f"expected labels in 0..{classes - 1}, found {label} at row {row + start}")
        for name, part in self._numbers():
            _refuse_non_finite(name, part, start)

    def _check_presence(self, plan: Manifest) -> None:
        """Refuse a batch that lacks what the plan says every row has, or has what it does not say."""
        for name, planned, given, option in (
            ("labels", plan.labelled, self.labels is not None, "labelled"),
            ("groups", plan.groups, self.groups is not None, "groups"),
        ):
            if planned != given:
                wanted, present = f"{'' if planned else 'no '}{name}", "some" if given else "none"
                raise InputError(f"expected {wanted}, found {present}; a writer says so with {option}")
        if self.features is None and plan.feature_dtype is not None:
            raise InputError(f"expected features to store as {plan.feature_dtype}, found none")
        planned_names, names = [output.name for output in plan.outputs], list(self.outputs)
        if sorted(planned_names) != sorted(names):
            wanted, present = (", ".join(sorted(some)) or "none" for some in (planned_names, names))
            raise InputError(f"expected the outputs {wanted}, found {present}")

    def _check_features(self, plan: Manifest, features: Features, n: int) -> None:
        if plan.widths is None or isinstance(features, Tensor):
            width = plan.model.width or (features[-1].shape[-1] if features[-1].ndim else 0)
            assert isinstance(features, Tensor)
            _expect("features", features, (plan.model.layers, n, width))
            return
        if len(features) != len(plan.widths):
            raise InputError(f"expected features of {len(plan.widths)} layers, found {len(features)}")
        for layer, (part, width) in enumerate(zip(features, plan.widths, strict=True), 1):
            _expect(layer_name("features", layer), part, (n, width))

    def _numbers(self) -> list[tuple[str, Tensor]]:
        """Every real-valued part with its name, each [layers, n, ...], or [1, n, ...] of one layer."""
        parts = [("logits", self.logits)]
        if isinstance(self.features, Tensor):
            parts.append(("features", self.features))
        elif self.features is not None:
            parts += [(layer_name("features", layer), part[None]) for layer, part in enumerate(self.features, 1)]
        if self.offset_norm is not None:
            parts.append(("offset_norm", self.offset_norm))
        return [*parts, *((f"output {name}", part) for name, part in self.outputs.items())]


def _features(features: Any, *, ragged: bool) -> Features:
    if not ragged:
        return as_tensor(features, whole=False, name="features")
    if not isinstance(features, list | tuple):
        raise InputError("expected a list of features, one array for each layer, since widths differ; found one array")
    return tuple(as_tensor(part, whole=False, name="features") for part in features)


def _stored_dtype(features: Tensor) -> Tensor:
    return features if features.dtype in FEATURE_DTYPES.values() else features.float()


def _expect(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        raise InputError(f"expected {name} of shape {list(shape)}, found {list(tensor.shape)}")


def _refuse_non_finite(name: str, tensor: Tensor, start: int) -> None:
    if not all_finite(tensor):
        finite = torch.isfinite(tensor)
        layer, row = (int(part) for part in torch.nonzero(~finite)[0, :2])
        value = tensor[~finite][0].item()
        raise InputError(f"expected finite {name}, found {value} at layer {layer + 1}, row {row + start}")
