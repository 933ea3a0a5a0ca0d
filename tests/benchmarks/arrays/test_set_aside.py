"""Large arrays that are needed later lie in few temporary files, and are the same when they are read again."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exitbench.benchmarks.arrays import scratch_space
from exitbench.benchmarks.arrays import set_aside as module
from exitbench.benchmarks.arrays.set_aside import SetAside
from exitbench.errors import InputError


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch_space, "memory_budget", lambda: 0)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_small_array_stays_where_it_is() -> None:
    array = np.arange(10.0)
    assert SetAside()(array) is array


def test_arrays_of_every_kind_come_back_unchanged_and_read_only(no_memory: None) -> None:
    keep, rng = SetAside(), np.random.default_rng(0)
    arrays = [
        rng.normal(size=(3, 70)),
        rng.integers(0, 9, 101),
        rng.normal(size=(5, 8)).T,
        np.array([np.nan, np.inf, -0.0]),
        rng.random((2, 33)) < 0.5,
        np.zeros((4, 0)),
    ]
    stored = [keep(array) for array in arrays]
    for array, again in zip(arrays, stored, strict=True):
        assert again.dtype == array.dtype and again.shape == array.shape
        np.testing.assert_array_equal(again, array)
    assert not stored[0].flags.writeable
    assert keep.file is not None and keep.file.used > sum(array.nbytes for array in arrays) - 64


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_hundreds_of_arrays_need_few_open_files_and_none_once_they_are_gone(
    no_memory: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1 << 20)
    before, keep = open_files(), SetAside()
    arrays = [keep(np.full(1000, number)) for number in range(600)]  # 4.8 MB
    assert before < open_files() <= before + 2 * 5
    assert all((array == number).all() for number, array in enumerate(arrays))
    del arrays, keep
    assert open_files() == before


def test_an_array_larger_than_a_file_has_one_of_its_own(no_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 1000)
    keep = SetAside()
    small, large, after = np.arange(10), np.arange(5000), np.arange(7)
    for array, again in [(array, keep(array)) for array in (small, large, after)]:
        np.testing.assert_array_equal(array, again)


def test_a_forked_process_writes_into_a_file_of_its_own(no_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = SetAside()
    first = keep(np.arange(5))
    parents = keep.file
    monkeypatch.setattr("os.getpid", lambda: -1)
    second = keep(np.arange(5, 10))
    assert keep.file is not parents
    assert first.tolist() == [0, 1, 2, 3, 4] and second.tolist() == [5, 6, 7, 8, 9]


def test_a_full_disk_is_one_line(no_memory: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk(io.FileIO):
        """Where nothing can be written, on a real full device."""

        def write(self, data: Any) -> int:
            with Path("/dev/full").open("wb", buffering=0) as full:
                return full.write(data)

    monkeypatch.setattr(module, "unbuffered_file", lambda: FullDisk(tmp_path / "disk", "w+"))
    with pytest.raises(InputError, match=r"room for 8 MB in .*No space left.*TMPDIR"):
        SetAside()(np.zeros(10**6))
