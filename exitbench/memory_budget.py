"""How much memory a process may use for what need not be in memory: ``--memory``, which worker processes inherit."""

from __future__ import annotations

import os
import re
from functools import cache

from exitbench.errors import InputError

VARIABLE = "EXITBENCH_MEMORY"
DEFAULT = "2GB"
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
LEAST = 10**8


@cache
def parse_memory(text: str) -> int:
    """The bytes of a text such as ``2GB``, ``500 MB`` or ``1.5G``.

    >>> parse_memory("1.5 GB")
    1500000000
    """
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,3})?)\s*([kmgt]?)b?\s*", text.lower())
    size = round(float(match[1]) * UNITS[match[2]]) if match else 0
    if size < LEAST:
        raise InputError(f"expected an amount of memory such as 2GB, at least 100MB, found {text!r}")
    return size


def set_memory_budget(text: str) -> None:
    """Set the budget of this process and of those that it starts."""
    parse_memory(text)
    os.environ[VARIABLE] = text


def memory_budget() -> int:
    """The budget in bytes."""
    return parse_memory(os.environ.get(VARIABLE, DEFAULT))
