"""What right means: the label, or agreement with the last layer; and caches that have no labels at all."""

import json
from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.api import evaluate, replay
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache, synthetic_cache
from exitbench.errors import InputError
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from tests.support.command_line import QUICK, exit_code

SIZE = {"rows": 200, "layers": 4, "width": 6, "compact": True}


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("target")
    return synthetic_cache(folder / "a-dev", **SIZE), synthetic_cache(folder / "b-dev", labelled=False, **SIZE)


def test_dis_against_agreement_is_the_auroc_of_agreeing(caches: tuple[Path, Path]) -> None:
    labelled, unlabelled = caches
    predictions = Cache(labelled).predictions()
    expected = Ranking(-score(labelled, "deebert"), predictions[:-1] == predictions[-1]).dis()
    options = {"protocols": ["in-sample"], "speed_ups": [1.5], "resamples": 20}
    for cache, target in ((labelled, "final"), (unlabelled, None), (unlabelled, "final")):
        rows = evaluate(cache, ["deebert"], target=target, **options).results  # type: ignore[arg-type]
        dis = rows[rows.measure == "dis"]
        assert dis.value.to_numpy() == pytest.approx(expected)
        final = rows[(rows.signal == "final") & (rows.measure == "accuracy")]
        assert final.value.to_list() == [100.0]


def test_without_a_target_a_labelled_cache_is_judged_by_its_labels(caches: tuple[Path, Path]) -> None:
    curve = replay(caches[0], "deebert")
    right = (Cache(caches[0]).predictions()[-1] == Cache(caches[0]).labels).mean() * 100
    assert float(curve.final.accuracy) == pytest.approx(right)
    assert float(replay(caches[0], "deebert", target="final").final.accuracy) == 100.0


def test_labels_that_are_not_there_cannot_be_the_target(caches: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="expected labels, found a cache without them"):
        evaluate(caches[1], ["deebert"], target="labels", resamples=10)


def test_a_signal_that_learns_learns_the_target(caches: tuple[Path, Path]) -> None:
    fitted = score(caches[1], "right-tool[temperature=fitted]", fit_on=caches[1])
    towards = score(caches[0], "right-tool[temperature=fitted]", fit_on=caches[0], target="final")
    by_label = score(caches[0], "right-tool[temperature=fitted]", fit_on=caches[0])
    assert np.array_equal(fitted, towards)
    assert not np.allclose(by_label, towards)


@pytest.mark.long
def test_every_table_says_that_agreement_is_what_counts(
    caches: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["run", *caches, "--target", "final", "--signals", "e-lang", "--out", out, *QUICK]
    assert exit_code(*words) == 0
    run = FinishedRun(out)
    assert [cache.target for cache in run.caches] == ["final", "final"]
    tables = tables_of(run)
    assert {"pairs", "across"} <= {table.topic for table in tables}
    for table in tables:
        assert any("agrees with the last layer" in note for note in table.notes), table.title
    assert "agrees with the last layer" in capsys.readouterr().out
    assert json.loads((out / "run.json").read_text())["suite"]["target"] == "final"


@pytest.mark.long
def test_a_run_by_labels_says_nothing_of_it(caches: tuple[Path, Path], tmp_path: Path) -> None:
    assert exit_code("run", caches[0], "--out", tmp_path / "out", *QUICK) == 0
    for table in tables_of(FinishedRun(tmp_path / "out")):
        assert not any("agrees with" in note for note in table.notes)


def test_a_threshold_is_found_against_agreement_and_says_so(
    caches: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["threshold", caches[1], "--signal", "deebert", "--speed-up", "1.5", "--resamples", "20"]
    assert exit_code(*words) == 0
    assert "right means: agrees with the last layer" in capsys.readouterr().out
    assert exit_code(*words, "--target", "labels") == 2
    assert exit_code(*words, "--target", "fianl") == 2


@pytest.mark.long
def test_the_card_of_a_cache_is_judged_by_either_target(
    caches: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("inspect", caches[0], "--target", "final", "--json") == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["target"], card["accuracy_per_layer"][-1]) == ("final", 100.0)
    assert exit_code("inspect", caches[1]) == 0
    assert "agrees with the last layer" in capsys.readouterr().out
    assert exit_code("inspect", caches[1], "--target", "labels") == 2
