"""The page in a real Chromium: its measures on every screen, mouse and keyboard, both themes, paper, hostile names."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exitbench.reports.formats.all_formats import FORMATS
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from tests.support.browsing import element, wait
from tests.support.page_measures import BROKEN_NUMBERS, BROKEN_WORDS, CUT_OFF, OUT_OF_CARD, violations
from tests.support.page_runs import HOSTILE, fifteen_run, hostile_run, main_run

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


@contextmanager
def screen(page: Any, width: int, height: int = 900) -> Iterator[None]:
    """A screen of this size, the page read anew on it."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    page.refresh()
    wait(lambda: page.find_elements(By.CSS_SELECTOR, "#explorer-chart polyline"))
    wait(lambda: page.find_elements(By.CSS_SELECTOR, "#task-table td"))
    yield
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def open_everything(page: Any) -> None:
    """Every part that opens on demand, open."""
    page.execute_script("for (const part of document.querySelectorAll('details')) part.open = true")
    topics = "return [...document.querySelectorAll('[data-topic]')].every((part) => part.querySelector('td'))"
    wait(lambda: page.execute_script(topics))
    wait(lambda: len(page.find_elements(By.CSS_SELECTOR, "#task-charts .histogram")) > 10)


def topic(page: Any, key: str) -> Any:
    """A question, opened."""
    part = element(page, f"#question-{key}")
    page.execute_script("arguments[0].open = true", part)
    return wait(lambda: part.find_elements(By.CSS_SELECTOR, ".table"))[0]


def texts(page: Any, table: Any, index: int, body: str = "signal") -> list[str]:
    """The first number or the text of one column, top to bottom."""
    return list(
        page.execute_script(
            "return [...arguments[0].querySelectorAll(`tbody.${arguments[2]} tr`)].map((row) =>"
            " (row.cells[arguments[1]].querySelector('b') ?? row.cells[arguments[1]]).textContent.trim())",
            table,
            index,
            body,
        )
    )


def test_it_opens_without_a_console_error_and_asks_for_nothing(page: Any) -> None:
    assert page.get_log("browser") == []
    asked = page.execute_script("return performance.getEntriesByType('resource').map((one) => one.name)")
    assert [name for name in asked if not name.startswith("data:")] == []


