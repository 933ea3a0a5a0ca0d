from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exitbench import replay
from exitbench.cache import Cache, CacheWriter, Model, Task, verify
from exitbench.derive import cascade_caches
from exitbench.derive.cascade_caches import cascade, positions, rows_at
from exitbench.errors import InputError
from tests.support.command_line import exit_code

TASK = Task("demo", ("no", "yes"))


def network(path: Path, layers: int, width: int, order: np.ndarray, **options: object) -> Cache:
    """A network's cache over the samples 0..n-1, stored in some order; its logits are a function of id and layer."""
    rng = np.random.default_rng(width)
    features = rng.normal(size=(layers, len(order), width)).astype(np.float32)[:, order]
    weight, bias = rng.normal(size=(layers, 2, width)).astype(np.float32), np.zeros((layers, 2), np.float32)
    labels = np.arange(len(order))[order] % 2
    settings = {
        "task": TASK,
        "split": "dev",
        "model": Model(f"net{layers}", None, layers, width),
        "heads": (weight, bias),
    }
    with CacheWriter(path, **(settings | options)) as writer:  # type: ignore[arg-type]
        logits = np.einsum("mnw,mcw->mnc", features, weight)
        writer.add(logits=logits, labels=labels, ids=order, features=features)
    return Cache(path)


@pytest.fixture
def pair(tmp_path: Path) -> list[Cache]:
    order = np.random.default_rng(0).permutation(12)
    return [network(tmp_path / "small", 2, 3, np.arange(12)), network(tmp_path / "large", 4, 5, order)]


def test_samples_meet_by_id_and_costs_add_up(pair: list[Cache], tmp_path: Path) -> None:
    cascade(pair, tmp_path / "out", costs=[1, 4])
    made = Cache(tmp_path / "out")
    assert verify(made.path) == []
    assert made.layers == 2 and made.costs == (1, 5) and made.manifest.model.name == "net2 then net4"
    for exit_, member in enumerate(pair, 1):
        by_id = dict(zip(member.ids.tolist(), member.logits(member.layers).tolist(), strict=True))
        norms = dict(zip(member.ids.tolist(), member.offset_norms(member.layers).tolist(), strict=True))
        for row, number in enumerate(made.ids.tolist()):
            assert made.logits(exit_)[row].tolist() == by_id[number]
            assert float(made.offset_norms(exit_)[row]) == norms[number]
        assert torch.equal(made.head(exit_).weight, member.head(member.layers).weight)
    assert made.labels.tolist() == [number % 2 for number in made.ids.tolist()]


def test_the_speed_up_of_a_cascade_counts_both_networks(pair: list[Cache], tmp_path: Path) -> None:
    cascade(pair, tmp_path / "out", costs=[1, 4])
    curve = replay(Cache(tmp_path / "out"), "right-tool")
    for point, exited in enumerate(range(13)):
        mean_cost = (exited * 1 + (12 - exited) * (1 + 4)) / 12
        assert curve.speed_up[point] == pytest.approx(5 / mean_cost)


def test_costs_come_from_the_caches_where_these_say_them(tmp_path: Path) -> None:
    order = np.arange(6)
    counted = {"cost_unit": "operations"}
    small = network(tmp_path / "small", 2, 3, order, costs=[10, 30], **counted)
    large = network(tmp_path / "large", 2, 4, order, costs=[100, 200], **counted)
    cascade([small, large], tmp_path / "out")
    assert Cache(tmp_path / "out").costs == (30, 230)
    assert Cache(tmp_path / "out").manifest.cost_unit == "operations"
    with pytest.raises(InputError, match="such as --costs 1,4"):
        cascade([small, network(tmp_path / "plain", 2, 5, order)], tmp_path / "other")


