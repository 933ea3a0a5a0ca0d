"""What a run can show, and what it takes to show a given difference, against the pairs of the run itself."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.results.files import RunFiles
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.detectable_differences import DetectableDifference, detectable_differences, is_asked
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.suites.suite import Suite
from exitbench.cli.app import main
from exitbench.errors import InputError
from tests.support.seed_caches import seeds_of

pytestmark = pytest.mark.long

FACTOR = 1.959963984540054 + 0.8416212335729143
"""A test at 5% that finds a true difference in four cases of five."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five seeds on one task, one network on another."""
    path = tmp_path_factory.mktemp("power")
    caches = [*seeds_of(path, 5, rows=120, task="t"), *seeds_of(path, 2, rows=90, task="u")]
    questions = Questions(
        layers=(1, 2), speed_ups=(1.5,), primary_speed_up=1.5, protocols=("in-sample",), resamples=60, losses=()
    )
    run_suite(Suite("power", tuple(caches), ("e-lang", "deebert", "margin"), questions), path / "out")
    return path


def column(files: RunFiles, cache: str, measure: str, layer: int | None = None) -> DetectableDifference:
    (only,) = [
        column
        for column in detectable_differences(files)
        if (column.cache, column.measure, column.layer) == (cache, measure, layer)
    ]
    return only


def test_it_is_the_median_error_of_the_pairs_times_what_power_asks_for(folder: Path) -> None:
    files = RunFiles(folder / "out")
    pairs = files.table("pairs")
    here = pairs[(pairs.cache == "m-t-s0-dev") & (pairs.measure == "dis") & (pairs.layer == 2)]
    dis = column(files, "m-t-s0-dev", "dis", 2)
    assert dis.one_pair == pytest.approx(FACTOR * np.median(here.std_err[here.std_err > 0]))
    assert dis.all_pairs > dis.one_pair and (dis.rows, dis.networks, dis.spread) == (120, 1, 0.0)
    # Errors shrink with the root of the rows: with so many rows the smallest difference is what was asked for.
    needed = dis.rows_needed(0.5)
    assert needed == math.ceil(120 * (dis.one_pair / 0.5) ** 2)
    assert dis.one_pair * math.sqrt(120 / needed) <= 0.5 < dis.one_pair * math.sqrt(120 / (needed - 1))


def test_an_average_knows_the_spread_between_networks(folder: Path) -> None:
    files = RunFiles(folder / "out")
    pairs = files.table("pairs")
    score = column(files, "", "accuracy")
    here = pairs[(pairs.measure == "accuracy") & (pairs.operating_point == "speed_up=1.5") & (pairs.task != "average")]
    variances = []
    for _, rows in here.groupby(["signal_a", "signal_b"]):
        tasks = [rows[rows.task == task].difference for task in ("t", "u")]
        variances.append(sum(np.var(values, ddof=1) for values in tasks) / 4)
    assert score.spread == pytest.approx(FACTOR * math.sqrt(np.median(variances)))
    assert score.networks == 2 and score.rows == 210
    # Fewer than five networks: the average is about these, and its error is that of the rows.
    target = math.sqrt(score.one_pair**2 + score.spread**2 / 7)
    assert score.networks_needed(target * 1.0001) == 7
    assert score.networks_needed(score.one_pair * 0.99) is None


def test_the_verb_reads_a_run_and_measures_caches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["power", *words])
        assert ended.value.code == 0
        return capsys.readouterr().out

    records = json.loads(answer(str(folder / "out"), "--difference", "0.5", "--json"))
    assert [record["one_pair"] for record in records] == [
        column.one_pair for column in detectable_differences(RunFiles(folder / "out"))
    ]
    dis = next(record for record in records if record["cache"] == "m-t-s0-dev" and record["layer"] == 2)
    assert dis["rows_needed"] == math.ceil(120 * (dis["one_pair"] / 0.5) ** 2) and dis["networks_needed"] is None
    words = [str(folder / "m-t-s0-dev"), "--signals", "e-lang", "--signals", "deebert", "--speed-up", "1.5"]
    text = answer(*words, "--resamples", "20", "--difference", "1")
    assert text.splitlines()[0] == "m-t-s0-dev (120 rows, in-sample)"
    assert "rows for 1" in text and "score at 1.5×" in text and "DIS, layer 2" in text


def test_results_of_a_cache_that_the_record_does_not_list_are_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "out", tmp_path / "out")
    record = json.loads((tmp_path / "out/run.json").read_text())
    del record["caches"]["m-t-s0-dev"]
    record["suite"]["caches"] = list(record["caches"])
    (tmp_path / "out/run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"expected results of the caches in run\.json, found those of 'm-t-s0-dev'"):
        detectable_differences(RunFiles(tmp_path / "out"))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--difference", "0"], "expected points between 0 and 100 for --difference, found 0"),
        (["no-such-cache"], "'no-such-cache' is neither a cache nor a suite"),
        (["RUN", "--speed-up", "3"], "--signals and --speed-up are for caches and suites, found the finished run"),
    ],
)
def test_wrong_words_are_one_line(
    folder: Path, words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["power", *(str(folder / "out") if word == "RUN" else word for word in words)])
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert problem in line


def test_power_is_not_asked_of_single_kinds_of_decisions() -> None:
    row = Row("c", "m", "t", "dev", "in-sample", "s", "", "dis", layer=2)
    caches = {"c": {"table_layers": [2], "metric": "accuracy"}}
    assert is_asked(row, None, caches)
    assert not is_asked(row._replace(layer=3), None, caches)
    assert not is_asked(row._replace(decisions="all"), None, caches)
