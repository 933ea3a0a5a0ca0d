"""The one error a user is meant to read: a single clear line, never a traceback.

Every room raises :class:`InputError` for what the user can put right (a file, an option, a name);
the command line prints its text on standard error and ends with exit code 2. Anything else that
escapes is a defect of exitbench and keeps its traceback under ``--debug``.
"""

import difflib
from collections.abc import Iterable

from exitbench.printable import printable

LONGEST_TEXT = 500
"""What of another library's message is repeated: some go on with paragraphs of advice."""

LONGEST_LINE = 4000
"""Characters of an error's line: what it quotes from a stranger's file may have megabytes."""


class InputError(Exception):
    r"""Wrong usage or input: says what was expected and what was found, in one line.

    Messages quote keys, names and paths of files that strangers wrote, and texts of other libraries. Whatever they
    hold, the message is one line that can be printed: line breaks become spaces, other control characters escapes, and
    of a very long one the middle is left out.

    >>> str(InputError("unknown key a\n b\x1b[31m"))
    'unknown key a b\\x1b[31m'
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(" ".join(line.strip() for line in without_middle(message).splitlines())))


def without_middle(text: str) -> str:
    """The text, or both ends of one that is longer than :data:`LONGEST_LINE`: a path stands first, advice last."""
    half = LONGEST_LINE // 2
    return text if len(text) <= LONGEST_LINE else f"{text[:half]}...{text[-half:]}"


class MissingExtraError(InputError, ImportError):
    """A part of exitbench that needs packages which its core does without: says which extra installs them."""


def one_line(error: BaseException) -> str:
    """An exception's text in one line of at most :data:`LONGEST_TEXT` characters; its class where it has no text.

    >>> one_line(ValueError("no such column\\n  in data.csv"))
    'no such column in data.csv'
    >>> one_line(EOFError())
    'EOFError'
    """
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """The nearest known names as a sentence to append to an error, or an empty string.

    Names far behind the nearest one are no help beside it.

    >>> did_you_mean("deebrt", ["deebert", "berxit", "eenet", "cap"])
    ' Did you mean deebert?'
    >>> did_you_mean("zzz", ["deebert", "cap"])
    ''
    """
    near = difflib.get_close_matches(word, list(names), n=3, cutoff=0.5)
    if not near:
        return ""
    likeness = [difflib.SequenceMatcher(a=name, b=word).ratio() for name in near]
    close = [name for name, ratio in zip(near, likeness, strict=True) if ratio > likeness[0] - 0.2]
    return f" Did you mean {' or '.join(close)}?"
