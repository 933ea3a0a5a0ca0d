"""The page in a real Chromium: no network, no console error, mouse and keyboard, both themes, paper, hostile names."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exitbench.reports.formats.csv import csv_table
from exitbench.reports.formats.latex import latex_table
from exitbench.reports.formats.markdown import markdown_table
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.table import Table
from tests.support.browsing import element, wait
from tests.support.page_runs import HOSTILE, hostile_run, main_run

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser
AXE = (Path(__file__).parents[2] / "support" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


@pytest.fixture(scope="module")
def table(run_dir: Path) -> Table:
    """The first table of DIS."""
    return next(table for table in tables_of(FinishedRun(run_dir)) if table.name.startswith("dis"))


def column(page: Any, table: str, index: int, body: str = "signal") -> list[Any]:
    """The sort values of one column, top to bottom; None where a cell is empty."""
    values = page.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody.${arguments[1]} tr`)]"
        ".map((row) => row.cells[arguments[2]].dataset.v ?? row.cells[arguments[2]].textContent.trim())",
        table,
        body,
        index,
    )
    return [None if value == "" else float(value) if index else value for value in values]


def test_it_opens_without_a_console_error_and_asks_for_nothing(page: Any) -> None:
    assert page.get_log("browser") == []
    asked = page.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in asked if not name.startswith("data:")] == []
    drawn = "return document.images.length === 3 && [...document.images].every((one) => one.naturalWidth > 100)"
    wait(lambda: page.execute_script(drawn))


def test_a_table_sorts_by_mouse_and_bounds_stay_below(page: Any) -> None:
    table = element(page, ".table[data-name^='main']").get_attribute("id")
    before = column(page, table, 0)
    bounds = column(page, table, 0, "bound")
    button = element(page, f"#{table} th[data-index='1'] .sort")
    button.click()
    falling = [value for value in column(page, table, 1) if value is not None]
    assert falling == sorted(falling, reverse=True) and len(falling) > 5
    assert element(page, f"#{table} th[data-index='1']").get_attribute("aria-sort") == "descending"
    button.click()
    rising = [value for value in column(page, table, 1) if value is not None]
    assert rising == sorted(rising)
    assert sorted(column(page, table, 0)) == sorted(before)
    assert sorted(column(page, table, 0, "bound")) == sorted(bounds)


def test_a_table_sorts_by_keyboard(page: Any) -> None:
    table = element(page, ".table[data-name^='dis']").get_attribute("id")
    button = element(page, f"#{table} th[data-index='0'] .sort")
    button.send_keys(Keys.ENTER)
    names = column(page, table, 0)
    assert names == sorted(names, key=str.lower)
    button.send_keys(Keys.SPACE)
    assert column(page, table, 0) == names[::-1]
    assert element(page, f"#{table} th[data-index='0']").get_attribute("aria-sort") == "descending"


def test_focusing_a_heading_shows_its_definition(page: Any) -> None:
    button = element(page, ".table[data-name^='dis'] th[data-index='1'] .sort")
    page.execute_script("arguments[0].focus()", button)
    tip = wait(lambda: page.find_element(By.ID, "tip").is_displayed() and page.find_element(By.ID, "tip"))
    assert "Difficulty Inversion Score" in tip.text
    assert button.get_attribute("aria-describedby") == "tip"
    button.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()


def test_the_filter_keeps_matching_rows_and_says_how_many(page: Any) -> None:
    table = element(page, ".table[data-name^='main']").get_attribute("id")
    box = element(page, f"#{table} input[type=search]")
    box.send_keys("pabee")
    shown = page.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr:not([hidden]) th`)]"
        ".map((one) => one.textContent)",
        table,
    )
    assert {"PABEE", "F-PABEE"} <= set(shown) and "CAP" not in shown
    assert element(page, f"#{table} .count").text.startswith(f"{len(shown)} of ")
    box.send_keys(Keys.BACKSPACE * 5)
    assert element(page, f"#{table} .count").text == ""


@pytest.mark.parametrize(("kind", "formatted"), [("csv", csv_table), ("tex", latex_table), ("md", markdown_table)])
def test_downloads_are_the_other_formats_of_the_table(
    page: Any, table: Table, tmp_path: Path, kind: str, formatted: Callable[[Any], str]
) -> None:
    page.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    button = element(page, f".table[data-name='{table.name}'] button[data-download='{kind}']")
    page.execute_script("arguments[0].closest('details')?.setAttribute('open', '')", button)
    page.execute_script("arguments[0].click()", button)
    file = tmp_path / f"{table.name}.{kind}"
    wait(file.is_file)
    wait(lambda: file.stat().st_size > 0)
    assert file.read_bytes().decode("utf-8") == formatted(table)


def test_the_theme_switch_goes_round_and_is_remembered(page: Any, run_dir: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
    )
    light = page.execute_script(ground)
    button = element(page, "#theme")
    button.send_keys(Keys.ENTER)
    assert button.text == "Theme: light" and page.execute_script(ground) == light
    button.send_keys(Keys.ENTER)
    dark = page.execute_script(ground)
    assert button.text == "Theme: dark" and dark != light
    page.refresh()
    assert page.execute_script(ground) == dark
    element(page, "#theme").click()
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    assert element(page, "#theme").text == "Theme: auto" and page.execute_script(ground) == dark
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_keyboard_path_begins_with_the_skip_link(page: Any) -> None:
    body = element(page, "body")
    body.send_keys(Keys.TAB)
    focused = page.switch_to.active_element
    assert focused.text == "Skip to the report"
    focused.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "main"
    page.switch_to.active_element.send_keys(Keys.TAB)
    assert page.switch_to.active_element.get_attribute("id") == "theme"
    page.switch_to.active_element.send_keys(Keys.TAB)
    assert page.switch_to.active_element.tag_name in ("summary", "div")


ONE_ROW_OF_EACH_FORM = """
const seen = new Set();
for (const row of document.querySelectorAll("tbody tr")) {
  const form = [row, ...row.querySelectorAll("*")].map((part) => part.tagName + part.className).join();
  if (seen.has(form)) row.remove();
  seen.add(form);
}
"""
"""Of rows with the same elements and classes axe would say the same a hundred times, in most of a minute."""


@pytest.mark.parametrize(
    ("theme", "rules"),
    [
        ("light", ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]),
        ("dark", ["color-contrast", "link-in-text-block"]),
    ],
    ids=["light", "dark"],
)
def test_axe_finds_no_serious_violation(page: Any, theme: str, rules: list[str]) -> None:
    page.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    page.execute_script(ONE_ROW_OF_EACH_FORM)
    page.execute_script(AXE)
    page.set_script_timeout(120)
    violations = page.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations'], runOnly: arguments[0]})"
        ".then((all) => done(all.violations.map((one) =>"
        " [one.impact, one.id, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))])))",
        rules,
    )
    assert [violation for violation in violations if violation[0] in ("serious", "critical")] == []


def test_nothing_is_cut_off_on_paper(page: Any) -> None:
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    # A4 landscape less its margins, at 96 dots per inch.
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1039, "height": 710, "deviceScaleFactor": 1, "mobile": False}
    )
    page.execute_script("window.dispatchEvent(new Event('beforeprint'))")
    wide = page.execute_script(
        "return [...document.querySelectorAll('table, figure, pre, section')].filter((one) =>"
        " one.getBoundingClientRect().width > 0 && (one.scrollWidth > one.clientWidth + 1"
        " || one.getBoundingClientRect().right > innerWidth + 1)).map((one) => one.outerHTML.slice(0, 120))"
    )
    closed = page.execute_script("return document.querySelectorAll('details:not([open])').length")
    menu = element(page, ".contents").is_displayed()
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert wide == [] and closed == 0 and not menu
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF-")


def test_a_narrow_screen_never_scrolls_sideways(page: Any) -> None:
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    )
    page.refresh()
    widths = page.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    closed = not page.execute_script("return document.querySelector('.contents details').open")
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert widths[0] <= widths[1] and closed


def test_without_scripts_tables_and_figures_are_there(page: Any) -> None:
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page.refresh()
    tables = [table for table in page.find_elements(By.CSS_SELECTOR, "#question-main table") if table.is_displayed()]
    fallback = element(page, "#explorer-fallback").is_displayed()
    tools = element(page, ".tools").is_displayed()
    text = tables[0].text
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    page.refresh()
    assert tables and "DeeBERT" in text and fallback and not tools


def test_hostile_names_run_nothing_and_are_read_as_text(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    driver.get((hostile_run(tmp_path_factory) / "report.html").as_uri())
    wait(lambda: driver.find_elements(By.CSS_SELECTOR, "#explorer-chart polyline"))
    assert driver.get_log("browser") == []
    labels = driver.execute_script("return [...document.querySelectorAll('bdi')].map((one) => one.textContent)")
    assert set(HOSTILE) <= set(labels)
    explored = driver.execute_script(
        "return [...document.querySelectorAll('#explorer-signals bdi')].map((one) => one.textContent)"
    )
    assert set(HOSTILE) <= set(explored)
    assert driver.execute_script("return document.querySelectorAll('main script, main b b, img[onerror]').length") == 0
    widths = driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    drawn = "return document.images.length > 0 && [...document.images].every((one) => one.naturalWidth > 0)"
    wait(lambda: driver.execute_script(drawn))
