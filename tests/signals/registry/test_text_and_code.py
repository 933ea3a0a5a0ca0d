"""The page about text and code says what the signals declare."""

from pathlib import Path

from exitbench.signals.registry.discovery import load_registry
from exitbench.signals.registry.text_and_code import text_and_code

PAGE = Path(__file__).parents[3] / "docs" / "text-and-code.md"


def test_the_page_is_what_the_signals_declare_today() -> None:
    """Written by ``python scripts/write_text_and_code.py``."""
    assert PAGE.read_text(encoding="utf-8") == text_and_code(load_registry())


def test_a_form_is_written_so_that_a_table_of_markdown_holds_it() -> None:
    page = text_and_code(load_registry())
    assert r"| text | `cap[alpha=0.01\|0.1\|1\|10]` | the weight chosen per task |" in page
    assert "## PABEE\n\nText and code have the same score.\n" in page
    assert "Random" not in page
