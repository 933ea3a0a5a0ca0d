"""The tables of systems in ``docs/recipes.md``: means over networks, and what stands where none is near 2x."""

from types import ModuleType

import pandas as pd
import pytest

from exitbench.reports.run_data.systems import paper_systems
from tests.support.scripts import script


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return script("write_systems_table")


def network(number: int, value: float, **changes: object) -> dict[str, object]:
    """A kept line of one network trained by recipe ``sum``."""
    line: dict[str, object] = {"cache": f"c{number}", "model": "minilm-l6, sum", "task": "sst2", "system": "CAP"}
    line |= {"ours": "trained jointly", "signal": "cap", "status": "ok", "exact": value - 1}
    for start, score in (("", value), ("last_", value + 5)):
        numbers = {"value": score, "low": score - 3, "high": score + 2, "std_err": 1.5}
        line |= {f"{start}{column}": number for column, number in numbers.items()}
    return line | changes


def lines(text: str, start: str) -> list[list[str]]:
    """The cells of the lines of a table that begin so."""
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith(start)
    ]


def section(page: ModuleType, *, by_recipe: bool) -> object:
    (chosen,) = (each for each in page.SECTIONS if each.by_recipe == by_recipe)
    return chosen


def test_a_score_is_of_the_networks_that_come_near_by_deciding(page: ModuleType) -> None:
    three = [network(1, 70.0), network(2, 74.0), network(3, 60.0, status="degenerate")]
    assert page.score(pd.DataFrame(three), 3) == page.cell(pd.DataFrame(three[:2]), 3)
    assert page.score(pd.DataFrame(three), 3).startswith("72.0 [") and page.score(pd.DataFrame(three), 3).endswith(
        "] (2 of 3)"
    )
    assert page.score(pd.DataFrame(three[:0], columns=page.KEPT), 3) == "-"


def test_where_no_network_comes_near_the_score_at_exactly_the_speed_up_stands(page: ModuleType) -> None:
    apart = [network(1, 70.0, status="unmatched"), network(2, 73.0, status="unmatched")]
    assert page.score(pd.DataFrame(apart), 2) == "70.5†"
    assert page.score(pd.DataFrame(apart), 3) == "70.5† (2 of 3)"
    fixed = [network(1, 70.0, status="degenerate")]
    assert page.score(pd.DataFrame(fixed), 1) == "70.0 [67.0, 72.0]§"
    assert page.score(pd.DataFrame([network(1, 70.0, status="unmatched", exact=None)]), 1) == "-"


def test_systems_by_recipe_have_a_line_for_each_recipe(page: ModuleType) -> None:
    kept = [network(1, 70.0), network(2, 71.0), network(3, 72.0), network(4, 60.0, task="qqp")]
    kept += [network(5, 50.0, model="minilm-l6, mean"), network(6, 99.0, model="minilm-l6")]
    kept += [network(1, 98.0, system="PABEE", ours="approximated")]
    rows = pd.DataFrame(kept)[page.KEPT]
    text = page.generated(rows)[page.RECIPES]
    shown = lines(text, "| CAP")
    assert [line[2] for line in shown] == ["`mean`", "`sum`"]
    assert [cell.partition(" [")[0] for cell in shown[1][3:]] == ["71.0", "76.0", "60.0", "65.0"]
    assert shown[0][3].endswith("(1 of 3)") and shown[0][5:] == ["-", "-"]
    assert "99.0" not in text and "98.0" not in text


def test_systems_on_shared_networks_end_in_the_last_layer_of_each_network_once(page: ModuleType) -> None:
    kept = [network(number, 70.0 + number, model="minilm-l6") for number in range(5)]
    kept += [network(number, 60.0, model="minilm-l6", system="PABEE", status="unmatched") for number in range(5)]
    kept += [network(9, 40.0, model="minilm-l6 (etf)", system="DisentangledEE", task="mnli", last_value=1.0)]
    kept += [network(8, 50.0, model="minilm-l6", system="BERxiT", task="mnli")]
    text = page.generated(pd.DataFrame(kept)[page.KEPT])[page.SEEDS]
    (last,) = lines(text, "| last layer")
    # Of five networks on SST-2, each once though two systems run there; of two caches on MNLI the one not derived.
    assert [cell.partition(" [")[0] for cell in last[2:]] == ["77.0", "-", "55.0", "-", "-", "-"]
    (patience,) = lines(text, "| PABEE")
    assert patience[2] == "59.0†"
    order = [line[0] for line in lines(text, "| ")][1:-1]
    assert order == [system.name for system in paper_systems() if system.name in order] and len(order) == 4


def test_a_run_replaces_the_numbers_of_its_networks(page: ModuleType) -> None:
    before = pd.DataFrame([network(1, 70.0), network(1, 71.0, system="PABEE"), network(2, 72.0)])[page.KEPT]
    both = page.joined(before, pd.DataFrame([network(1, 60.0)])[page.KEPT])
    assert list(zip(both.cache, both.system, both.value, strict=True)) == [("c1", "CAP", 60.0), ("c2", "CAP", 72.0)]


def test_networks_that_only_the_study_of_recipes_knows_are_shown_too(page: ModuleType) -> None:
    """By a system whose exit rule is the recipe's own; a run's numbers of a network come before."""
    signal = page.load_registry().make("output[name=ponder]")
    rule = {"signal": signal.name, "parameters": signal.parameters_text}
    shared = {"model": "minilm-l6, ponder", "task": "sst2", "low": 1.0, "high": 2.0, "std_err": 0.5, "layer": None}
    near = {"operating_point": "speed_up=2", "measure": "accuracy", **shared}
    last = {"operating_point": "final", "measure": "accuracy", "signal": "final", "parameters": "", **shared}
    rows = [{"cache": "a", "value": 70.0, **rule, **near}, {"cache": "a", "value": 75.0, **last}]
    rows += [{"cache": "b", "value": 76.0, **last}]
    rows += [{"cache": "c", "value": 90.0, **last, "model": "minilm-l6, cosee"}]
    known = page.of_own_rules(pd.DataFrame(rows))
    assert known[["cache", "system", "ours", "status"]].to_numpy().tolist() == [
        ["a", "PALBERT", "trained jointly", "ok"],
        ["b", "PALBERT", "trained jointly", "elsewhere"],
    ]
    assert known.value.tolist() == pytest.approx([70.0, float("nan")], nan_ok=True)
    assert known.last_value.tolist() == [75.0, 76.0]
    assert page.score(known, 2).endswith("(1 of 2)") and page.last_layer(known, 2).startswith("75.5 [")
    run = pd.DataFrame([network(1, 60.0, cache="b", system="PALBERT", model="minilm-l6, ponder")])[page.KEPT]
    assert page.joined(known, run).value.tolist() == [70.0, 60.0]
    stored = page.of_own_rules(page.recipe_table.study())
    assert stored.groupby("system").cache.nunique().to_dict() == dict.fromkeys(
        ("DeeBERT", "PABEE", "BERxiT", "PALBERT", "DisentangledEE", "ConsistentEE"), 4
    )


def test_the_page_shows_the_kept_numbers(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    for mark, table in page.generated(page.all_numbers()).items():
        assert f"{mark}\n{table}\n{script('write_recipe_table').END}" in text, (
            "run: python scripts/write_systems_table.py"
        )


def test_every_system_has_a_line_by_its_own_recipe(page: ModuleType) -> None:
    names = [line[0] for line in lines(page.generated(page.all_numbers())[page.RECIPES], "| ")][1:]
    assert list(dict.fromkeys(names)) == [system.name for system in paper_systems()]
