"""``infer --time`` and ``cost --policy``: the tables, the files, and what is refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.measures.cost_file import read_cost
from tests.support.command_line import exit_code
from tests.support.live_models import ROWS, Collected, collected, texts, write_live_policy

WAYS = ["full network", "static network", "exits", "continuous exits"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``model``, ``policy.json`` and ``reviews.txt``."""
    folder = tmp_path_factory.mktemp("times")
    source: Collected = collected(folder)
    source.model.save_pretrained(folder / "model")
    write_live_policy(folder / "policy.json", source, "e-lang")
    (folder / "reviews.txt").write_text("".join(f"{text}\n" for text in texts()))
    return folder


@pytest.mark.long
def test_infer_times_requests_with_the_exits_of_its_texts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["infer", "--model", folder / "model", "--policy", folder / "policy.json", "--device", "cpu", "--time"]
    out = tmp_path / "times.json"
    assert exit_code(*words, "--requests", ROWS, "--out", out, folder / "reviews.txt") == 0
    printed = capsys.readouterr().out
    assert "Milliseconds that a request waits" in printed
    assert f"{ROWS} requests at each batch size, with exits as reviews.txt makes them, on cpu" in printed.replace(
        "\n", " "
    )
    record = json.loads(out.read_text())
    assert [(row["batch_size"], row["way"]) for row in record["rows"]] == [
        (size, way) for size in (1, 8, 32) for way in WAYS
    ]
    exits = json.loads((folder / "policy.json").read_text())["calibration"]["exit_layers"]
    for row in record["rows"]:
        assert 0 < row["p50"] <= row["p95"] <= row["p99"]
        if row["way"] != "static network" or row["batch_size"] == 1:  # few batches have no mean between whole depths
            assert row["mean_layers"] == pytest.approx(6 if row["way"] == "full network" else np.mean(exits), abs=0.1)
    shown = re.findall(r"^ *(\d+) +continuous exits +[\d.]+ +[\d.]+ \([\d.]+\) ", printed, flags=re.MULTILINE)
    assert shown == ["1", "8", "32"]
    assert exit_code(*words, folder / "reviews.txt", "--out", out) == 2
    assert exit_code(*words, "-") == 2
    assert "expected a file, found standard input" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("with_model", [True, False])
def test_cost_times_requests_that_exit_where_calibration_rows_did(
    folder: Path, tmp_path: Path, with_model: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    network = ["--model", folder / "model"] if with_model else ["--width", 64, "--intermediate", 64]
    words = [
        "--policy",
        folder / "policy.json",
        "--length",
        6,
        "--requests",
        ROWS,
        "--batch-size",
        4,
        "--device",
        "cpu",
    ]
    assert exit_code("cost", *network, *words, "--out", tmp_path / "cost") == 0
    assert "which exit where the policy's calibration rows did" in capsys.readouterr().out.replace("\n", " ")
    stored = read_cost(tmp_path / "cost")
    assert stored is not None and stored.requests is not None and stored.timing is None
    assert [row.way for row in stored.requests.rows] == WAYS
    exits = json.loads((folder / "policy.json").read_text())["calibration"]["exit_layers"]
    assert stored.requests.rows[2].mean_layers == pytest.approx(np.mean(exits))
    lines = (tmp_path / "cost" / "requests.csv").read_text().splitlines()
    assert lines[0].startswith("way,batch_size,requests,mean_layers,p50,p95,p99,per_second,speed_up")
    assert len(lines) == 5


def test_what_a_policy_cannot_be_timed_with_is_one_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("cost", "--policy", folder / "policy.json", "--layers", 3) == 2
    assert "expected either --policy, whose sizes count, or --layers, found both" in capsys.readouterr().err
    record = json.loads((folder / "policy.json").read_text())
    empty = record | {"calibration": {"exit_layers": [], "scores": []}}
    (tmp_path / "empty.json").write_text(json.dumps(empty))
    assert exit_code("cost", "--policy", tmp_path / "empty.json") == 2
    assert "expected the exits of calibration rows, found none" in capsys.readouterr().err
    record["signal"] = {"name": "saturation", "parameters": {}, "learned": {}}
    (tmp_path / "features.json").write_text(json.dumps(record))
    assert exit_code("cost", "--policy", tmp_path / "features.json") == 2
    assert "expected that network (--model), found none" in capsys.readouterr().err
