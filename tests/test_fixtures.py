"""The committed caches are what their description says, and good enough to draw conclusions from."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from scipy.stats import kendalltau

from exitbench.cache import Cache, cache_card
from exitbench.places import FIXTURES, cache_directories


def script(name: str) -> ModuleType:
    """A script of the scripts folder, as a module."""
    spec = importlib.util.spec_from_file_location(name, FIXTURES.parent / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def describe() -> ModuleType:
    script("make_fixtures")
    return script("describe_fixtures")


@pytest.mark.parametrize("path", cache_directories(), ids=lambda path: path.name)
def test_accuracy_grows_with_depth_and_beats_the_majority(path: Path, describe: ModuleType) -> None:
    card = cache_card(Cache(path))
    accuracy: list[float] = card["accuracy_per_layer"]
    spearman, gain = describe.growth(accuracy)
    assert spearman >= 0.8
    assert gain >= 5
    assert accuracy[-1] >= describe.majority(card["classes"]) + 5
    assert kendalltau(range(len(accuracy)), accuracy).statistic > 0.5


def test_growth_is_one_for_rising_and_minus_one_for_falling_accuracy(describe: ModuleType) -> None:
    assert describe.growth([50.0, 60.0, 61.0]) == (pytest.approx(1.0), 11.0)
    assert describe.growth([61.0, 60.0, 50.0]) == (pytest.approx(-1.0), -11.0)
    assert describe.majority({"no": 1, "yes": 3}) == 75


def test_all_fixtures_together_stay_below_40_megabytes() -> None:
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < 40e6


def test_the_readme_says_what_the_caches_hold(describe: ModuleType) -> None:
    text = (FIXTURES / "README.md").read_text(encoding="utf-8")
    assert f"{describe.BEGIN}\n{describe.generated()}\n{describe.END}" in text, (
        "run: python scripts/describe_fixtures.py"
    )
    assert {path.name for path in cache_directories()} == {cache.name for _, cache in describe.caches()}


def test_the_training_commands_of_the_readme_are_those_that_make_runs(
    describe: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (FIXTURES / "README.md").read_text(encoding="utf-8")
    described = [recipe for recipe, _ in describe.caches()]
    started: list[list[str]] = []

    def record(words: list[str], **_: Any) -> None:
        started.append(words[3:])

    monkeypatch.setattr(subprocess, "run", record)
    monkeypatch.setattr(describe.make_fixtures, "CACHES", tmp_path)
    for recipe in described:
        (tmp_path / recipe.name).mkdir()
        describe.make_fixtures.make(recipe, tmp_path / "work")
        assert " ".join(["exitbench", *started[-1]]) in text
    assert len(started) == len(described)


def test_no_cache_tells_a_path_of_the_machine_it_was_made_on() -> None:
    for path in cache_directories():
        text = (path / "manifest.json").read_text(encoding="utf-8")
        assert not any(f'"{start}' in text or f" {start}" in text for start in ("/work", "/tmp", "/home", "/root"))
