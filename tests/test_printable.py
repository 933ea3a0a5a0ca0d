"""Text from strangers, made safe to print and to draw."""

import unicodedata
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exitbench.printable import JOINERS, printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mpnet-base · SST-2 — 日本語 😀", "mpnet-base · SST-2 — 日本語 😀"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("two\nlines\r", r"two\nlines\r"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\u2066a\u2069\u200f", r"\u2066a\u2069\u200f"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("a\u2028b", r"a\u2028b"),
        ("\udcff", r"\udcff"),
        ("می\u200cخواهم", "می\u200cخواهم"),
    ],
)
def test_what_moves_a_terminal_becomes_a_visible_escape_and_nothing_else_does(text: str, expected: str) -> None:
    assert printable(text) == expected


@pytest.mark.long
@given(st.text(alphabet=st.characters()))
def test_any_text_becomes_one_line_without_controls_that_xml_accepts(text: str) -> None:
    result = printable(text)
    categories = {unicodedata.category(character) for character in result if character not in JOINERS}
    assert categories.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})
    assert len(result.splitlines()) <= 1
    element = ET.Element("text")
    element.text = result
    assert ET.fromstring(ET.tostring(element)).text == (result or None)
    assert printable(result) == result
