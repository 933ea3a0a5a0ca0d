"""Two runs are compared sample by sample, and only over the same caches."""

import itertools
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from exitbench.benchmarks.results.files import RunFiles, write_table
from exitbench.benchmarks.results.schema import rows_table
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.cache import synthetic_cache
from exitbench.cli.app import main
from exitbench.errors import InputError
from exitbench.reports.compare_runs import Comparison, compare_runs
from tests.support.page_runs import suite
from tests.support.table_runs import ONE, other_run, small_run, three_rows


def exit_code(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return small_run(tmp_path_factory), other_run(tmp_path_factory)


@pytest.fixture(scope="module")
def comparison(paths: tuple[Path, Path]) -> Comparison:
    return compare_runs(*paths)


@pytest.mark.long
def test_a_run_does_not_differ_from_itself(paths: tuple[Path, Path]) -> None:
    same = compare_runs(paths[0], paths[0])
    assert same.identical
    assert same.paired
    assert all(pair.p_right == pair.p_exit == 1.0 for pair in same.paired)


def test_a_pair_counts_the_samples_that_differ(paths: tuple[Path, Path], comparison: Comparison) -> None:
    a, b = (pd.read_parquet(path / "samples.parquet") for path in paths)
    seen = 0
    for pair in comparison.paired:
        signal = pair.signal_a.partition("[")[0]
        first, second = (
            {
                row.id: row
                for row in frame[
                    (frame["signal"] == signal) & (frame["operating_point"] == pair.point.text)
                ].itertuples()
            }
            for frame in (a, b)
        )
        assert set(first) == set(second)
        assert len(first) == pair.samples
        assert pair.only_a_right == sum(first[key].right and not second[key].right for key in first)
        assert pair.only_b_right == sum(second[key].right and not first[key].right for key in first)
        assert pair.earlier_in_a == sum(first[key].exit_layer < second[key].exit_layer for key in first)
        assert pair.accuracy_a == pytest.approx(100 * sum(row.right for row in first.values()) / len(first))
        seen += pair.differs
    assert seen


def test_a_value_read_from_samples_equals_the_one_in_the_results(
    paths: tuple[Path, Path], comparison: Comparison
) -> None:
    results = pd.read_parquet(paths[0] / "results.parquet")
    for pair in comparison.paired:
        if pair.signal_a == "deebert":
            stored = results[
                (results["signal"] == "deebert") & (results["operating_point"] == pair.point.text)
            ].set_index("measure")["value"]
            assert stored["accuracy"] == pytest.approx(pair.accuracy_a)
            assert stored["speed_up"] == pytest.approx(pair.speed_up_a)


def test_the_same_signal_with_other_parameters_is_still_compared(comparison: Comparison) -> None:
    pairs = {(pair.signal_a, pair.signal_b) for pair in comparison.paired}
    assert ("cap[alpha=0.1|1]", "cap[alpha=10]") in pairs
    assert ("deebert", "deebert") in pairs


def test_what_only_one_run_has_is_named(comparison: Comparison) -> None:
    assert comparison.only_a == ("signal pabee",)
    assert comparison.only_b == ("signal nsp",)
    assert not comparison.identical


def test_an_unchanged_signal_has_not_moved(comparison: Comparison) -> None:
    assert comparison.same > 0
    assert {change.signal_a for change in comparison.moved} == {"cap[alpha=0.1|1]"}


def test_promises_are_compared_too(paths: tuple[Path, Path], tmp_path: Path) -> None:
    other = shutil.copytree(paths[0], tmp_path / "other")
    rows = [
        row._replace(value=1.25) if (row.measure, row.signal) == ("certified_speed_up", "deebert") else row
        for row in RunFiles(other).rows()
    ]
    write_table(other / "results.parquet", rows_table(rows))
    moved = compare_runs(paths[0], other).moved
    assert {(change.protocol, change.signal_a, change.measure) for change in moved} == {
        ("certified", "deebert", "certified_speed_up")
    }


def test_adjusted_p_values_are_never_smaller(comparison: Comparison) -> None:
    for pair in comparison.paired:
        assert pair.p_right_adjusted >= pair.p_right
        assert pair.p_exit_adjusted >= pair.p_exit


@pytest.mark.long
def test_where_a_cache_has_groups_whole_groups_are_turned_around(tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=60, layers=4, width=8, seed=4, group_rows=10)
    for name, signal in (("a", "cap[alpha=0.1]"), ("b", "cap[alpha=10]")):
        run_suite(suite([cache], [signal], **ONE), tmp_path / name)
    a, b = (pd.read_parquet(tmp_path / name / "samples.parquet") for name in ("a", "b"))
    compared = compare_runs(tmp_path / "a", tmp_path / "b").paired
    assert any(pair.differs for pair in compared)
    for pair in compared:
        first, second = (frame[frame["operating_point"] == pair.point.text].set_index("id") for frame in (a, b))
        assert first["group"].to_list() == [int(key) // 10 for key in first.index]
        for p_value, signs in (
            (pair.p_right, first["right"].astype(int) - second["right"].astype(int)),
            (pair.p_exit, (second["exit_layer"] - first["exit_layer"]).map(lambda gap: (gap > 0) - (gap < 0))),
        ):
            sums = signs.groupby(first["group"]).sum().to_list()
            flips = list(itertools.product((-1, 1), repeat=len(sums)))
            totals = [abs(sum(sign * size for sign, size in zip(flip, sums, strict=True))) for flip in flips]
            assert p_value == pytest.approx(sum(total >= abs(sum(sums)) for total in totals) / len(flips))


@pytest.mark.long
def test_runs_towards_other_targets_are_refused(tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=30, layers=3, width=8, seed=4)
    for target in ("labels", "final"):
        run_suite(suite([cache], ["deebert"], **{**ONE, "layers": (1,)}, target=target), tmp_path / target)
    with pytest.raises(InputError, match=r"expected one target in both runs, found labels in .*, final in"):
        compare_runs(tmp_path / "labels", tmp_path / "final")


def test_runs_over_different_caches_of_one_name_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.raises(InputError, match="different caches named cache: manifest"):
        compare_runs(small_run(tmp_path_factory), three_rows(tmp_path_factory))


def test_runs_without_a_common_cache_are_refused(paths: tuple[Path, Path], tmp_path: Path) -> None:
    renamed = tmp_path / "renamed"
    shutil.copytree(paths[0], renamed)
    text = (renamed / "run.json").read_text().replace('"cache"', '"elsewhere"')
    (renamed / "run.json").write_text(text)
    with pytest.raises(InputError, match="no cache in common"):
        compare_runs(paths[0], renamed)


def test_the_verb_prints_a_table_and_ends_with_zero(
    paths: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("compare", *map(str, paths)) == 0
    shown = capsys.readouterr().out
    assert "cap[alpha=0.1|1] → cap[alpha=10]" in shown
    assert "only in run: signal pabee" in shown


def test_the_verb_says_when_nothing_differs(paths: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("compare", str(paths[0]), str(paths[0])) == 0
    assert "no difference" in capsys.readouterr().out


def test_the_verb_gives_everything_as_json(
    paths: tuple[Path, Path], comparison: Comparison, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("compare", *map(str, paths), "--json") == 0
    record = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert len(record["paired"]) == len(comparison.paired)
    assert len(record["moved"]) == len(comparison.moved)
    assert record["identical"] is False


def test_the_difference_of_two_scores_has_the_error_of_its_pairs(comparison: Comparison) -> None:
    for pair in comparison.paired:
        assert pair.measure == "accuracy" and pair.difference == pytest.approx(pair.accuracy_b - pair.accuracy_a)
        # The paired variance of shares by the textbook: (b + c) / n^2 - (b - c)^2 / n^3, McNemar's counts.
        b, c, n = pair.only_b_right, pair.only_a_right, pair.samples
        reach = 1.959964 * 100 * ((b + c) / n**2 - (b - c) ** 2 / n**3) ** 0.5
        if b + c:
            assert (pair.low, pair.high) == pytest.approx((pair.difference - reach, pair.difference + reach), rel=1e-5)


def test_one_signal_is_compared_with_another(paths: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    crossed = compare_runs(*paths, ("pabee", "nsp"))
    assert {(pair.signal_a, pair.signal_b) for pair in crossed.paired} == {("pabee", "nsp")}
    samples = [pd.read_parquet(path / "samples.parquet") for path in paths]
    point = crossed.paired[0].point.text
    a, b = (
        frame.query(f"signal == '{name}' and operating_point == '{point}'").set_index("id")["right"]
        for frame, name in zip(samples, ("pabee", "nsp"), strict=True)
    )
    assert crossed.paired[0].only_a_right == int((a & ~b.reindex(a.index)).sum())
    assert crossed.only_a == crossed.only_b == ()
    within = compare_runs(paths[0], paths[0], ("deebert", "pabee"))
    assert {(pair.signal_a, pair.signal_b) for pair in within.paired} == {("deebert", "pabee")}
    assert exit_code("compare", *map(str, paths), "--signals", "pabee,nsp") == 0
    assert "pabee → nsp" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        ("pabee", "expected two signals such as margin,cap for --signals, found 'pabee'"),
        ("pabee,", "expected two signals such as margin,cap for --signals, found 'pabee,'"),
        ("pabee,nspp", "in --signals, found 'nspp'. Did you mean nsp? It has deebert, nsp, cap[alpha=10]"),
    ],
)
def test_signals_that_cannot_be_compared_are_one_line(
    signals: str, message: str, paths: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("compare", *map(str, paths), "--signals", signals) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_a_folder_without_a_run_is_one_line_and_exit_code_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("compare", str(tmp_path), str(tmp_path)) == 2
    assert capsys.readouterr().err.count("\n") == 1
