import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from exitbench.cache import Cache, synthetic_cache
from exitbench.cache.format.manifest import MANIFEST
from exitbench.errors import InputError


def whole(cache: Path, name: str, *, features: bool = False) -> torch.Tensor:
    """A tensor of all shards together, read by the safetensors library."""
    ending = ".features.safetensors" if features else ".safetensors"
    files = sorted(path for path in cache.glob("shard-*") if path.name.removeprefix("shard-")[5:] == ending)
    parts = [load_file(path)[name] for path in files]
    return torch.cat(parts, dim=0 if parts[0].ndim == 1 else 1)


def test_every_accessor_gives_what_the_safetensors_library_reads(cache: Path) -> None:
    opened = Cache(cache)
    assert (opened.rows, opened.layers, opened.classes, opened.width) == (70, 4, 3, 8)
    np.testing.assert_array_equal(opened.labels, whole(cache, "labels").numpy())
    np.testing.assert_array_equal(opened.ids, np.arange(70))
    heads = load_file(cache / "heads.safetensors")
    for m in range(1, 5):
        assert torch.equal(opened.logits(m), whole(cache, "logits")[m - 1])
        assert torch.equal(opened.features(m), whole(cache, "features", features=True)[m - 1])
        assert torch.equal(opened.offset_norms(m), whole(cache, "offset_norm")[m - 1])
        assert torch.equal(opened.head(m).weight, heads["weight"][m - 1].double())
    assert np.array_equal(opened.predictions(), whole(cache, "logits").argmax(dim=2).numpy())


def test_heads_of_a_model_whose_width_is_not_stated_have_the_width_of_their_weights(cache: Path) -> None:
    manifest = json.loads((cache / MANIFEST).read_text())
    manifest["model"]["width"] = None
    (cache / MANIFEST).write_text(json.dumps(manifest))
    assert Cache(cache).head(2).weight.shape == (3, 8)


@pytest.mark.parametrize(
    "rows", [slice(0, 5), slice(30, 40), slice(0, 70), slice(64, 70), slice(5, 5), slice(-3, None)]
)
def test_a_range_of_rows_may_cross_shards(cache: Path, rows: slice) -> None:
    opened = Cache(cache)
    assert torch.equal(opened.logits(2, rows), whole(cache, "logits")[1][rows])
    assert torch.equal(opened.features(2, rows), whole(cache, "features", features=True)[1][rows])


def test_rows_with_a_step_are_refused(cache: Path) -> None:
    with pytest.raises(InputError, match="contiguous"):
        Cache(cache).logits(1, slice(0, 10, 2))


@pytest.mark.parametrize("layer", [0, 5, -1])
def test_a_layer_outside_the_network_is_refused(cache: Path, layer: int) -> None:
    with pytest.raises(InputError, match=r"expected a layer in 1\.\.4"):
        Cache(cache).logits(layer)
    with pytest.raises(InputError, match=r"expected a layer in 1\.\.4"):
        Cache(cache).head(layer)


