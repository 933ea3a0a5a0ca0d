"""Deriving a cache: a method is fitted on one cache and answers for the rows of another, block by block."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from exitbench.cache import Cache, CacheWriter
from exitbench.cache.format.manifest import SplitRole
from exitbench.derive.contract import AnswerMethod, DerivedAnswers, WeightBias
from exitbench.derive.fit_steps import kept_steps
from exitbench.derive.registry import load_methods
from exitbench.errors import InputError
from exitbench.head_algebra import head_algebra
from exitbench.progress import ProgressBar

BLOCK = 2048
"""Rows that are answered at a time."""


def derive(method: AnswerMethod, train: Cache, source: Cache, out: Path, *, compact: bool = False) -> None:
    """Fit ``method`` on ``train`` and write the rows of ``source`` with its answers to ``out``.

    Rows, ids, labels, groups, costs and extra outputs stay as they are; the last layer keeps its answers. Features are
    kept unless ``compact``; heads are written where the new answers are linear in the features. Files that are not
    what their manifests list are refused. The same call resumes one that was stopped, after the fit's last whole step
    or after the last shard that was written. Rows that the method was fitted on make a cache of the role ``train``.
    """
    refuse_unfit(method, train, source)
    features = "features" in method.needs
    train.require_unchanged(features=features)
    source.require_unchanged(features=features or source.has_features)
    with kept_steps(out, fit_identity(method, train)):
        answer_rows(method.fit(train), method, train, source, out, compact)


def answer_rows(
    answers: DerivedAnswers, method: AnswerMethod, train: Cache, source: Cache, out: Path, compact: bool
) -> None:
    """Write the rows of ``source`` with these answers to ``out``, those of them that are not there yet."""
    heads = stored_heads(answers, source)
    keeps = source.has_features and not compact
    manifest = source.manifest
    with (
        CacheWriter(
            out,
            task=manifest.task,
            split=manifest.split,
            model=replace(manifest.model, name=f"{manifest.model.name} ({method.text})"),
            heads=heads,
            feature_dtype=manifest.feature_dtype if keeps else None,
            shard_rows=max(shard.stop - shard.start for shard in source.shards),
            provenance=derived_provenance(source),
            costs=manifest.costs,
            cost_unit=manifest.cost_unit,
            widths=manifest.widths,
            outputs=manifest.outputs,
            groups=manifest.groups,
            labelled=manifest.labelled,
            target=manifest.target,
            role=role_of(train, source),
            derived=derivation(method.text, method.settings, answers, heads is not None, train=train, source=source),
        ) as writer,
        ProgressBar(f"deriving {method.text}", source.rows, done=writer.rows_done) as bar,
    ):
        norms = heads is not None and not source.has_features and same_offsets(heads, source)
        for shard in writer.pending(source.rows):
            for start in range(shard.start, shard.stop, BLOCK):
                rows = slice(start, min(start + BLOCK, shard.stop))
                writer.add(**answered_rows(answers, source, rows, heads=heads is not None, norms=norms))
                bar.advance(rows.stop - rows.start)


def fit_identity(method: AnswerMethod, train: Cache) -> dict[str, Any]:
    """All that the numbers of a fit depend on, beside the versions of what computes them."""
    source = Path(inspect.getfile(type(method))).read_bytes()
    return {
        "method": method.text,
        "parameters": dict(method.settings),
        "source_sha256": hashlib.sha256(source).hexdigest(),
        "train": train.manifest_sha256,
        "threads": torch.get_num_threads(),
    }


def derive_folders(
    method: str, directories: Sequence[Path], train: Path, source: Path, out: Path, compact: bool
) -> None:
    """:func:`derive` with nothing but paths and a method's text, so that any process can be asked to."""
    made = load_methods(directories).make(method)
    derive(made, Cache(train), Cache(source), out, compact=compact)


