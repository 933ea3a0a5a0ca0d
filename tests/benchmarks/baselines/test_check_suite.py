"""A suite held against its baseline: new, good, moved, and what an update keeps."""

from dataclasses import replace
from pathlib import Path

import pytest

from exitbench.benchmarks.baselines.baseline_table import read_baseline, write_baseline
from exitbench.benchmarks.baselines.check_suite import check_suite
from exitbench.benchmarks.suites.suite import Suite
from exitbench.benchmarks.suites.suite_file import load_suite
from exitbench.cache import synthetic_cache
from exitbench.errors import InputError
from tests.support.checked_suite import SUITE


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    folder = tmp_path_factory.mktemp("checked")
    synthetic_cache(folder / "caches/little", rows=80, layers=5, width=8, seed=3)
    few = SUITE.replace('"pabee", "nsp", "cap[alpha=0.1|1]"', '"pabee"')
    (folder / "small.toml").write_text(few)
    return load_suite(folder / "small.toml")


@pytest.mark.long
def test_a_suite_without_a_baseline_is_new_and_good_once_it_is_written(suite: Suite, tmp_path: Path) -> None:
    file = tmp_path / "small.csv"
    with pytest.raises(InputError, match=r"small\.csv"):
        check_suite(suite, file)
    first = check_suite(suite, file, must_exist=False)
    assert first.is_new
    assert {move.kind for move in first.moves} == {"new"}
    first.update()
    second = check_suite(suite, file)
    assert second.good
    assert not second.is_new


@pytest.mark.long
def test_a_move_is_shown_and_an_update_keeps_the_tolerance_that_a_person_set(suite: Suite, tmp_path: Path) -> None:
    file = tmp_path / "small.csv"
    check_suite(suite, file, must_exist=False).update()
    baseline = read_baseline(file)
    key = next(key for key, pinned in baseline.items() if "accuracy" in key and pinned.value == pinned.value)
    right = baseline[key]
    write_baseline(file, baseline | {key: replace(right, value=right.value + 9, tolerance=4.5)})
    checked = check_suite(suite, file)
    assert [(move.key, move.kind) for move in checked.moves] == [(key, "moved")]
    checked.update()
    assert read_baseline(file)[key] == replace(right, tolerance=4.5)
    assert check_suite(suite, file).good
