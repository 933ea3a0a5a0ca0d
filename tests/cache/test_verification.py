from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from exitbench.cache import Cache, compact, synthetic_cache, unlisted_files, verify
from exitbench.errors import InputError
from tests.support.cache_writing import remove_norms


def rewrite(path: Path, name: str, value: torch.Tensor) -> None:
    save_file(load_file(path) | {name: value.contiguous()}, path)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_good_cache_has_no_defect(tmp_path: Path, dtype: str) -> None:
    path = synthetic_cache(tmp_path / "c", rows=300, layers=3, width=64, feature_dtype=dtype)  # type: ignore[arg-type]
    assert verify(path) == []


def test_a_changed_byte_in_any_file_is_found(cache: Path) -> None:
    for path in sorted(cache.glob("*.safetensors")):
        original = path.read_bytes()
        path.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
        problems = verify(cache)
        assert any(path.name in problem and "changed" in problem for problem in problems), path.name
        path.write_bytes(original)
    assert verify(cache) == []


def test_a_missing_feature_file_is_found(cache: Path) -> None:
    (cache / "shard-00002.features.safetensors").unlink()
    assert any("shard-00002.features.safetensors: expected a file" in problem for problem in verify(cache))


def test_logits_that_the_features_do_not_give_are_found_with_the_place(cache: Path) -> None:
    path = cache / "shard-00001.safetensors"
    logits = load_file(path)["logits"]
    logits[2, 7, 1] += 0.5
    rewrite(path, "logits", logits)
    problems = verify(cache)
    assert any("features inconsistent with logits" in p and "layer 3, row 39, class 1" in p for p in problems)


def test_norms_that_the_features_do_not_give_are_found(cache: Path) -> None:
    path = cache / "shard-00000.safetensors"
    rewrite(path, "offset_norm", load_file(path)["offset_norm"] * 1.1)
    assert any("inconsistent with offset_norm" in problem for problem in verify(cache))


def test_swapped_heads_are_found(cache: Path) -> None:
    path = cache / "heads.safetensors"
    rewrite(path, "weight", load_file(path)["weight"].flip(0))
    assert any("inconsistent with logits" in problem for problem in verify(cache))


def test_what_cannot_be_opened_is_one_problem(tmp_path: Path) -> None:
    assert len(verify(tmp_path / "nowhere")) == 1


def test_numbers_that_are_not_finite_are_found(cache: Path) -> None:
    path = cache / "shard-00000.safetensors"
    logits = load_file(path)["logits"]
    logits[0, 0, 0] = float("nan")
    rewrite(path, "logits", logits)
    assert any("found nan at layer 1, row 0" in problem for problem in verify(cache))


# -- compact copies ------------------------------------------------------------------------------------


def test_a_compact_copy_keeps_all_other_bytes(cache: Path, tmp_path: Path) -> None:
    compact(cache, tmp_path / "small")
    names = {path.name for path in (tmp_path / "small").iterdir()}
    assert names == {path.name for path in cache.iterdir() if "features" not in path.name}
    for name in names - {"manifest.json"}:
        assert (tmp_path / "small" / name).read_bytes() == (cache / name).read_bytes()
    assert verify(tmp_path / "small") == []
    full, small = Cache(cache), Cache(tmp_path / "small")
    for m in range(1, full.layers + 1):
        assert torch.equal(full.offset_norms(m), small.offset_norms(m))


def test_a_compact_copy_computes_norms_that_were_not_stored(cache: Path, tmp_path: Path) -> None:
    remove_norms(cache)
    expected = [Cache(cache).offset_norms(m) for m in range(1, 5)]
    compact(cache, tmp_path / "small")
    small = Cache(tmp_path / "small")
    assert small.stores_offset_norms
    assert all(torch.equal(small.offset_norms(m), expected[m - 1]) for m in range(1, 5))
    assert verify(tmp_path / "small") == []


def test_a_cache_without_heads_can_be_compacted(tmp_path: Path) -> None:
    source = synthetic_cache(tmp_path / "source", rows=10, layers=2, width=4, heads=False)
    compact(source, tmp_path / "small")
    assert not Cache(tmp_path / "small").has_offset_norms


def test_a_target_with_files_is_left_alone(cache: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "x").write_text("precious")
    with pytest.raises(InputError, match="found other files"):
        compact(cache, target)
    with pytest.raises(InputError, match="found other files"):
        compact(cache, cache)
    assert (target / "x").read_text() == "precious"


def test_an_empty_target_is_used(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    compact(cache, tmp_path / "target")
    assert verify(tmp_path / "target") == []


def test_files_that_the_manifest_does_not_list_are_named_and_leave_the_cache_good(cache: Path, tmp_path: Path) -> None:
    assert unlisted_files(cache) == []
    for name in ("array.py", ".shard-00009.safetensors.partial", "shard-00009.safetensors"):
        (cache / name).write_text("")
    (cache / "folder").mkdir()
    assert unlisted_files(cache) == [
        ".shard-00009.safetensors.partial",
        "array.py",
        "folder",
        "shard-00009.safetensors",
    ]
    assert verify(cache) == []
    compact(cache, tmp_path / "small")
    assert unlisted_files(tmp_path / "small") == []
    assert unlisted_files(tmp_path) == []
