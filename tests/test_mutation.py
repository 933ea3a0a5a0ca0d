"""``scripts/mutation_warm.py`` makes a mutant in the live function that holds it, and says so where there is none."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.scripts import script

SOURCE = """
LIMIT = 5

def doubled(number, times=2):
    return number * times

class Counter:
    step = 1

    @property
    def after(self):
        return sum([
            self.step, 10])

    def later(self):
        return [part + 100 for part in (1, 2)]
"""


@pytest.fixture(scope="module")
def scripts() -> tuple[ModuleType, ModuleType]:
    mutants = script("mutants")
    script("mutation_names")
    return mutants, script("mutation_warm")


@pytest.fixture
def module(tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "counted.py"
    file.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("counted", file)
    assert spec is not None and spec.loader is not None
    sys.modules["counted"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["counted"]


def change(scripts: tuple[ModuleType, ModuleType], tmp_path: Path, before: str, after: str) -> bool:
    mutants, warm = scripts
    start = SOURCE.index(before)
    line = SOURCE[:start].count("\n") + 1
    mutant = mutants.Mutant("counted.py", line, "by hand", start, start + len(before), before, after)
    made: bool = warm.Functions(tmp_path).change(mutant)
    return made


def test_a_change_in_a_function_reaches_whoever_has_it(
    scripts: tuple[ModuleType, ModuleType], module: Any, tmp_path: Path
) -> None:
    imported = module.doubled
    assert change(scripts, tmp_path, "number * times", "(number / times)")
    assert imported(8) == 4


def test_a_change_over_several_lines_leaves_the_functions_below_alone(
    scripts: tuple[ModuleType, ModuleType], module: Any, tmp_path: Path
) -> None:
    assert change(scripts, tmp_path, "sum([\n            self.step, 10])", "(sum([self.step, 20]))")
    assert module.Counter().after == 21
    assert module.Counter().later() == [101, 102]


def test_a_change_in_a_part_of_a_method_is_made(
    scripts: tuple[ModuleType, ModuleType], module: Any, tmp_path: Path
) -> None:
    assert change(scripts, tmp_path, "part + 100", "(part - 100)")
    assert module.Counter().later() == [-99, -98]


@pytest.mark.parametrize(
    ("before", "after"), [("LIMIT = 5", "LIMIT = 6"), ("times=2", "times=3"), ("step = 1", "step = 2")]
)
def test_what_is_read_at_import_is_left_to_a_new_process(
    before: str, after: str, scripts: tuple[ModuleType, ModuleType], module: Any, tmp_path: Path
) -> None:
    assert not change(scripts, tmp_path, before, after)
    assert (module.LIMIT, module.doubled(1), module.Counter.step) == (5, 2, 1)
