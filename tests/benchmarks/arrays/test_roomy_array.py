"""Large arrays lie in temporary files, and so does what is made of them; the numbers are NumPy's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exitbench.benchmarks.arrays import blockwise
from exitbench.benchmarks.arrays import scratch_space as module
from exitbench.benchmarks.arrays.roomy_array import (
    RoomyArray,
    arange,
    elements_at,
    empty,
    full,
    mapped_array,
    order_of,
    roomy,
    zeros,
)
from exitbench.benchmarks.arrays.scratch_space import lies_in_a_file
from exitbench.errors import InputError

ROWS = 1000


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array of a kilobyte or more is large, and elements are taken in odd blocks."""
    for room in (module, blockwise):
        monkeypatch.setattr(room, "memory_budget", lambda: 900)
    monkeypatch.setattr(module, "SHARE", 1)
    monkeypatch.setattr(module, "BLOCK", 137)


def in_files(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    made = empty(array.shape, array.dtype)
    made[...] = array
    assert isinstance(made, RoomyArray) and lies_in_a_file(made)
    return made


RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=ROWS)
COUNTS = RNG.integers(-3, 4, ROWS)
MASK = RNG.random(ROWS) < 0.4
LAYERS = RNG.normal(size=(3, ROWS))
SOME = RNG.integers(0, ROWS, 700)

OPERATIONS: list[tuple[str, Callable[..., Any], tuple[np.ndarray[Any, Any], ...]]] = [
    ("arithmetic", lambda a, b: (a + b) / 2 - 1, (VALUES, LAYERS)),
    ("whole numbers and a weak scalar", lambda a: (a - 1) * 2, (COUNTS.astype(np.int16),)),
    ("a comparison", lambda a: a > 0, (VALUES,)),
    ("in place", lambda a: np.add(a, 1, out=a), (VALUES,)),
    ("two results", lambda a: np.divmod(a, 7)[1], (SOME,)),
    ("division with holes", lambda a: np.divide(1.0, a, out=np.full_like(a, np.nan), where=a > 0), (VALUES,)),
    ("a running sum", np.cumsum, (VALUES,)),
    ("a running sum of truths", lambda a: np.cumsum(a, dtype=np.int32), (MASK,)),
    ("a running sum down the layers", lambda a: np.cumsum(a, axis=0), (LAYERS,)),
    ("a running or", lambda a: np.logical_or.accumulate(a > 1, axis=0), (LAYERS,)),
    ("a mask", lambda a, m: a[m], (VALUES, MASK)),
    ("a mask of layers", lambda a: a[a > 0], (LAYERS,)),
    ("a mask of columns", lambda a, m: a[:, m], (LAYERS, MASK)),
    ("some", lambda a, s: a[s], (VALUES, SOME)),
    ("some, taken", lambda a, s: a.take(s), (VALUES, SOME)),
    ("some from behind", lambda a, s: a[-s], (VALUES, SOME)),
    ("some columns", lambda a, s: a[:, s], (LAYERS, SOME)),
    ("some columns of a layer", lambda a, s: a[1, s], (LAYERS, SOME)),
    ("one of each column", lambda a, c: a[np.abs(c) % 3, np.arange(ROWS)], (LAYERS, COUNTS)),
    ("some layers", lambda a: a[np.array([2, 0])], (LAYERS,)),
    ("layers by a mask", lambda a: a[np.array([True, False, True])], (LAYERS,)),
    ("other numbers", lambda a: a.astype(np.float32), (VALUES,)),
    ("a copy", lambda a: a.copy(), (LAYERS,)),
    ("the positions of what is true", np.flatnonzero, (MASK,)),
    ("either", lambda m, a: np.where(m, a, -np.inf), (MASK, VALUES)),
    ("either, by layer", lambda a: np.where(np.array([True, False, True])[:, None], 0.5, a), (LAYERS,)),
    ("ends", lambda a: np.concatenate([[np.inf], a, [-np.inf]]), (VALUES,)),
    ("a stack", lambda a, b: np.stack([a, b]), (VALUES, COUNTS)),
    ("differences", np.diff, (VALUES,)),
    ("an order", lambda a: a[np.argsort(a)], (VALUES,)),
    ("an order of layers", lambda a: np.argsort(a, axis=1), (LAYERS,)),
    ("a stable order", lambda a: np.argsort(a, kind="stable"), (COUNTS,)),
    ("sorted", np.sort, (VALUES,)),
    ("distinct", np.unique, (SOME,)),
    ("a search in many", lambda a: np.searchsorted(np.sort(a), [0.1, -9.0, 9.0], side="right"), (VALUES,)),
    ("a search of many", lambda a: np.searchsorted(np.array([-1.0, 0.0, 1.0]), a, side="right"), (COUNTS,)),
    ("sums", lambda a: [a.sum(), a.mean(), a.std(), float(np.linalg.norm(a))], (VALUES,)),
    ("sums by layer", lambda a: a.sum(axis=1), (LAYERS,)),
    ("extremes", lambda a: [a.min(), a.max(initial=1), (a > 0).any(), (a > 0).all()], (VALUES,)),
    ("a product", lambda a, b: a @ b, (LAYERS, VALUES)),
    ("counts", np.bincount, (SOME,)),
]