def test_blocks_cover_the_rows_once_and_never_cross_a_shard(cache: Path) -> None:
    blocks = list(Cache(cache).blocks(20))
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(70))
    assert all(block.start // 32 == (block.stop - 1) // 32 for block in blocks)


def test_writing_into_a_block_leaves_the_file_as_it_was(cache: Path) -> None:
    before = (cache / "shard-00000.safetensors").read_bytes()
    Cache(cache).logits(1, slice(0, 5)).zero_()
    assert (cache / "shard-00000.safetensors").read_bytes() == before


def test_logits_and_norms_are_read_when_feature_files_cannot_be(cache: Path) -> None:
    for path in cache.glob("*.features.safetensors"):
        path.unlink()
        path.mkdir()
    opened = Cache(cache)
    assert opened.logits(3).shape == (70, 3)
    assert opened.offset_norms(3).shape == (70,)
    assert opened.predictions().shape == (4, 70)
    with pytest.raises(InputError, match="expected a regular file"):
        opened.features(1)


def test_norms_that_are_not_stored_are_computed_from_features_and_heads(cache: Path) -> None:
    stored = [Cache(cache).offset_norms(m) for m in range(1, 5)]
    for path in sorted(cache.glob("shard-?????.safetensors")):
        tensors = load_file(path)
        del tensors["offset_norm"]
        save_file(tensors, path)
    opened = Cache(cache)
    assert opened.has_offset_norms
    assert not opened.stores_offset_norms
    for m in range(1, 5):
        # The stored norms come from unrounded features: half a unit of float16 apart at most.
        torch.testing.assert_close(opened.offset_norms(m), stored[m - 1], rtol=1e-3, atol=1e-3)
        exact = torch.linalg.vector_norm(opened.features(m).double() + opened.head(m).offset, dim=1)
        torch.testing.assert_close(opened.offset_norms(m).double(), exact, rtol=1e-6, atol=0)
    torch.testing.assert_close(opened.offset_norms(2, slice(30, 40)), opened.offset_norms(2)[30:40])


def test_a_cache_without_heads_says_what_it_lacks(tmp_path: Path) -> None:
    opened = Cache(synthetic_cache(tmp_path / "c", rows=9, layers=2, width=4, heads=False, compact=True))
    assert (opened.has_heads, opened.has_features, opened.has_offset_norms) == (False, False, False)
    for read in (lambda: opened.head(1), lambda: opened.features(1), lambda: opened.offset_norms(1)):
        with pytest.raises(InputError, match="expected"):
            read()


def test_moving_to_a_device_moves_what_is_read(cache: Path) -> None:
    moved = Cache(cache).to("meta")
    assert moved.logits(1).device.type == "meta"
    assert moved.head(1).weight.device.type == "meta"
    assert moved.offset_norms(1).device.type == "meta"


def test_the_hash_of_the_manifest_pins_the_cache(cache: Path) -> None:
    before = Cache(cache).manifest_sha256
    text = (cache / MANIFEST).read_text()
    (cache / MANIFEST).write_text(text.replace('"split": "dev"', '"split": "Dev"'))
    assert Cache(cache).manifest_sha256 != before


# -- bad input ----------------------------------------------------------------------------------------


def change(path: Path, name: str, edit: Callable[[torch.Tensor], torch.Tensor]) -> None:
    tensors = load_file(path)
    tensors[name] = edit(tensors[name]).contiguous()
    save_file(tensors, path)


def put(*index: int, value: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def edit(tensor: torch.Tensor) -> torch.Tensor:
        tensor[index] = value
        return tensor

    return edit


SHARD = "shard-00001.safetensors"

BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "a missing shard": (lambda c: (c / SHARD).unlink(), f"{SHARD}: expected a file, found none"),
    "a truncated shard": (lambda c: os.truncate(c / SHARD, 900), f"{SHARD}: truncated: expected at least"),
    "a shard of four bytes": (lambda c: os.truncate(c / SHARD, 4), f"{SHARD}: expected a safetensors header"),
    "an empty shard": (lambda c: os.truncate(c / SHARD, 0), f"{SHARD}: expected a safetensors header"),
    "a wrong shape": (
        lambda c: change(c / SHARD, "logits", lambda t: t[:, :, :2]),
        "expected logits of float32 [4, 32, 3], found float32 [4, 32, 2]",
    ),
    "a wrong dtype": (
        lambda c: change(c / SHARD, "logits", lambda t: t.half()),
        "expected logits of float32 [4, 32, 3], found float16",
    ),
    "a foreign dtype": (
        lambda c: change(c / SHARD, "labels", lambda t: t.int()),
        "expected 'labels' to have a dtype of F16, BF16, F32, I64, found 'I32'",
    ),
    "a label outside the classes": (
        lambda c: change(c / SHARD, "labels", put(3, value=7)),
        "expected labels in 0..2, found 7 at row 35",
    ),
    "the first label outside the classes": (
        lambda c: change(c / SHARD, "labels", put(31, value=3)),
        "expected labels in 0..2, found 3 at row 63",
    ),
    "a label below the classes": (
        lambda c: change(c / SHARD, "labels", put(0, value=-1)),
        "expected labels in 0..2, found -1 at row 32",
    ),
    "a repeated id": (
        lambda c: change(c / SHARD, "ids", put(0, value=5)),
        "expected every id once, found id 5 2 times",
    ),
    "NaN in the logits": (
        lambda c: change(c / SHARD, "logits", put(2, 4, 1, value=float("nan"))),
        "expected finite numbers, found nan at layer 3, row 36",
    ),
    "infinity in the norms": (
        lambda c: change(c / SHARD, "offset_norm", put(1, 6, value=float("inf"))),
        "expected finite numbers, found inf at layer 2, row 38",
    ),
    "norms in some shards only": (
        lambda c: save_file({k: v for k, v in load_file(c / SHARD).items() if k != "offset_norm"}, c / SHARD),
        "expected offset_norm in all shards or in none",
    ),
    "no logits": (
        lambda c: save_file({k: v for k, v in load_file(c / SHARD).items() if k != "logits"}, c / SHARD),
        "expected a tensor 'logits', found ids, labels, offset_norm",
    ),
    "NaN in the heads": (
        lambda c: change(c / "heads.safetensors", "weight", put(1, 0, 0, value=float("nan"))),
        "found one in weight of layer 2 that is not",
    ),
    "NaN in the features": (
        lambda c: change(c / "shard-00001.features.safetensors", "features", put(0, 2, 1, value=float("nan"))),
        "expected finite numbers, found nan at layer 1, row 34",
    ),
    "features of another width": (
        lambda c: change(c / "shard-00001.features.safetensors", "features", lambda t: t[:, :, :5]),
        "expected features of float16 [4, 32, 8], found float16 [4, 32, 5]",
    ),
}


def read_all(cache: Path) -> None:
    opened = Cache(cache)
    for m in range(1, opened.layers + 1):
        opened.logits(m), opened.offset_norms(m), opened.features(m), opened.head(m)


@pytest.mark.parametrize(("damage", "message"), BROKEN.values(), ids=BROKEN.keys())
def test_a_damaged_cache_is_refused_with_the_place(cache: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(cache)
    with pytest.raises(InputError) as caught:
        read_all(cache)
    assert message in str(caught.value)
    assert str(cache) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_incomplete_cache_is_refused_and_says_how_to_resume(cache: Path) -> None:
    value = json.loads((cache / MANIFEST).read_text())
    value["complete"] = False
    value["provenance"]["command"] = "exitbench collect --out here"
    (cache / MANIFEST).write_text(json.dumps(value))
    with pytest.raises(InputError, match=r"incomplete: 70 rows .* again to resume") as caught:
        Cache(cache)
    assert "exitbench collect" not in str(caught.value), "a command in a stranger's file is not one to suggest"


def test_a_link_out_of_the_directory_is_refused(cache: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.safetensors"
    (cache / SHARD).rename(elsewhere)
    (cache / SHARD).symlink_to(elsewhere)
    with pytest.raises(InputError, match="a link that leaves the directory"):
        Cache(cache)


def test_a_link_inside_the_directory_is_read(cache: Path) -> None:
    (cache / SHARD).rename(cache / "other.safetensors")
    (cache / SHARD).symlink_to("other.safetensors")
    assert Cache(cache).logits(1).shape == (70, 3)


def test_a_link_in_a_circle_is_refused(cache: Path) -> None:
    (cache / SHARD).unlink()
    (cache / SHARD).symlink_to(SHARD)
    with pytest.raises(InputError, match="cannot be read"):
        Cache(cache)


def test_a_manifest_that_is_a_link_out_is_refused(cache: Path, tmp_path: Path) -> None:
    (cache / MANIFEST).rename(tmp_path / "m.json")
    (cache / MANIFEST).symlink_to(tmp_path / "m.json")
    with pytest.raises(InputError, match="a link that leaves the directory"):
        Cache(cache)


def test_a_pipe_in_place_of_a_shard_does_not_hang(cache: Path) -> None:
    (cache / SHARD).unlink()
    os.mkfifo(cache / SHARD)
    with pytest.raises(InputError, match="expected a regular file"):
        Cache(cache)


def test_a_file_cut_after_it_was_opened_is_an_error_and_no_crash(cache: Path) -> None:
    opened = Cache(cache)
    os.truncate(cache / SHARD, 900)
    with pytest.raises(InputError, match="cannot be read"):
        opened.logits(4)


def test_a_cache_has_the_name_it_was_opened_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = synthetic_cache(tmp_path / "stored", rows=4, layers=2, compact=True)
    (tmp_path / "link").symlink_to(stored)
    assert Cache(tmp_path / "link").name == "link"
    monkeypatch.chdir(stored)
    assert Cache(".").name == "stored"
