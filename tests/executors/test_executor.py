"""Steps over an executor: each begins when what it rests on has ended, and nothing waits for anything else."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from exitbench.executors.executor import Performance, Step
from exitbench.executors.local_pool import Workers
from exitbench.executors.unit import Failure, is_done
from tests.executors.test_local_pool import Note, Patient, Wrong, ignore


@dataclass(frozen=True)
class Messenger:
    """Writes the file that somebody waits for."""

    folder: Path
    message: Path
    label: str = "messenger"

    def work(self) -> None:
        self.message.touch()


def test_a_step_begins_after_what_it_rests_on_whatever_the_order_of_the_list(tmp_path: Path) -> None:
    units = {name: Note(tmp_path / name, name) for name in "abcd"}
    steps = [
        Step(units["d"], after=(units["b"].folder, units["c"].folder)),
        Step(units["b"], after=(units["a"].folder,)),
        Step(units["a"]),
        Step(units["c"], after=(units["a"].folder,), here=True),
    ]
    order: list[str] = []
    with Workers() as workers:
        assert Performance(workers, steps, lambda unit: order.append(unit.label)).wait() == []
    assert (order[0], sorted(order[1:3]), order[3]) == ("a", ["b", "c"], "d")


def test_what_rests_on_a_failed_unit_is_passed_over_and_what_need_not_have_it_is_done(tmp_path: Path) -> None:
    bad, after_bad, last = Wrong(tmp_path / "bad", "bad"), Note(tmp_path / "after"), Note(tmp_path / "last")
    steps = [
        Step(bad),
        Step(after_bad, after=(bad.folder,), wanted=partial(is_done, bad)),
        Step(last, after=(after_bad.folder,)),
    ]
    seen: list[Path] = []
    with Workers() as workers:
        failures = Performance(workers, steps, lambda unit: seen.append(unit.folder)).wait()
    assert failures == [Failure("bad", "ValueError: bad bad")]
    assert seen == [bad.folder, last.folder]
    assert not after_bad.folder.exists()


def test_what_is_whole_already_is_counted_and_lets_others_begin(tmp_path: Path) -> None:
    first, second = Note(tmp_path / "first", "first"), Note(tmp_path / "second", "second")
    steps = [Step(first), Step(second, after=(first.folder,))]
    with Workers() as workers:
        assert Performance(workers, steps[:1], ignore).wait() == []
        written = (first.folder / "note").stat().st_mtime_ns
        seen: list[str] = []
        assert Performance(workers, steps, lambda unit: seen.append(unit.label)).wait() == []
    assert seen == ["first", "second"]
    assert (first.folder / "note").stat().st_mtime_ns == written


@pytest.mark.process
def test_a_slow_unit_holds_up_only_what_rests_on_it(tmp_path: Path) -> None:
    message = tmp_path / "message"
    slow, quick = Patient(tmp_path / "slow", message), Note(tmp_path / "quick")
    # With a barrier after the first stage nobody would ever write what the slow one waits for.
    steps = [Step(slow), Step(quick), Step(Messenger(tmp_path / "next", message), after=(quick.folder,))]
    with Workers(2) as workers:
        assert Performance(workers, steps, ignore).wait() == []


@pytest.mark.process
def test_this_process_does_its_own_steps_while_others_work(tmp_path: Path) -> None:
    message = tmp_path / "message"
    steps = [Step(Patient(tmp_path / "slow", message)), Step(Messenger(tmp_path / "own", message), here=True)]
    with Workers(2) as workers:
        assert Performance(workers, steps, ignore).wait() == []
