"""A report about one signal: verdict, picture and findings speak of it against all others."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from exitbench.errors import InputError
from exitbench.reports.findings.findings import contestants
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import SourceRows
from exitbench.reports.verdict.standings import Standings
from exitbench.reports.verdict.verdict import verdict_of
from tests.support.page_runs import main_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


def first_words(run: FinishedRun) -> str:
    sentence = verdict_of(Standings(SourceRows(run))).sentences[0]
    return "".join(piece if isinstance(piece, str) else piece.text for piece in sentence)


def test_the_verdict_begins_with_the_subjects_place_and_its_differences(run_dir: Path) -> None:
    text = first_words(FinishedRun(run_dir, "f-pabee"))
    results = pd.read_parquet(run_dir / "results.parquet").query(
        "cache == '' and model == 'base' and protocol == 'cross-fit' and operating_point == 'speed_up=2' "
        "and measure == 'mean_accuracy_f1' and best.notna()",
        engine="python",
    )
    own = results[results["signal"] == "f-pabee"]["value"].item()
    place = 1 + int((results["value"] > own).sum())
    assert text.startswith(f"Near 2×, average of 2 tasks, base, F-PABEE scores {own:.1f} (cross-fit), ")
    assert f"place {place} of {len(results)}; " in text
    pairs = pd.read_parquet(run_dir / "pairs.parquet").query(
        "cache == '' and model == 'base' and protocol == 'cross-fit' and operating_point == 'speed_up=2' "
        "and measure == 'mean_accuracy_f1' and (signal_a == 'f-pabee' or signal_b == 'f-pabee')"
    )
    claimed = pairs[pairs["p_adjusted"] <= 0.05]
    losses = (claimed["difference"] * claimed["signal_a"].eq("f-pabee").map({True: 1, False: -1}) < 0).sum()
    assert losses > 0 and text.partition("behind ")[2].count(" by ") == losses


def test_a_subject_that_is_not_compared_is_said_to_be_absent_and_why(run_dir: Path) -> None:
    assert "PABEE is not compared (" in first_words(FinishedRun(run_dir, "pabee"))


def test_findings_set_the_subject_against_all_others(run_dir: Path) -> None:
    chosen = contestants(FinishedRun(run_dir, "nsp"))
    assert chosen is not None
    assert chosen[0].signal == "nsp" and len(chosen[1]) == 7
    by_suite = contestants(FinishedRun(run_dir))
    assert by_suite is not None and by_suite[0].signal == "cap"


def test_an_unknown_subject_is_refused(run_dir: Path) -> None:
    with pytest.raises(InputError, match=r"expected a signal of the run as --subject, found 'deebrt'.*deebert"):
        _ = FinishedRun(run_dir, "deebrt").subject
