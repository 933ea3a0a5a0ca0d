"""The page on CI does what it says: its commands are run in its order and print what it shows."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import yaml

from exitbench.benchmarks.suites.suite_file import suite_of_values
from exitbench.cache import synthetic_cache
from exitbench.cli.app import main
from exitbench.cli.verbs.check import Format
from tests.support.pytest_runs import pytest_outcomes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, flags=re.DOTALL)
WORKFLOW = ROOT / ".github" / "workflows" / "exitbench.yml"


def run(command: str) -> int:
    program, *words = shlex.split(command)
    assert program == "exitbench"
    with pytest.raises(SystemExit) as ended:
        main([*words, "--jobs", "1"])
    return int(ended.value.code or 0)


def write_files(folder: Path) -> None:
    """The files of the page where it says they are."""
    for _, block in BLOCKS:
        if block.startswith("# my-"):
            file = folder / block.split("\n", 1)[0].removeprefix("# ")
            file.parent.mkdir(exist_ok=True)
            file.write_text(block)


@pytest.mark.process
def test_the_test_of_the_page_runs_every_check(tmp_path: Path) -> None:
    write_files(tmp_path)
    assert pytest_outcomes(tmp_path / "my-signals") == {"passed": 17}


@pytest.mark.long
def test_a_signal_is_pinned_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    synthetic_cache(tmp_path / "my-cache", rows=60, layers=6)
    write_files(tmp_path)
    first, second, third, fourth = (block.strip().split("\n", 1) for kind, block in BLOCKS if kind == "console")
    for command, shown in (first, second):
        assert run(command.removeprefix("$ ")) == 0
        captured = capsys.readouterr()
        assert captured.out + captured.err == shown + "\n"
    signal = tmp_path / "my-signals/lead.py"
    signal.write_text(signal.read_text().replace('">="', '">"'))
    assert run(third[0].removeprefix("$ ")) == 1
    moved = capsys.readouterr().out
    assert moved.split() == third[1].split()
    assert run(fourth[0].removeprefix("$ ")) == 0
    assert capsys.readouterr().out == moved
    assert run(second[0].removeprefix("$ ")) == 0


def test_the_suite_of_the_page_is_a_suite() -> None:
    (block,) = (block for kind, block in BLOCKS if kind == "toml")
    assert suite_of_values(tomllib.loads(block), Path("my-suite.toml")).name == "my-suite"


@pytest.mark.parametrize("source", [WORKFLOW.read_text(), *(block for kind, block in BLOCKS if kind == "yaml")])
def test_a_workflow_checks_out_sets_up_python_installs_and_checks(source: str) -> None:
    steps = yaml.safe_load(source)["jobs"]["check"]["steps"]
    used = [step.get("uses", "").split("@")[0] or step["run"] for step in steps]
    assert used[:2] == ["actions/checkout", "actions/setup-python"]
    assert used[2].startswith("pip install ")
    assert used[-1].startswith("exitbench check")
    assert used[-1].endswith("--format github")


def test_the_page_names_every_format() -> None:
    assert all(f"--format {form}" in PAGE for form in Format if form is not Format.terminal)
