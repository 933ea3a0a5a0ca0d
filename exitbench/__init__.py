"""exitbench: every early-exit signal on the same cached outputs of a multi-exit network.

``__init__.pyi`` beside this file lists the documented names; each is imported when it is first used, so
that ``import exitbench`` costs nothing.
"""

import os
import sys

_program = getattr(sys, "argv", [])
if _program[:1] == ["-m"] and sys.orig_argv[-len(_program)].removeprefix("-m") in ("exitbench", "exitbench.__main__"):
    # `python -m exitbench`: Python has put the current folder first on the search path, and that may be a stranger's
    # cache. It goes before anything else is imported, unless exitbench itself lies there: a clone, not installed.
    _current = os.getcwd()  # noqa: PTH109 - pathlib would be imported from there
    if not sys.flags.safe_path and sys.path[:1] == [_current] != [os.path.dirname(os.path.dirname(__file__))]:  # noqa: PTH120
        del sys.path[0]

from pathlib import Path  # noqa: E402

import lazy_loader  # noqa: E402

__version__ = "0.1.0"

_here = Path(__file__).parent
if not (_here / "signals").is_dir() and (_here.parent / "signals").is_dir():
    # A checkout without symbolic links (git on Windows, unless core.symlinks is set): the rooms lie beside this folder.
    __path__.append(str(_here.parent))

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
