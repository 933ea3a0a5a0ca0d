"""How many processes a run starts by itself."""

import pytest

from exitbench.benchmarks.suites.suite_file import load_suite, suite_of_caches
from exitbench.cli.options.jobs_option import processes_for
from exitbench.places import FIXTURES

RTE = FIXTURES / "caches" / "mpnet-base-rte-dev"
PUBLISHED = ("deebert", "right-tool", "pabee", "f-pabee[patience=1|2|3|4|5|6]", "pcee[patience=1|2|3|4|5|6]", "cap")


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)


def test_two_signals_on_a_small_cache_are_one_process_and_the_published_ones_are_more() -> None:
    suite = suite_of_caches([RTE])
    assert processes_for([suite.with_signals(("deebert", "cap"))]) == 1
    assert processes_for([suite.with_signals(PUBLISHED)]) == 4, "grids count by their values, 16 configurations"
    assert processes_for([load_suite("paper").with_signals(("deebert", "cap"))]) == 4, "eight caches"


def test_the_work_of_several_suites_adds_up() -> None:
    suite = suite_of_caches([RTE]).with_signals(("deebert", "cap", "nsp", "e-lang", "pabee"))
    assert [processes_for([suite] * count) for count in (1, 2)] == [1, 4]
