"""A stop that arrives where Python forgets exceptions still stops the program."""

import signal
import time

import pytest

from exitbench.cli.ctrl_c import stopped_like_ctrl_c


class Slow:
    """Is interrupted while it is taken away: an exception there is forgotten by Python."""

    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def __del__(self) -> None:
        signal.raise_signal(self.number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_in_a_destructor_is_not_lost(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), stopped_like_ctrl_c():
        Slow(number)
        for _ in range(500):
            time.sleep(0.01)
    with stopped_like_ctrl_c():
        time.sleep(0.05)  # repeated once, not for ever
