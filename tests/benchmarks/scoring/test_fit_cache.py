"""The fit cache: a second run does not fit again, anything that could change a fit does, and no damage is believed."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from exitbench.benchmarks.run.score_stage import score_signals
from exitbench.benchmarks.scoring import fit_cache, fit_entry
from exitbench.benchmarks.scoring.fit_cache import fit_cache_folder, fit_key, remove_oldest
from exitbench.benchmarks.scoring.score_cache import fitted, score
from exitbench.benchmarks.suites.questions import Questions
from exitbench.cache import Cache, synthetic_cache
from exitbench.signals import ExitSignal, load_registry
from exitbench.signals.meta import Meta

REGISTRY = load_registry()


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    return Cache(synthetic_cache(tmp_path_factory.mktemp("caches") / "small", rows=200, layers=5, classes=3, width=8))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fit cache of the test's own."""
    monkeypatch.setenv(fit_cache.VARIABLE, str(tmp_path / "fits"))
    return tmp_path / "fits"


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The signals that were really fitted."""
    texts: list[str] = []
    real = Meta.learn

    def counting(self, calibration, labels):
        texts.append(self.text)
        return real(self, calibration, labels)

    monkeypatch.setattr(Meta, "learn", counting)
    return texts


@pytest.mark.long
def test_a_second_run_does_not_fit_again_and_gives_the_same_bits(cache: Cache, folder: Path, fits: list[str]) -> None:
    questions = Questions(protocols=("in-sample", "cross-fit"), resamples=2, promises=False)
    first = score_signals(cache, [Meta()], questions)
    assert len(fits) == 5 + 10  # one a fold, and one for each pair of folds that are left out
    assert len(list(folder.glob("*.safetensors"))) == 2 * len(fits)  # each with the scores of the other rows
    fits.clear()
    second = score_signals(cache, [Meta()], questions)
    assert fits == []
    for variant in ("in-sample", "fold-0", "fold-4"):
        np.testing.assert_array_equal(first.scores(0, variant).values, second.scores(0, variant).values)


@pytest.mark.long
def test_a_damaged_or_foreign_entry_is_fitted_again_and_mended(cache: Cache, folder: Path, fits: list[str]) -> None:
    expected = fitted(Meta(features=True), cache)
    (entry,) = folder.glob("*.safetensors")
    whole, key = entry.read_bytes(), entry.stem
    stored = fit_entry.read_entry(entry, key, 10**6)
    stored["learned"]["weights"][0][0] += 1e-3
    other_key = fit_entry.encode_entry("0" * 64, expected.to_json())
    unfitted = fit_entry.encode_entry(key, Meta(features=True).to_json())
    foreign = fit_entry.encode_entry(key, {"name": "meta", "learned": [1]})
    flipped = bytearray(whole)
    flipped[-100] ^= 1
    deep = b"[" * 100_000
    nested = len(deep).to_bytes(8, "little") + deep
    bomb = (2**62).to_bytes(8, "little") + whole[8:]
    for damage in (
        b"",
        whole[:-100],
        whole[:40],
        bytes(flipped),
        other_key,
        unfitted,
        foreign,
        nested,
        bomb,
        b"\0" * 99,
    ):
        entry.write_bytes(damage)
        fits.clear()
        assert fitted(Meta(features=True), cache) == expected
        assert fits == ["meta[features=true]"], f"believed {damage[:60]!r}"
        assert entry.read_bytes() == whole


def test_an_entry_that_is_no_plain_file_is_not_read(
    cache: Cache, folder: Path, fits: list[str], tmp_path: Path
) -> None:
    expected = fitted(Meta(), cache)
    (entry,) = folder.glob("*.safetensors")
    elsewhere = tmp_path / "elsewhere"
    entry.rename(elsewhere)
    entry.symlink_to(elsewhere)
    fits.clear()
    assert fitted(Meta(), cache) == expected
    assert fits == ["meta"]
    assert not entry.is_symlink()


@pytest.mark.parametrize("text", ["berxit", "calibrated[of=edr]", "meta", "palbert", "vim"])
def test_arrays_are_tensors_and_come_back_to_the_last_bit(text: str, cache: Cache, folder: Path) -> None:
    first = fitted(REGISTRY.make(text), cache)
    (entry,) = folder.glob("*.safetensors")
    tensors = safetensors.numpy.load(entry.read_bytes())
    numbers = sum(tensor.size for tensor in tensors.values())
    assert numbers == (0 if text == "meta" else pytest.approx(first.fitted_parameters, abs=20))
    assert fitted(REGISTRY.make(text), cache).to_json() == first.to_json()


def test_what_only_looks_like_an_array_stays_as_it_is() -> None:
    odd = {"a": ["float64", [2], "not base64!"], "b": ["float64", [3], "AAAA"], "c": ["int8", [1], "AA=="]}
    for pairs in (odd, {"d": ["float64", [-1], ""]}):
        tensors: dict = {}
        assert fit_entry.without_arrays(pairs, tensors) == pairs
        assert tensors == {}


def keys(signal: ExitSignal, cache: Cache, rows: np.ndarray, labels: np.ndarray) -> str:
    key = fit_key(signal, cache, rows, labels)
    assert key is not None
    return key


def test_whatever_a_fit_depends_on_makes_another_entry(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.arange(cache.rows)
    labels = cache.labels
    other_cache = Cache(synthetic_cache(tmp_path / "other", rows=200, layers=5, classes=3, width=8, seed=1))
    flipped = labels.copy()
    flipped[0] = (flipped[0] + 1) % 3
    different = [
        keys(Meta(), cache, rows, labels),
        keys(Meta(target="final"), cache, rows, labels),
        keys(Meta(features=True), cache, rows, labels),
        keys(dataclasses.replace(Meta(), untaught=((1, 3, 200),)), cache, rows, labels),
        keys(REGISTRY.make("eenet"), cache, rows, labels),
        keys(REGISTRY.make("calibrated[of=cap]"), cache, rows, labels),
        keys(REGISTRY.make("calibrated[of=e-lang]"), cache, rows, labels),
        keys(Meta(), cache, rows[1:], labels[1:]),
        keys(Meta(), cache, rows, flipped),
        keys(Meta(), other_cache, rows, labels),
    ]
    assert len(set(different)) == len(different)
    assert keys(Meta(), cache, rows, labels) == different[0]
    monkeypatch.setattr(fit_cache, "fit_versions", lambda: {"torch": "another"})
    assert keys(Meta(), cache, rows, labels) != different[0]


def test_an_edited_signal_of_ones_own_is_fitted_again(tmp_path: Path, cache: Cache, folder: Path) -> None:
    source = Path(__file__).parents[3] / "signals" / "beem.py"
    text = source.read_text().replace('"beem"', '"my-beem"')
    for number, edited in enumerate((text, text + "\n# edited\n"), start=1):
        own = tmp_path / f"own-{number}"
        own.mkdir()
        (own / "my_beem.py").write_text(edited)
        fitted(load_registry([own]).make("my-beem[weights=accuracy]"), cache)
        assert len(list(folder.glob("*.safetensors"))) == number


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    entries = [tmp_path / f"{str(number) * 64}.safetensors" for number in range(6)]
    for number, entry in enumerate(entries):
        entry.write_text("x" * 100)
        os.utime(entry, (1000 + number, 1000 + number))
    os.utime(entries[0], (2000, 2000))
    remove_oldest(tmp_path, 350)
    assert sorted(tmp_path.iterdir()) == [entries[0], entries[4], entries[5]]


def test_what_a_killed_process_left_of_an_entry_goes_in_its_turn(tmp_path: Path) -> None:
    left, entry = tmp_path / f".{'a' * 64}.safetensors.partial", tmp_path / f"{'b' * 64}.safetensors"
    for number, path in enumerate((left, entry)):
        path.write_text("x" * 100)
        os.utime(path, (1000 + number, 1000 + number))
    remove_oldest(tmp_path, 150)
    assert list(tmp_path.iterdir()) == [entry]


def test_files_of_the_user_in_the_same_folder_are_never_removed(tmp_path: Path) -> None:
    names = ["shard-00000.safetensors", "results.json", f"{'g' * 64}.json", f"{'a' * 63}.safetensors", ".notes.partial"]
    for name in names:
        (tmp_path / name).write_text("x" * 100)
    for entry in (f"{'a' * 64}.safetensors", f".{'b' * 64}.safetensors.partial"):  # an entry, and an unfinished one
        (tmp_path / entry).write_text("x" * 100)
    remove_oldest(tmp_path, 50)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_a_used_entry_counts_as_new(cache: Cache, folder: Path) -> None:
    fitted(Meta(), cache)
    (entry,) = folder.glob("*.safetensors")
    os.utime(entry, (1000, 1000))
    fitted(Meta(), cache)
    assert entry.stat().st_mtime > 1_000_000


def test_the_folder_stays_below_its_limit(cache: Cache, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_cache, "LARGEST", 5000)
    for start in range(4):
        fitted(Meta(), cache, np.arange(start, cache.rows))
    sizes = [path.stat().st_size for path in folder.glob("*.safetensors")]
    assert sizes and sum(sizes) <= 5000


def test_a_folder_is_looked_through_again_only_when_its_room_may_be_filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(fit_cache, "remove_oldest", lambda folder, largest: looks.append(largest) or 360)
    room = fit_cache.Room()
    for _ in range(11):  # of the 640 bytes that are free, this process may take 10
        room.fill(tmp_path, 1000, 1)
    assert len(looks) == 1
    room.fill(tmp_path, 1000, 1)
    room.fill(tmp_path / "other", 1000, 1)
    assert len(looks) == 3


def test_turned_off_nothing_is_written_and_every_fit_is_real(
    cache: Cache, folder: Path, fits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(fit_cache.VARIABLE, fit_cache.OFF)
    fitted(Meta(), cache)
    fitted(Meta(), cache)
    assert fits == ["meta", "meta"]
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_stops_nothing(
    cache: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(fit_cache.VARIABLE, str(tmp_path / "file" / "fits"))
    assert score(cache, "meta", fit_on=cache).shape == (4, 200)


def test_a_class_made_inside_a_function_is_not_kept(cache: Cache, folder: Path) -> None:
    class Local(Meta):
        pass

    fitted(Local(), cache)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/somewhere"}, "/somewhere/exitbench/fits"),
        ("linux", {}, "/home/me/.cache/exitbench/fits"),
        ("darwin", {}, "/home/me/Library/Caches/exitbench/fits"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/exitbench/Cache/fits"),
    ],
)
def test_the_folder_is_where_the_platform_keeps_caches(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", fit_cache.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(fit_cache.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/me"))
    assert fit_cache_folder() == Path(expected)
