"""Rows without ids are known by their content: folds and resamples then do not depend on their order."""

import hashlib
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from exitbench.cache import Cache
from exitbench.cache.format.content_ids import ContentIds
from exitbench.cache.writer import CacheWarning
from exitbench.errors import InputError
from tests.support.cache_writing import add, arrays, content, writer


def twins(rows: int = 20) -> dict[str, np.ndarray]:
    """Arrays in which rows 3, 5 and 17 are equal but for their logits."""
    data = arrays(rows)
    for twin in (5, 17):
        data["features"][:, twin] = data["features"][:, 3]
        data["labels"][twin] = data["labels"][3]
    return data


def by_hand(data: dict[str, np.ndarray], row: int, number: int = 1) -> int:
    """The id of a row, the ``number``th of its content, with struct and a plain loop."""
    text = struct.pack("<q", data["labels"][row])
    for layer in data["features"]:
        text += struct.pack(f"<{layer.shape[1]}f", *layer[row].tolist())
    numbered = hashlib.blake2b(text, digest_size=16).digest() + struct.pack("<q", number)
    return struct.unpack("<Q", hashlib.blake2b(numbered, digest_size=8).digest())[0] // 2


def reordered(data: dict[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
    """The rows in another order, with other logits: another network may have given them."""
    moved = {"labels": data["labels"][order], "features": data["features"][:, order]}
    return {**data, **moved, "logits": data["logits"][:, order] + 1.0}


def write(path: Path, data: dict[str, np.ndarray], batch: int = 7, **options: object) -> list[int]:
    with writer(path, data, **options) as target:
        for start in range(0, len(data["labels"]), batch):
            add(target, data, slice(start, start + batch))
    return Cache(path).ids.tolist()


def test_ids_are_hashes_of_label_and_features_and_equal_rows_are_numbered(tmp_path: Path) -> None:
    data = twins()
    numbers = {5: 2, 17: 3}
    assert write(tmp_path / "a", data) == [by_hand(data, row, numbers.get(row, 1)) for row in range(20)]


def test_ids_do_not_depend_on_order_batches_logits_or_what_is_stored(tmp_path: Path) -> None:
    data, order = twins(), np.random.default_rng(0).permutation(20)
    plain = write(tmp_path / "plain", data)
    other = write(tmp_path / "other", reordered(data, order), batch=3)
    alone = [position for position, row in enumerate(order) if row not in (3, 5, 17)]
    assert [other[position] for position in alone] == [plain[order[position]] for position in alone]
    assert sorted(other) == sorted(plain)
    assert write(tmp_path / "compact", data, feature_dtype=None) == plain
    assert write(tmp_path / "half", data, feature_dtype="float16") == plain


def test_a_resumed_write_numbers_equal_rows_as_one_that_ran_through(tmp_path: Path) -> None:
    data = twins()
    write(tmp_path / "whole", data)
    with pytest.raises(RuntimeError), writer(tmp_path / "cut", data) as target:
        add(target, data, slice(0, 10))  # one shard of eight is whole: two of the equal rows
        raise RuntimeError
    with writer(tmp_path / "cut", data) as target:
        for rows in target.pending(20):
            add(target, data, slice(rows.start, rows.stop))
    assert content(tmp_path / "cut") == content(tmp_path / "whole")


def test_equal_rows_of_two_processes_are_refused_with_the_way_out(tmp_path: Path) -> None:
    data = twins()
    opened = [writer(tmp_path / "many", data, rank=rank, ranks=2) for rank in range(2)]
    for rank_writer in opened:
        rank_writer.__enter__()
    with pytest.raises(InputError, match=r"more than once \(where several processes write equal rows, give ids\)"):
        for rank_writer in reversed(opened):
            for rows in rank_writer.pending(20):
                data["features"][:, rows.start] = 0.0
                data["labels"][rows.start] = 0
                add(rank_writer, data, slice(rows.start, rows.stop))
            rank_writer.__exit__(None, None, None)


def test_given_ids_are_kept(tmp_path: Path) -> None:
    data = arrays(9)
    with writer(tmp_path / "a", data) as target:
        add(target, data, slice(0, 9), ids=np.arange(9) + 100)
    assert Cache(tmp_path / "a").ids.tolist() == list(range(100, 109))


def test_without_features_one_line_says_that_folds_depend_on_the_order(tmp_path: Path) -> None:
    data = arrays(9)
    with (
        pytest.warns(CacheWarning, match="folds and resamples depend on the order of the rows") as warned,
        writer(tmp_path / "a", data, heads=None, feature_dtype=None) as target,
    ):
        for start in (0, 4):
            target.add(labels=data["labels"][start : start + 4], logits=data["logits"][:, start : start + 4])
    assert len(warned) == 1
    assert Cache(tmp_path / "a").ids.tolist() == list(range(8))


def test_an_unlabelled_row_is_known_by_its_features_alone() -> None:
    features = torch.arange(6.0).reshape(1, 3, 2)
    first, again = ContentIds().of(features, None), ContentIds().of(features.half(), None)
    assert first.tolist() == again.tolist()
    assert first.tolist() != ContentIds().of(features, torch.zeros(3, dtype=torch.int64)).tolist()
