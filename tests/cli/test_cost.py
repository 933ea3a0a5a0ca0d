"""``exitbench cost`` from end to end: what it counts, times and writes, and what it refuses in one line."""

import re
from pathlib import Path

import pytest

from exitbench.benchmarks.measures.cost_file import read_cost
from tests.support.command_line import exit_code
from tests.support.tiny_models import tiny_model

pytestmark = pytest.mark.long


def test_the_tables_of_bert_base_show_the_published_figures_beside_the_counted(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert exit_code("cost", "--out", tmp_path) == 0
    printed = capsys.readouterr().out
    for line in (
        r"encoder +2 +sample, layer +1813\.5M +1863\.8M +1813\.5M",
        r"projection_matrix +3 +layer, once +3\.0M +3\.0M +3\.0M",
        r"offset_vector +2 +layer, once +– +– +4\.4K",
        r"cap_suite +2 +sample, layer +1\.5K +1\.5K +–",
        r"extra_heads +2 +16,918 \(16\.9K\) +16\.92K",
        r"extra_heads +3 +25,377 \(25\.4K\) +25\.38K",
    ):
        assert re.search(line, printed), line
    stored = read_cost(tmp_path)
    assert stored is not None and stored.timing is None
    assert {row.classes for row in stored.operations} == {2, 3}


def test_a_model_is_counted_and_timed_beside_the_published_overheads(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tiny_model(tmp_path / "model", depth=6)
    words = ["--time", "--rounds", 2, "--length", 10, "--device", "cpu", "--out", tmp_path / "cost"]
    assert exit_code("cost", "--model", tmp_path / "model", *words) == 0
    assert "Inference time with exits that nothing reaches" in capsys.readouterr().out
    stored = read_cost(tmp_path / "cost")
    assert stored is not None and stored.timing is not None
    assert stored.shape.layers == 6 and stored.shape.width == 16
    counted = {row.part: row.parameters for row in stored.parameters}
    assert counted["counted_poolers"] == 6 * (16 * 16 + 16)
    assert counted["counted_extra"] == 5 * (16 * 16 + 16) + counted["extra_heads"]
    overheads = {row.title: row.published_overhead for row in stored.timing.rows}
    signals = ["DeeBERT", "Right-Tool", "PABEE", "F-PABEE", "PCEE-BERT", "E-LANG", "NSP", "CAP"]
    assert list(overheads) == ["plain network", *signals]
    assert overheads["CAP"] == 6.4 and overheads["NSP"] is None and overheads["plain network"] == 0.0
    assert stored.timing.setting["rounds"] == 2


def test_a_shape_is_timed_with_random_weights(tmp_path: Path) -> None:
    shape = ["--layers", 2, "--width", 64, "--intermediate", 96, "--classes", 3, "--length", 8]
    words = ["--time", "--signals", "cap[alpha=0.1|1]", "--rounds", 1, "--device", "cpu", "--out", tmp_path]
    assert exit_code("cost", *shape, *words) == 0
    stored = read_cost(tmp_path)
    assert stored is not None and stored.timing is not None
    assert [row.signal for row in stored.timing.rows] == ["plain network", "cap[alpha=0.1]", "cap"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "nowhere"], "expected a model folder at nowhere, found no such folder"),
        (["--time", "--width", "100"], "expected a width that is a multiple of 64"),
        (["--time", "--signals", "kap", "--layers", "2", "--width", "64"], "unknown signal 'kap'"),
        (["--layers", "0"], "--layers"),
    ],
)
def test_wrong_questions_about_cost_are_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("cost", *words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
