"""The signals a verb works with: every verb loads them here, so that a file that fails is reported by all of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    from exitbench.signals.registry.registry import Registry


def separate_signals(written: Sequence[str] | None) -> list[str]:
    """The texts of an option that may be repeated and may list several, ``a,b``; commas in brackets separate nothing.

    >>> separate_signals(["deebert,cap[alpha=1,center=true]", "nsp"])
    ['deebert', 'cap[alpha=1,center=true]', 'nsp']
    """
    from exitbench.bracketed_text import split_outside

    return [part.strip() for text in written or () for part in split_outside(text, ",")]


def load(directories: Sequence[Path] | None) -> Registry:
    """All signals, those of ``directories`` included; a line on standard error for every file that did not load."""
    from exitbench.signals.registry.discovery import load_registry

    registry = load_registry(directories or [])
    for path, error in registry.broken:
        echo(f"warning: {path}: {error}", err=True)
    return registry
