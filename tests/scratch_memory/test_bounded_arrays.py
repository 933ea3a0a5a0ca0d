"""NumPy's arrays inside a memory budget: the same numbers, from files as soon as memory is used up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from exitbench.errors import InputError
from exitbench.scratch_memory import scratch_blocks
from exitbench.scratch_memory.bounded_arrays import arrays_within_budget, read_mapping, scratch_handler
from exitbench.scratch_memory.scratch_blocks import READ_MAPPINGS, resident_bytes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what is resident")
ENOUGH = 10**9
"""Scores that need more than any budget here."""
MB = 1 << 20


@pytest.fixture
def small_budget(monkeypatch: pytest.MonkeyPatch) -> Iterator[scratch_blocks.ScratchBlocks]:
    """A budget of 100 MB, of which arrays get half."""
    monkeypatch.setenv("EXITBENCH_MEMORY", "100MB")
    yield scratch_handler().memory


def handler_name(array: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    return str(np._core.multiarray.get_handler_name(array))


def test_arrays_beyond_the_budget_lie_in_files_and_hold_what_they_hold(
    small_budget: scratch_blocks.ScratchBlocks,
) -> None:
    before = small_budget.made
    expected = [np.sort(np.random.default_rng(seed).normal(size=2 * MB)) for seed in range(5)]
    with arrays_within_budget(ENOUGH):
        arrays = [np.random.default_rng(seed).normal(size=2 * MB) for seed in range(5)]
        for array in arrays:
            array.sort()
        small = np.zeros(10)
    assert small_budget.made - before >= 4, "80 MB of which 25 may stay in memory"
    assert handler_name(arrays[0]) == handler_name(small) == "exitbench"
    for array, right in zip(arrays, expected, strict=True):
        assert np.array_equal(array, right)
    assert handler_name(np.zeros(10)) == "default_allocator", "the block has ended"


def test_zeros_are_zeros_and_a_resized_array_keeps_its_numbers(small_budget: scratch_blocks.ScratchBlocks) -> None:
    with arrays_within_budget(ENOUGH):
        kept = [np.full(2 * MB, 7.0) for _ in range(4)]
        zeros = np.zeros(2 * MB)
        assert not zeros.any()
        for length in (3 * MB, 1000, 4 * MB):
            array = np.arange(2.0 * MB)
            array.resize(length, refcheck=False)
            same = min(length, 2 * MB)
            assert np.array_equal(array[:same], np.arange(float(same))) and not array[same:].any()
    assert all((array == 7.0).all() for array in kept)


def test_files_are_gone_with_their_arrays(small_budget: scratch_blocks.ScratchBlocks) -> None:
    with arrays_within_budget(ENOUGH):
        arrays = [np.ones(2 * MB) for _ in range(6)]
        held = len(small_budget._files)
        del arrays
        assert held >= 4 and len(small_budget._files) <= held - 4


def test_what_is_resident_keeps_to_the_budget(small_budget: scratch_blocks.ScratchBlocks) -> None:
    """Forty arrays of 16 MB, each written in full: 640 MB, of which 100 may be there."""
    ended, most = threading.Event(), [0]

    def look() -> None:
        while not ended.wait(0.005):
            most[0] = max(most[0], resident_bytes())

    start = resident_bytes()
    watch = threading.Thread(target=look)
    watch.start()
    with arrays_within_budget(ENOUGH):
        arrays = [np.full(2 * MB, float(number)) for number in range(40)]
        total = sum(float(array[::4096].sum()) for array in arrays)
    ended.set()
    watch.join()
    assert total == sum(range(40)) * 2 * MB / 4096
    assert most[0] - min(start, small_budget._libraries) < 300 * MB


def test_pages_of_files_that_are_read_are_let_go_too(
    small_budget: scratch_blocks.ScratchBlocks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "scores.npy", np.arange(4.0 * MB))
    mapped = np.load(tmp_path / "scores.npy", mmap_mode="r")
    read_mapping(mapped)
    assert mapped._mmap in READ_MAPPINGS
    total, there = mapped.sum(), resident_bytes()
    monkeypatch.setattr(small_budget, "_libraries", -(10**9))  # as if the process had far more than its budget
    small_budget.let_go()
    assert resident_bytes() < there - 24 * MB
    assert mapped.sum() == total


def test_work_that_fits_is_left_alone(small_budget: scratch_blocks.ScratchBlocks) -> None:
    with arrays_within_budget(1000):
        assert handler_name(np.zeros(10)) == "default_allocator"


def test_a_full_disk_is_one_line(small_budget: scratch_blocks.ScratchBlocks, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with (
        pytest.raises(InputError, match=r"room in .* found: \[Errno 28\] No space left on device .*--memory"),
        arrays_within_budget(ENOUGH),
    ):
        np.zeros(40 * MB)


def test_a_stop_amid_an_allocation_comes_again_and_breaks_nothing(
    small_budget: scratch_blocks.ScratchBlocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = small_budget._in_file

    def stopped(size: int) -> int:
        signal.raise_signal(signal.SIGINT)
        return make(size)

    monkeypatch.setattr(small_budget, "_in_file", stopped)
    monkeypatch.setattr(scratch_blocks, "PAUSE", 5.0)  # after the array is there
    made: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    with pytest.raises(KeyboardInterrupt), arrays_within_budget(ENOUGH):
        made.append(np.empty(20 * MB))
        threading.Event().wait(60)
    made[0][:] = 3.0
    assert (made[0][::1000] == 3.0).all()


SURVIVOR = """
import numpy as np
from exitbench.scratch_memory.bounded_arrays import arrays_within_budget
with arrays_within_budget(10**9):
    kept = [np.ones(n) for n in (10, 1 << 18, 1 << 22, 1 << 24)]
np.kept = kept  # goes after everything of Python's own
print(sum(array[-1] for array in kept))
"""


@pytest.mark.process
def test_arrays_may_outlive_everything_else_of_the_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SURVIVOR],
        env={**os.environ, "EXITBENCH_MEMORY": "100MB"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "4.0\n", "")
