"""Writing: batches of any size, resuming, several ranks, and refusing bad input before it is stored."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exitbench import atomic_files
from exitbench.cache import Cache, Model, verify
from exitbench.cache.format.manifest import ShardEntry
from exitbench.cache.format.unfinished_cache import UnfinishedCache
from exitbench.errors import InputError
from tests.support.cache_writing import LAYERS, WIDTH, add, arrays, content, writer


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
    for rank_writer in opened:
        rank_writer.__enter__()
    for rank_writer in reversed(opened):
        for rows in rank_writer.pending(45):
            assert (rows.start // 8) % ranks == rank_writer.rank
            add(rank_writer, data, slice(rows.start, rows.stop))
        rank_writer.__exit__(None, None, None)
    assert content(tmp_path / "one") == content(tmp_path / "many")


@pytest.mark.parametrize(("parts", "ranks"), [(3, 1), (2, 2), (7, 1)])
def test_parts_of_a_job_array_are_joined_to_what_one_would_write(tmp_path: Path, parts: int, ranks: int) -> None:
    data = arrays(45)
    with writer(tmp_path / "one", data) as target:
        for rows in target.pending(45):
            add(target, data, slice(rows.start, rows.stop))
    written: list[int] = []
    for part in range(parts, 1, -1):  # the first is left to the last one
        opened = [writer(tmp_path / "many", data, rank=rank, ranks=ranks, part=(part, parts)) for rank in range(ranks)]
        for rank_writer in opened:
            rank_writer.__enter__()
        for rank_writer in reversed(opened):
            for rows in rank_writer.pending(45):
                written.append(rows.start // 8)
                add(rank_writer, data, slice(rows.start, rows.stop))
            rank_writer.__exit__(None, None, None)
        with pytest.raises(InputError, match="incomplete"):
            Cache(tmp_path / "many")
    missing = []
    with writer(tmp_path / "many", data) as target:
        for rows in target.pending(45):
            missing.append(rows.start // 8)
            add(target, data, slice(rows.start, rows.stop))
    assert sorted(written + missing) == list(range(6))
    assert len(written) >= 6 - -(-6 // parts) * ranks
    assert content(tmp_path / "one") == content(tmp_path / "many")


def test_ranks_that_were_killed_resume_with_another_number_of_ranks(tmp_path: Path) -> None:
    data = arrays(45)
    with writer(tmp_path / "one", data) as target:
        add(target, data, slice(0, 45))
    opened = [writer(tmp_path / "many", data, rank=rank, ranks=2) for rank in range(2)]
    for rank_writer in opened:
        rank_writer.__enter__()
    for rank_writer in opened:
        rows = next(iter(rank_writer.pending(45)))
        add(rank_writer, data, slice(rows.start, rows.stop))
    with writer(tmp_path / "many", data) as target:
        assert target.rows_done == 16
        for rows in target.pending(45):
            add(target, data, slice(rows.start, rows.stop))
    assert content(tmp_path / "one") == content(tmp_path / "many")


def test_a_rank_that_was_killed_goes_on_with_its_own_record(tmp_path: Path) -> None:
    data = arrays(45)
    with writer(tmp_path / "one", data) as target:
        add(target, data, slice(0, 45))

    def first_pending(rank: int) -> int:
        rank_writer = writer(tmp_path / "many", data, rank=rank, ranks=2)
        rank_writer.__enter__()
        rows = next(iter(rank_writer.pending(45)))
        add(rank_writer, data, slice(rows.start, rows.stop))
        return rows.start

    assert [first_pending(rank) for rank in (0, 1, 1)] == [0, 8, 24]
    with writer(tmp_path / "many", data) as target:
        assert target.rows_done == 24
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


@pytest.mark.long
def test_stopped_anywhere_at_the_end_no_shard_of_another_rank_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = arrays(45)

    class Stopped(BaseException):
        pass

    class Disk(atomic_files.Disk):
        def __init__(self, stop_at: int) -> None:
            self.left = stop_at

        def rename(self, source: Path, target: Path) -> None:
            self.count()
            super().rename(source, target)

        def remove(self, path: Path) -> None:
            self.count()
            super().remove(path)

        def count(self) -> None:
            if self.left == 0:
                raise Stopped
            self.left -= 1

    for stop_at in range(20):
        path = tmp_path / str(stop_at)
        opened = [writer(path, data, rank=rank, ranks=3) for rank in range(3)]
        for rank_writer in opened:
            rank_writer.__enter__()
        for rank_writer in opened:
            for rows in rank_writer.pending(45):
                add(rank_writer, data, slice(rows.start, rows.stop))
        with monkeypatch.context() as patch:
            patch.setattr(atomic_files, "disk", Disk(stop_at))
            try:
                opened[0].__exit__(None, None, None)
            except Stopped:
                pass
            else:
                break
        with writer(path, data) as target:
            assert target.rows_done == 45, f"stopped at step {stop_at}"
            assert list(target.pending(45)) == []
    assert stop_at == 4  # the record of all ranks, two records of ranks, and the word "complete"
    assert Cache(path).rows == 45


def test_every_process_of_every_part_is_a_rank_of_its_own_and_none_is_the_first(tmp_path: Path) -> None:
    data = arrays(45)
    pairs = [(part, rank) for part in (1, 2, 3) for rank in (0, 1)]
    opened = [writer(tmp_path / "c", data, rank=rank, ranks=2, part=(part, 3)) for part, rank in pairs]
    assert [(each.rank, each.ranks) for each in opened] == [(number, 6) for number in range(1, 7)]


def test_a_shard_between_others_is_missed_where_nobody_said_how_many_rows_there_are(tmp_path: Path) -> None:
    entry = ShardEntry(20, "shard-00000.safetensors", "0" * 64, None)
    plan: Any = None
    unfinished = UnfinishedCache(tmp_path, plan, None, rank=0)
    unfinished.done = {0: entry, 2: entry}
    with pytest.raises(InputError, match="expected all shards, 1 are missing"):
        unfinished.complete(None)
