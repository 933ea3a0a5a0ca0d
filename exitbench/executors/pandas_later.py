"""pyarrow without pandas, until somebody wants a frame."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def load_pandas_later() -> None:
    """Let pyarrow make arrays without importing pandas, half a second of every short run.

    The first list it is given makes pyarrow import pandas, only to see whether the list is one of pandas' own. It asks
    once, and again when a frame is asked for: here the first answer is no, every later one is up to Python.
    """
    if "pandas" in sys.modules:
        return
    import pyarrow as pa  # type: ignore[import-untyped]

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
