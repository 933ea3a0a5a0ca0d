"""What modules leave in memory is set aside from the search for garbage, which else looks at all of it every time.

torch, pandas and their like are half a million objects that live as long as the process; a run makes many more, and
each full search took a tenth of a second. Set aside is only in processes that are the program's own, not in a
notebook, whose objects may become garbage later.
"""

from __future__ import annotations

import gc
import sys


class OwnProcess:
    """Whether this process is the program's own, and how many modules it had when they were set aside."""

    def __init__(self) -> None:
        self.is_own = False
        self.modules = 0

    def begin(self) -> None:
        """This process ends with the program, or is one of its workers."""
        self.is_own = True

    def set_aside(self) -> None:
        """Set aside what is there, if modules came along since the last time; called between units of work."""
        if self.is_own and len(sys.modules) > self.modules:
            self.modules = len(sys.modules)
            gc.freeze()


OWN_PROCESS = OwnProcess()
