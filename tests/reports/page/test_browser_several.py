"""The joint page of two runs and the gallery of a site in a real Chromium: their measures on every screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.browsing import element, wait
from tests.support.command_line import exit_code
from tests.support.joint_runs import two_runs
from tests.support.page_measures import BROKEN_NUMBERS, BROKEN_WORDS, CUT_OFF, OUT_OF_CARD, violations
from tests.support.page_runs import hostile_run

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By

pytestmark = pytest.mark.browser
KINDS = ("joint", "site")
Opened = Callable[..., Any]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of two runs that share caches, and a site of them and of one whose names try to be markup."""
    folder, runs = tmp_path_factory.mktemp("several"), two_runs(tmp_path_factory)
    assert exit_code("report", *runs, "--out", folder / "joint") == 0
    assert exit_code("site", *runs, hostile_run(tmp_path_factory), "--out", folder / "site") == 0
    return {"joint": folder / "joint" / "report.html", "site": folder / "site" / "index.html"}


@pytest.fixture
def opened(driver: Any, pages: dict[str, Path]) -> Opened:
    """Opens one of the pages on a screen of some width."""

    def on(kind: str, width: int = 1440) -> Any:
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(pages[kind].as_uri())
        driver.execute_script("localStorage.clear()")
        if kind == "joint":
            wait(lambda: driver.find_elements(By.CSS_SELECTOR, "#explorer-chart polyline"))
        return driver

    return on


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [1440, 1280, 390])
def test_nothing_scrolls_sideways_is_cut_off_or_broken(kind: str, width: int, opened: Opened) -> None:
    page = opened(kind, width)
    page.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    if kind == "joint":
        topics = "return [...document.querySelectorAll('[data-topic]')].every((part) => part.querySelector('td'))"
        wait(lambda: page.execute_script(topics))
    sizes = page.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert sizes[0] <= sizes[1]
    for script in (CUT_OFF, BROKEN_WORDS, BROKEN_NUMBERS, OUT_OF_CARD):
        assert page.execute_script(script) == []
    assert page.get_log("browser") == [], "nothing is loaded and no script fails"


def test_the_joint_page_has_one_first_screen(opened: Opened) -> None:
    page = opened("joint")
    inside = [".verdict", ".forest", ".lead tbody:last-of-type tr:last-child"]
    bottoms = page.execute_script(
        "return arguments[0].map((one) => document.querySelector(one).getBoundingClientRect().bottom)", inside
    )
    assert max(bottoms) <= 900 and len(page.find_elements(By.CSS_SELECTOR, ".lead")) == 1
    assert page.execute_script("return document.querySelector('#explorer').getBoundingClientRect().top") >= 900
    assert page.execute_script("return document.documentElement.scrollHeight") <= 8 * 900


def test_the_site_opens_the_page_of_a_run_and_comes_back(opened: Opened) -> None:
    page = opened("site")
    page.execute_script("document.querySelectorAll('#runs .gallery a')[1].click()")
    wait(lambda: page.find_elements(By.CSS_SELECTOR, "#explorer-chart polyline"))
    assert "second" in element(page, "h1").text
    page.execute_script("arguments[0].click()", page.find_element(By.LINK_TEXT, "All runs"))
    assert len(wait(lambda: page.find_elements(By.CSS_SELECTOR, "#runs .gallery li"))) == 3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_violation(kind: str, theme: str, opened: Opened) -> None:
    assert violations(opened(kind), theme) == []


@pytest.mark.parametrize("kind", KINDS)
def test_without_scripts_the_first_screen_is_complete(kind: str, opened: Opened) -> None:
    page = opened(kind)
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page.refresh()
    shown = [element(page, name).is_displayed() for name in (".verdict", ".forest svg", ".lead")]
    theme = element(page, "#theme").is_displayed()
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    assert all(shown) and not theme
