"""The table of ``docs/recipes.md``: means over trainings, with intervals that hold rows and trainings."""

import math
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

from exitbench.places import BASELINES
from tests.support.scripts import script


@pytest.fixture(scope="module")
def table() -> ModuleType:
    return script("write_recipe_table")


def measured(network: int, value: float, **changes: object) -> dict[str, object]:
    """A row of a result file for one network of recipe ``cosee``, whose own rule is the energy."""
    row: dict[str, object] = {
        "cache": f"c{network}",
        "model": "minilm-l6, cosee",
        "task": "sst2",
        "protocol": "cross-fit",
    }
    row |= {"signal": "deebert", "parameters": "normalize=false", "operating_point": "speed_up=2", "decisions": ""}
    row |= {"layer": None, "measure": "accuracy", "status": "ok", "value": value}
    return row | {"low": value - 3, "high": value + 2, "std_err": 1.5} | changes


def test_an_interval_over_trainings_holds_rows_and_trainings(table: ModuleType) -> None:
    values, errors = np.array([70.0, 74.0, 75.0]), np.array([1.0, 1.2, 1.7])
    rows = pd.DataFrame({"value": values, "std_err": errors, "low": values - 9, "high": values + 9})
    between = 7.0 / 3  # the variance of 70, 74 and 75 is 7
    degrees = (1.3**2 + between) ** 2 / (between**2 / 2)
    half = student.ppf(0.975, degrees) * math.sqrt(1.3**2 + between)
    assert table.cell(rows, 3) == f"73.0 [{73 - half:.1f}, {73 + half:.1f}]"
    assert table.cell(rows, 4).endswith("] (3 of 4)")
    assert table.cell(rows[:1], 1) == "70.0 [61.0, 79.0]", "of one training the run's own interval"
    assert table.cell(rows[:0], 3) == "-"


def test_a_line_has_the_numbers_of_entropy_and_of_the_recipes_own_rule(table: ModuleType) -> None:
    energy = {"signal": "e-lang", "parameters": "temperature=1,center=false"}
    nowhere = {"operating_point": "", "measure": "dis"}
    rows = [
        measured(1, 78.0),
        measured(2, 80.0),
        measured(1, 99.0, decisions="randomised"),
        measured(1, 98.0, operating_point="speed_up=3"),
        measured(1, 97.0, protocol="in-sample"),
        measured(1, 71.0, layer=2, **nowhere),
        measured(1, 72.0, layer=3, **nowhere),
        measured(1, 60.0, **energy),
        measured(2, 61.0, status="unmatched", **energy),
        measured(1, 82.0, signal="final", parameters="", operating_point="final"),
        measured(2, 84.0, signal="final", parameters="", operating_point="final"),
        measured(1, 50.0, cache="", model="average"),
    ]
    text = table.generated(table.kept(pd.DataFrame(rows)))
    (line,) = [line for line in text.splitlines() if line.startswith("| `cosee`")]
    cells = [part.strip() for part in line.strip("|").split("|")]
    starts = [part.partition(" [")[0] for part in cells]
    assert starts == ["`cosee`", "2", "83.0", "71.0", "-", "79.0", "`e-lang`", "-", "-", "60.0"]
    assert cells[3].endswith("(1 of 2)") and cells[9] == "60.0 [57.0, 62.0] (1 of 2)"
    assert text.startswith("**sst2**\n")


def test_a_run_replaces_the_numbers_of_its_caches_and_no_others(table: ModuleType) -> None:
    nowhere = {"operating_point": "", "measure": "dis"}
    before = table.kept(
        pd.DataFrame([measured(1, 78.0), measured(1, 70.0, layer=2, **nowhere), measured(3, 79.0), measured(4, 77.0)])
    )
    again = table.kept(pd.DataFrame([measured(4, 60.0), measured(1, 61.0), measured(2, 62.0)]))
    both = table.joined(before, again)
    # Network 1 has no DIS any more: the new run is all that is known of it.
    assert list(zip(both.cache, both.value, strict=True)) == [("c1", 61.0), ("c2", 62.0), ("c3", 79.0), ("c4", 60.0)]
    assert table.as_text(table.joined(both, again)) == table.as_text(both), "the same run twice changes nothing"
    stored = table.study()
    part = stored[stored.cache.str.contains("cosee|ponder")]
    assert 0 < len(part) < len(stored)
    for numbers in (part, stored[:0]):
        assert table.as_text(table.joined(stored, numbers)) == table.STUDY.read_text(encoding="utf-8")


