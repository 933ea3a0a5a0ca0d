"""matplotlib, loaded without a look at the current folder."""

from __future__ import annotations

import os
from typing import Any

SETTINGS_FILE = "matplotlibrc"


def load_matplotlib() -> None:
    """Import matplotlib as if no file named ``matplotlibrc`` lay in the current folder.

    The settings that ``MATPLOTLIBRC`` or the user's configuration folder name are read as always. matplotlib has no
    switch for this: it asks ``os.path.exists`` for the bare name first, and here the answer is no.
    """
    exists = os.path.exists

    def exists_elsewhere(path: Any) -> bool:
        return path != SETTINGS_FILE and exists(path)

    os.path.exists = exists_elsewhere
    try:
        import matplotlib as mpl  # noqa: F401 - only to be loaded
    finally:
        os.path.exists = exists
