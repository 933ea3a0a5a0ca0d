"""The guide to adding a signal does what it says: its files are written and checked, its commands are run."""

import re
import shlex
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from exitbench.cache import read_manifest
from exitbench.cli.app import main
from exitbench.places import CACHES
from exitbench.signals import load_registry, score_layers, signals_in
from exitbench.signals.conformance import CHECKS, name_of, run_checks, synthetic_layers
from tests.support.pytest_runs import pytest_outcomes

GUIDE = (Path(__file__).parents[3] / "docs" / "adding-a-signal.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", GUIDE, flags=re.DOTALL)
FILES = {block.split("\n", 1)[0].removeprefix("# "): block for kind, block in BLOCKS if block.startswith("# my-")}
COMMANDS = [line[2:] for kind, block in BLOCKS if kind == "console" for line in block.splitlines() if line[:2] == "$ "]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the guide where it says they are."""
    monkeypatch.chdir(tmp_path)
    for name, source in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
    return tmp_path


def run(command: str) -> int:
    program, *words = shlex.split(command)
    assert program == "exitbench"
    with pytest.raises(SystemExit) as ended:
        main(words)
    return int(ended.value.code or 0)


def test_the_guide_has_a_memoryless_a_patient_and_a_fitted_example(workplace: Path) -> None:
    registry = load_registry([workplace / "my-signals"])
    assert registry.broken == []
    assert {"lead", "steady-lead", "usual-lead", "last-digit"} <= set(registry.signals)
    assert registry.make("steady-lead[patience=3]").first_exit_layer == 3
    assert registry.make("usual-lead").needs_fit


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".py") and "test_" not in name])
def test_each_signal_of_the_guide_conforms(workplace: Path, name: str) -> None:
    (signal,) = signals_in(workplace / name)
    assert [outcome for outcome in run_checks(signal) if outcome.status == "fail"] == []


def test_the_window_of_the_guide_is_the_counter_that_it_replaces(workplace: Path) -> None:
    (lead,) = signals_in(workplace / "my-signals/lead.py")
    (steady,) = signals_in(workplace / "my-signals/steady_lead.py")
    layers = synthetic_layers(40).layers
    leads, windows = (score_layers(signal, layers).numpy() for signal in (lead(), steady(patience=3)))
    for tau in np.quantile(leads, np.linspace(0, 1, 30)):
        in_a_row = np.stack([(leads[m - 2 : m + 1] >= tau).all(axis=0) for m in range(2, len(leads))])
        assert np.array_equal(windows[2:] >= tau, in_a_row)


@pytest.mark.process
def test_the_test_file_of_the_guide_runs_every_check(workplace: Path) -> None:
    assert pytest_outcomes(workplace / "my-signals") == {"passed": 17}


def test_the_first_commands_print_what_the_guide_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (shown,) = (block for kind, block in BLOCKS if kind == "console" and "new-signal" in block)
    command, *expected = shown.strip().splitlines()
    assert run(command.removeprefix("$ ")) == 0
    assert capsys.readouterr().out.splitlines() == expected


def test_every_python_block_of_the_guide_is_one_of_its_files() -> None:
    assert all(block in FILES.values() for kind, block in BLOCKS if kind == "python")


@pytest.mark.e2e
@pytest.mark.parametrize("command", [command for command in COMMANDS if not command.startswith("exitbench new-signal")])
def test_each_command_of_the_guide_succeeds(workplace: Path, command: str) -> None:
    quick = " --resamples 20 --jobs 1" if " run " in command else ""
    assert run(command + quick) == 0
    if " run " in command:
        (results,) = workplace.rglob("results.parquet")
        assert {"lead", "usual-lead"} & set(pd.read_parquet(results)["signal"])
    if " score " in command:
        out = workplace / command.split("--out ")[1]
        scores = pd.read_parquet(out)["score"] if out.suffix == ".parquet" else np.load(out)["scores"]
        manifest = read_manifest(CACHES / command.split(" score ")[1].split(maxsplit=1)[0])
        assert np.asarray(scores).size == (manifest.model.layers - 1) * manifest.rows
        assert np.isfinite(np.asarray(scores)).all()


def test_the_packaging_example_is_toml_for_the_right_group() -> None:
    (block,) = (block for kind, block in BLOCKS if "entry-points" in block)
    assert tomllib.loads(block)["project"]["entry-points"] == {"exitbench.signals": {"lead": "my_package.lead:Lead"}}


def test_the_guide_names_every_check_by_a_name_that_exists() -> None:
    names = {name_of(check).replace("_", " ") for check in CHECKS}
    table = GUIDE.split("| the check |")[1].split("\n\n")[0].splitlines()[2:]
    named = {name.strip() for row in table for name in row.split("|")[1].split(",")}
    assert named <= names
