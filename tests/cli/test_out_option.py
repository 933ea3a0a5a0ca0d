"""``--out FILE``, one rule for every verb: a new file is written, one that is there only replaced with ``--force``."""

import os
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from tests.support.command_line import exit_code
from tests.support.table_runs import small_run
from tests.support.tiny_models import tiny_model

VERBS = {
    "table": ("RUN", "dis", "--format", "csv"),
    "figure": ("RUN", "trade-off", "--format", "svg"),
    "score": ("CACHE", "--signal", "deebert"),
    "threshold": ("CACHE", "--signal", "deebert", "--speed-up", 1.5, "--protocol", "in-sample", "--resamples", 20),
    "infer": ("TEXTS", "--model", "MODEL", "--signal", "deebert", "--threshold", 0.3, "--device", "cpu"),
}
ENDINGS = {"table": "csv", "figure": "svg", "score": "npz", "threshold": "json", "infer": "csv"}

pytestmark = [pytest.mark.usefixtures("one_thread"), pytest.mark.parametrize("verb", VERBS)]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[object, Path]:
    """What the verbs read."""
    folder = tmp_path_factory.mktemp("places")
    synthetic_cache(folder / "cache", rows=60, layers=4, width=4)
    tiny_model(folder / "model", depth=3)
    (folder / "texts.txt").write_text("good film\nbad film\n")
    run = small_run(tmp_path_factory)
    return {"RUN": run, "CACHE": folder / "cache", "MODEL": folder / "model", "TEXTS": folder / "texts.txt"}


def words(verb: str, places: dict[object, Path], out: Path) -> list[object]:
    return [verb, *(places.get(word, word) for word in VERBS[verb]), "--out", out]


@pytest.mark.long
def test_a_file_that_is_there_is_replaced_only_when_forced(
    verb: str, places: dict[object, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, mine = tmp_path / f"new.{ENDINGS[verb]}", tmp_path / f"mine.{ENDINGS[verb]}"
    assert exit_code(*words(verb, places, new)) == 0
    mine.write_text("precious")
    capsys.readouterr()
    assert exit_code(*words(verb, places, mine)) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {mine} exists already; --force overwrites it"
    assert mine.read_text() == "precious"
    assert exit_code(*words(verb, places, mine), "--force") == 0
    assert mine.read_bytes() == new.read_bytes()


def test_a_link_is_replaced_only_when_forced(
    verb: str, places: dict[object, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / f"link.{ENDINGS[verb]}"
    link.symlink_to(tmp_path / "nowhere")
    assert exit_code(*words(verb, places, link)) == 2
    assert f"{link} exists already; --force overwrites it" in capsys.readouterr().err
    assert link.is_symlink()


@pytest.mark.parametrize("kind", ["folder", "device"])
def test_what_is_no_file_is_not_even_replaced_when_forced(
    verb: str, kind: str, places: dict[object, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / f"out.{ENDINGS[verb]}"
    if kind == "folder":
        out.mkdir()
    else:
        os.mkfifo(out)
    assert exit_code(*words(verb, places, out), "--force") == 2
    assert f"{out}: expected the name of a file, found a {kind}" in capsys.readouterr().err
    assert not out.is_file()


def test_a_folder_that_is_missing_is_not_made(
    verb: str, places: dict[object, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "none" / f"out.{ENDINGS[verb]}"
    assert exit_code(*words(verb, places, out)) == 2
    assert f"{out}: the folder {out.parent} does not exist" in capsys.readouterr().err
    assert not out.parent.exists()
