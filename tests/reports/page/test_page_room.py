"""What a page has room for: by importance, never more than it may hold, and of the rest the command that makes it."""

import random
import string
from typing import Any

from exitbench.reports.page.packed import Packing, packed
from exitbench.reports.page.page_room import PageRoom, by_network, by_question
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.tables.table import Table, TableColumn


def noise(signs: int, seed: int = 0) -> str:
    """A text that no compression makes much shorter."""
    return "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=signs))


def cache(name: str, model: str, task: str) -> CacheMetadata:
    return CacheMetadata(name, model, task, "dev", "accuracy", 2, ("a", "b"), 10, (1,))


def table(name: str, topic: str, protocol: str) -> Table:
    return Table(name, name, "?", topic, (TableColumn("Signal"),), (), protocol=protocol)


def test_parts_that_are_packed_together_take_about_what_was_counted() -> None:
    parts = [{"name": noise(3000, seed), "same": "word " * 200} for seed in range(30)]
    packing = Packing()
    counted = [packing.add(part, 10**9) for part in parts]
    assert None not in counted
    total, real = sum(filter(None, counted)), len(packed(parts))
    assert real <= total <= 1.15 * real
    assert counted[1] is not None and counted[0] is not None and counted[1] <= counted[0], "the same words cost once"


def test_a_part_that_is_too_large_leaves_the_count_as_it_was() -> None:
    packing, other = Packing(), Packing()
    assert packing.add(noise(5000), 100) is None
    assert packing.add("a part", 1000) == other.add("a part", 1000)


def test_a_share_of_the_room_is_filled_in_order_and_the_rest_stays_free() -> None:
    parts = [(number, lambda seed=number: noise(900, seed)) for number in range(10)]
    room = PageRoom(10_000)
    kept = room.kept(0.5, parts)
    assert list(kept) == list(range(len(kept))) and 3 <= len(kept) <= 5
    assert 5_000 <= room.free < 10_000
    assert list(PageRoom(10**6).kept(1.0, parts)) == list(range(10))
    assert PageRoom(-5).kept(1.0, parts) == {}


def test_a_small_part_behind_a_large_one_still_finds_room_and_nothing_is_made_when_all_is_full() -> None:
    made = []

    def part(number: int, signs: int) -> Any:
        def make() -> str:
            made.append(number)
            return noise(signs, number)

        return number, make

    sizes = [3000, 200, 3000, 200, *[3000] * 50]
    kept = PageRoom(1500).kept(1.0, [part(number, size) for number, size in enumerate(sizes)])
    assert list(kept) == [1, 3]
    assert len(made) < 15


def test_one_network_of_every_model_and_task_comes_first() -> None:
    caches = [cache(f"{m}{t}{s}", m, t) for m in "ab" for t in "xy" for s in "012"]
    order = [one_of.name for one_of in by_network(caches)]
    assert order[:4] == ["ax0", "ay0", "bx0", "by0"] and order[4:8] == ["ax1", "ay1", "bx1", "by1"]
    assert sorted(order) == sorted(each.name for each in caches)


def test_every_question_has_its_turn_before_any_has_two_and_single_pairs_come_last() -> None:
    tables = [
        table("differences-one-task", "pairs", "cross-fit"),
        table("differences-average", "pairs", "cross-fit"),
        table("main-in-sample", "main", "in-sample"),
        table("main-a", "main", "cross-fit"),
        table("main-b", "main", "cross-fit"),
        table("dis-a", "dis", "cross-fit"),
        table("cost", "costs", ""),
    ]
    order = [tables[number].name for number in by_question(tables, ["cross-fit"], "differences-average")]
    assert order == [
        "differences-average",
        "main-a",
        "dis-a",
        "cost",
        "main-b",
        "main-in-sample",
        "differences-one-task",
    ]
