"""A cache at a glance: what ``exitbench inspect`` shows, as plain values."""

from __future__ import annotations

from typing import Any

from exitbench.cache.format.files import child
from exitbench.cache.reader import Cache


def cache_card(cache: Cache) -> dict[str, Any]:
    """Model, task, rows, accuracy per layer in percent, bytes on disk and provenance."""
    manifest = cache.manifest
    right = (cache.predictions() == cache.labels).mean(axis=1) * 100
    counts = {name: int((cache.labels == k).sum()) for k, name in enumerate(manifest.task.classes)}
    return {
        "name": cache.name,
        "task": manifest.task.name,
        "split": manifest.split,
        "metric": manifest.task.metric,
        "classes": counts,
        "model": manifest.model.name,
        "revision": manifest.model.revision,
        "layers": cache.layers,
        "width": cache.width,
        "pooling": manifest.model.pooling,
        "pooler": manifest.model.pooler,
        "rows": cache.rows,
        "shards": len(cache.shards),
        "features": manifest.feature_dtype,
        "heads": cache.has_heads,
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
        },
    }
