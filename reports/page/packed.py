"""Data inside the page: compressed JSON that no sign of can end an element, and that the browser unpacks itself."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def packed(data: Any) -> str:
    """Data as compressed JSON in base64, the same for the same data."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def unpacked(text: str) -> Any:
    """What :func:`packed` was given."""
    return json.loads(zlib.decompress(base64.b64decode(text)))
