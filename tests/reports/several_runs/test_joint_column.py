"""Signals of several runs are compared on the same rows: values as stored, errors from the answers, row by row."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from exitbench.benchmarks.results.files import write_table
from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.errors import InputError
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.several_runs.common_ground import common_ground, fields_of
from exitbench.reports.several_runs.joint_column import JointColumn, added_variance, joint_column
from exitbench.reports.several_runs.joint_runs import JointRuns
from exitbench.reports.several_runs.stored_answers import StoredAnswers
from tests.support.joint_runs import two_runs
from tests.support.table_runs import three_rows

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return two_runs(tmp_path_factory)


def joined(paths: tuple[Path, ...]) -> JointRuns:
    runs = [FinishedRun(path) for path in paths]
    ground = common_ground(runs)
    assert ground is not None
    return JointRuns(runs, [path.name for path in paths], ground)


@pytest.fixture(scope="module")
def joint(paths: tuple[Path, Path]) -> JointRuns:
    return joined(paths)


@pytest.fixture(scope="module")
def column(joint: JointRuns) -> JointColumn:
    return joint_column(joint, joint.ground.shared)


def write_samples(folder: Path, frame: pd.DataFrame) -> None:
    """Replace the stored answers of a run."""
    table = pa.Table.from_pandas(frame, schema=SCHEMAS["samples"], preserve_index=False)
    write_table(folder / "samples.parquet", table)


def stored(paths: tuple[Path, ...], file: str, name: tuple[str, str], cache: str) -> pd.DataFrame:
    """The rows of an entry near the speed-up, from the first run that has any."""
    for path in paths:
        frame = pd.read_parquet(path / f"{file}.parquet")
        key = {"signal": name[0], "parameters": name[1], "cache": cache, "operating_point": "speed_up=1.5"}
        chosen = frame[(frame[list(key)] == pd.Series(key)).all(axis=1)]
        if len(chosen):
            return chosen
    raise AssertionError(name)


def score_row(paths: tuple[Path, ...], name: tuple[str, str], cache: str) -> pd.Series:
    """The stored accuracy of an entry."""
    rows = stored(paths, "results", name, cache)
    return rows[(rows["measure"] == "accuracy") & (rows["decisions"] == "")].iloc[0]


def moved_by(score: Callable[[NDArray[np.float64]], float], weights: int) -> NDArray[np.float64]:
    """How a weighted score moves with each sample's weight, by small steps either way, divided by the samples."""
    step, moves = 1e-5, []
    for sample in range(weights):
        ends = []
        for sign in (1, -1):
            weight = np.ones(weights)
            weight[sample] += sign * step
            ends.append(score(weight))
        moves.append((ends[0] - ends[1]) / (2 * step))
    return np.array(moves)


