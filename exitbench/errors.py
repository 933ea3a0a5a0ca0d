"""The one error a user is meant to read: a single clear line, never a traceback.

Every room raises :class:`InputError` for what the user can put right (a file, an option, a name);
the command line prints its text on standard error and ends with exit code 2. Anything else that
escapes is a defect of exitbench and keeps its traceback under ``--debug``.
"""

import difflib
from collections.abc import Iterable

LONGEST_TEXT = 500
"""What of another library's message is repeated: some go on with paragraphs of advice."""


class InputError(Exception):
    """Wrong usage or input: says what was expected and what was found, in one line."""


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

    >>> did_you_mean("deebrt", ["deebert", "cap"])
    ' Did you mean deebert?'
    >>> did_you_mean("zzz", ["deebert", "cap"])
    ''
    """
    near = difflib.get_close_matches(word, list(names), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""
