"""A cache at a glance: what ``exitbench inspect`` shows, as plain values."""

from __future__ import annotations

from typing import Any

import numpy as np

from exitbench.cache.format.files import child
from exitbench.cache.format.manifest import Target
from exitbench.cache.reader import Cache


def cache_card(cache: Cache, target: Target | None = None) -> dict[str, Any]:
    """Model, task, rows, accuracy per layer in percent, bytes on disk and provenance.

    Where the target is ``final`` an answer is right if it agrees with the last layer's.
    """
    manifest = cache.manifest
    right = (cache.predictions() == cache.truth(target)).mean(axis=1) * 100
    counts = {
        name: int((cache.labels == k).sum()) if cache.labelled else None for k, name in enumerate(manifest.task.classes)
    }
    return {
        "name": cache.name,
        "schema": manifest.version,
        "task": manifest.task.name,
        "split": manifest.split,
        "metric": manifest.task.metric,
        "classes": counts,
        "model": manifest.model.name,
        "revision": manifest.model.revision,
        "layers": cache.layers,
        "width": cache.width if manifest.widths is None else list(manifest.widths),
        "pooling": manifest.model.pooling,
        "pooler": manifest.model.pooler,
        "rows": cache.rows,
        "role": manifest.split_role,
        "target": target or manifest.target,
        "groups": None if cache.groups is None else len(np.unique(cache.groups)),
        "costs": None if cache.costs is None else list(cache.costs),
        "cost_unit": manifest.cost_unit,
        "outputs": {output.name: output.description for output in manifest.outputs},
        "derived": manifest.derived,
        "shards": len(cache.shards),
        "features": manifest.feature_dtype,
        "heads": cache.has_heads,
        "no_heads": manifest.no_heads,
        "offset_norms": "stored" if cache.stores_offset_norms else "computed" if cache.has_offset_norms else "none",
        "bytes": sum(child(cache.path, entry.file).stat().st_size for entry in manifest.files),
        "accuracy_per_layer": [round(float(value), 2) for value in right],
        "provenance": {
            "started": manifest.provenance.started,
            "command": manifest.provenance.command,
            "versions": manifest.provenance.versions,
            "device": manifest.provenance.device,
            "dtype": manifest.provenance.dtype,
            "seed": manifest.provenance.seed,
            "note": manifest.provenance.note,
            "recipe": dict(manifest.extra_provenance).get("recipe"),
        },
    }