def test_common_ground_is_what_all_runs_have(
    paths: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> None:
    first, second = map(FinishedRun, paths)
    ground = common_ground([first, second])
    assert ground is not None
    hashes = {name: first.record["caches"][name]["manifest_sha256"] for name in ("one", "two")}
    assert ground.shared == ((hashes["one"], "labels"), (hashes["two"], "labels"))
    assert (ground.protocol, ground.point.text) == ("in-sample", "speed_up=1.5")
    stranger = FinishedRun(three_rows(tmp_path_factory))
    assert common_ground([first, stranger]) is None
    assert fields_of([first, stranger, second]) == [[0, 2], [1]]


def test_a_cache_is_known_by_its_content_and_not_by_its_name(paths: tuple[Path, Path], tmp_path: Path) -> None:
    renamed = shutil.copytree(paths[0], tmp_path / "renamed")
    text = (renamed / "run.json").read_text()
    (renamed / "run.json").write_text(text.replace('"one"', '"uno"').replace("/one", "/uno"))
    ground = common_ground([FinishedRun(paths[1]), FinishedRun(renamed)])
    assert ground is not None and len(ground.shared) == 2
    record = (renamed / "run.json").read_text()
    digest = FinishedRun(renamed).record["caches"]["uno"]["manifest_sha256"]
    (renamed / "run.json").write_text(record.replace(digest, "0" * 64))
    ground = common_ground([FinishedRun(paths[1]), FinishedRun(renamed)])
    assert ground is not None and len(ground.shared) == 1


def test_a_signal_with_the_same_answers_in_both_runs_stands_once(joint: JointRuns) -> None:
    texts = [(contender.entry.text, contender.runs) for contender in joint.contenders]
    assert ("right-tool", (0, 1)) in texts and len(texts) == 6
    assert ("cap[alpha=0.1|1]", (0,)) in texts and ("cap[alpha=10]", (1,)) in texts


def test_one_changed_answer_makes_two_of_it(paths: tuple[Path, Path], tmp_path: Path) -> None:
    other = shutil.copytree(paths[1], tmp_path / "other")
    frame = pd.read_parquet(other / "samples.parquet")
    at = frame.query("signal == 'right-tool' and cache == 'two' and operating_point == 'speed_up=1.5'").index[0]
    frame.loc[at, "exit_layer"] = frame.loc[at, "exit_layer"] % 3 + 1
    write_samples(other, frame)
    changed = joined((paths[0], other))
    assert [contender.runs for contender in changed.contenders if contender.entry.text == "right-tool"] == [(0,), (1,)]
    names = [changed.label(contender) for contender in changed.contenders if contender.entry.text == "right-tool"]
    assert names == ["Right-Tool (first)", "Right-Tool (other)"]


def test_values_are_the_means_of_the_stored_scores(paths: tuple[Path, Path], column: JointColumn) -> None:
    for contender, value in zip(column.contenders, column.values, strict=True):
        scores = [score_row(paths, contender.name, cache)["value"] for cache in ("one", "two")]
        assert value == pytest.approx(sum(scores) / 2)
    assert "cap[alpha=0.1|1]" not in {contender.entry.text for contender in column.contenders}, "chosen on these rows"


def test_the_error_of_a_mean_difference_is_that_of_the_shared_rows(
    paths: tuple[Path, Path], column: JointColumn
) -> None:
    moves, beyond = {}, {}
    for contender, cache in itertools.product(column.contenders, ("one", "two")):
        right = stored(paths, "samples", contender.name, cache).sort_values("id")["right"].to_numpy(float)
        moves[contender, cache] = moved_by(lambda weight, ok=right: 100 * np.average(ok, weights=weight), 80)
        own = math.sqrt((moves[contender, cache] ** 2).sum())
        error = score_row(paths, contender.name, cache)["std_err"]
        beyond[contender, cache] = error**2 - own**2 if error > 1.25 * own else 0.0
    for (first, second), test in column.tests.items():
        a, b = column.contenders[first], column.contenders[second]
        # The same ids of one task are the same rows, so what both networks say of a row goes together.
        rows = sum((moves[a, cache] - moves[b, cache]) / 2 for cache in ("one", "two"))
        added = sum(beyond[one, cache] / 4 for one in (a, b) for cache in ("one", "two"))
        error = math.sqrt((rows**2).sum() + added)
        assert test.std_err == pytest.approx(error, rel=1e-4, abs=1e-7)
        if error > 1e-6:
            assert test.p_value == pytest.approx(2 * norm.sf(abs(test.value) / error), rel=1e-3)
            reach = 1.959964 * error
            assert (test.low, test.high) == pytest.approx((test.value - reach, test.value + reach), rel=1e-3)
    assert sum(test.std_err > 1e-6 for test in column.tests.values()) > 2


def test_p_values_of_a_column_are_adjusted_over_all_pairs(column: JointColumn) -> None:
    raw = {pair: test.p_value for pair, test in column.tests.items()}
    assert set(raw) == set(itertools.combinations(range(len(column.contenders)), 2))
    so_far = 0.0
    for rank, pair in enumerate(sorted(raw, key=lambda pair: raw[pair])):
        so_far = min(1.0, max(so_far, (len(raw) - rank) * raw[pair]))
        assert column.adjusted(*pair) == column.adjusted(*pair[::-1]) == pytest.approx(so_far)


def test_what_choosing_adds_counts_whole_and_other_excess_only_where_it_is_much(
    paths: tuple[Path, Path], joint: JointRuns
) -> None:
    contender, content = joint.contenders[0], joint.ground.shared[0]
    row, told = joint.row(contender, content), joint.answers_of(contender, content)
    assert row is not None and told is not None
    right = told.right.mean()
    own = 100 * math.sqrt(right * (1 - right) / 80)
    for factor, chose, expected in ((1.2, True, 0.44), (1.2, False, 0.0), (1.3, False, 0.69), (0.9, True, 0.0)):
        added = added_variance(row._replace(std_err=factor * own), told, "accuracy", chose=chose)
        assert added == pytest.approx(expected * own**2), (factor, chose)


def test_f1_and_groups_move_as_their_weights_do() -> None:
    draw = np.random.default_rng(0)
    prediction, label, groups = draw.integers(0, 2, 40), draw.integers(0, 2, 40), np.repeat(np.arange(8), 5)
    told = StoredAnswers(np.arange(40), groups, np.ones(40, np.int64), prediction, label)

    def f1(weight: NDArray[np.float64]) -> float:
        found = (weight * prediction * label).sum()
        return float(200 * found / ((weight * prediction).sum() + (weight * label).sum()))

    moves = moved_by(f1, 40)
    assert told.score("f1") == pytest.approx(f1(np.ones(40)))
    assert told.influence("f1") == pytest.approx(moves, rel=1e-4, abs=1e-8)
    by_group = [moves[groups == group].sum() for group in range(8)]
    assert told.std_err("f1") == pytest.approx(math.sqrt(sum(move**2 for move in by_group)), rel=1e-4)


def test_other_rows_under_the_same_hash_are_refused(paths: tuple[Path, Path], tmp_path: Path) -> None:
    other = shutil.copytree(paths[1], tmp_path / "other")
    frame = pd.read_parquet(other / "samples.parquet").assign(id=lambda rows: rows["id"] + 1)
    write_samples(other, frame)
    with pytest.raises(InputError, match=r"expected the same rows of .* in both runs, found others"):
        _ = joined((paths[0], other)).contenders
