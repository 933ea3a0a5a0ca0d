"""The explorer of the page in a real Chromium: what it shows is what the results hold, by mouse and by keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.browsing import element, wait
from tests.support.page_runs import main_run

webdriver = pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


def readout(page: Any) -> dict[str, list[str]]:
    """Signal to score, speed-up, threshold and both rates, as the explorer shows them."""
    rows = page.execute_script(
        "return [...document.querySelectorAll('#explorer-readout tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent.trim()))"
    )
    return {name: values for name, *values in rows}


def set_value(page: Any, selector: str, value: Any, event: str) -> None:
    page.execute_script(
        "const it = document.querySelector(arguments[0]); it.value = arguments[1];"
        "it.dispatchEvent(new Event(arguments[2]))",
        selector,
        value,
        event,
    )


@pytest.fixture(scope="module")
def results(run_dir: Path) -> pd.DataFrame:
    return pd.read_parquet(run_dir / "results.parquet")


def read_off(results: pd.DataFrame, signal: str, protocol: str, at: str, measure: str, decisions: str = "") -> float:
    """A stored value of one signal, as its own entry, on the first cache."""
    key = {"cache": "base-sst2", "signal": signal, "protocol": protocol, "operating_point": at, "measure": measure}
    chosen = results[results["layer"].isna() & (results["decisions"] == decisions)]
    for name, value in key.items():
        chosen = chosen[chosen[name] == value]
    return float(chosen["value"].item())


def test_the_explorer_shows_the_tables_values_at_their_speed_up(page: Any, results: pd.DataFrame) -> None:
    set_value(page, "#explorer-protocol", "in-sample", "change")
    next(
        button for button in page.find_elements(By.CSS_SELECTOR, "#explorer-jumps button") if button.text == "2×"
    ).click()
    shown = readout(page)
    for signal, label in (("deebert", "DeeBERT"), ("e-lang", "E-LANG"), ("nsp", "NSP"), ("pabee", "PABEE")):
        score = read_off(results, signal, "in-sample", "speed_up=2", "accuracy")
        speed = read_off(results, signal, "in-sample", "speed_up=2", "speed_up")
        assert abs(float(shown[label][0]) - score) <= 0.0051
        assert abs(float(shown[label][1].rstrip("×")) - speed) <= 0.0051


def test_the_explorer_shows_rates_and_exits_and_they_move(page: Any, results: pd.DataFrame) -> None:
    set_value(page, "#explorer-protocol", "in-sample", "change")
    set_value(page, "#explorer-range", 0, "input")
    slow = readout(page)["DeeBERT"]
    assert slow[1] == "1.00×" and slow[3] in ("0.0", "–")
    bars = "return document.querySelector('.histogram svg[role=img]').getAttribute('aria-label')"
    assert "layer 6: 100.0 %" in page.execute_script(bars)
    set_value(page, "#explorer-range", 1000, "input")
    fast = readout(page)["DeeBERT"]
    assert float(fast[1].rstrip("×")) > 3 and fast[3] != slow[3] and fast[4] != slow[4]
    assert "layer 6: 100.0 %" not in page.execute_script(bars)


def test_the_explorers_slider_works_by_keyboard(page: Any) -> None:
    set_value(page, "#explorer-protocol", "in-sample", "change")
    slider = element(page, "#explorer-range")
    before = element(page, "#explorer-output").text
    slider.send_keys(Keys.ARROW_RIGHT * 40)
    after = element(page, "#explorer-output").text
    assert float(after.rstrip("×")) > float(before.rstrip("×"))
    assert slider.get_attribute("aria-valuetext") == after
    element(page, "#explorer-threshold-mode").send_keys(Keys.SPACE)
    slider.send_keys(Keys.HOME)
    first = element(page, "#explorer-output").text
    slider.send_keys(Keys.ARROW_RIGHT * 3)
    assert first.startswith("threshold") and element(page, "#explorer-output").text != first


def test_the_explorer_draws_only_chosen_signals_and_another_task(page: Any) -> None:
    lines = "return document.querySelectorAll('#explorer-chart polyline').length"
    before = page.execute_script(lines)
    element(page, "#explorer-signals input").send_keys(Keys.SPACE)
    assert page.execute_script(lines) == before - 1 and "DeeBERT" not in readout(page)
    old = readout(page)
    set_value(page, "#explorer-task", "MNLI with tiny", "change")
    assert readout(page) != old and "MNLI" in element(page, "#explorer-chart svg").get_attribute("aria-label")


def test_cross_fit_shows_stored_operating_points_and_says_why_nothing_else(page: Any, results: pd.DataFrame) -> None:
    assert element(page, "#explorer-protocol").get_attribute("value") == "cross-fit", (
        "the first choice is out of sample"
    )
    assert "no common threshold" in element(page, "#explorer-remark").text
    assert not element(page, "#explorer-threshold-mode").is_enabled()
    next(
        button for button in page.find_elements(By.CSS_SELECTOR, "#explorer-jumps button") if button.text == "4×"
    ).click()
    shown = readout(page)["NSP"]
    premature = read_off(results, "nsp", "cross-fit", "speed_up=4", "premature_rate", "all")
    score = read_off(results, "nsp", "cross-fit", "speed_up=4", "accuracy")
    assert shown[2] == "–" and abs(float(shown[3]) - premature) <= 0.051 and abs(float(shown[0]) - score) <= 0.0051


def test_hovering_reads_values_off_the_curves(page: Any) -> None:
    chart = element(page, "#explorer-chart svg")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    webdriver.ActionChains(page).move_to_element(chart).perform()
    reader = wait(lambda: page.find_elements(By.CSS_SELECTOR, ".reader:not([hidden])"))[0]
    assert "DeeBERT" in reader.text and "×" in reader.text
