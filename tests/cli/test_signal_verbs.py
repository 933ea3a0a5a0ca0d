"""The verbs about signals: write one, test one, score with one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from exitbench.cache import Cache, synthetic_cache
from exitbench.cli.app import main
from exitbench.signals import load_registry, score_layers, signals_in
from exitbench.signals.conformance import run_checks
from tests.support.pytest_runs import pytest_outcomes

ROOT = Path(__file__).parents[2]


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_cache(tmp_path_factory.mktemp("caches") / "small", rows=40, layers=5, classes=3, width=8)


@pytest.mark.long
@pytest.mark.parametrize("name", ["lead", "my-own-margin", "layer", "none", "x2"])
def test_a_new_signal_passes_every_check_as_generated(tmp_path: Path, name: str) -> None:
    assert run("new-signal", name, "--dir", str(tmp_path / "mine")) == 0
    (signal,) = signals_in(tmp_path / "mine" / f"{name.replace('-', '_')}.py")
    assert signal.name == name
    assert {outcome.status for outcome in run_checks(signal)} == {"pass"}
    assert name in load_registry([tmp_path / "mine"]).signals


@pytest.mark.long
@pytest.mark.parametrize("kind", ["patience", "learned"])
def test_a_new_signal_of_every_kind_passes_every_check_as_generated(tmp_path: Path, kind: str) -> None:
    assert run("new-signal", "my-own", "--kind", kind, "--dir", str(tmp_path)) == 0
    (signal,) = signals_in(tmp_path / "my_own.py")
    assert {outcome.status for outcome in run_checks(signal)} == {"pass"}
    assert signal().needs_fit is (kind == "learned")


@pytest.mark.process
@pytest.mark.parametrize("kind", ["plain", "patience", "learned"])
def test_the_generated_files_pass_ruff_and_their_own_test(tmp_path: Path, kind: str) -> None:
    run("new-signal", "my-margin", "--kind", kind, "--dir", str(tmp_path))
    config = str(ROOT / "pyproject.toml")
    for ruff in (["check", "--no-cache"], ["format", "--check", "--no-cache"]):
        checked = subprocess.run(
            [sys.executable, "-m", "ruff", *ruff, "--config", config, str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        assert checked.returncode == 0, checked.stdout
    assert pytest_outcomes(tmp_path) == {"passed": 18}


@pytest.mark.slow
def test_the_generated_files_pass_mypy(tmp_path: Path) -> None:
    run("new-signal", "my-margin", "--dir", str(tmp_path))
    files = [str(path) for path in sorted(tmp_path.glob("*.py"))]
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert checked.returncode == 0, checked.stdout


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "test_lead.py").write_text("precious")
    assert run("new-signal", "lead", "--dir", str(tmp_path)) == 2
    assert "test_lead.py exists already and is not overwritten" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["test_lead.py"]
    assert (tmp_path / "test_lead.py").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Margin", "a signal's name is lower-case words joined by hyphens, such as my-margin; found 'Margin'"),
        ("../margin", "lower-case words"),
        ("cap", "there is a signal 'cap' already, in "),
        ("torch", "a file torch.py would hide the Python module 'torch'; choose a name such as my-torch"),
        ("exitbench", "would hide the Python module 'exitbench'"),
        ("ast", "would hide the Python module 'ast'"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    assert run("new-signal", name, "--dir", str(tmp_path)) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_the_folder_should_be_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine").write_text("")
    assert run("new-signal", "lead", "--dir", str(tmp_path / "mine")) == 2
    assert "expected a folder, found a file" in capsys.readouterr().err


@pytest.mark.long
def test_testing_a_published_signal_shows_a_table_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("test-signal", "deebert") == 0
    shown = capsys.readouterr().out
    assert "direction agrees with accuracy" in shown
    assert shown.splitlines()[-1] == "17 passed, 0 declared exceptions, 0 failed"


def test_a_declared_exception_is_shown_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("test-signal", "random") == 0
    shown = capsys.readouterr().out
    assert "16 passed, 1 declared exceptions, 0 failed" in shown
    assert "a baseline that knows nothing" in shown


@pytest.mark.long
def test_one_setting_and_a_grid_of_settings_can_be_tested(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("test-signal", "pcee[patience=7|8]") == 0
    assert capsys.readouterr().out.count("17 passed") == 2


def broken_signal(folder: Path) -> Path:
    run("new-signal", "lead", "--dir", str(folder))
    path = folder / "lead.py"
    path.write_text(path.read_text().replace('Direction] = ">="', 'Direction] = "<"'))
    return path


@pytest.mark.long
def test_a_failure_ends_with_1_and_says_what_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = broken_signal(tmp_path)
    assert run("test-signal", str(path)) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "16 passed, 0 declared exceptions, 1 failed" in shown
    assert "direction agrees with accuracy fail lead: AUROC" in shown


@pytest.mark.long
def test_a_signal_of_a_folder_is_tested_by_name_and_broken_neighbours_are_mentioned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("new-signal", "lead", "--dir", str(tmp_path))
    (tmp_path / "other.py").write_text("1 / 0\n")
    assert run("test-signal", "lead", "--signals-dir", str(tmp_path)) == 0
    assert f"warning: {tmp_path / 'other.py'}: ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        ("deebrt", "unknown signal 'deebrt'. Did you mean deebert?"),
        ("nowhere.py", "expected a Python file with a signal, found none at nowhere.py"),
        ("cap[alpha=x]", "alpha must be a number"),
    ],
)
def test_what_cannot_be_tested_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], signal: str, message: str
) -> None:
    assert run("test-signal", signal) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def layers_of(cache: Path) -> list:
    from exitbench.benchmarks.scoring.calibration_layers import read_layer
    from exitbench.signals.contract.layer import INPUTS

    opened = Cache(cache)
    return [read_layer(opened, m, slice(0, opened.rows), frozenset(INPUTS)) for m in range(1, opened.layers + 1)]


def test_scores_in_parquet_are_one_row_per_layer_and_sample(cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.parquet"
    assert run("score", str(cache), "--signal", "cap[alpha=0.1]", "--out", str(out)) == 0
    table = pd.read_parquet(out)
    assert list(table.columns) == ["id", "layer", "score"]
    assert len(table) == 4 * 40
    expected = score_layers(load_registry().make("cap[alpha=0.1]"), layers_of(cache)).numpy()
    scores = table.pivot(index="layer", columns="id", values="score").loc[[1, 2, 3, 4], Cache(cache).ids]
    np.testing.assert_allclose(scores.to_numpy(), expected, rtol=1e-12)


def test_scores_in_npz_are_an_array_with_nan_where_no_score_is_defined(cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.npz"
    assert run("score", str(cache), "--signal", "pabee", "--out", str(out)) == 0
    stored = np.load(out)
    assert stored["scores"].shape == (4, 40)
    assert stored["scores"].dtype == np.float64
    assert np.isnan(stored["scores"][0]).all()
    assert np.isfinite(stored["scores"][1:]).all()
    assert np.array_equal(stored["ids"], Cache(cache).ids)


def test_a_layer_without_a_score_is_null_in_parquet(cache: Path, tmp_path: Path) -> None:
    out = tmp_path / "scores.parquet"
    run("score", str(cache), "--signal", "f-pabee", "--out", str(out))
    table = pd.read_parquet(out)
    assert table.loc[table["layer"] == 1, "score"].isna().all()
    assert table.loc[table["layer"] > 1, "score"].notna().all()


def test_a_signal_that_learns_needs_a_cache_to_learn_from(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "scores.npz")
    words = ["score", str(cache), "--signal", "right-tool[temperature=fitted]", "--out", out]
    assert run(*words) == 2
    assert "name a cache with --fit-on" in capsys.readouterr().err
    assert run(*words, "--fit-on", str(cache)) == 0
    assert "right-tool[temperature=fitted], 4 layers, 40 samples" in capsys.readouterr().out


def test_an_existing_file_is_kept_unless_forced(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "scores.npz"
    out.write_text("precious")
    words = ["score", str(cache), "--signal", "deebert", "--out", str(out)]
    assert run(*words) == 2
    assert "exists already; --force overwrites it" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert run(*words, "--force") == 0
    assert np.load(out)["scores"].shape == (4, 40)


@pytest.mark.parametrize(
    ("signal", "out", "message"),
    [
        ("deebert", "scores.csv", "--out must end in .parquet or .npz, found "),
        ("deebert", "missing/scores.npz", "does not exist"),
        ("cap[alpha=1|2]", "scores.npz", "expected one signal, found a grid of 2"),
        ("capp", "scores.npz", "Did you mean cap?"),
    ],
)
def test_a_wrong_order_leaves_no_file(
    cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], signal: str, out: str, message: str
) -> None:
    assert run("score", str(cache), "--signal", signal, "--out", str(tmp_path / out)) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_write_leaves_neither_a_file_nor_a_part_of_one(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(SystemExit) as ended:
        main(["score", str(cache), "--signal", "deebert", "--out", str(tmp_path / "scores.npz")])
    assert ended.value.code not in (0, None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
def test_a_run_imports_a_users_signal_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three stages of a run ask for the registry; with one job they share a process."""
    monkeypatch.chdir(tmp_path)
    run("new-signal", "lead", "--dir", "mine")
    signal = Path("mine/lead.py")
    signal.write_text(signal.read_text() + "\nopen('imports.txt', 'a').write('once ')\n")
    quick = ["--protocol", "in-sample", "--resamples", "2", "--jobs", "1"]
    assert run("run", str(cache), "--signals", "lead", "--signals-dir", "mine", *quick, "--out", "out") == 0
    assert Path("imports.txt").read_text() == "once "


def test_a_signal_of_ones_own_scores_a_cache(cache: Path, tmp_path: Path) -> None:
    run("new-signal", "lead", "--dir", str(tmp_path))
    out = tmp_path / "scores.npz"
    assert run("score", str(cache), "--signal", "lead", "--signals-dir", str(tmp_path), "--out", str(out)) == 0
    logits = np.sort(Cache(cache).logits(1).numpy().astype(np.float64), axis=1)
    np.testing.assert_array_equal(np.load(out)["scores"][0], logits[:, -1] - logits[:, -2])
