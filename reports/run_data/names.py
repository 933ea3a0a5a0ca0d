"""File names of tables and figures: unique within a run, safe on every disk."""

from __future__ import annotations

import hashlib
import re

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata, Group


def slug(text: str) -> str:
    """A text as part of a file name: ASCII letters, digits and dashes; what is lost gives way to a short digest.

    >>> slug("mpnet-base"), slug("../x").startswith("x-")
    ('mpnet-base', True)
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40]
    if plain == text.lower():
        return plain
    return "-".join(filter(None, (plain, hashlib.sha256(text.encode()).hexdigest()[:6])))


def figure_name(run: FinishedRun, kind: str, cache: CacheMetadata, protocol: str) -> str:
    """The file name of a figure of one cache."""
    return "-".join([kind, slug(cache.name), *([protocol] if len(run.protocols) > 1 else [])])


def table_name(run: FinishedRun, *parts: str, group: Group | None = None, protocol: str = "") -> str:
    """A file name that no other table of the run has."""
    names = list(parts)
    if group is not None and len(run.groups) > 1:
        several = [other.model for other in run.groups].count(group.model) > 1
        names.append(slug(f"{group.model}-{group.split}" if several else group.model))
    if protocol and len(run.protocols) > 1:
        names.append(protocol)
    return "-".join(names)
