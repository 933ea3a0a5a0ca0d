"""Which runs get findings, and about which signal: what the suite asks for, whatever the signal is called."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest

from exitbench.reports.findings.findings import findings
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.write_views import FINDINGS, write_views
from tests.support.findings_runs import altered, opening, page_of
from tests.support.page_runs import HOSTILE, hostile_run, main_run
from tests.support.table_runs import contested_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, three tasks; its suite asks for CAP against E-LANG and DeeBERT."""
    return main_run(tmp_path_factory)


def test_only_a_run_whose_suite_asks_for_findings_gets_them_and_old_ones_go(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(contested_run(tmp_path_factory), folder)
    write_views(FinishedRun(folder))
    assert (folder / FINDINGS).read_text(encoding="utf-8") == page_of(FinishedRun(folder))
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    record["suite"]["findings"] = None
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    write_views(FinishedRun(folder))
    assert not (folder / FINDINGS).exists()


def test_a_run_without_any_results_has_no_findings(run_dir: Path, tmp_path: Path) -> None:
    assert findings(altered(run_dir, tmp_path / "run", keep=lambda frame: frame["cache"].isna())) is None


def about(run_dir: Path, folder: Path, subject: str, *against: str) -> FinishedRun:
    """A copy of a run whose suite asks for findings about other signals."""
    shutil.copytree(run_dir, folder)
    record = json.loads((folder / "run.json").read_text())
    record["suite"]["findings"] = {"subject": subject, "against": against}
    (folder / "run.json").write_text(json.dumps(record))
    return FinishedRun(folder)


def differences(page: str, first: str, second: str) -> list[float]:
    """The differences by DIS that a page shows, first less second, NaN for a dash."""
    table = page.split(f"### DIS: {first} less {second}")[1].split("###", maxsplit=1)[0]
    cells = [line.split("|")[3].replace("\\", "").strip(" *") for line in table.splitlines() if "| layer" in line]
    return [math.nan if cell.startswith("–") else float(cell.partition(" ")[0]) for cell in cells]


def test_any_signal_can_be_the_subject(run_dir: Path, tmp_path: Path) -> None:
    page = page_of(about(run_dir, tmp_path / "run", "e-lang", "cap"))
    assert opening(page).strip().startswith("By task score and by DIS, E-LANG is ")
    assert "## Where E-LANG beats CAP, and where not" in page
    assert "DeeBERT less" not in page
    turned = [-value for value in differences(page_of(FinishedRun(run_dir)), "CAP", "E-LANG")]
    assert differences(page, "E-LANG", "CAP") == pytest.approx(turned, nan_ok=True)
    assert len(turned) == 6


def test_the_parameters_of_another_subject_get_no_advice_from_the_paper(run_dir: Path, tmp_path: Path) -> None:
    page = page_of(about(run_dir, tmp_path / "run", "pcee", "pabee"))
    assert "## How far patience matters" in page
    assert "The paper advises" not in page
    assert "The paper advises values of alpha between 0.1 and 1" in page_of(FinishedRun(run_dir))


def test_findings_about_a_signal_of_ones_own_claim_nothing_of_the_paper(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    page = page_of(about(hostile_run(tmp_path_factory), tmp_path / "run", "hostile-4", "deebert"))
    assert opening(page).strip().startswith(f"By task score and by DIS, {HOSTILE[4]} is ")
    assert "paper" not in page
