"""What the tests in a real browser share besides the browser itself."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1440,1000",
    "--force-device-scale-factor=1",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)


def program(name: str, *others: str) -> str | None:
    """A program from its environment variable or the path."""
    return os.environ.get(name) or next(filter(None, map(shutil.which, others)), None)


def wait(ready: Callable[[], Any], seconds: float = 10.0) -> Any:
    """Poll until something is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = ready()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def element(page: Any, selector: str) -> Any:
    return page.find_element("css selector", selector)
