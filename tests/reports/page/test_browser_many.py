"""The page of forty caches in a real Chromium: tasks chosen by model, task and seed, and what it has no room for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from exitbench.reports.page.page import write_page
from tests.support.browsing import element, wait
from tests.support.many_caches import many_run

pytest.importorskip("selenium.webdriver")
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with about half of what it would hold."""
    run = many_run(tmp_path_factory, 2, 4)
    out = tmp_path_factory.mktemp("pages")
    write_page([run], out / "whole.html")
    text = (out / "whole.html").read_text("utf-8")
    data = len("".join(re.findall(r'id="data-\w+">([^<]*)<', text)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("exitbench.reports.page.page.PAGE_BYTES", len(text.encode()) - data // 2)
        patch.setattr("exitbench.reports.page.run_view.TASKS_SHARE", 0.03)
        write_page([run], out / "report.html")
    return out


def selects(page: Any, last: str) -> list[Any]:
    """The selects of model, task and network; ``last`` is the selector of the last."""
    section = element(page, last).find_element(By.XPATH, "./ancestor::*[contains(@class, 'heading')]")
    narrowing = section.find_elements(By.CSS_SELECTOR, "select.narrows")
    return [Select(node) for node in (*narrowing, element(page, last))]


def options(select: Any) -> list[str]:
    return [option.text for option in select.options]


def test_a_task_is_chosen_by_model_task_and_seed(page: Any) -> None:
    model, task, network = selects(page, "#task-choice")
    assert options(model) == ["m0", "m1"]
    assert options(task) == ["t0", "t1", "t2", "t3"]
    assert options(network) == [f"seed {number}" for number in range(5)]
    network.select_by_visible_text("seed 3")
    task.select_by_visible_text("t2")
    model.select_by_visible_text("m1")
    assert [select.first_selected_option.text for select in (model, task, network)] == ["m1", "t2", "seed 3"]
    shown = element(page, "#tasks").text
    assert "m1-t2-s3-dev" in shown
    assert page.get_log("browser") == []


def test_a_table_without_room_gives_way_to_its_command(page: Any) -> None:
    model, task, network = selects(page, "#task-choice")
    assert page.find_elements(By.CSS_SELECTOR, "#task-table td")
    model.select_by_visible_text("m1")
    task.select_by_visible_text("t3")
    network.select_by_visible_text("seed 4")
    assert not page.find_elements(By.CSS_SELECTOR, "#task-table td")
    assert element(page, "#task-table .left-out code").text == "exitbench table . task-m1-t3-s4-dev"
    page.execute_script("for (const part of document.querySelectorAll('#task-charts details')) part.open = true")
    wait(lambda: len(page.find_elements(By.CSS_SELECTOR, "#task-charts .built > *")) >= 2)
    model.select_by_visible_text("m0")
    task.select_by_visible_text("t0")
    network.select_by_visible_text("seed 0")
    assert page.find_elements(By.CSS_SELECTOR, "#task-table td")
    assert not page.find_elements(By.CSS_SELECTOR, "#task-table .left-out")


def test_the_explorer_draws_what_there_is_and_names_the_figure_of_the_rest(page: Any) -> None:
    model, task, network = selects(page, "#explorer-task")
    assert element(page, ".explorer").is_displayed()
    model.select_by_visible_text("m1")
    task.select_by_visible_text("t3")
    network.select_by_visible_text("seed 4")
    assert not element(page, ".explorer").is_displayed()
    assert element(page, "#explorer > .left-out code").text == "exitbench figure . trade-off-m1-t3-s4-dev"
    address = page.execute_script("return location.href")
    model.select_by_visible_text("m0")
    assert element(page, "#explorer-task").get_attribute("value") != "m1-t3-s4-dev with m1"
    page.get(address)
    page.refresh()
    wait(lambda: element(page, "#explorer-task").get_attribute("value") == "m1-t3-s4-dev with m1")
    model, task, network = selects(page, "#explorer-task")
    assert [select.first_selected_option.text for select in (model, task, network)] == ["m1", "t3", "seed 4"]
    model.select_by_visible_text("m0")
    task.select_by_visible_text("t0")
    network.select_by_visible_text("seed 0")
    assert element(page, ".explorer").is_displayed()
    assert len(page.find_elements(By.CSS_SELECTOR, "#explorer-chart polyline")) > 1
    assert not page.find_elements(By.CSS_SELECTOR, "#explorer > .left-out")


def test_tables_of_many_models_stand_in_groups(page: Any) -> None:
    topics = page.find_elements(By.CSS_SELECTOR, "details[data-topic]")
    page.execute_script("for (const part of arguments[0]) part.open = true", topics)
    groups = wait(lambda: page.find_elements(By.CSS_SELECTOR, "#question-pairs optgroup"))
    assert {group.get_attribute("label") for group in groups} >= {"m0", "m1"}
    pairs = Select(element(page, "#question-pairs .choose select"))
    texts = options(pairs)
    assert len(texts) > 40 and len(set(texts)) == len(texts)
    pairs.select_by_index(len(texts) - 1)
    assert page.find_elements(By.CSS_SELECTOR, "#question-pairs .built > .left-out, #question-pairs .built td")
    assert page.get_log("browser") == []