def test_every_operation_gives_what_plain_arrays_give(everything_is_large: None) -> None:
    for name, operation, arrays in OPERATIONS:
        expected = operation(*(array.copy() for array in arrays))
        found = operation(*map(in_files, arrays))
        assert np.asarray(found).dtype == np.asarray(expected).dtype, name
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_large_results_lie_in_files_too_and_small_ones_do_not(everything_is_large: None) -> None:
    small = {"sums", "sums by layer", "extremes", "a product", "a search in many", "counts", "distinct"}
    for name, operation, arrays in OPERATIONS:
        if name not in small:
            found = operation(*map(in_files, arrays))
            assert lies_in_a_file(found) and isinstance(found, RoomyArray), name
    assert type(in_files(LAYERS).sum(axis=1)) is np.ndarray
    assert type(in_files(VALUES)[:5] + 1) is np.ndarray


def test_small_arrays_stay_what_they_are() -> None:
    array = np.arange(10.0)
    assert roomy(array) is array
    assert all(type(made) is np.ndarray for made in (empty(3, int), zeros((2, 2), float), arange(4), full(3, 1, int)))


def test_an_order_with_ties_infinities_and_nan_is_a_stable_sort(everything_is_large: None) -> None:
    for values in (
        np.repeat([3.0, np.nan, -np.inf, 1.0], 300),
        np.full(ROWS, 2.5),
        np.where(MASK, VALUES, np.nan),
        np.array([0.0, -0.0] * 600),
        np.arange(ROWS)[::-1].astype(np.uint16),
    ):
        np.testing.assert_array_equal(order_of(values, "stable"), np.argsort(values, kind="stable"))


def test_a_file_is_mapped_and_gives_back_what_was_read(everything_is_large: None, tmp_path: Path) -> None:
    np.save(tmp_path / "kept.npy", LAYERS)
    mapped = mapped_array(tmp_path / "kept.npy")
    assert lies_in_a_file(mapped) and lies_in_a_file(-mapped)
    np.testing.assert_array_equal(elements_at(mapped[1], SOME), LAYERS[1, SOME])


def test_an_array_is_saved_block_by_block_to_the_bytes_of_numpy(everything_is_large: None, tmp_path: Path) -> None:
    for number, array in enumerate((LAYERS, MASK, in_files(LAYERS), LAYERS[:, :0], LAYERS.T)):
        blockwise.save_blockwise(tmp_path / f"{number}-own.npy", array)
        np.save(tmp_path / f"{number}-numpy.npy", np.ascontiguousarray(array))
        assert (tmp_path / f"{number}-own.npy").read_bytes() == (tmp_path / f"{number}-numpy.npy").read_bytes()


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_pages_are_given_back_once_files_take_a_part_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARE", 1 << 20)
    before = module.resident_bytes()
    arrays = [full(4_000_000, number, np.float64) for number in range(3)]
    held = module.resident_bytes()
    assert held > before + 64e6
    monkeypatch.setattr(module, "memory_budget", lambda: 2 * held)
    module.mappings.relieve()
    assert module.resident_bytes() > before + 64e6, "there is room"
    monkeypatch.setattr(module, "memory_budget", lambda: held)
    module.mappings.relieve()
    assert module.resident_bytes() < before + 32e6
    assert [array.sum() for array in arrays] == [0, 4e6, 8e6]


def test_a_file_that_nobody_uses_serves_the_next_array_of_up_to_half_its_size_or_more() -> None:
    mappings = module.Mappings()
    first = mappings.array(100_000, np.dtype(np.float64))
    room, address = len(next(iter(mappings.mapped))), first.ctypes.data
    del first
    assert mappings.idle_bytes == room
    smaller = mappings.array(60_000, np.dtype(np.float64))
    assert smaller.ctypes.data == address and mappings.idle_bytes == 0
    del smaller
    assert mappings.array(1000, np.dtype(np.float64)).ctypes.data != address, "it would waste most of the file"


def test_a_full_disk_is_one_line(everything_is_large: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.TemporaryFile", partial(Path("/dev/full").open, "wb"))
    with pytest.raises(InputError, match=r"room for 8 MB in .*No space left.*TMPDIR"):
        zeros(10**6, np.float64)
