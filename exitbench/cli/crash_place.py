"""Where in a user's file a signal failed: the line that a traceback ends with, without the traceback."""

from __future__ import annotations

import linecache
from pathlib import Path
from types import TracebackType

from exitbench.errors import one_line

SIGNAL_FILE = "exitbench_signal_"
"""How the modules of signals begin that are loaded from a user's files."""


def crash_lines(error: BaseException) -> list[str]:
    """``margin.py:23 in score: ...`` and the line itself, for an error that a user's signal raised; else nothing."""
    cause = error.__cause__
    while cause is not None:
        own_line = last_own_line(cause.__traceback__)
        if own_line is not None:
            file, number, function = own_line
            linecache.checkcache(file)
            source = linecache.getline(file, number).strip()
            text = one_line(cause)
            problem = type(cause).__name__ if text == type(cause).__name__ else f"{type(cause).__name__}: {text}"
            return [f"{Path(file).name}:{number} in {function}: {problem}", *([f"    {source}"] if source else [])]
        cause = cause.__cause__
    return []


def last_own_line(trace: TracebackType | None) -> tuple[str, int, str] | None:
    """File, line and function of the innermost call in a file of the user's; None where there is none."""
    own_line = None
    while trace is not None:
        frame = trace.tb_frame
        if str(frame.f_globals.get("__name__", "")).startswith(SIGNAL_FILE):
            own_line = (frame.f_code.co_filename, trace.tb_lineno, frame.f_code.co_name)
        trace = trace.tb_next
    return own_line
