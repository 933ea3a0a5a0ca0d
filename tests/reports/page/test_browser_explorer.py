"""The explorer of the page in a real Chromium: what it shows is what the results hold, by mouse and by keyboard."""

from __future__ import annotations

import shlex
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


def jump(page: Any, speed: str) -> None:
    """Press the button of one stored speed-up."""
    buttons = page.find_elements(By.CSS_SELECTOR, "#explorer-jumps button")
    next(button for button in buttons if button.text == speed).click()


@pytest.fixture(scope="module")
def results(run_dir: Path) -> pd.DataFrame:
    return pd.read_parquet(run_dir / "results.parquet")


def read_off(
    results: pd.DataFrame, signal: str, protocol: str, at: str, measure: str, decisions: str = "", column: str = "value"
) -> float:
    """A stored value of one signal, as its own entry, on the first cache."""
    key = {"cache": "base-sst2", "signal": signal, "protocol": protocol, "operating_point": at, "measure": measure}
    chosen = results[results["layer"].isna() & (results["decisions"] == decisions)]
    for name, value in key.items():
        chosen = chosen[chosen[name] == value]
    return float(chosen[column].item())


def test_the_explorer_shows_the_tables_values_at_their_speed_up(page: Any, results: pd.DataFrame) -> None:
    set_value(page, "#explorer-protocol", "in-sample", "change")
    jump(page, "2×")
    shown = readout(page)
    for signal, label in (("deebert", "DeeBERT"), ("e-lang", "E-LANG"), ("nsp", "NSP"), ("pabee", "PABEE")):
        score = read_off(results, signal, "in-sample", "speed_up=2", "accuracy")
        speed = read_off(results, signal, "in-sample", "speed_up=2", "speed_up")
        assert abs(float(shown[label][0].split(" ")[0].rstrip("†§")) - score) <= 0.0051
        assert abs(float(shown[label][1].rstrip("×")) - speed) <= 0.0051


def test_the_explorer_shows_rates_and_exits_and_they_move(page: Any, results: pd.DataFrame) -> None:
    set_value(page, "#explorer-protocol", "in-sample", "change")
    page.execute_script("document.getElementById('explorer-exits').open = true")
    set_value(page, "#explorer-range", 0, "input")
    slow = readout(page)["DeeBERT"]
    assert slow[1] == "1.00×" and slow[3] in ("0.0", "–")
    bars = (
        "return [...document.querySelectorAll('#explorer-histograms svg[role=img]')]"
        ".map((one) => one.getAttribute('aria-label')).find((text) => text.startsWith('Exits of DeeBERT'))"
    )
    wait(lambda: page.execute_script(bars))
    assert "layer 6: 100.0 %" in page.execute_script(bars)
    set_value(page, "#explorer-range", 1000, "input")
    fast = readout(page)["DeeBERT"]
    assert float(fast[1].rstrip("×")) > 3 and fast[3] != slow[3] and fast[4] != slow[4]
    assert "layer 6: 100.0 %" not in page.execute_script(bars)


def test_the_explorers_slider_works_by_keyboard(page: Any) -> None:
    slider = element(page, "#explorer-range")
    before = element(page, "#explorer-output").text
    slider.send_keys(Keys.ARROW_RIGHT * 40)
    after = element(page, "#explorer-output").text
    assert float(after.rstrip("×")) > float(before.rstrip("×"))
    assert slider.get_attribute("aria-valuetext") == after


def test_the_legend_switches_signals_off_and_another_task_is_drawn(page: Any) -> None:
    lines = "return document.querySelectorAll('#explorer-chart polyline').length"
    before = page.execute_script(lines)
    chip = element(page, "#explorer-legend button")
    chip.send_keys(Keys.SPACE)
    assert page.execute_script(lines) == before - 1 and "DeeBERT" not in readout(page)
    assert chip.get_attribute("aria-pressed") == "false"
    chip.click()
    assert page.execute_script(lines) == before
    old = readout(page)
    set_value(page, "#explorer-task", "MNLI with tiny", "change")
    assert readout(page) != old and "MNLI" in element(page, "#explorer-chart svg").get_attribute("aria-label")


def test_cross_fit_comes_first_with_its_stored_values_and_intervals(page: Any, results: pd.DataFrame) -> None:
    assert element(page, "#explorer-protocol").get_attribute("value") == "cross-fit"
    assert "is the median of the folds" in element(page, "#explorer-note").text
    jump(page, "4×")
    shown = readout(page)["NSP"]
    threshold = read_off(results, "nsp", "cross-fit", "speed_up=4", "accuracy", column="threshold")
    assert float(shown[2]) == pytest.approx(threshold, rel=1e-5)
    premature = read_off(results, "nsp", "cross-fit", "speed_up=4", "premature_rate", "all")
    score = read_off(results, "nsp", "cross-fit", "speed_up=4", "accuracy")
    low = read_off(results, "nsp", "cross-fit", "speed_up=4", "accuracy", column="low")
    value, _, interval = shown[0].partition(" ")
    assert abs(float(value.rstrip("†§")) - score) <= 0.0051 and abs(float(shown[3]) - premature) <= 0.051
    assert abs(float(interval.strip("[]").split(", ")[0]) - low) <= 0.051


def test_a_bound_shows_what_is_stored_of_it_not_the_nearest_point_of_its_curve(
    page: Any, results: pd.DataFrame
) -> None:
    jump(page, "2×")
    shown = readout(page)["Fixed layer"]
    score, low, speed = (
        read_off(results, "fixed", "cross-fit", "speed_up=2", measure, column=column)
        for measure, column in (("accuracy", "value"), ("accuracy", "low"), ("speed_up", "value"))
    )
    value, _, interval = shown[0].partition(" ")
    assert abs(float(value) - score) <= 0.0051 and abs(float(interval.strip("[]").split(", ")[0]) - low) <= 0.051
    assert shown[1] == f"{speed:.2f}×"


