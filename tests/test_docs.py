"""The Python examples of the README and the docs run as they are printed."""

import doctest
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from PIL import Image

import exitbench
from exitbench.cache import synthetic_cache
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import SourceRows
from exitbench.reports.verdict.standings import Standings
from exitbench.reports.verdict.verdict import verdict_of
from tests.support.scripts import script

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("cache-format", "deriving", "recipes"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic_cache(tmp_path / "my-cache", rows=60)
    monkeypatch.chdir(tmp_path)
    examples = blocks(page, "python")
    assert examples, "the page has no examples"
    for number, block in enumerate(examples):
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


def test_every_direct_dependency_is_pinned_to_a_version_it_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    required = [Requirement(text) for text in (*project["dependencies"], *(item for extra in extras for item in extra))]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    for requirement in required:
        if requirement.name != "exitbench":
            assert requirement.specifier.contains(pins[requirement.name]), requirement


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.findall(r"^## \[(\d\S*)\] - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[0]
    assert newest == (citation["version"], citation["date-released"])
    assert newest[0] == exitbench.__version__


def test_the_changelog_has_the_usual_headings() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## (.*)$", changelog, flags=re.MULTILINE)
    assert versions[0] == "[Unreleased]"
    assert set(re.findall(r"^### (.*)$", changelog, flags=re.MULTILINE)) <= {
        *("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"),
    }


@pytest.mark.parametrize("page", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]), ids=lambda page: page.name)
def test_every_link_to_a_file_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_the_workflow_tests_every_python_that_is_declared() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    declared = {
        name.rsplit(" ", 1)[1] for name in classifiers if name.startswith("Programming Language :: Python :: 3.")
    }
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text())
    assert set(workflow["jobs"]["tests"]["strategy"]["matrix"]["python"]) == declared


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml")), ids=lambda form: form.stem
)
def test_an_issue_form_has_what_github_asks_of_it(form: Path) -> None:
    content = yaml.safe_load(form.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= content.keys()
    ids = [field["id"] for field in content["body"]]
    assert len(ids) == len(set(ids))
    assert {field["type"] for field in content["body"]} <= {"input", "textarea", "checkboxes", "dropdown", "markdown"}
    assert all(field["attributes"]["label"] for field in content["body"])


@pytest.mark.long
def test_the_table_of_the_readme_is_that_of_the_kept_rows() -> None:
    writer = script("write_headline")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert writer.with_headline(text) == text
    assert len(writer.headline().splitlines()) > 15


def test_the_picture_of_the_readme_is_the_first_screen_of_the_kept_run() -> None:
    path = ROOT / "docs" / "report.png"
    verdict = verdict_of(Standings(SourceRows(FinishedRun(ROOT / "fixtures" / "findings" / "paper"))))
    first = "".join(piece if isinstance(piece, str) else piece.text for piece in verdict.sentences[0])
    assert path.stat().st_size < 150_000
    with Image.open(path) as picture:
        assert (picture.format, picture.size) == ("PNG", (1440, 900))
        assert picture.info.get("Description") == " ".join(first.split())


def test_the_citation_of_the_readme_is_that_of_the_file() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (entry,) = blocks(ROOT / "README.md", "bibtex")
    for value in (citation["title"], citation["version"], str(citation["date-released"])):
        assert f"{{{value}}}" in entry


@pytest.mark.long
def test_every_digit_on_the_page_of_traps_is_what_the_caches_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "traps.md").read_text(encoding="utf-8")
    examples = doctest.DocTestParser().get_doctest(text, {}, "traps.md", "traps.md", 0)
    assert len(examples.examples) > 30
    report: list[str] = []
    outcome = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(examples, out=report.append)
    assert outcome.failed == 0, "".join(report)
