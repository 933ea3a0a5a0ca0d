"""A real Chromium for the tests of the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsing import FLAGS, program, wait


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Chromium without a network; skips where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    chromium = program("CHROMIUM", "chromium", "chromium-browser", "google-chrome")
    chromedriver = program("CHROMEDRIVER", "chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("needs Chromium and chromedriver: set CHROMIUM and CHROMEDRIVER, or put both on the path")
    options = Options()
    options.binary_location = chromium
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(executable_path=chromedriver))
    browser.execute_cdp_cmd("Network.enable", {})
    offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    browser.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
    yield browser
    browser.quit()


@pytest.fixture
def page(driver: Any, run_dir: Path) -> Any:
    """The page, freshly opened, with no theme remembered."""
    driver.get((run_dir / "report.html").as_uri())
    driver.execute_script("localStorage.clear(); document.documentElement.style.scrollBehavior = 'auto'")
    wait(lambda: driver.find_elements("css selector", "#explorer-chart polyline"))
    return driver
