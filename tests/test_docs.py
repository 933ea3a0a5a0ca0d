"""The Python examples of the README and the docs run as they are printed."""

import re
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "docs" / "cache-format.md"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic_cache(tmp_path / "my-cache", rows=60)
    monkeypatch.chdir(tmp_path)
    found = blocks(page, "python")
    assert found, "the page has no examples"
    for number, block in enumerate(found):
        exec(compile(block, f"{page.name}, example {number + 1}", "exec"), {"__name__": "example"})


def test_every_command_of_the_readme_is_a_verb() -> None:
    from exitbench.cli.app import VERBS

    used = {
        line.split()[1]
        for block in blocks(ROOT / "README.md", "sh")
        for line in block.splitlines()
        if line.startswith("exitbench ")
    }
    assert used <= set(VERBS)


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = "pip install tox && tox"
    assert any(block.strip() == command for block in blocks(ROOT / "README.md", "sh"))
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith(command)


def test_every_direct_dependency_is_pinned() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    required = [
        *project["dependencies"],
        *(item for extra in project["optional-dependencies"].values() for item in extra),
    ]
    names = {re.split(r"[<>=\[ ]", item)[0] for item in required} - {"exitbench"}
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line}
    assert names <= pinned
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()