def test_rates_have_columns_at_every_stored_speed_up_and_none_between(page: Any, results: pd.DataFrame) -> None:
    shown = "return [...document.querySelectorAll('#explorer-readout .rate')].map((one) => one.offsetWidth > 0)"
    for speed in (2, 3, 4):
        jump(page, f"{speed}×")
        assert all(page.execute_script(shown)) and element(page, "#explorer-decisions").is_displayed()
        premature = read_off(results, "nsp", "cross-fit", f"speed_up={speed}", "premature_rate", "all")
        assert abs(float(readout(page)["NSP"][3]) - premature) <= 0.051
    assert "exiting rates) at 2×, 3×, 4×" in element(page, "#explorer-note").text
    element(page, "#explorer-range").send_keys(Keys.ARROW_LEFT * 20)
    assert not any(page.execute_script(shown)) and not element(page, "#explorer-decisions").is_displayed()


def test_the_table_beside_the_chart_is_sorted_by_score_what_misses_the_speed_up_last(page: Any) -> None:
    values = list(readout(page).values())
    scores = [float(value[0].split(" ")[0].rstrip("†‡§")) for value in values]
    apart = [any(mark in value[0] for mark in "†§") for value in values]
    assert apart == sorted(apart) and len(scores) == 10
    assert [score for _, score in sorted(zip(apart, scores, strict=True), key=lambda row: (row[0], -row[1]))] == scores
    assert any(apart) == bool(element(page, "#explorer-marks").text)


def hover(page: Any, x: float, y: float) -> Any:
    """The pointer at a share of the chart's width and height; the tooltip."""
    chart = element(page, "#explorer-chart svg")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    right, down = int((x - 0.5) * chart.size["width"]), int((y - 0.5) * chart.size["height"])
    webdriver.ActionChains(page).move_to_element_with_offset(chart, right, down).perform()
    return wait(lambda: page.find_elements(By.CSS_SELECTOR, ".reader:not([hidden])"))[0]


@pytest.mark.parametrize("x", [0.15, 0.5, 0.9])
def test_the_tooltip_is_compact_sorted_and_never_over_the_point_it_names(page: Any, x: float) -> None:
    tooltip = hover(page, x, 0.4)
    box = tooltip.rect
    chart = element(page, "#explorer-chart").rect
    assert box["width"] <= 245 and box["height"] <= 220, "compact"
    scores = [float(row.find_elements(By.TAG_NAME, "td")[1].text) for row in tooltip.find_elements(By.TAG_NAME, "tr")]
    assert scores == sorted(scores, reverse=True) and 5 < len(scores) <= 10
    assert chart["x"] <= box["x"] and box["x"] + box["width"] <= chart["x"] + chart["width"] + 1
    pointer = page.execute_script(
        "const box = document.querySelector('#explorer-chart svg').getBoundingClientRect();"
        "return box.left + scrollX + box.width * arguments[0]",
        x,
    )
    assert not box["x"] <= pointer <= box["x"] + box["width"], "beside the pointer"
    legend = element(page, "#explorer-legend").rect
    assert legend["y"] + legend["height"] <= chart["y"] + 1, "the legend stays above the chart"


def test_only_the_hovered_signal_has_its_band(page: Any) -> None:
    bands = "return [...document.querySelectorAll('#explorer-chart .band')].map((one) => one.parentNode.dataset.signal)"
    assert page.execute_script(bands) == []
    hover(page, 0.4, 0.3)
    near = element(page, "#explorer-readout tr.near").get_attribute("data-signal")
    assert page.execute_script(bands) == [near]
    assert element(page, ".reader tr.near").text.startswith(element(page, "#explorer-readout tr.near bdi").text)


def test_zooming_narrows_the_axis_and_goes_back(page: Any) -> None:
    ticks = "return [...document.querySelectorAll('#explorer-chart text')].map((one) => one.textContent)"
    whole = page.execute_script(ticks)
    chart = element(page, "#explorer-chart svg")
    page.execute_script("arguments[0].scrollIntoView({block: 'center'})", chart)
    webdriver.ActionChains(page).move_to_element_with_offset(chart, -100, 0).click_and_hold().move_by_offset(
        120, 0
    ).release().perform()
    assert page.execute_script(ticks) != whole and "1×" not in page.execute_script(ticks)
    assert "zoom=" in page.current_url
    element(page, "#explorer-whole").click()
    assert page.execute_script(ticks) == whole


def test_the_address_brings_back_what_was_shown(page: Any) -> None:
    set_value(page, "#explorer-task", "MRPC with base", "change")
    set_value(page, "#explorer-protocol", "in-sample", "change")
    jump(page, "3×")
    element(page, "#explorer-legend button").click()
    before, address = readout(page), page.current_url
    page.get("about:blank")
    page.get(address)
    wait(lambda: page.find_elements(By.CSS_SELECTOR, "#explorer-chart polyline"))
    assert readout(page) == before and "DeeBERT" not in before
    assert element(page, "#explorer-output").text == "3.00×"


def test_a_point_is_copied_as_a_command_that_a_shell_reads_back(page: Any) -> None:
    jump(page, "3×")
    row = next(
        row for row in page.find_elements(By.CSS_SELECTOR, "#explorer-readout tbody tr") if row.text.startswith("CAP")
    )
    row.find_element(By.CSS_SELECTOR, ".copy").click()
    told = wait(lambda: element(page, "#explorer-copied").text).removeprefix("copied: ")
    words = ["exitbench", "threshold", "base-sst2", "--signal", "cap[alpha=0.1|1]", "--speed-up", "3"]
    assert shlex.split(told) == words
