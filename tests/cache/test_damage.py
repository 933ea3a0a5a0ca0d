"""Damaged, oversized and hollow caches: refused in a line, never copied as if they were good."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from exitbench import atomic_files
from exitbench.cache import Cache, CacheWriter, Model, Task, compact, import_arrays, synthetic_cache, verify
from exitbench.cache.format.manifest_file import MOST_SHARDS, read_manifest
from exitbench.errors import InputError
from tests.support.cache_writing import remove_norms


def flip_last_byte(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


@pytest.mark.parametrize("name", ["shard-00001.safetensors", "heads.safetensors"])
def test_compact_refuses_a_damaged_file_and_leaves_nothing(cache: Path, tmp_path: Path, name: str) -> None:
    flip_last_byte(cache / name)
    with pytest.raises(InputError, match=f"{name}: changed: expected sha256"):
        compact(cache, tmp_path / "small")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]


@pytest.mark.parametrize("name", ["shard-00001.safetensors", "shard-00001.features.safetensors"])
def test_compact_refuses_damage_where_it_computes_norms(tmp_path: Path, name: str) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=70, layers=3, width=8, shard_rows=32)
    remove_norms(cache)
    compact(cache, tmp_path / "good")
    assert verify(tmp_path / "good") == []
    flip_last_byte(cache / name)
    with pytest.raises(InputError, match=f"{name}: changed"):
        compact(cache, tmp_path / "small")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "good"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device"), RuntimeError("x")])
def test_compact_leaves_no_partial_folder(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    written: list[int] = []
    original = atomic_files.Disk.write

    def fails_later(disk: atomic_files.Disk, descriptor: int, block: memoryview) -> int:
        written.append(descriptor)
        if len(written) == 3:
            raise error
        return original(disk, descriptor, block)

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files.Disk, "write", fails_later)
        with pytest.raises((KeyboardInterrupt, InputError, RuntimeError)):
            compact(cache, tmp_path / "small")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache"]


def test_what_a_kill_left_of_compact_is_removed_by_the_next_one(cache: Path, tmp_path: Path) -> None:
    left = tmp_path / ".small.partial"
    left.mkdir()
    (left / "shard-00000.safetensors").write_text("half")
    compact(cache, tmp_path / "small")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", "small"]
    assert verify(tmp_path / "small") == []


def test_features_are_hashed_only_where_they_are_read(cache: Path) -> None:
    Cache(cache).require_unchanged()
    flip_last_byte(cache / "shard-00002.features.safetensors")
    Cache(cache).require_unchanged(features=False)
    with pytest.raises(InputError, match=r"shard-00002\.features\.safetensors: changed"):
        Cache(cache).require_unchanged()


@pytest.mark.long
def test_a_manifest_of_very_many_shards_is_refused_within_a_second(cache: Path) -> None:
    manifest = json.loads((cache / "manifest.json").read_text())
    first = {"rows": 1, "file": "shard-00000.safetensors", "sha256": "0" * 64}
    manifest["shards"] = [first] * 100_000
    (cache / "manifest.json").write_text(json.dumps(manifest, separators=(",", ":")))
    start = time.process_time()
    with pytest.raises(InputError, match=f"expected at most {MOST_SHARDS:,} shards, found 100,000"):
        read_manifest(cache)
    assert time.process_time() - start < 1


def test_a_shard_that_is_almost_all_holes_is_refused(cache: Path) -> None:
    shard = cache / "shard-00000.safetensors"
    with shard.open("r+b") as stream:
        stream.truncate(2**32)
    if shard.stat().st_blocks * 512 > 2**26:
        pytest.skip("the file system stores holes")
    with pytest.raises(InputError, match="the file is almost all holes"):
        Cache(cache)


def test_a_writer_refuses_more_shards_than_a_reader_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exitbench.cache.format.unfinished_cache.MOST_SHARDS", 3)
    writer = CacheWriter(
        tmp_path / "c", task=Task("demo", ("no", "yes")), split="dev", model=Model("m", None, 2, None), shard_rows=2
    )
    with pytest.raises(InputError, match="expected at most 3 shards, found more; give larger ones"), writer:
        writer.add(labels=np.zeros(8, int), logits=np.zeros((2, 8, 2), "float32"))


def test_a_writer_that_is_told_of_more_shards_than_a_reader_takes_makes_none(tmp_path: Path) -> None:
    writer = CacheWriter(
        tmp_path / "c", task=Task("demo", ("no", "yes")), split="dev", model=Model("m", None, 2, None), shard_rows=2
    )
    assert next(writer.pending(20_000)) == range(2)
    with pytest.raises(InputError, match="at most 10,000 shards, found 20,001 rows, which make 10,001 of 2"):
        next(writer.pending(20_001))


def test_features_whose_norms_overflow_are_refused_before_a_cache_is_complete(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 2, 4)).astype("float32"), np.zeros((3, 2), "float32")
    features = rng.normal(size=(3, 10, 4)).astype("float32")
    features[1, 7] = 2e19
    logits = np.einsum("mnw,mcw->mnc", features, weight)
    np.savez(tmp_path / "a.npz", labels=np.zeros(10, int), logits=logits, features=features, weight=weight, bias=bias)
    with pytest.raises(InputError, match="expected finite offset_norm, found inf at layer 2, row 7"):
        import_arrays(tmp_path / "a.npz", tmp_path / "c", task="demo", split="dev")
    assert not read_manifest(tmp_path / "c").complete


def test_norms_that_the_logits_forbid_are_found_without_features(cache: Path, tmp_path: Path) -> None:
    compact(cache, tmp_path / "small")
    shard = tmp_path / "small/shard-00001.safetensors"
    tensors = load_file(shard)
    tensors["offset_norm"][2, 5] *= 0.01
    save_file(tensors, shard)
    assert any("logits inconsistent with offset_norm: expected at least" in line for line in verify(tmp_path / "small"))


FEW_FILES = """
import resource, sys
from pathlib import Path
import numpy as np
from exitbench.benchmarks.scoring.score_cache import score_all
from exitbench.cache import Cache, compact, import_arrays, verify
from exitbench.signals import load_registry
signals = [load_registry().make(text) for text in ("deebert", "cap")]
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
folder = Path(sys.argv[1])
import_arrays(folder / "a.npz", folder / "c", task="demo", split="dev", shard_rows=2)
assert len(Cache(folder / "c").shards) == 300
assert verify(folder / "c") == []
compact(folder / "c", folder / "small")
scores = score_all(Cache(folder / "small"), signals)
assert scores[0].shape == (2, 600), scores[0].shape
assert Cache(folder / "small").predictions().shape == (3, 600)
assert Cache(folder / "c").features(2).shape == (600, 4)
"""


@pytest.mark.process
@pytest.mark.skipif(os.name != "posix", reason="limits of open files are set by resource")
def test_300_shards_need_no_300_open_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight, bias = rng.normal(size=(3, 2, 4)).astype("float32"), np.zeros((3, 2), "float32")
    features = rng.normal(size=(3, 600, 4)).astype("float32")
    logits = np.einsum("mnw,mcw->mnc", features, weight)
    labels = rng.integers(2, size=600)
    np.savez(tmp_path / "a.npz", labels=labels, logits=logits, features=features, weight=weight, bias=bias)
    words = [sys.executable, "-c", FEW_FILES, str(tmp_path)]
    finished = subprocess.run(words, check=False, capture_output=True, text=True, timeout=200)
    assert finished.returncode == 0, finished.stderr[-2000:]
