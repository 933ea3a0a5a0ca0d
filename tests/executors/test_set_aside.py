"""What modules leave is set aside from the search for garbage: in the program's own processes only."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from exitbench.executors.set_aside import OwnProcess


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    gc.unfreeze()
    yield
    gc.unfreeze()


def test_a_process_that_is_not_the_programs_own_is_left_alone() -> None:
    OwnProcess().set_aside()
    assert gc.get_freeze_count() == 0


def test_what_is_there_is_set_aside_once_and_again_when_modules_came_along(monkeypatch: pytest.MonkeyPatch) -> None:
    process = OwnProcess()
    process.begin()
    process.set_aside()
    assert gc.get_freeze_count() > 1000
    gc.unfreeze()
    process.set_aside()
    assert gc.get_freeze_count() == 0
    monkeypatch.setitem(sys.modules, "exitbench_came_along", object())
    process.set_aside()
    assert gc.get_freeze_count() > 1000


def test_what_a_unit_drops_later_is_still_found() -> None:
    process = OwnProcess()
    process.begin()
    process.set_aside()

    class Ring:
        pass

    ring = Ring()
    ring.itself = ring  # type: ignore[attr-defined]
    del ring
    assert gc.collect() > 0
