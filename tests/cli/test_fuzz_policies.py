"""Hostile policies: whoever reads one refuses it in one line or works with it; never a defect, never a hang."""

import json
import math
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exitbench.errors import InputError
from exitbench.models import EarlyExitClassifier, MultiExitModel
from tests.support.command_line import exit_code
from tests.support.hostile_values import ANYTHING, key_paths, replaced, with_bytes
from tests.support.tiny_models import collected_folder

FUZZ = settings(
    max_examples=60, deadline=timedelta(seconds=30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NUMBERS = st.integers() | st.floats() | st.sampled_from([0, -1, 1e308, 5e-324, 10**400, math.nan, math.inf])

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``model``, two policies for it, with something learned and with a threshold per layer, and ``log.csv``."""
    folder = collected_folder(tmp_path_factory.mktemp("policies"), depth=4, rows=120)
    ask = ("threshold", folder / "cache", "--signal")
    promised = ("--guarantee", "--risk", "harm", "--limit", 0.4, "--out", folder / "learned.json")
    assert exit_code(*ask, "right-tool[temperature=fitted]", *promised) == 0
    quota = ("--speed-up", 1.5, "--resamples", 2, "--thresholds", "quota", "--out", folder / "quota.json")
    assert exit_code(*ask, "deebert", *quota) == 0
    (folder / "log.csv").write_text("exit_layer,score\n" + "1,0.5\n2,0.1\n4,\n" * 20)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> MultiExitModel:
    return MultiExitModel.from_pretrained(folder / "model")


def answered(folder: Path, model: MultiExitModel, policy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The log is tested and texts are answered by a policy, or it is refused in one line."""
    code = exit_code("watch-drift", policy, folder / "log.csv")
    errors = capsys.readouterr().err
    assert code in (0, 1, 2), errors
    assert errors.count("\n") == (code == 2), errors
    try:
        answers = EarlyExitClassifier.from_policy(policy, model, device="cpu").predict(["good film", "bad"])
    except InputError as error:
        assert "\n" not in str(error)
    else:
        assert all(1 <= answer.exit_layer <= 4 for answer in answers)


@FUZZ
@given(data=st.data(), name=st.sampled_from(["learned", "quota"]), new=ANYTHING | NUMBERS)
def test_any_value_anywhere_in_a_policy(
    folder: Path,
    model: MultiExitModel,
    capsys: pytest.CaptureFixture[str],
    data: st.DataObject,
    name: str,
    new: Any,
) -> None:
    record = json.loads((folder / f"{name}.json").read_text())
    rows = record["calibration"] = {key: values[:3] for key, values in record["calibration"].items()}
    assert len(rows) == 2, "else most of the paths are those of rows"
    key_path = data.draw(st.sampled_from(list(key_paths(record))))
    (folder / "fuzzed.json").write_text(json.dumps(replaced(record, key_path, new)))
    answered(folder, model, folder / "fuzzed.json", capsys)


@FUZZ
@given(data=st.data(), name=st.sampled_from(["learned", "quota"]))
def test_any_bytes_of_a_policy(
    folder: Path, model: MultiExitModel, capsys: pytest.CaptureFixture[str], data: st.DataObject, name: str
) -> None:
    original = (folder / f"{name}.json").read_bytes()
    (folder / "fuzzed.json").write_bytes(with_bytes(data, original))
    answered(folder, model, folder / "fuzzed.json", capsys)
