"""The documentation as a site: what is made for it from the code, and that it loads nothing from elsewhere."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from exitbench.cli.app import VERBS
from exitbench.reports.run_data.glossary import GLOSSARY
from exitbench.signals.registry.discovery import load_registry
from tests.support.scripts import SCRIPTS, script

ROOT = SCRIPTS.parent


@pytest.fixture(autouse=True)
def beside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its scripts import each other, as mkdocs loads them."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(SCRIPTS / "docs_site"))
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(SCRIPTS)):
            del sys.modules[name]


def part(name: str) -> ModuleType:
    return script(f"docs_site/{name}")


def test_what_a_page_would_load_from_another_host_is_found() -> None:
    foreign = part("foreign_urls").foreign_in_html
    page = """
    <link rel="stylesheet" href="https://a.example/style.css"><link rel="canonical" href="https://kept.example/">
    <link rel="icon" href="//b.example/icon.png"><script src='http://c.example/x.js'></script>
    <script src="own.js"></script>
    <img src="https://d.example/p.png"><img src="own.png"><a href="https://kept.example/page">a link</a>
    <style>@import "https://e.example/f.css"; p { background: url( //f.example/g.png ) }</style>
    <p style="background:url('https://h.example/i.png')">https://kept.example/text url(https://kept.example/x)</p>
    """
    hosts = {address.split("/")[2] for address in foreign(page)}
    assert hosts == {f"{letter}.example" for letter in "abcdefh"}
    assert part("foreign_urls").foreign_in_css(
        "@font-face { src: url(https://g.example/x.woff2) } a { b: url(own.svg) }"
    ) == ["https://g.example/x.woff2"]


def test_every_kind_of_file_of_a_site_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "page.html").write_text('<script src="https://a.example/x.js"></script>')
    (tmp_path / "style.css").write_text("@import 'https://b.example/y.css'")
    (tmp_path / "own.svg").write_text('<svg><image href="https://c.example/z.png"/></svg>')
    (tmp_path / "text.txt").write_text("https://kept.example")
    assert part("foreign_urls").foreign_urls(tmp_path) == [
        "deep/page.html: https://a.example/x.js",
        "own.svg: https://c.example/z.png",
        "style.css: https://b.example/y.css",
    ]


def test_links_of_the_repository_lead_to_pages_of_the_site() -> None:
    links = part("repository_links").Links(ROOT)
    text = (
        "[a](docs/ci.md#pin) [b](CONTRIBUTING.md) ![c](docs/findings/power.svg) [d](https://x.example/docs/ci.md)\n"
        "[e](LICENSE) [f](no-such-file.md) [g](signals/e_lang.py)\n```\n[h](docs/ci.md)\n```\n"
    )
    assert links.rewritten(text, "README.md", "index.md") == (
        "[a](ci.md#pin) [b](contributing.md) ![c](findings/power.svg) [d](https://x.example/docs/ci.md)\n"
        "[e](files/LICENSE) [f](no-such-file.md) [g](signals/e-lang.md)\n```\n[h](docs/ci.md)\n```\n"
    )
    assert links.files == {"LICENSE": "files/LICENSE"}
    deep = links.rewritten("[a](../ci.md) [b](../../README.md)", "docs/findings/paper.md", "findings/paper.md")
    assert deep == "[a](../ci.md) [b](../index.md)"


def test_a_docstring_becomes_markdown_with_mathml() -> None:
    docstring = (
        "Name: a sentence.\n\n.. math:: s_m = \\max_c p_{m,c}, \\qquad\n   \\text{exit when } s_m < \\tau\n\n"
        "with :math:`c_m` and ``code * x``, see :mod:`exitbench.signals.e_lang`."
    )
    text = part("docstring_markdown").as_markdown(docstring, {"e_lang": "e-lang.md"})
    assert text.startswith('Name: a sentence.\n\n<div class="formula"><math')
    assert text.endswith(", see [e_lang](e-lang.md).") and "`code * x`" in text
    assert text.count("<math") == 2 and "math::" not in text and "&#x0003C;" in text


@pytest.mark.long
def test_every_signal_measure_and_verb_has_its_place() -> None:
    signals = part("signal_pages").signal_pages()
    registry = load_registry()
    assert set(signals) == {"signals/index.md", *(f"signals/{name}.md" for name in registry.signals)}
    for name, signal in registry.signals.items():
        page = signals[f"signals/{name}.md"]
        assert page.startswith(f"# {signal.title}\n") and signal.reference.paper in page
        assert f"]({name}.md) | `{name}` |" in signals["signals/index.md"]
        assert not re.search(r"(?<!`)``(?!`)|^\.\. |:mod:|:math:", page.split("The file")[0], flags=re.MULTILINE), name
    measures = part("measures_page").measures_page()
    assert all(term.title in measures and term.definition[1:-1] in measures for term in GLOSSARY.values())
    verbs = part("command_line_page").command_line_page()
    assert [line for line in verbs.splitlines() if line.startswith("### ")] == [
        f"### `exitbench {verb}`"
        for heading in dict.fromkeys(VERBS.values())
        for verb in VERBS
        if VERBS[verb] == heading
    ]
    assert "`--signals-dir`" in verbs and "Instead of the suite's resamples." in verbs
