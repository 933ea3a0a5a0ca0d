"""Data inside the page: compressed JSON that no sign of can end an element, and that the browser unpacks itself."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any


def packed(data: Any) -> str:
    """Data as compressed JSON in base64, the same for the same data."""
    return base64.b64encode(zlib.compress(json_bytes(data), 9)).decode("ascii")


def unpacked(text: str) -> Any:
    """What :func:`packed` was given."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def json_bytes(data: Any) -> bytes:
    """Data as JSON without blanks."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8")


class Packing:
    """How many signs parts take that are packed together: each is compressed behind those before it."""

    def __init__(self) -> None:
        self._stream = zlib.compressobj(6)

    def add(self, part: Any, most: int) -> int | None:
        """The signs that one more part takes; None, as if it had never been given, where that is more than ``most``."""
        stream = self._stream.copy()
        size = len(stream.compress(json_bytes(part))) + len(stream.flush(zlib.Z_SYNC_FLUSH))
        signs = -(-size // 3) * 4
        if signs > most:
            return None
        self._stream = stream
        return signs
