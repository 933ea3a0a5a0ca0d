"""The networks on texts: what their commands say is what made the committed caches."""

import shlex
from types import ModuleType

import pytest

from exitbench.cache import read_manifest
from exitbench.places import CACHES
from tests.support.scripts import script


@pytest.fixture(scope="module")
def networks() -> ModuleType:
    return script("text_networks")


def test_a_caches_command_is_that_of_its_network(networks: ModuleType) -> None:
    compared = 0
    for network in networks.NETWORKS:
        for split in network.splits:
            folder = CACHES / network.cache_name(split)
            if folder.exists():
                recorded = read_manifest(folder).provenance.command
                assert shlex.split(recorded) == ["exitbench", *network.collect_words(split)]
                compared += 1
    assert compared >= 70


def test_a_seeds_networks_start_from_its_own_network_of_the_first_task(networks: ModuleType) -> None:
    by_name = {network.name: network for network in networks.NETWORKS}
    assert len(by_name) == len(networks.NETWORKS)
    for name, network in by_name.items():
        start = network.train_words[network.train_words.index("--model") + 1]
        if not network.seed or network.task.name == "mnli":
            assert start == network.encoder
        else:
            first = by_name[start.removeprefix("models/")]
            assert (first.task.name, first.seed, first.encoder) == ("mnli", network.seed, network.encoder)
            # A network can only start from one that was made before.
            assert list(by_name).index(first.name) < list(by_name).index(name)


@pytest.mark.parametrize(("rows", "passes"), [(2_190, 2), (3_268, 1), (7_999, 1), (35_800, 1), (1_000, 4)])
def test_small_tasks_are_passed_several_times(networks: ModuleType, rows: int, passes: int) -> None:
    assert networks.Task("t", rows).epochs(networks.SEED_ROWS_SEEN) == passes
