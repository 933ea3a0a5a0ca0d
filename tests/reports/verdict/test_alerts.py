"""Alerts are counted from the results, and a run without trouble has none of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.verdict.alert import Alert
from exitbench.reports.verdict.alerts import alerts_of
from tests.support.page_runs import main_run

pytestmark = pytest.mark.long

WHERE = ["cache", "signal", "parameters", "operating_point"]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


def by_kind(run_dir: Path) -> dict[str, Alert]:
    return {alert.kind: alert for alert in alerts_of(FinishedRun(run_dir))}


@pytest.fixture(scope="module")
def alerts(run_dir: Path) -> dict[str, Alert]:
    return by_kind(run_dir)


@pytest.fixture(scope="module")
def entries(run_dir: Path) -> pd.DataFrame:
    """Rows of what the suite compares, single tasks only."""
    record = json.loads((run_dir / "run.json").read_text())
    named = {(entry["signal"], entry["parameters"]) for entry in record["entries"]}
    results = pd.read_parquet(run_dir / "results.parquet")
    is_entry = [pair in named for pair in zip(results["signal"], results["parameters"], strict=True)]
    return results[pd.Series(is_entry, index=results.index) & (results["cache"] != "")]


def test_unmatched_operating_points_are_counted(alerts: dict[str, Alert], entries: pd.DataFrame) -> None:
    unmatched = entries[
        (entries["status"] == "unmatched")
        & (entries["measure"] == "speed_up")
        & (entries["decisions"] == "")
        & entries["operating_point"].str.startswith("speed_up")
    ].drop_duplicates(WHERE)  # a line names a point once, whatever the protocols
    assert len(unmatched) > 0
    assert alerts["unmatched"].headline == f"{len(unmatched)} operating points not matched in speed-up"
    assert any(where.startswith("PABEE: ") for where in alerts["unmatched"].places)


def test_degenerate_operating_points_are_counted(alerts: dict[str, Alert], entries: pd.DataFrame) -> None:
    degenerate = entries[
        (entries["status"] == "degenerate") & (entries["measure"] == "speed_up") & (entries["decisions"] == "")
    ].drop_duplicates(WHERE)
    assert len(degenerate) > 0
    assert alerts["degenerate"].headline == f"{len(degenerate)} operating points without a decision"
    assert "a fixed layer and not the signal" in alerts["degenerate"].meaning


def test_few_samples_are_named_with_their_number(alerts: dict[str, Alert]) -> None:
    assert alerts["few-samples"].places == ("SST-2 with base: 260 rows",)


def test_two_classes_make_signals_identical_and_the_alert_says_which(alerts: dict[str, Alert]) -> None:
    twins = " ".join(alerts["identical"].places)
    assert "DeeBERT, Right-Tool" in twins and "SST-2 with base" in twins and "MRPC with base" in twins
    assert not any("Right-Tool" in where and "MNLI" in where for where in alerts["identical"].places)


def test_ties_come_from_the_share_of_tied_pairs(alerts: dict[str, Alert], entries: pd.DataFrame) -> None:
    tied = entries[
        (entries["measure"] == "tied_share") & (entries["value"] >= 5) & entries["layer"].isin([1, 2])
    ].drop_duplicates([*WHERE, "layer"])
    assert alerts["ties"].headline == f"{len(tied)} rankings with many ties"


def test_a_whole_run_has_no_error(alerts: dict[str, Alert]) -> None:
    assert {alert.severity for alert in alerts.values()} <= {"caution", "note"}
    assert "in-sample" not in alerts


def test_the_gravest_alert_comes_first_and_names_the_failed_part(run_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    record = json.loads((copy / "run.json").read_text())
    record |= {"complete": False, "failures": [{"label": "base-sst2: nsp", "reason": "the disk was full"}]}
    (copy / "run.json").write_text(json.dumps(record))
    first = alerts_of(FinishedRun(copy))[0]
    assert first.severity == "error" and first.headline == "One part of the run failed"
    assert first.places == ("base-sst2: nsp: the disk was full",)


def test_a_signal_without_results_on_a_task_is_missing(run_dir: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    table = pq.read_table(copy / "results.parquet")
    gone = [
        not (signal == "nsp" and cache == "base-mrpc")
        for signal, cache in zip(table["signal"].to_pylist(), table["cache"].to_pylist(), strict=True)
    ]
    pq.write_table(table.filter(gone), copy / "results.parquet")
    alert = by_kind(copy)["missing"]
    assert alert.severity == "error"
    assert alert.places == ("NSP: MRPC with base (in-sample), MRPC with base (cross-fit)",)


def test_a_run_under_one_flattering_protocol_is_told_so(run_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    record = json.loads((copy / "run.json").read_text())
    record["suite"]["protocols"] = ["in-sample"]
    (copy / "run.json").write_text(json.dumps(record))
    assert by_kind(copy)["in-sample"].severity == "caution"


@pytest.mark.parametrize(
    ("status", "kind", "severity"), [("unmatched", "loss-not-kept", "caution"), ("ok", "loss-over", "note")]
)
def test_a_loss_that_the_scored_rows_do_not_keep_is_said_with_both_numbers(
    run_dir: Path, tmp_path: Path, status: str, kind: str, severity: str
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = tmp_path / "run"
    shutil.copytree(run_dir, copy)
    table = pq.read_table(copy / "results.parquet")
    columns = {name: table[name].to_pylist() for name in ("status", "value")}
    keys = table.select(["cache", "protocol", "signal", "operating_point", "measure"]).to_pylist()
    for number, row in enumerate(keys):
        named = (row["cache"], row["protocol"], row["signal"]) == ("base-sst2", "cross-fit", "nsp")
        if named and row["operating_point"].startswith("loss"):
            columns["status"][number] = status
            if row["measure"] == "realised_loss":
                columns["value"][number] = 12.27
    for name, values in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(values, table.schema.field(at).type))
    pq.write_table(table, copy / "results.parquet")
    alerts = by_kind(copy)
    assert alerts[kind].severity == severity
    (line,) = [line for line in alerts[kind].places if line.startswith("NSP: ")]
    assert ": 12.27" in line
    assert "12.27" not in " ".join(alerts["unmatched"].places)
