"""What the writer refuses, before anything wrong is stored and without harm to what was there."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exitbench.cache import Cache, CacheWarning, Model, Task
from exitbench.cache.format.manifest import MANIFEST
from exitbench.errors import InputError
from tests.support.cache_writing import CLASSES, LAYERS, WIDTH, add, arrays, content, writer


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
    "logits of too few layers": (
        {"logits": np.zeros((LAYERS - 1, 4, CLASSES))},
        "expected logits of shape [3, 4, 2], found [2, 4, 2]",
    ),
    "features of one axis": ({"features": np.zeros(4)}, "expected features of shape [3, 4, 5], found [4]"),
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
    with warnings.catch_warnings(record=True) as caught, writer(tmp_path / "a", data) as target:
        warnings.simplefilter("always")
        add(target, data, slice(0, 10))
        add(target, data, slice(10, 20))
    assert [str(item.message) for item in caught if item.category is CacheWarning] == [
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


def test_a_flat_array_is_refused_where_no_labels_count_the_rows(tmp_path: Path) -> None:
    data = arrays(8)
    with (
        pytest.raises(InputError, match="expected logits of shape"),
        writer(tmp_path / "a", data, labelled=False) as target,
    ):
        target.add(logits=np.zeros(8), features=data["features"])
