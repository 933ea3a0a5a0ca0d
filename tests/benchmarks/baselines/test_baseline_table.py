"""Baseline files: what they hold, what counts as a move, what is refused."""

import csv
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.benchmarks.baselines.baseline_table import (
    COLUMNS,
    Move,
    Pinned,
    agree,
    baseline_of,
    moves,
    pinned_rows,
    read_baseline,
    tolerance_of,
    with_errors,
    write_baseline,
)
from exitbench.benchmarks.results.operating_point import at_speed_up, at_threshold
from exitbench.benchmarks.results.schema import KEY, Row
from exitbench.errors import InputError

ROW = Row("c", "m", "sst2", "dev", "in-sample", "cap", "alpha=0.1|1,center=false", "dis", layer=2, value=71.5, n=100)
RATE = ROW._replace(measure="premature_rate", layer=None, operating_point=at_speed_up(4), decisions="all", value=12.5)


def test_a_file_has_the_key_the_value_and_the_tolerance_and_nothing_else(tmp_path: Path) -> None:
    write_baseline(tmp_path / "b.csv", baseline_of([ROW, RATE]))
    with (tmp_path / "b.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    assert lines[0] == [*KEY, "value", "tolerance"]
    entry = ["c", "m", "sst2", "dev", "in-sample", "cap", "alpha=0.1|1,center=false"]
    assert lines[1] == [*entry, "", "2", "", "dis", "71.5", "0.1"]
    assert lines[2][-3:] == ["premature_rate", "12.5", "1e-06"]
    assert list(tmp_path.iterdir()) == [tmp_path / "b.csv"]


def test_the_order_of_results_does_not_show_and_layers_are_sorted_as_numbers(tmp_path: Path) -> None:
    rows = [ROW._replace(layer=layer) for layer in (10, 2, None, 1)]
    write_baseline(tmp_path / "a.csv", baseline_of(rows))
    write_baseline(tmp_path / "b.csv", baseline_of(rows[::-1]))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert [key[KEY.index("layer")] for key in read_baseline(tmp_path / "a.csv")] == [None, 1, 2, 10]


def test_rates_at_further_speed_ups_are_not_pinned() -> None:
    layer, further = RATE._replace(layer=3), RATE._replace(operating_point=at_speed_up(2))
    assert list(pinned_rows([RATE, layer, further])) == [RATE]
    assert list(pinned_rows([further])) == [further], "the only ones there are"


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(value=st.floats(0, 100) | st.just(math.nan), layer=st.none() | st.integers(1, 48), text=st.text("a=0.1|,\"' é"))
def test_what_is_written_agrees_when_read_again(
    tmp_path_factory: pytest.TempPathFactory, value: float, layer: int | None, text: str
) -> None:
    row = ROW._replace(value=value, layer=layer, parameters=text, measure="accuracy")
    file = tmp_path_factory.mktemp("baseline") / "b.csv"
    write_baseline(file, baseline_of([row]))
    assert moves(read_baseline(file), [row]) == []


def test_rates_of_single_layers_are_left_out_and_all_else_is_kept() -> None:
    kept = [RATE, *(ROW._replace(measure=name) for name in ("dis", "tied_share", "aurc", "accuracy", "speed_up"))]
    assert list(pinned_rows([RATE._replace(layer=3), *kept])) == kept


def test_a_threshold_that_is_a_score_is_pinned_to_six_digits() -> None:
    at_median = ROW._replace(
        operating_point=at_threshold("median"), layer=None, measure="speed_up", value=2.5, threshold=0.0123456789
    )
    before = baseline_of([at_median, at_median._replace(measure="accuracy")])
    assert sorted(str(key[-1]) for key in before) == ["accuracy", "speed_up", "threshold"]

    def moved(threshold: float) -> list[str]:
        rows = [at_median._replace(measure=measure, threshold=threshold) for measure in ("speed_up", "accuracy")]
        return [move.question for move in moves(before, rows)]

    assert moved(0.01234568) == []
    assert moved(0.01234578) == ["threshold, tau=median"]


def test_no_threshold_is_pinned_that_a_user_set_or_that_lies_between_two_scores() -> None:
    rows = [
        ROW._replace(operating_point=point, measure="speed_up", threshold=3.0)
        for point in (at_threshold(3), at_speed_up(2))
    ]
    assert list(pinned_rows(rows)) == rows


@pytest.mark.parametrize("samples", [60, 277, 872, 5463, 40_000])
def test_one_sample_outweighs_the_tolerance_of_every_count(samples: int) -> None:
    accuracy = 100 / samples
    slowest = 12 / 12 - 12 / (12 + 1 / samples)  # one sample, one layer later, at full depth
    for measure, weight in (("accuracy", accuracy), ("f1", accuracy / 2), ("delayed_rate", accuracy / 47)):
        assert tolerance_of(RATE._replace(measure=measure, n=samples)) < weight
    assert tolerance_of(RATE._replace(measure="speed_up", n=samples)) < slowest


@pytest.mark.parametrize("samples", [60, 277, 872, 5463, 40_000])
def test_the_tolerance_of_a_ranking_is_about_one_pair_and_far_below_one_sample(samples: int) -> None:
    wrong = samples / 9
    pair = 100 / (wrong * (samples - wrong))
    tolerance = tolerance_of(ROW._replace(n=samples))
    assert 0.5 * pair < tolerance < 1.5 * pair or tolerance == 1e-6
    assert tolerance < 0.5 * 100 / samples


def test_a_value_moves_only_beyond_its_tolerance() -> None:
    assert agree(Pinned(10.0, 0.5), 10.5)
    assert agree(Pinned(10.0, 0.5), 9.5)
    assert not agree(Pinned(10.0, 0.5), 10.5001)
    assert not agree(Pinned(10.0, 0.5), 9.4999)


def test_an_undefined_value_agrees_with_nothing_but_an_undefined_one() -> None:
    assert agree(Pinned(math.nan, 1.0), math.nan)
    assert not agree(Pinned(math.nan, 1.0), 0.0)
    assert not agree(Pinned(0.0, 1.0), math.nan)


def test_new_missing_and_changed_rows_are_moves() -> None:
    same, gone, changed, new = (ROW._replace(layer=layer) for layer in (1, 2, 3, 4))
    changes = moves(baseline_of([same, gone, changed]), [same, changed._replace(value=72.0), new])
    assert [(move.kind, move.was, move.now) for move in changes] == [
        ("missing", 71.5, None),
        ("moved", 71.5, 72.0),
        ("new", None, 71.5),
    ]
    assert changes[1].difference == 0.5
    assert math.isnan(changes[0].difference)


def test_a_move_is_compared_with_the_error_of_its_own_number() -> None:
    changed = [ROW._replace(value=72.0), RATE._replace(value=12.7)]
    compared = with_errors(
        moves(baseline_of([ROW, RATE]), changed), [ROW._replace(std_err=0.4), RATE._replace(std_err=0.3)]
    )
    assert {move.key[-1]: move.beyond_error for move in compared} == {"dis": True, "premature_rate": False}
    assert Move(ROW.key, 1.0, 2.0, 0.1).beyond_error is None
    assert Move(ROW.key, None, 2.0, 0.1, std_err=0.1).beyond_error is None


def test_a_tolerance_set_by_hand_outlives_an_update() -> None:
    before = {ROW.key: Pinned(71.0, 0.25)}
    after = baseline_of([ROW._replace(value=72.0), RATE], before)
    assert after[ROW.key] == Pinned(72.0, 0.25)
    assert after[RATE.key].tolerance == tolerance_of(RATE)


def test_a_move_says_where_it_is() -> None:
    move = Move(RATE.key, 12.5, 13.0, 1e-6)
    assert move.entry == ("c", "in-sample", "cap[alpha=0.1|1,center=false]")
    assert move.question == "premature_rate, speed_up=4, all"
    average = RATE._replace(cache="", task="average", parameters="")
    assert Move(average.key, 1.0, 2.0, 0.1).entry == ("average of m dev", "in-sample", "cap")


HEADER = ",".join(COLUMNS)
LINE = "c,m,sst2,dev,in-sample,cap,,,2,,dis,71.5,0.1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the columns cache,model"),
        ("cache,value\n", "found cache,value"),
        (f"{HEADER}\n{LINE},9\n", "line 2: expected 13 cells, found 14"),
        (f"{HEADER}\n{LINE}\n{LINE}\n", "line 3: the same key"),
        (
            f"{HEADER}\n{LINE.replace('71.5', 'high')}\n",
            "line 2: expected an operating point such as speed_up=2, and numbers as layer, value and tolerance",
        ),
        (
            f"{HEADER}\n{LINE.replace(',2,', ',2.5,')}\n",
            "line 2: expected an operating point such as speed_up=2, and numbers as layer, value and tolerance",
        ),
        (
            f"{HEADER}\n{LINE.removesuffix('0.1')}\n",
            "line 2: expected an operating point such as speed_up=2, and numbers as layer, value and tolerance",
        ),
        (f"{HEADER}\n{LINE.replace('0.1', '-0.1')}\n", "line 2: a tolerance is a number from 0"),
        (f"{HEADER}\n{LINE.replace('0.1', 'inf')}\n", "line 2: a tolerance is a number from 0"),
        (f'{HEADER}\n"{LINE}\n', "is not a CSV file"),
        ("\udcff", "is not a CSV file"),
    ],
)
def test_what_is_no_baseline_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "b.csv"
    file.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError) as refused:
        read_baseline(file)
    assert message in str(refused.value)


def test_a_missing_file_says_how_to_make_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no baseline at .*; --update writes it"):
        read_baseline(tmp_path / "b.csv")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "b.csv"
    write_baseline(file, baseline_of([ROW]))
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"b\.csv: cannot be written: no space left"):
        write_baseline(file, baseline_of([ROW, RATE]))
    assert file.read_bytes() == before


def test_a_median_threshold_is_pinned_once_beside_its_rows() -> None:
    point = at_threshold("median")
    scored = [
        ROW._replace(measure=measure, layer=None, operating_point=point, threshold=0.25, value=value)
        for measure, value in (("accuracy", 80.0), ("f1", 70.0), ("speed_up", 2.0))
    ]
    fixed = [row._replace(operating_point=at_threshold(0.25)) for row in scored]
    pinned = [(row.measure, row.value) for row in pinned_rows([*scored, *fixed])]
    both = 2 * [("accuracy", 80.0), ("f1", 70.0), ("speed_up", 2.0)]
    assert sorted(pinned) == sorted([*both, ("threshold", 0.25)])
