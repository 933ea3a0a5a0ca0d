"""``--subject``: what ``run`` and ``report`` say is about one signal; a wrong name is refused before any work."""

from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from tests.support.command_line import exit_code
from tests.support.page_reader import read_page

QUICK = ("--protocol", "in-sample", "--resamples", "5", "--speed-ups", "1.5,2", "--jobs", "1")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_cache(tmp_path_factory.mktemp("subject") / "c", rows=80, layers=5, width=6, seed=2)


@pytest.mark.e2e
def test_both_verbs_speak_about_the_subject(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert exit_code("run", cache, "--signals", "deebert,e-lang,nsp", *QUICK, "--out", out, "--subject", "nsp") == 0
    told = capsys.readouterr().out.rpartition("Verdict: ")[2]
    assert told.startswith("Near 2×, ") and "NSP scores" in " ".join(told.split())
    page = read_page(out / "report.html")
    assert "NSP scores" in page.with_class("verdict")[0].all("p")[0].text
    assert page.with_class("forest")[0].text.strip().startswith("NSP less each other signal")
    findings = (out / "findings.md").read_text()
    assert findings.count("NSP") > max(findings.count("E-LANG"), findings.count("DeeBERT"))
    assert exit_code("report", out, "--subject", "e-lang") == 0
    assert "E-LANG scores" in " ".join(capsys.readouterr().out.split())
    page = read_page(out / "report.html")
    assert "E-LANG scores" in page.with_class("verdict")[0].all("p")[0].text
    assert exit_code("report", out) == 0
    assert " scores " not in read_page(out / "report.html").with_class("verdict")[0].all("p")[0].text
    assert not (out / "findings.md").exists(), "no suite asked for findings"


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("nspp", "expected a signal of suite c as --subject, found 'nspp'. Did you mean nsp?"),
        (
            "cap",
            "expected one signal of suite c as --subject, found 'cap', which may be any of cap[alpha=1], cap[alpha=2]",
        ),
    ],
)
def test_a_wrong_subject_is_refused_before_anything_is_scored(
    subject: str, message: str, cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--signals", "nsp,cap[alpha=1],cap[alpha=2]", *QUICK, "--out", tmp_path / "out", "--subject", subject)
    assert exit_code("run", cache, *words) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
