"""The committed caches are what their description says, and good enough to draw conclusions from."""

import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

from exitbench.cache import Cache, CacheWriter, Model, Task, cache_card
from exitbench.places import FIXTURES, cache_directories
from tests.support.scripts import script


@pytest.fixture(scope="module")
def describe() -> ModuleType:
    names = ("make_fixtures", "cifar_networks", "make_cifar_caches", "text_networks", "make_recipe_caches")
    for name in (*names, "describe_networks"):
        script(name)
    return script("describe_fixtures")


BY_RECIPE = re.compile(r"minilm-l6-.+-(sst2|qqp)-s\d+-dev")
"""The networks of suite ``recipes``: small trainings, for a table and no conclusion."""


def scored() -> dict[str, list[Path]]:
    """The caches that conclusions are drawn from, seeds of one network together; others calibrate, or are shifted."""
    networks: dict[str, list[Path]] = {}
    for path in cache_directories():
        if path.name.endswith("-dev") and not BY_RECIPE.fullmatch(path.name):
            networks.setdefault(re.sub(r"-s\d+-", "-seeds-", path.name), []).append(path)
    return {" and ".join(path.name for path in paths): paths for paths in networks.values()}


@pytest.mark.parametrize("paths", scored().values(), ids=scored())
def test_accuracy_grows_with_depth_and_beats_the_majority(paths: list[Path], describe: ModuleType) -> None:
    # Over all seeds: to leave out those that turned out worse would make seeds look alike.
    cards = [cache_card(Cache(path)) for path in paths]
    accuracy: list[float] = np.mean([card["accuracy_per_layer"] for card in cards], axis=0).tolist()
    spearman, gain = describe.growth(accuracy)
    assert spearman >= 0.8
    assert gain >= 5
    assert accuracy[-1] >= describe.majority(cards[0]["classes"]) + 5
    assert kendalltau(range(len(accuracy)), accuracy).statistic > 0.5


def test_networks_by_recipe_have_learned_their_task(describe: ModuleType) -> None:
    cards = [cache_card(Cache(path)) for path in cache_directories() if BY_RECIPE.fullmatch(path.name)]
    assert cards
    accuracy: list[float] = np.mean([card["accuracy_per_layer"] for card in cards], axis=0).tolist()
    spearman, gain = describe.growth(accuracy)
    assert spearman >= 0.7
    assert gain >= 3
    assert all(card["accuracy_per_layer"][-1] >= describe.majority(card["classes"]) + 15 for card in cards)


def test_growth_is_one_for_rising_and_minus_one_for_falling_accuracy(describe: ModuleType) -> None:
    assert describe.growth([50.0, 60.0, 61.0]) == (pytest.approx(1.0), 11.0)
    assert describe.growth([61.0, 60.0, 50.0]) == (pytest.approx(-1.0), -11.0)
    assert describe.majority({"no": 1, "yes": 3}) == 75
    assert describe.majority({"no": None, "yes": None}) is None


def test_all_fixtures_together_stay_below_150_megabytes() -> None:
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < 150e6


@pytest.mark.long
def test_the_readme_says_what_the_caches_hold(describe: ModuleType) -> None:
    text = (FIXTURES / "README.md").read_text(encoding="utf-8")
    assert f"{describe.BEGIN}\n{describe.generated()}\n{describe.END}" in text, (
        "run: python scripts/describe_fixtures.py"
    )
    assert {path.name for path in cache_directories()} == {cache.name for cache in describe.described()}


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


def test_effective_rows_are_all_rows_where_each_is_a_group_and_the_groups_where_rows_are_copies(
    describe: ModuleType, tmp_path: Path
) -> None:
    logits = torch.nn.functional.one_hot(torch.tensor([0, 1, 1, 0, 1, 1]), 2).float().expand(2, 6, 2)
    for name, groups, expected in (("single", range(6), 6), ("copies", [0, 1, 1, 0, 2, 2], 3)):
        writer = CacheWriter(
            tmp_path / name, task=Task("t", ("a", "b")), split="dev", model=Model("m", None, 2, None), groups=True
        )
        with writer:
            writer.add(labels=torch.zeros(6, dtype=torch.int64), logits=logits, ids=range(6), groups=list(groups))
        assert describe.describe_networks.effective_rows(Cache(tmp_path / name)) == pytest.approx(expected)
