"""What all verbs do alike: broken plug-ins, Ctrl-C, strange names and contradictory options."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from exitbench.cli.app import main
from tests.support.interrupts import children, gone, interrupt
from tests.support.tiny_models import tiny_model

pytestmark = pytest.mark.long


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alike") / "c"
    return synthetic_cache(path, rows=60, layers=5, width=6, compact=True, task="a[/b]", model="m[/n]")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alike") / "tm[" / "x]"
    folder.parent.mkdir()
    tiny_model(folder)
    return folder


QUICK = ["--signals", "deebert", "--protocol", "in-sample", "--resamples", "2", "--jobs", "1"]


@pytest.mark.parametrize(
    "words",
    [
        ["list", "signals"],
        ["test-signal", "deebert"],
        ["score", "CACHE", "--signal", "deebert", "--out", "s.npz"],
        ["threshold", "CACHE", "--signal", "deebert", "--speed-up", "2", "--resamples", "2"],
        pytest.param(["run", "CACHE", *QUICK], marks=pytest.mark.e2e),
        ["check", "SUITE", "--jobs", "1"],
        ["cost"],
    ],
    ids=lambda words: words[0],
)
def test_every_verb_reports_a_plug_in_that_does_not_load(
    words: list[str],
    cache: Path,
    pinned: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").mkdir()
    Path("mine/broken.py").write_text("raise RuntimeError('not today')\n")
    inputs = {"CACHE": cache, "SUITE": pinned / "small.toml"}
    assert run(*(inputs.get(word, word) for word in words), "--signals-dir", "mine") == 0
    assert capsys.readouterr().err.count("warning: mine/broken.py: RuntimeError: not today\n") == 1


@pytest.mark.e2e
def test_names_that_look_like_markup_are_printed_as_they_are(
    cache: Path,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert run("run", cache, *QUICK, "--out", tmp_path / "out", "--verbose") == 0
    assert "a[/b], m[/n], 60 samples" in capsys.readouterr().out
    monkeypatch.chdir(model.parent.parent)
    assert run("cost", "--model", "tm[/x]") == 0
    assert "Parameters (tm[/x])" in capsys.readouterr().out


@pytest.mark.parametrize("jobs", [0, -2])
def test_fewer_than_one_job_is_refused(
    jobs: int, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("run", cache, *QUICK[:-1], jobs, "--out", tmp_path / "out") == 2
    assert "--jobs" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", ["classes", "layers", "width", "intermediate"])
def test_the_sizes_of_a_model_are_not_given_beside_it(
    option: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("cost", "--model", model, f"--{option}", 3) == 2
    assert f"expected either --model, whose sizes count, or --{option}, found both" in capsys.readouterr().err


@pytest.mark.e2e
def test_the_current_folder_goes_by_its_own_name(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("run", ".") == 2
    assert f"caches are missing: {tmp_path.name} (no manifest.json under {tmp_path.parent})" in capsys.readouterr().err
    monkeypatch.chdir(cache)
    assert run("run", ".", *QUICK, "--out", tmp_path / "out") == 0


def test_score_looks_at_its_inputs_before_the_file_it_would_overwrite(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.npz"
    out.write_bytes(b"kept")
    for words, message in (
        ([cache, "--signal", "kap"], "unknown signal 'kap'"),
        ([tmp_path / "none", "--signal", "cap"], str(tmp_path / "none")),
        ([cache, "--signal", "cap"], f"{out} exists already; --force overwrites it"),
    ):
        assert run("score", *words, "--out", out) == 2
        assert message in capsys.readouterr().err
    assert out.read_bytes() == b"kept"


SLOW = """
import time
from pathlib import Path
Path("reached").touch()
exec("for _ in range(600): time.sleep(0.1)")
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "line", "number"),
    [
        (["run", "CACHE", *QUICK], "stopped; the same command goes on where this one was\n", signal.SIGINT),
        (["threshold", "CACHE", "--signal", "deebert", "--speed-up", "2"], "stopped\n", signal.SIGTERM),
        (["cost"], "stopped\n", signal.SIGHUP),
    ],
    ids=["run: SIGINT", "threshold: SIGTERM", "cost: SIGHUP"],
)
def test_ctrl_c_is_answered_in_one_line(
    words: list[str], line: str, number: signal.Signals, cache: Path, tmp_path: Path
) -> None:
    # Each verb with one signal and each signal with one verb: both are answered at one place for all.
    # A plug-in that sleeps while it is loaded holds the program at a known place, inside the exec() of a text: there
    # `python -m` forgets the exit code of a program unless it takes care. It sleeps in short pieces, as the system may
    # hand the signal to a thread of a library, and a long sleep of the main thread would then be slept to its end.
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "slow.py").write_text(SLOW)
    chosen = [str(cache) if word == "CACHE" else word for word in words]
    program = [sys.executable, "-m", "exitbench", *chosen, "--signals-dir", "mine"]
    root = str(Path(__file__).parents[2])
    running = subprocess.Popen(
        program, cwd=tmp_path, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": root}
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "reached").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    processes = children(running.pid)
    assert interrupt(running, number=number) == (130, line)
    assert all(gone(process, seconds=20) for process in processes)