def test_several_runs_join_the_study_one_after_another(
    table: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, study = tmp_path / "recipes.md", tmp_path / "recipes.csv"
    page.write_text(f"{table.DIFFERENCES}{table.END}between\n{table.BEGIN}{table.END}after\n", encoding="utf-8")
    others = [measured(number, 60.0 + number, model="minilm-l6, sum") for number in (8, 9)]
    study.write_text(table.as_text(table.kept(pd.DataFrame([measured(7, 50.0), *others]))), encoding="utf-8")
    monkeypatch.setattr(table, "PAGE", page)
    monkeypatch.setattr(table, "STUDY", study)
    for name, rows in (("a", [measured(1, 78.0)]), ("b", [measured(1, 70.0), measured(2, 81.0)]), ("none", [])):
        (tmp_path / name).mkdir()
        columns = list(measured(0, 0.0))
        pd.DataFrame(rows, columns=columns).to_parquet(tmp_path / name / "results.parquet")
    monkeypatch.setattr("sys.argv", ["write_recipe_table.py", str(tmp_path / "a"), str(tmp_path / "b")])
    table.main()
    kept = table.study()
    assert list(zip(kept.cache, kept.value, strict=True))[:3] == [("c1", 70.0), ("c2", 81.0), ("c7", 50.0)]
    written = page.read_text(encoding="utf-8")
    assert "| `cosee` | 3 |" in written and "67.0 [" in written and written.endswith("after\n")
    assert "| entropy: score at 2x | 2 |" in written, "the two recipes with several trainings"
    monkeypatch.setattr("sys.argv", ["write_recipe_table.py", str(tmp_path / "none")])
    with pytest.raises(SystemExit, match="expected networks trained by the recipes, found none"):
        table.main()


def test_a_task_is_scored_by_its_own_measure(table: ModuleType) -> None:
    """A run of a task that is judged by F1 has accuracy and the mean of both beside it."""
    rows = [measured(1, 70.0, task="qqp"), measured(1, 62.0, task="qqp", measure="f1")]
    rows += [measured(1, 66.0, task="qqp", measure="mean_accuracy_f1")]
    rows += [measured(2, 71.0), measured(2, 61.0, measure="f1")]
    text = table.generated(table.kept(pd.DataFrame(rows)))
    assert text.index("**sst2**\n") < text.index("**qqp**, scored by F1\n")
    scores = [line.split("|")[6].strip() for line in text.splitlines() if line.startswith("| `cosee`")]
    assert scores == ["71.0 [68.0, 73.0]", "62.0 [59.0, 64.0]"]


def test_a_number_is_compared_where_every_training_of_several_has_it(table: ModuleType) -> None:
    energy = {"signal": "e-lang", "parameters": "temperature=1,center=false"}
    rows = [measured(number, 70.0 + number) for number in (1, 2, 3)]
    rows += [measured(number, 60.0 + number, **energy) for number in (1, 3)]  # the second is not near 2x
    rows += [measured(number, 80.0 + number, model="minilm-l6, sum") for number in (4, 5)]
    rows += [measured(6, 75.0, model="minilm-l6, mean")]
    numbers = table.trainings(table.kept(pd.DataFrame(rows)))
    assert numbers["entropy: score at 2x"] == {"cosee": [71.0, 72.0, 73.0], "sum": [84.0, 85.0]}
    assert numbers.keys() == {"entropy: score at 2x"}, "by its own rule only one of the two has all"


def test_the_page_shows_the_kept_numbers(table: ModuleType) -> None:
    page, numbers = table.PAGE.read_text(encoding="utf-8"), table.study()
    differences = table.differences_table(table.trainings(numbers[numbers.task == table.SEVERAL]))
    for begin, text in ((table.BEGIN, table.generated(numbers)), (table.DIFFERENCES, differences)):
        assert f"{begin}\n{text}\n{table.END}" in page, "run: python scripts/write_recipe_table.py"


@pytest.mark.long
def test_the_kept_numbers_of_committed_networks_are_those_of_the_baseline(table: ModuleType) -> None:
    baseline = pd.read_csv(BASELINES / "recipes.csv", keep_default_na=False, na_values={"layer": ""})
    key = ["cache", "signal", "parameters", "operating_point", "layer", "measure"]
    joined = table.study().merge(baseline[baseline.decisions == ""], on=key, suffixes=("", "_checked"))
    assert joined.cache.nunique() == 18
    np.testing.assert_allclose(joined.value, joined.value_checked.astype(float), atol=1e-4)
