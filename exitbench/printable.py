"""Text from files and arguments, made safe to print and to draw.

A name in a stranger's cache may hold anything: an ANSI escape that repaints the terminal, a bidirectional override that
makes a line read as another one, a line feed that forges a line of ours, a control character that XML (and so SVG)
forbids. Whatever prints or draws such a text passes it through :func:`printable`.
"""

import unicodedata

JOINERS = "\u200c\u200d"
"""Signs of the category "format" that Persian, Hindi and emoji are spelled with; they move nothing."""


def printable(text: str) -> str:
    r"""The text with control and format characters, line separators and lone surrogates as visible escapes.

    >>> printable("caf\u00e9") == "caf\u00e9"
    True
    >>> print(printable("a\x1b[31mb\nc\u202ed"))
    a\x1b[31mb\nc\u202ed
    """
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(character: str) -> str:
    category = unicodedata.category(character)
    hidden = category in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in JOINERS
    # The last two code points of the basic plane have no meaning, and XML refuses them.
    return character.encode("unicode_escape").decode() if hidden or character in "\ufffe\uffff" else character