@pytest.mark.parametrize("run", [main_run, fifteen_run], ids=["eight signals", "fifteen signals"])
def test_the_first_screen_is_the_verdict_a_picture_and_a_table_and_nothing_else(
    run: Callable[[pytest.TempPathFactory], Path], page: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page.get((run(tmp_path_factory) / "report.html").as_uri())
    with screen(page, 1440):
        parts = [
            ".verdict",
            ".forest",
            ".left > .setting",
            ".lead tbody:last-of-type tr:last-child",
            ".right > .setting",
        ]
        tops = page.execute_script(
            "return arguments[0].map((one) => document.querySelector(one).getBoundingClientRect())"
            ".map((box) => [box.top, box.bottom])",
            [*parts, "#explorer"],
        )
        assert all(bottom <= 900 for _, bottom in tops[:-1]), "all of it is on the screen"
        assert tops[-1][0] >= 900, "nothing of what follows is"
        assert page.execute_script(BROKEN_WORDS) == [] and page.execute_script(BROKEN_NUMBERS) == []
        assert page.execute_script(OUT_OF_CARD) == []
        height = page.execute_script("return document.documentElement.scrollHeight")
        assert height <= 8 * 900, "at most eight screens before anything is opened"


@pytest.mark.parametrize(
    ("width", "run"),
    [(1280, main_run), (390, main_run), (1280, fifteen_run)],
    ids=["1280", "390", "1280 with fifteen signals"],
)
def test_nothing_scrolls_sideways_or_is_cut_off_even_with_everything_open(
    width: int, run: Callable[[pytest.TempPathFactory], Path], page: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page.get((run(tmp_path_factory) / "report.html").as_uri())
    with screen(page, width):
        open_everything(page)
        sizes = page.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
        assert sizes[0] <= sizes[1]
        assert page.execute_script(CUT_OFF) == []
        assert page.execute_script(BROKEN_WORDS) == []
        assert page.execute_script(BROKEN_NUMBERS) == []
        assert page.execute_script(OUT_OF_CARD) == []
        small = page.execute_script(
            "return [...document.querySelectorAll('td, td small, .chart text, .histogram text, p, summary')]"
            ".filter((node) => node.getClientRects().length && parseFloat(getComputedStyle(node).fontSize) < 10.5)"
            ".map((node) => node.outerHTML.slice(0, 120))"
        )
        assert small == [], "digits can be read"


def test_a_table_sorts_by_mouse_and_by_keyboard_and_bounds_stay_below(page: Any) -> None:
    table = topic(page, "dis")
    before, bounds = texts(page, table, 0), texts(page, table, 0, "foot")
    table.find_element(By.CSS_SELECTOR, ".sort[data-index='1']").click()
    falling = [float(text) for text in texts(page, table, 1) if text != "–"]
    assert falling == sorted(falling, reverse=True) and len(falling) > 5
    assert table.find_element(By.CSS_SELECTOR, "[aria-sort]").get_attribute("aria-sort") == "descending"
    page.switch_to.active_element.send_keys(Keys.ENTER)
    rising = [float(text) for text in texts(page, table, 1) if text != "–"]
    assert rising == sorted(rising) and page.switch_to.active_element.get_attribute("data-index") == "1"
    assert sorted(texts(page, table, 0)) == sorted(before) and texts(page, table, 0, "foot") == bounds


def test_focusing_a_heading_shows_its_definition(page: Any) -> None:
    button = topic(page, "dis").find_element(By.CSS_SELECTOR, ".sort[data-index='1']")
    page.execute_script("arguments[0].focus()", button)
    tip = wait(lambda: page.find_element(By.ID, "tip").is_displayed() and page.find_element(By.ID, "tip"))
    assert "Difficulty Inversion Score" in tip.text
    assert button.get_attribute("aria-describedby") == "tip"
    button.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()


def test_the_filter_keeps_matching_rows_and_says_how_many(page: Any) -> None:
    table = topic(page, "dis")
    box = table.find_element(By.CSS_SELECTOR, "input[type=search]")
    box.send_keys("pabee")
    shown = texts(page, table, 0)
    assert {"PABEE", "F-PABEE"} == set(shown)
    assert table.find_element(By.CSS_SELECTOR, ".count").text.startswith("2 of ")
    box.send_keys(Keys.BACKSPACE * 5)
    assert table.find_element(By.CSS_SELECTOR, ".count").text == "" and len(texts(page, table, 0)) == 8


def test_downloads_are_the_other_formats_of_the_table(page: Any, run_dir: Path, tmp_path: Path) -> None:
    page.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    name = topic(page, "dis").get_attribute("data-name")
    table = next(table for table in tables_of(FinishedRun(run_dir)) if table.name == name)
    for kind, text_of in FORMATS.items():
        page.execute_script(
            "document.querySelector('#question-dis [data-download=' + arguments[0] + ']').click()", kind
        )
        file = tmp_path / f"{name}.{kind}"
        wait(lambda file=file: file.is_file() and file.stat().st_size > 0)
        assert file.read_bytes().decode("utf-8") == text_of(table)


def test_a_task_and_its_charts_are_chosen_one_at_a_time(page: Any) -> None:
    assert len(page.find_elements(By.CSS_SELECTOR, "#task-table .table")) == 1
    assert "SST-2" in element(page, "#task-table h3").text
    page.execute_script(
        "const choice = document.getElementById('task-choice'); choice.value = 2;"
        "choice.dispatchEvent(new Event('change')); document.querySelector('#task-charts details').open = true"
    )
    assert "MNLI" in element(page, "#task-table h3").text and "3 classes" in element(page, "#task-intro").text
    panels = wait(lambda: page.find_elements(By.CSS_SELECTOR, "#task-charts .histogram"))
    assert [panel.find_element(By.TAG_NAME, "h4").text for panel in panels] == ["Layer 1", "Layer 2"]
    assert len(panels[0].find_elements(By.TAG_NAME, "polyline")) >= 5


def test_the_theme_switch_goes_round_is_remembered_and_colours_follow(page: Any) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    line = "return getComputedStyle(document.querySelector('#explorer-chart polyline')).stroke"
    media = {"features": [{"name": "prefers-color-scheme", "value": "light"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    light, stroke = page.execute_script(ground), page.execute_script(line)
    button = element(page, "#theme")
    button.send_keys(Keys.ENTER)
    assert button.text == "Theme: light" and page.execute_script(ground) == light
    button.send_keys(Keys.ENTER)
    dark = page.execute_script(ground)
    assert button.text == "Theme: dark" and dark != light
    assert page.execute_script(line) != stroke, "what is drawn follows the theme"
    page.refresh()
    assert page.execute_script(ground) == dark
    element(page, "#theme").click()
    media = {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    assert element(page, "#theme").text == "Theme: auto" and page.execute_script(ground) == dark
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_the_keyboard_path_begins_with_the_skip_link(page: Any) -> None:
    element(page, "body").send_keys(Keys.TAB)
    focused = page.switch_to.active_element
    assert focused.text == "Skip to the report"
    focused.send_keys(Keys.ENTER)
    assert page.switch_to.active_element.get_attribute("id") == "main"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_violation(page: Any, theme: str) -> None:
    open_everything(page)
    assert violations(page, theme) == []


def test_on_paper_every_table_stands_and_nothing_is_cut_off(page: Any, run_dir: Path) -> None:
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
    names = page.execute_script("return [...document.querySelectorAll('#more .table')].map((one) => one.dataset.name)")
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert wide == [] and closed == 0
    assert {table.name for table in tables_of(FinishedRun(run_dir))} <= set(names)
    pdf = page.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    assert base64.b64decode(pdf["data"]).startswith(b"%PDF-")
    page.execute_script("window.dispatchEvent(new Event('afterprint'))")
    assert page.find_elements(By.CSS_SELECTOR, ".paper-only") == []


def test_without_scripts_the_first_screen_is_complete_and_a_line_says_what_is_not(page: Any) -> None:
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    page.refresh()
    shown = {name: element(page, name).is_displayed() for name in (".verdict", ".forest svg", ".lead", ".no-script")}
    hidden = {name: element(page, name).is_displayed() for name in ("#explorer", "#tasks", "#theme", "#question-main")}
    text = element(page, ".lead").text
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
    page.refresh()
    assert all(shown.values()) and not any(hidden.values())
    assert "DeeBERT" in text and "Final layer" in text and "Smallest difference" in text


def test_hostile_names_run_nothing_and_are_read_as_text(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    driver.get((hostile_run(tmp_path_factory) / "report.html").as_uri())
    wait(lambda: driver.find_elements(By.CSS_SELECTOR, "#explorer-chart polyline"))
    open_everything(driver)
    assert driver.get_log("browser") == []
    labels = driver.execute_script("return [...document.querySelectorAll('bdi')].map((one) => one.textContent)")
    assert set(HOSTILE) <= set(labels)
    for place in ("#explorer-legend bdi", "#explorer-readout th bdi", "#question-main tbody th bdi", ".lead th bdi"):
        read = "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)"
        assert set(HOSTILE) <= set(driver.execute_script(read, place)), place
    assert driver.execute_script("return document.querySelectorAll('main script, main b b, img').length") == 0
    widths = driver.execute_script("return [document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
