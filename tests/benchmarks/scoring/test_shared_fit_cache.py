"""The fit cache when others use its folder too, or when its disk refuses: every fit comes back, and none is spoilt."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from exitbench import atomic_files
from exitbench.atomic_files import whole_file
from exitbench.benchmarks.scoring import fit_cache
from exitbench.benchmarks.scoring.fit_entry import array_of, encode_entry, read_entry
from exitbench.benchmarks.scoring.fitted_scores import FittedScores
from exitbench.benchmarks.scoring.score_cache import fitted, score
from exitbench.cache import Cache, synthetic_cache
from exitbench.signals import ExitSignal
from exitbench.signals.contract.feature_statistics import pack
from exitbench.signals.edr import EDR
from tests.support.command_line import exit_code

FITS = 12
NARROW = 4000
"""Bytes of a folder that holds two fits."""

WRITER = """
import json, os, sys, time
from pathlib import Path
import numpy as np
from exitbench.benchmarks.scoring import fit_cache
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.cache import Cache
from exitbench.signals.edr import EDR
cache, folder, own, other = Cache(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
states = []
for name, largest in (("wide", 10**9), ("narrow", int(sys.argv[5]))):
    os.environ[fit_cache.VARIABLE] = str(folder / name)
    fit_cache.LARGEST = largest
    (folder / f"{name}-{own}").touch()
    while not (folder / f"{name}-{other}").exists():  # both begin at once
        time.sleep(0.001)
    states.append([fitted(EDR(), cache, np.arange(start, cache.rows)).to_json() for start in range(int(sys.argv[6]))])
print(json.dumps(states))
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(synthetic_cache(tmp_path_factory.mktemp("caches") / "small", rows=200, layers=5, classes=3, width=8))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fit cache of the test's own."""
    monkeypatch.setenv(fit_cache.VARIABLE, str(tmp_path / "fits"))
    return tmp_path / "fits"


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """On how many rows each real fit was made."""
    rows: list[int] = []
    real = EDR.learn

    def counting(self, calibration, labels):
        rows.append(len(labels))
        return real(self, calibration, labels)

    monkeypatch.setattr(EDR, "learn", counting)
    return rows


@pytest.mark.process
@pytest.mark.long
def test_two_processes_that_write_at_once_get_and_leave_whole_fits(
    cache: Cache, fits: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = all_fits(cache)
    command = [sys.executable, "-c", WRITER, str(cache.path), str(tmp_path)]
    sizes = [str(NARROW), str(FITS)]
    started = [
        subprocess.Popen([*command, own, other, *sizes], stdout=subprocess.PIPE)
        for own, other in (("first", "second"), ("second", "first"))
    ]
    for process in started:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0
        assert json.loads(out) == [expected, expected]
    held = {name: sorted((tmp_path / name).iterdir()) for name in ("wide", "narrow")}
    for entry in held["wide"] + held["narrow"]:  # nothing unfinished lies there, and everything can be believed
        read_entry(entry, entry.stem, 10**6)
    assert 0 < sum(entry.stat().st_size for entry in held["narrow"]) <= NARROW
    assert len(held["wide"]) == FITS
    monkeypatch.setenv(fit_cache.VARIABLE, str(tmp_path / "wide"))
    fits.clear()
    assert all_fits(cache) == expected
    assert fits == []


def all_fits(cache: Cache) -> list[dict]:
    """What the processes fit, as JSON has it."""
    ready = [fitted(EDR(), cache, np.arange(start, cache.rows)).to_json() for start in range(FITS)]
    states: list[dict] = json.loads(json.dumps(ready))
    return states


def test_an_entry_that_another_process_is_writing_is_left_to_it(cache: Cache, folder: Path, fits: list[int]) -> None:
    expected = fitted(EDR(), cache)
    (entry,) = folder.iterdir()
    content = entry.read_bytes()
    entry.unlink()
    with whole_file(entry) as temporary:
        temporary.write_bytes(content[:100])
        assert fitted(EDR(), cache) == expected
        assert [path.name for path in folder.iterdir()] == [temporary.name]
        temporary.write_bytes(content)
    assert entry.read_bytes() == content
    assert fitted(EDR(), cache) == expected
    assert fits == [200, 200]


def test_an_entry_that_another_process_removes_is_passed_over(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed between the listing and the look at its size, and between that and its removal."""
    folder.mkdir()
    paths = [folder / f"{str(number) * 64}.safetensors" for number in range(4)]
    for number, path in enumerate(paths):
        path.write_text("x" * 100)
        os.utime(path, (1000 + number, 1000 + number))
    real = fit_cache._states

    def slow(listed: list[Path]) -> list[tuple[int, int, Path]]:
        paths[1].unlink()
        states = real(listed)
        paths[0].unlink()
        return states

    monkeypatch.setattr(fit_cache, "_states", slow)
    fit_cache.remove_oldest(folder, 200)
    assert sorted(folder.iterdir()) == paths[2:]


def test_a_full_disk_stops_no_fit_and_leaves_nothing(
    cache: Cache, folder: Path, fits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrote = []

    def full(descriptor: int, block: memoryview) -> int:
        if wrote:
            raise OSError(errno.ENOSPC, "No space left on device")
        wrote.append(os.write(descriptor, block[:50]))
        return wrote[0]

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files.disk, "write", full)
        first = fitted(EDR(), cache)
    assert wrote == [50]
    assert list(folder.iterdir()) == []
    assert fitted(EDR(), cache) == first
    assert fits == [200, 200]
    assert len(list(folder.iterdir())) == 1


def test_a_folder_that_may_only_be_read_serves_what_it_holds(
    cache: Cache, folder: Path, fits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fitted(EDR(), cache)

    def refused(path: Path) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(fit_cache.os, "utime", refused)
    assert fitted(EDR(), cache) == expected
    assert fits == [200]


def test_an_entry_larger_than_the_folder_may_be_is_not_kept(
    cache: Cache, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(encode_entry("0" * 64, fitted(EDR(), cache).to_json()))
    (entry,) = folder.iterdir()
    entry.unlink()
    monkeypatch.setattr(fit_cache, "LARGEST", size - 1)
    fitted(EDR(), cache)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("option", [[], ["--no-fit-cache"]])
def test_the_option_keeps_nothing_and_believes_nothing(
    option: list[str], cache: Cache, folder: Path, tmp_path: Path
) -> None:
    scores = [tmp_path / f"{number}.npz" for number in (1, 2)]
    for path in scores:
        command = ["score", cache.path, "--signal", "edr", "--fit-on", cache.path, "--out", path, *option]
        assert exit_code(*command) == 0
    assert folder.exists() != bool(option)
    first, second = (dict(np.load(path)) for path in scores)
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


@pytest.fixture
def parts(cache: Cache) -> tuple[FittedScores, np.ndarray]:
    """The cache as a run asks for its fits, and the rows of one fit."""
    order = np.random.default_rng(0).permutation(cache.rows)  # a cache whose rows are not in the order of their ids
    return FittedScores({"test": cache}, {"test": order}, "labels"), np.arange(cache.rows) % 4 != 0


def asked_anew(parts: tuple[FittedScores, np.ndarray], signal: ExitSignal) -> tuple[np.ndarray, tuple[int, int]]:
    """What a run that remembers nothing itself is told of the rows that the fit has not seen."""
    fits, seen = parts
    return FittedScores(fits.caches, fits.order, fits.target).unseen(signal, "test", seen)


@pytest.mark.parametrize("damage", ["no fit", "cut", "other shape"])
def test_scores_come_back_without_the_fit_and_damaged_ones_are_made_again(
    damage: str, cache: Cache, folder: Path, fits: list[int], parts: tuple[FittedScores, np.ndarray]
) -> None:
    order, seen = parts[0].order["test"], parts[1]
    scores, size = asked_anew(parts, EDR())
    by_hand = score(cache, fitted(EDR(), cache, order[seen]))[:, order[~seen]]
    np.testing.assert_allclose(scores, by_hand, rtol=1e-12)
    assert size == (4 * 3 * 8, 150)  # prototypes of 3 classes and width 8 at 4 layers
    small, large = sorted(folder.iterdir(), key=lambda path: b"prototypes" in path.read_bytes()[:1000])
    assert len(fits) == 1
    fits.clear()
    if damage == "no fit":
        large.unlink()
    else:
        stored = read_entry(small, small.stem, 10**6)
        stored["scores"] = pack(np.zeros((4, 3)))
        content = small.read_bytes()[:-8] if damage == "cut" else encode_entry(small.stem, stored)
        small.write_bytes(content)
    again, size_again = asked_anew(parts, EDR())
    np.testing.assert_array_equal(again, scores)
    assert size_again == size
    assert fits == []  # scores that are there need no fit, and a fit that is there is not made again


def test_scores_of_other_rows_or_another_signal_are_other_entries(
    folder: Path, parts: tuple[FittedScores, np.ndarray]
) -> None:
    fits, seen = parts
    first, _ = asked_anew(parts, EDR())
    other, _ = asked_anew((fits, ~seen), EDR())
    heavier, _ = asked_anew(parts, EDR(weight=10.0))
    assert first.shape == (4, 50) and other.shape == (4, 150)
    assert not np.array_equal(first, heavier)
    assert len(list(folder.iterdir())) == 6


def test_turned_off_no_scores_are_kept(
    folder: Path, fits: list[int], parts: tuple[FittedScores, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fit_cache.VARIABLE, fit_cache.OFF)
    first, second = asked_anew(parts, EDR()), asked_anew(parts, EDR())
    np.testing.assert_array_equal(first[0], second[0])
    assert fits == [150, 150] and not folder.exists()


def test_what_is_remembered_of_one_signal_is_not_taken_for_another(
    folder: Path, fits: list[int], parts: tuple[FittedScores, np.ndarray]
) -> None:
    asked, seen = parts
    expected, _ = asked_anew(parts, EDR(weight=10.0))
    first, _ = asked.unseen(EDR(), "test", seen)
    assert asked.unseen(EDR(), "test", seen)[0] is first
    np.testing.assert_array_equal(asked.unseen(EDR(weight=10.0), "test", seen)[0], expected)


def test_an_array_without_rows_is_kept_as_one() -> None:
    empty = array_of(pack(np.zeros((0, 3))))
    assert empty is not None and empty.shape == (0, 3)
    assert array_of(("float64", [-1, 3], "")) is None
