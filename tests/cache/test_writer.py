"""Writing: batches of any size, resuming, several ranks, and refusing bad input before it is stored."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exitbench.cache import Cache, CacheWarning, CacheWriter, Model, Task, verify
from exitbench.cache.manifest import MANIFEST
from exitbench.errors import InputError

LAYERS, CLASSES, WIDTH = 3, 2, 5
STARTED = {"started": "2026-01-01T00:00:00+00:00"}


def arrays(rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(LAYERS, rows, WIDTH)).astype(np.float32)
    weight = rng.normal(size=(LAYERS, CLASSES, WIDTH)).astype(np.float32)
    bias = rng.normal(size=(LAYERS, CLASSES)).astype(np.float32)
    logits = np.einsum("mnw,mcw->mnc", features, weight) + bias[:, None]
    return {
        "labels": rng.integers(CLASSES, size=rows),
        "logits": logits.astype(np.float32),
        "features": features,
        "weight": weight,
        "bias": bias,
    }


def writer(path: Path, data: dict[str, np.ndarray], **options: Any) -> CacheWriter:
    settings: dict[str, Any] = {
        "task": Task("demo", ("no", "yes")),
        "split": "dev",
        "model": Model("net", None, LAYERS, WIDTH),
        "heads": (data["weight"], data["bias"]),
        "feature_dtype": "float32",
        "shard_rows": 8,
        "provenance": STARTED,
    }
    return CacheWriter(path, **(settings | options))


def add(target: CacheWriter, data: dict[str, np.ndarray], rows: slice, **more: Any) -> None:
    batch = {"labels": data["labels"][rows], "logits": data["logits"][:, rows], "features": data["features"][:, rows]}
    target.add(**(batch | more))


def content(path: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in sorted(path.iterdir())}


@pytest.mark.parametrize("size", [1, 3, 8, 11, 30])
def test_the_size_of_the_batches_changes_no_byte(tmp_path: Path, size: int) -> None:
    data = arrays(30)
    for name, step in (("a", 30), ("b", size)):
        with writer(tmp_path / name, data) as target:
            for start in range(0, 30, step):
                add(target, data, slice(start, start + step))
    assert content(tmp_path / "a") == content(tmp_path / "b")
    opened = Cache(tmp_path / "a")
    np.testing.assert_array_equal(opened.logits(2).numpy(), data["logits"][1])
    assert [shard.rows for shard in opened.shards] == [8, 8, 8, 6]
    assert verify(tmp_path / "a") == []


def test_offset_norms_are_those_of_the_pseudo_inverse(tmp_path: Path) -> None:
    data = arrays(10)
    with writer(tmp_path / "a", data) as target:
        add(target, data, slice(0, 10))
    for m in range(LAYERS):
        shifted = data["features"][m].astype(np.float64) + np.linalg.pinv(data["weight"][m]) @ data["bias"][m]
        expected = np.linalg.norm(shifted, axis=1)
        np.testing.assert_allclose(Cache(tmp_path / "a").offset_norms(m + 1).numpy(), expected, rtol=1e-5)


def test_a_compact_cache_keeps_norms_of_features_it_does_not_store(tmp_path: Path) -> None:
    data = arrays(10)
    for name, dtype in (("full", "float32"), ("compact", None)):
        with writer(tmp_path / name, data, feature_dtype=dtype) as target:
            add(target, data, slice(0, 10))
    full, compact = Cache(tmp_path / "full"), Cache(tmp_path / "compact")
    assert not compact.has_features
    assert not list((tmp_path / "compact").glob("*features*"))
    assert torch.equal(full.offset_norms(1), compact.offset_norms(1))


def test_resuming_continues_after_the_last_whole_shard_and_ends_in_the_same_bytes(tmp_path: Path) -> None:
    data = arrays(30)
    with writer(tmp_path / "through", data) as target:
        for rows in target.pending(30):
            add(target, data, slice(rows.start, rows.stop))
    with pytest.raises(RuntimeError, match="power"), writer(tmp_path / "cut", data) as target:
        add(target, data, slice(0, 19))
        raise RuntimeError("power")
    with pytest.raises(InputError, match="incomplete: 16 rows"):
        Cache(tmp_path / "cut")
    later = {"started": "2027-01-01T00:00:00+00:00", "command": "again"}
    with writer(tmp_path / "cut", data, provenance=later) as target:
        assert target.rows_done == 16
        delivered = []
        for rows in target.pending(30):
            delivered.append((rows.start, rows.stop))
            add(target, data, slice(rows.start, rows.stop))
    assert delivered == [(16, 24), (24, 30)]
    assert content(tmp_path / "through") == content(tmp_path / "cut")


def test_a_plain_loop_resumes_by_skipping_the_rows_that_are_done(tmp_path: Path) -> None:
    data = arrays(20)
    with pytest.raises(RuntimeError), writer(tmp_path / "cut", data) as target:
        add(target, data, slice(0, 10))
        raise RuntimeError
    with writer(tmp_path / "cut", data) as target:
        add(target, data, slice(target.rows_done, 20))
    np.testing.assert_array_equal(Cache(tmp_path / "cut").labels, data["labels"])


OTHER: dict[str, tuple[dict[str, Any], str]] = {
    "another split": ({"split": "test"}, "split was dev"),
    "another dtype": ({"feature_dtype": "float16"}, "feature dtype was float32"),
    "other versions": ({"provenance": {"versions": {"torch": "9"}}}, "versions was {}"),
    "another precision": ({"provenance": {"dtype": "bfloat16"}}, "dtype was float32"),
    "another model": ({"model": Model("other", None, LAYERS, WIDTH)}, "model was"),
    "other shards": ({"shard_rows": 4}, "expected shards of 4 rows, found 8"),
}


@pytest.mark.parametrize(("options", "message"), OTHER.values(), ids=OTHER.keys())
def test_another_collection_does_not_resume_this_one(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    data = arrays(20)
    with pytest.raises(RuntimeError), writer(tmp_path / "cut", data) as target:
        add(target, data, slice(0, 10))
        raise RuntimeError
    before = content(tmp_path / "cut")
    with pytest.raises(InputError, match="cannot resume") as caught, writer(tmp_path / "cut", data, **options):
        pass
    assert message in str(caught.value)
    assert content(tmp_path / "cut") == before


def test_other_heads_do_not_resume(tmp_path: Path) -> None:
    data = arrays(20)
    with pytest.raises(RuntimeError), writer(tmp_path / "cut", data) as target:
        add(target, data, slice(0, 10))
        raise RuntimeError
    with pytest.raises(InputError, match="the heads differ"), writer(tmp_path / "cut", arrays(20, seed=1)):
        pass


def test_another_number_of_rows_does_not_resume(tmp_path: Path) -> None:
    data = arrays(30)
    with pytest.raises(RuntimeError), writer(tmp_path / "cut", data) as target:
        add(target, data, slice(0, 20))
        raise RuntimeError
    with pytest.raises(InputError, match="cannot resume"), writer(tmp_path / "cut", data) as target:
        list(target.pending(12))


@pytest.mark.parametrize("ranks", [2, 3])
def test_several_ranks_write_what_one_would(tmp_path: Path, ranks: int) -> None:
    data = arrays(45)
    with writer(tmp_path / "one", data) as target:
        for rows in target.pending(45):
            add(target, data, slice(rows.start, rows.stop))
    # The ranks run one after another here, rank 0 last, so that each barrier is already met.
    opened = [writer(tmp_path / "many", data, rank=rank, ranks=ranks) for rank in range(ranks)]
    for one in opened:
        one.__enter__()
    for one in reversed(opened):
        for rows in one.pending(45):
            assert (rows.start // 8) % ranks == one.rank
            add(one, data, slice(rows.start, rows.stop))
        one.__exit__(None, None, None)
    assert content(tmp_path / "one") == content(tmp_path / "many")


def test_ranks_that_were_killed_resume_with_another_number_of_ranks(tmp_path: Path) -> None:
    data = arrays(45)
    with writer(tmp_path / "one", data) as target:
        add(target, data, slice(0, 45))
    opened = [writer(tmp_path / "many", data, rank=rank, ranks=2) for rank in range(2)]
    for one in opened:
        one.__enter__()
    for one in opened:
        rows = next(iter(one.pending(45)))
        add(one, data, slice(rows.start, rows.stop))
    with writer(tmp_path / "many", data) as target:
        assert target.rows_done == 16
        for rows in target.pending(45):
            add(target, data, slice(rows.start, rows.stop))
    assert content(tmp_path / "one") == content(tmp_path / "many")


def test_a_shard_that_another_rank_did_not_deliver_is_missed(tmp_path: Path) -> None:
    data = arrays(45)
    with (
        pytest.raises(InputError, match="expected all shards"),
        writer(tmp_path / "m", data, rank=0, ranks=2) as target,
    ):
        for rows in target.pending(45):
            add(target, data, slice(rows.start, rows.stop))


# -- refusing ----------------------------------------------------------------------------------------


def test_a_complete_cache_is_not_written_again(tmp_path: Path) -> None:
    data = arrays(5)
    with writer(tmp_path / "a", data) as target:
        add(target, data, slice(0, 5))
    before = content(tmp_path / "a")
    with pytest.raises(InputError, match="found a complete one"), writer(tmp_path / "a", data):
        pass
    assert content(tmp_path / "a") == before


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "thesis.txt").write_text("precious")
    with pytest.raises(InputError, match="found other files"), writer(tmp_path / "a", arrays(5)):
        pass
    assert content(tmp_path / "a") == {"thesis.txt": b"precious"}


def test_a_file_in_the_way_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("precious")
    with pytest.raises(InputError, match="found a file"), writer(tmp_path / "a", arrays(5)):
        pass
    assert (tmp_path / "a").read_text() == "precious"


BAD_BATCHES: dict[str, tuple[dict[str, Any], str]] = {
    "NaN logits": (
        {"logits": np.full((LAYERS, 4, CLASSES), np.nan)},
        "expected finite logits, found nan at layer 1, row 8",
    ),
    "infinite features": (
        {"features": np.full((LAYERS, 4, WIDTH), np.inf)},
        "expected finite features, found inf at layer 1, row 8",
    ),
    "a label too large": ({"labels": [0, 1, 2, 0]}, "expected labels in 0..1, found 2 at row 10"),
    "a negative label": ({"labels": [0, -1, 0, 0]}, "expected labels in 0..1, found -1 at row 9"),
    "labels as text": ({"labels": ["a", "b", "c", "d"]}, "expected labels to be numbers"),
    "labels as floats": ({"labels": [0.0, 1.0, 0.0, 1.0]}, "expected labels to be whole numbers, found float64"),
    "a table of labels": ({"labels": [[0, 1], [1, 0]]}, "expected labels [n], found [2, 2]"),
    "logits of the wrong shape": (
        {"logits": np.zeros((LAYERS, 4, 3))},
        "expected logits of shape [3, 4, 2], found [3, 4, 3]",
    ),
    "features of the wrong shape": (
        {"features": np.zeros((LAYERS, 3, WIDTH))},
        "expected features of shape [3, 4, 5], found [3, 3, 5]",
    ),
    "no features": ({"features": None}, "expected features to store as float32, found none"),
    "norms of the wrong shape": ({"offset_norm": np.zeros((LAYERS, 3))}, "expected offset_norm of shape [3, 4]"),
    "ids of the wrong shape": ({"ids": [1, 2]}, "expected ids of shape [4], found [2]"),
    "complex logits": (
        {"logits": torch.zeros((LAYERS, 4, CLASSES), dtype=torch.complex64)},
        "expected logits to be real",
    ),
}


@pytest.mark.parametrize(("changes", "message"), BAD_BATCHES.values(), ids=BAD_BATCHES.keys())
def test_a_bad_batch_is_refused_before_it_is_stored(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    data = arrays(20)
    with pytest.raises(InputError) as caught, writer(tmp_path / "a", data) as target:
        add(target, data, slice(0, 8))
        add(target, data, slice(8, 12), **changes)
    assert message in str(caught.value)
    assert json.loads((tmp_path / "a" / MANIFEST).read_text())["rows"] == 8


def test_features_too_large_for_float16_are_refused_with_a_way_out(tmp_path: Path) -> None:
    data = arrays(4)
    data["features"][1, 2, 3] = 1e5
    with (
        pytest.raises(InputError, match=r"fit float16, found 100000 at layer 2, row 2; bfloat16"),
        writer(tmp_path / "a", data, feature_dtype="float16") as target,
    ):
        add(target, data, slice(0, 4))


def test_repeated_ids_leave_the_cache_incomplete(tmp_path: Path) -> None:
    data = arrays(20)
    with pytest.raises(InputError, match="found id 3 more than once"), writer(tmp_path / "a", data) as target:
        add(target, data, slice(0, 10), ids=np.arange(10))
        add(target, data, slice(10, 20), ids=np.arange(3, 13))
    with pytest.raises(InputError, match="incomplete"):
        Cache(tmp_path / "a")


def test_no_rows_make_no_cache(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected at least one row, found none"), writer(tmp_path / "a", arrays(1)):
        pass


def test_rows_that_were_not_pending_are_refused(tmp_path: Path) -> None:
    data = arrays(20)
    with pytest.raises(InputError, match="expected no more rows"), writer(tmp_path / "a", data) as target:
        for rows in target.pending(10):
            add(target, data, slice(rows.start, rows.start + 10))


def test_rows_that_are_missing_are_counted(tmp_path: Path) -> None:
    data = arrays(20)
    with pytest.raises(InputError, match="expected rows 0 to 7, 3 are missing"), writer(tmp_path / "a", data) as target:
        for _ in target.pending(10):
            add(target, data, slice(0, 5))


def test_leaving_a_pending_shard_half_full_is_refused(tmp_path: Path) -> None:
    data = arrays(20)
    with pytest.raises(InputError, match="the last shard is not full"), writer(tmp_path / "a", data) as target:
        for _ in target.pending(10):
            add(target, data, slice(0, 5))
            break


def test_norms_for_some_batches_only_are_refused(tmp_path: Path) -> None:
    data = arrays(8)
    with (
        pytest.raises(InputError, match="for all batches or for none"),
        writer(tmp_path / "a", data, heads=None, feature_dtype=None) as target,
    ):
        add(target, data, slice(0, 4), features=None)
        add(target, data, slice(4, 8), features=None, offset_norm=np.ones((LAYERS, 4)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard_rows": 0}, "at least 1 row"),
        ({"heads": (np.zeros((LAYERS, CLASSES, 4)), np.zeros((LAYERS, CLASSES)))}, "expected head weight"),
        ({"heads": (np.full((LAYERS, CLASSES, WIDTH), np.nan), np.zeros((LAYERS, CLASSES)))}, "found one at layer 1"),
        ({"task": Task("demo", ("only",)), "heads": None}, "at least 2 classes"),
        ({"model": Model("net", None, 1, WIDTH), "heads": None}, "at least 2 layers"),
    ],
)
def test_a_plan_that_cannot_be_a_cache_is_refused_at_once(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        writer(tmp_path / "a", arrays(5), **options)
    assert not (tmp_path / "a").exists()


def test_rounding_float64_is_said_once(tmp_path: Path) -> None:
    data = {name: part.astype(np.float64) if part.dtype == np.float32 else part for name, part in arrays(20).items()}
    with warnings.catch_warnings(record=True) as said, writer(tmp_path / "a", data) as target:
        warnings.simplefilter("always")
        add(target, data, slice(0, 10))
        add(target, data, slice(10, 20))
    assert [str(item.message) for item in said if item.category is CacheWarning] == [
        "float64 values were rounded to float32"
    ]


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint64, ">i8"])
def test_labels_and_ids_of_any_whole_number_type_are_taken(tmp_path: Path, dtype: Any) -> None:
    data = arrays(6)
    with writer(tmp_path / "a", data) as target:
        add(target, data, slice(0, 6), labels=data["labels"].astype(dtype), ids=np.arange(6)[::-1].astype(dtype))
    np.testing.assert_array_equal(Cache(tmp_path / "a").labels, data["labels"])
    np.testing.assert_array_equal(Cache(tmp_path / "a").ids, np.arange(6)[::-1])


def test_the_caller_may_reuse_its_arrays(tmp_path: Path) -> None:
    data = arrays(8)
    with writer(tmp_path / "a", data) as target:
        reused = {
            name: torch.from_numpy(data[name][..., :4, :] if data[name].ndim == 3 else data[name][:4]).clone()
            for name in ("labels", "logits", "features")
        }
        target.add(**reused)
        for tensor in reused.values():
            tensor.zero_()
        add(target, data, slice(4, 8))
    np.testing.assert_array_equal(Cache(tmp_path / "a").logits(1).numpy(), data["logits"][0])
