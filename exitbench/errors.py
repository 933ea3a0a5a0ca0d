"""The one error a user is meant to read: a single clear line, never a traceback.

Every room raises :class:`InputError` for what the user can put right (a file, an option, a name);
the command line prints its text on standard error and ends with exit code 2. Anything else that
escapes is a defect of exitbench and keeps its traceback under ``--debug``.
"""

import difflib
from collections.abc import Iterable


class InputError(Exception):
    """Wrong usage or input: says what was expected and what was found, in one line."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest known names as a sentence to append to an error, or an empty string.

    >>> did_you_mean("deebrt", ["deebert", "cap"])
    ' Did you mean deebert?'
    >>> did_you_mean("zzz", ["deebert", "cap"])
    ''
    """
    near = difflib.get_close_matches(word, list(known), n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(near)}?" if near else ""
