"""Which protocol a reader sees first: the most cautious one that was run."""

from __future__ import annotations

from collections.abc import Sequence

CAUTION = ("held-out", "cross-fit", "in-sample")
"""Choices are made on other data, on other folds, on the very samples that are scored."""


def cautious_first(protocols: Sequence[str]) -> list[str]:
    """The protocols with the most cautious first, unknown ones last."""
    ordered = [protocol for protocol in CAUTION if protocol in protocols]
    return [*ordered, *(protocol for protocol in protocols if protocol not in CAUTION)]


def leading_protocol(protocols: Sequence[str]) -> str:
    """The protocol that summary, verdict, findings and explorer are read under; in-sample only if there is no other."""
    return cautious_first(protocols)[0] if protocols else CAUTION[-1]
