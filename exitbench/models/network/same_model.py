"""Whether a cache was collected from this very model: a threshold read off another one means nothing."""

from __future__ import annotations

import re
from pathlib import Path

import torch

from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.models.network.multi_exit import MultiExitModel
from exitbench.signals.registry.exit_policy import ExitPolicy, heads_digest

FINGERPRINT = re.compile("[0-9a-f]{16}")
"""What `MultiExitModel.fingerprint` gives; other revisions, such as a hub's commit, say nothing about these weights."""


def require_same_model(model: MultiExitModel, cache: Cache) -> None:
    """An InputError that says what differs unless the cache's heads are the model's, number by number,
    and its fingerprint of all weights, where it has one.

    Names are not compared: a folder may be renamed, and two trainings of one recipe share theirs.
    """
    stored = cache.manifest.model
    for name, expected, stored_value in (
        ("layers", model.depth, stored.layers),
        ("width", model.width, stored.width or model.width),
        ("classes", model.config.classes, cache.manifest.task.classes),
        ("pooling", model.config.pooling, stored.pooling or model.config.pooling),
        ("pooler", model.config.pooler, stored.pooler or model.config.pooler),
    ):
        if expected != stored_value:
            raise InputError(
                f"{cache.path}: expected a cache of this model, with {name} {expected}, found {stored_value}"
            )
    heads = model.head_arrays()
    if heads is None:
        require_fingerprint(model, cache.path, stored.revision or "", "a cache")
        return
    if not cache.has_heads:
        raise InputError(f"{cache.path}: expected a cache of this model, found one without heads to tell by")
    if cache.manifest.widths is not None:
        raise InputError(f"{cache.path}: expected a cache of this model, found one whose exits differ in width")
    weights, biases = cache.head_tensors()
    for name, model_values, cache_values in zip(
        ("weights", "biases"), heads, (torch.stack(list(weights)), biases), strict=True
    ):
        differs = (model_values != cache_values).flatten(1).any(dim=1)
        if bool(differs.any()):
            layer = int(differs.nonzero()[0]) + 1
            furthest = float((model_values - cache_values).abs().max())
            raise InputError(
                f"{cache.path}: expected a cache of this model, found another's: the {name} of the heads differ "
                f"in {int(differs.sum())} of {model.depth} layers, first in layer {layer}, by up to {furthest:.3g}"
            )
    # Equal heads on different encoders: only the fingerprint tells.
    if stored.revision and FINGERPRINT.fullmatch(stored.revision):
        fingerprint = model.fingerprint()
        if fingerprint != stored.revision:
            raise InputError(
                f"{cache.path}: expected a cache of this model, with the weights {fingerprint}, found {stored.revision}"
                ": the heads are equal, the encoder is not"
            )


def require_fingerprint(model: MultiExitModel, path: Path, revision: str, kind: str) -> None:
    """An InputError unless what was made from a model without linear heads names these very weights."""
    fingerprint = model.fingerprint()
    if fingerprint != revision:
        held = revision if FINGERPRINT.fullmatch(revision) else "one that does not say by which"
        raise InputError(f"{path}: expected {kind} of this model, with the weights {fingerprint}, found {held}")


def require_policy_model(model: MultiExitModel, policy: ExitPolicy, path: Path) -> None:
    """An InputError that says what differs unless a policy was made for this network, every weight of it."""
    made_for = policy.model
    for name, expected, stored_value in (
        ("layers", model.depth, made_for.layers),
        ("classes", tuple(model.config.classes), made_for.classes),
        ("pooling", model.config.pooling, made_for.pooling),
        ("pooler", model.config.pooler, made_for.pooler),
    ):
        if expected != stored_value:
            raise InputError(f"{path}: expected a policy for this model, with {name} {expected}, found {stored_value}")
    heads = model.head_arrays()
    if heads is None:
        require_fingerprint(model, path, made_for.revision, "a policy")
        return
    if not made_for.heads:
        raise InputError(f"{path}: expected a policy for this model, found one of a cache without heads to tell by")
    weights, bias = heads
    if heads_digest(list(weights), bias) != made_for.heads:
        raise InputError(f"{path}: expected a policy for this model, found one for other heads ({made_for.name})")
    if not FINGERPRINT.fullmatch(made_for.revision):
        raise InputError(
            f"{path}: expected a policy for this model, found one of a cache that does not say by which weights it was "
            "collected; collect it again"
        )
    fingerprint = model.fingerprint()
    if fingerprint != made_for.revision:
        raise InputError(
            f"{path}: expected a policy for this model, with the weights {fingerprint}, found {made_for.revision}: "
            "the heads are equal, the encoder is not"
        )