def refuse_unfit(method: AnswerMethod, train: Cache, source: Cache) -> None:
    """An InputError where the caches are not of one network, or lack what the method reads."""
    revisions = train.manifest.model.revision, source.manifest.model.revision
    for name, learned_from, answered in (
        ("model", train.manifest.model.name, source.manifest.model.name),
        ("revision", *(revisions if all(revisions) else ("", ""))),
        ("layers", train.layers, source.layers),
        ("widths", train.widths, source.widths),
        ("classes", train.manifest.task.classes, source.manifest.task.classes),
    ):
        if learned_from != answered:
            raise InputError(
                f"expected caches of one network, found other {name}: {learned_from} in {train.name}, "
                f"{answered} in {source.name}"
            )
    if train.has_heads and source.has_heads and not same_heads(train, source):
        raise InputError(f"expected caches of one network, found other heads in {train.name} than in {source.name}")
    if "features" in method.needs:
        for cache in (train, source):
            if not cache.has_features:
                raise InputError(f"method {method.text} reads features, which cache {cache.name} does not hold")
    if "labels" in method.needs and not train.labelled:
        raise InputError(f"method {method.text} learns from labels, which cache {train.name} does not hold")


def same_heads(train: Cache, source: Cache) -> bool:
    """Whether two caches were collected with the same heads."""
    (weights, bias), (source_weights, source_bias) = train.head_tensors(), source.head_tensors()
    return torch.equal(bias, source_bias) and all(map(torch.equal, weights, source_weights))


def stored_heads(answers: DerivedAnswers, source: Cache) -> tuple[list[Tensor], Tensor] | None:
    """The heads of all layers, the network's own at the last one; ``None`` where not all are known."""
    if answers.heads is None or not source.has_heads:
        return None
    weights, bias = source.head_tensors()
    pairs: list[WeightBias] = [*answers.heads, (weights[-1], bias[-1])]
    return [weight.float() for weight, _ in pairs], torch.stack([shift.float() for _, shift in pairs])


def same_offsets(heads: tuple[list[Tensor], Tensor], source: Cache) -> bool:
    """Whether the new heads have the offsets ``pinv(W) b`` of the old ones, so that stored offset norms still hold."""
    return source.stores_offset_norms and all(
        torch.allclose(head_algebra(weight, bias).offset, source.head(layer).offset, rtol=1e-5, atol=1e-7)
        for layer, (weight, bias) in enumerate(zip(*heads, strict=True), 1)
    )


def answered_rows(answers: DerivedAnswers, source: Cache, rows: slice, *, heads: bool, norms: bool) -> dict[str, Any]:
    """A batch for the writer: the new answers, and everything else as the source has it."""
    last, layers = source.layers, range(1, source.layers + 1)
    internal = [logits.float() for logits in answers.logits(source, rows)]
    batch: dict[str, Any] = {
        "logits": torch.stack([*internal, source.logits(last, rows)]),
        "ids": source.ids[rows],
        "labels": source.labels[rows] if source.labelled else None,
        "groups": None if source.groups is None else source.groups[rows],
        "outputs": {
            name: torch.stack([source.output(name, layer, rows) for layer in layers]) for name in source.output_names
        },
    }
    if source.has_features:
        read = [answers.features(source, layer, rows).float() for layer in layers[:-1]]
        read.append(source.features(last, rows).float())
        batch["features"] = read if source.manifest.widths else torch.stack(read)
    elif norms:
        batch["offset_norm"] = torch.stack([source.offset_norms(layer, rows) for layer in layers])
    return batch


def role_of(train: Cache, source: Cache) -> SplitRole:
    """What the rows were used for: ``train`` where the method, too, has seen one of them."""
    seen = bool(np.isin(source.ids, train.ids).any()) and train.manifest.split == source.manifest.split
    return "train" if seen else source.manifest.split_role


def derivation(method: str, settings: Any, answers: DerivedAnswers, heads: bool, **sources: Cache) -> dict[str, Any]:
    """How the cache was made: method, parameters, the hashes of its sources, and why it has no heads."""
    no_heads = answers.not_linear or sources["source"].manifest.no_heads or "the source has no heads"
    return {
        "method": method,
        "parameters": dict(settings),
        "sources": {role: named_source(cache) for role, cache in sources.items()},
        "no_heads": "" if heads else no_heads,
    }


def named_source(cache: Cache) -> dict[str, str]:
    """A source by name and by the hash that pins its bytes."""
    return {"cache": cache.name, "manifest_sha256": cache.manifest_sha256}


def derived_provenance(source: Cache) -> dict[str, Any]:
    """Where the numbers come from: the source's own record, so that the same call makes the same bytes.

    How the network was trained is part of it; why there are no heads is not, which the derivation says itself.
    """
    manifest = source.manifest
    record = asdict(manifest.provenance) | dict(manifest.extra_provenance)
    return {key: value for key, value in record.items() if key != "no_heads"}
