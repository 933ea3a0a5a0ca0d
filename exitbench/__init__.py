"""exitbench: every early-exit signal on the same cached outputs of a multi-exit network.

``__init__.pyi`` beside this file lists the documented names; each is imported when it is first used, so
that ``import exitbench`` costs nothing.
"""

from pathlib import Path

import lazy_loader

__version__ = "0.1.0"

_here = Path(__file__).parent
if not (_here / "signals").is_dir() and (_here.parent / "signals").is_dir():
    # A checkout without symbolic links (git on Windows, unless core.symlinks is set): the rooms lie beside this folder.
    __path__.append(str(_here.parent))

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