def test_other_samples_labels_or_costs_are_refused(pair: list[Cache], tmp_path: Path) -> None:
    small, large = pair
    fewer = network(tmp_path / "fewer", 2, 3, np.arange(9))
    with pytest.raises(InputError, match="found 9 of 12 ids of small among the 9 of fewer"):
        cascade([small, fewer], tmp_path / "out", costs=[1, 2])
    with pytest.raises(InputError, match="expected 2 costs above 0"):
        cascade([small, large], tmp_path / "out", costs=[1, 0])
    with pytest.raises(InputError, match="at least two caches"):
        cascade([small], tmp_path / "out", costs=[1])
    with pytest.raises(InputError, match="expected caches of one task"):
        cascade(
            [small, network(tmp_path / "t", 2, 4, np.arange(12), task=Task("other", ("no", "yes")))], tmp_path / "out"
        )
    rows_of_train = network(tmp_path / "seen", 4, 5, np.arange(12), split="train")  # the same numbers, other samples
    with pytest.raises(InputError, match="expected caches of one split, found dev in small, train in seen"):
        cascade([small, rows_of_train], tmp_path / "out", costs=[1, 2])
    small.__dict__["labels"] = 1 - small.labels
    with pytest.raises(InputError, match="expected the same labels, found others in large than in small"):
        cascade([small, large], tmp_path / "out", costs=[1, 2])
    assert not (tmp_path / "out").exists()


def test_positions_are_where_each_id_lies() -> None:
    assert positions(np.array([5, 1, 9]), np.array([9, 5, 1])).tolist() == [1, 2, 0]  # type: ignore[union-attr]
    assert positions(np.array([5, 1, 9]), np.array([9, 5, 2])) is None
    assert positions(np.array([5, 1]), np.array([9, 5, 1])) is None


def test_rows_come_in_the_order_that_is_asked_for() -> None:
    stored, asked = torch.arange(200.0).reshape(100, 2), []

    def read(rows: slice) -> torch.Tensor:
        asked.append((rows.start, rows.stop))
        return stored[rows]

    for wanted in ([3, 90, 4, 0, 98, 12], [7], list(range(100)), [*np.random.default_rng(2).permutation(100)]):
        assert rows_at(read, np.array(wanted)).tolist() == stored[wanted].tolist()
    assert asked == [(0, 13), (90, 99), (7, 8), (0, 100), (0, 100)], "neighbours together, and no more"


def test_a_cascade_of_many_shards_holds_one_and_goes_on_where_it_was_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cascade_caches, "SHARD_ROWS", 40)
    order = np.random.default_rng(1).permutation(150)
    pair = [
        network(tmp_path / "small", 2, 3, np.arange(150), shard_rows=64),
        network(tmp_path / "large", 3, 5, order, shard_rows=50),
    ]
    cascade(pair, tmp_path / "whole", costs=[1, 4])
    whole, original, made = Cache(tmp_path / "whole"), cascade_caches.cascade_rows, []
    assert whole.logits(2)[np.argsort(whole.ids)].tolist() == pair[1].logits(3)[np.argsort(pair[1].ids)].tolist()

    def stopping(*words: Any, **options: Any) -> Any:
        made.append(original(*words, **options))
        if len(made) == 3:
            raise KeyboardInterrupt
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(cascade_caches, "cascade_rows", stopping)
        with pytest.raises(KeyboardInterrupt):
            cascade(pair, tmp_path / "out", costs=[1, 4])
    assert max(batch["logits"].shape[1] for batch in made) == 40
    with pytest.raises(InputError, match="incomplete: 80 rows are written"):
        Cache(tmp_path / "out")
    cascade(pair, tmp_path / "out", costs=[1, 4])
    again = Cache(tmp_path / "out")
    assert again.manifest == whole.manifest
    for entry in whole.manifest.files:
        assert (again.path / entry.file).read_bytes() == (whole.path / entry.file).read_bytes()


def test_the_verb_reads_costs(pair: list[Cache], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    caches = [member.path for member in pair]
    assert exit_code("cascade", *caches, "--costs", "1,four", "--out", tmp_path / "out") == 2
    assert "found '1,four'" in capsys.readouterr().err
    assert exit_code("cascade", *caches, "--costs", "1,4", "--out", tmp_path / "out") == 0
    assert "net2 then net4, 12 samples, costs 1, 5" in capsys.readouterr().out
