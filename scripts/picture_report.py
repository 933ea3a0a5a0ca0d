"""Makes the README's picture, ``docs/report.png``: the first screen of a report in a real browser, few bytes.

    exitbench run paper && python scripts/picture_report.py out/paper/report.html

Needs Chromium and its driver, or their places in CHROMIUM and CHROMEDRIVER. The picture's description is the sentence
the page begins with, so that a test can tell a picture of an older run, or of something else, from this one.
"""

import argparse
import io
import sys
from pathlib import Path

from PIL import Image, PngImagePlugin
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.support.browsing import FLAGS, program  # noqa: E402

PICTURE = ROOT / "docs" / "report.png"
WIDTH, HEIGHT = 1440, 900
LARGEST = 150_000
"""Bytes of the picture: it is read on a page that is otherwise text."""


def first_screen(page: Path) -> tuple[bytes, str]:
    """What a visitor sees first, as PNG, and the first sentence of its verdict."""
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(flag)
    browser, driver = program("CHROMIUM", "chromium", "google-chrome"), program("CHROMEDRIVER", "chromedriver")
    if browser is not None:
        options.binary_location = browser
    with webdriver.Chrome(options=options, service=Service(driver)) as window:
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        window.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        window.get(page.resolve().as_uri())
        headlines = window.find_elements("css selector", ".verdict .headline")
        if not headlines:
            raise SystemExit(f"expected the report of a run, found {page} without a verdict")
        return window.get_screenshot_as_png(), " ".join(headlines[0].text.split())


def small(picture: bytes, description: str) -> bytes:
    """The picture with as many colours as its size allows, and its description."""
    words = PngImagePlugin.PngInfo()
    words.add_itxt("Description", description)
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in (256, 128, 64, 32, 16):
        written = io.BytesIO()
        whole.quantize(colours, dither=Image.Dither.NONE).save(written, "png", optimize=True, pnginfo=words)
        if written.tell() <= LARGEST:
            return written.getvalue()
    raise SystemExit(f"expected at most {LARGEST} bytes, found {written.tell()} with 16 colours")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, help="the report.html of a run")
    PICTURE.write_bytes(small(*first_screen(parser.parse_args().page)))
