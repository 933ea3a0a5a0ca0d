"""``exitbench infer`` refuses what would mean nothing: another encoder, a broken file, a speed-up out of reach."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.models import MultiExitModel
from exitbench.models.network.same_model import require_same_model
from tests.support.command_line import exit_code
from tests.support.tiny_models import collected_folder

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``model``, ``data/dev.tsv`` and ``cache``, made by the program itself."""
    return collected_folder(tmp_path_factory.mktemp("infer"), depth=6, rows=60)


def refusal(folder: Path, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line that ``infer`` says to these words."""
    capsys.readouterr()
    assert exit_code("infer", "--model", folder / "model", "--device", "cpu", *words, folder / "data" / "dev.tsv") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    return captured.err


def test_another_encoder_under_the_same_heads_is_another_model(folder: Path) -> None:
    cache = Cache(folder / "cache")
    model = MultiExitModel.from_pretrained(folder / "model")
    require_same_model(model, cache)
    with torch.no_grad():
        next(model.backbone.parameters()).add_(0.5)
    with pytest.raises(InputError, match=r"expected a cache of this model, .*the heads are equal, the encoder is not"):
        require_same_model(model, cache)


@pytest.mark.parametrize("revision", ["", "main", "0123456789abcdef0123456789abcdef01234567"])
def test_a_revision_that_is_no_fingerprint_says_nothing(folder: Path, tmp_path: Path, revision: str) -> None:
    import shutil

    copied = tmp_path / "cache"
    shutil.copytree(folder / "cache", copied)
    manifest = json.loads((copied / "manifest.json").read_text())
    manifest["model"]["revision"] = revision
    (copied / "manifest.json").write_text(json.dumps(manifest))
    require_same_model(MultiExitModel.from_pretrained(folder / "model"), Cache(copied))


LEARNED = {"name": "right-tool", "parameters": {"temperature": "fitted"}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"signal": {"name": "cap"}, "threshold": "x"}, "expected a number as threshold in signal.json, found 'x'"),
        ({"signal": {"name": "cap"}, "threshold": True}, "expected a number as threshold in signal.json, found True"),
        (LEARNED | {"learned": {"temperatures": "abc"}}, "as temperatures of signal right-tool, found 'abc'"),
        (LEARNED | {"learned": {"temperatures": [1, "a"]}}, "expected tuple[float, ...] as temperatures of signal"),
        (LEARNED | {"learned": {"temperatures": 2}}, "as temperatures of signal right-tool, found 2"),
        ({"name": "cap", "parameters": {"alpha": "x"}}, "alpha"),
        ({"name": "cap", "learned": 3}, "learned must be a JSON object"),
    ],
)
def test_a_signal_file_with_values_of_the_wrong_kind_is_one_line(
    content: dict[str, Any],
    message: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("signal.json").write_text(json.dumps(content))
    threshold = [] if "threshold" in content else ["--threshold", 0.5]
    assert message in refusal(folder, capsys, "--signal-file", "signal.json", *threshold)


@pytest.mark.parametrize(
    ("speed_up", "message"),
    [
        (50, "no threshold gives speed-up 50 on cache: .*only reaches 1.00x to 6.00x"),
        (0.5, "a speed-up must be above 1, found 0.5"),
        ("nan", "a speed-up must be above 1, found nan"),
    ],
)
def test_a_speed_up_out_of_reach_is_refused(
    speed_up: object, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    line = refusal(folder, capsys, "--signal", "cap", "--calibrate", folder / "cache", "--speed-up", speed_up)
    assert re.search(message, line)
