"""The check of the speed run: when it goes red, when it stays green, and what it commits."""

import subprocess
import sys
from pathlib import Path

import pytest

from exitbench.benchmarks import speed
from exitbench.benchmarks.speed.harness.committed import (
    Committed,
    complaint,
    orphans,
    read_committed,
    unexplained,
    write_committed,
)
from exitbench.benchmarks.speed.harness.page import PAGE, page_text, terminal_table
from exitbench.benchmarks.speed.harness.ratios import Measured, Ratio, child, in_turn
from exitbench.benchmarks.speed.harness.rows import MODULES, SpeedRow, Topic, all_rows, topics

SLOWER_IS_WORSE = SpeedRow("ours", "ours / theirs", "lower", goal=5.0, margin=0.4)
FASTER_IS_BETTER = SpeedRow("gain", "theirs / ours", "higher", goal=8.0, margin=0.4)


def committed(**ratios: float) -> Committed:
    return Committed({name: Measured(value, "detail") for name, value in ratios.items()}, {"cores": "2"})


def test_the_page_is_what_the_committed_ratios_give() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_text(topics(), read_committed())


def test_every_committed_ratio_is_a_row_in_the_order_of_the_table() -> None:
    rows = read_committed().rows
    assert list(rows) == [name for name in all_rows() if name in rows]


def test_every_benchmark_file_has_its_place_in_the_table() -> None:
    folder = Path(speed.__file__ or "").parent
    assert sorted(MODULES) == sorted(path.stem for path in folder.glob("test_*.py"))


def test_every_committed_ratio_that_misses_its_goal_has_its_reason_on_the_page() -> None:
    assert unexplained(all_rows(), read_committed()) == []


@pytest.mark.parametrize(("before", "now"), [(2.0, 2.9), (6.0, 8.5)])
def test_a_ratio_that_should_be_low_goes_red_when_it_grows_beyond_the_margin(before: float, now: float) -> None:
    assert "worse than the committed" in complaint(SLOWER_IS_WORSE, now, committed(ours=before))


@pytest.mark.parametrize(("before", "now"), [(20.0, 14.0), (7.0, 4.9)])
def test_a_ratio_that_should_be_high_goes_red_when_it_falls_beyond_the_margin(before: float, now: float) -> None:
    assert "worse than the committed" in complaint(FASTER_IS_BETTER, now, committed(gain=before))


@pytest.mark.parametrize("now", [0.1, 2.0, 2.7])
def test_within_the_margin_and_better_stay_green(now: float) -> None:
    assert complaint(SLOWER_IS_WORSE, now, committed(ours=2.0)) == ""


@pytest.mark.parametrize("now", [15.0, 20.0, 2000.0])
def test_within_the_margin_and_better_stay_green_where_high_is_good(now: float) -> None:
    assert complaint(FASTER_IS_BETTER, now, committed(gain=20.0)) == ""


def test_a_goal_that_was_met_must_stay_met_but_for_noise() -> None:
    assert complaint(SLOWER_IS_WORSE, 5.4, committed(ours=4.9)) == ""
    assert "the goal is at most 5x" in complaint(SLOWER_IS_WORSE, 5.6, committed(ours=4.9))
    assert "the goal is at least 8x" in complaint(FASTER_IS_BETTER, 7.2, committed(gain=8.1))


def test_a_goal_that_was_missed_is_not_asked_for_again() -> None:
    assert complaint(SLOWER_IS_WORSE, 7.0, committed(ours=6.0)) == ""
    assert complaint(FASTER_IS_BETTER, 6.0, committed(gain=7.0)) == ""


def test_a_new_row_and_a_row_that_is_gone_are_red() -> None:
    assert "a new row" in complaint(SLOWER_IS_WORSE, 1.0, committed(gain=20.0))
    rows = {"ours": SLOWER_IS_WORSE}
    assert ["gain: committed, but no benchmark" in line for line in orphans(rows, committed(gain=20.0, ours=1.0))] == [
        True
    ]
    assert orphans(rows, committed(ours=1.0)) == []


def test_a_missed_goal_without_a_reason_is_named() -> None:
    explained = SpeedRow("known", "a / b", "lower", goal=1.0, limit="Memory is slow.")
    rows = {"ours": SLOWER_IS_WORSE, "known": explained}
    assert [line.split(":")[0] for line in unexplained(rows, committed(ours=6.0, known=2.0))] == ["ours"]
    assert unexplained(rows, committed(ours=5.0, known=2.0)) == []


def test_an_update_keeps_what_was_not_measured_and_drops_what_is_no_row(tmp_path: Path) -> None:
    before = committed(gone=1.0, ours=2.0, gain=9.0)
    after = before.updated([FASTER_IS_BETTER, SLOWER_IS_WORSE], {"ours": Measured(3.14159265, "new")}, {"cores": "4"})
    write_committed(after, tmp_path / "ratios.json")
    read = read_committed(tmp_path / "ratios.json")
    assert list(read.rows.items()) == [("gain", Measured(9.0, "detail")), ("ours", Measured(3.142, "new"))]
    assert read.machine == {"cores": "4"}


def test_missed_goals_are_shown_as_missed() -> None:
    topic = Topic("Things", "Measured somehow.", (SLOWER_IS_WORSE, FASTER_IS_BETTER))
    ratios = committed(ours=6.0, gain=9.0)
    page = page_text([topic], ratios)
    assert "1 of 2 goals are met; not met: `ours`." in page
    assert "| `ours` | ours / theirs | at most 5x | 6x | **no** |" in page
    assert "| `gain` | theirs / ours | at least 8x | 9x | yes |" in page
    assert "1 of 2 goals are met; not measured yet: `ours`." in page_text([topic], committed(gain=9.0))
    shown = terminal_table([topic], {"ours": Measured(7.5, "15 s / 2 s")}, ratios).splitlines()
    assert [line.split() for line in shown[1:]] == [
        ["ours", "7.5x", "at", "most", "5x", "no", "6x", "+25%", "15", "s", "/", "2", "s"]
    ]


def test_both_sides_are_timed_in_turn_and_medians_compared() -> None:
    order: list[str] = []

    def role(name: str, times: list[float]) -> float:
        order.append(name)
        return times.pop(0)

    slow, fast = [4.0, 100.0, 6.0], [2.0, 3.0, 1.0]
    timed = in_turn(lambda: role("a", slow), lambda: role("b", fast), rounds=3)
    assert timed == Ratio(6.0, 2.0)
    assert order == ["a", "b", "b", "a", "a", "b"]


@pytest.mark.process
def test_a_child_that_fails_is_no_time() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        child([sys.executable, "-c", "raise SystemExit(3)"])


SESSION = """
from exitbench.benchmarks.speed.harness.committed import read_committed
from exitbench.benchmarks.speed.harness.ratios import Measured
from exitbench.benchmarks.speed.test_start_speed import START, TOPIC

def test_as_before(record_ratio):
    record_ratio(START, lambda: Measured(read_committed().rows[START.name].value, "as before"))

def test_ten_times_slower(record_ratio):
    record_ratio(START, lambda: Measured(10 * read_committed().rows[START.name].value, "slower"))
"""


@pytest.mark.process
def test_a_session_fails_where_a_ratio_is_worse_and_only_there(tmp_path: Path) -> None:
    (tmp_path / "test_session.py").write_text(SESSION)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "exitbench.benchmarks.speed.conftest",
        "-p",
        "no:cacheprovider",
        ".",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout
    assert "1 failed, 1 passed" in done.stdout
    assert "start: " in done.stdout and "worse than the committed" in done.stdout
