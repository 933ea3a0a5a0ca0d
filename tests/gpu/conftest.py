"""The verdict on a GPU: one line at the end of ``tox -e gpu`` for all checks that ran."""

from __future__ import annotations

import pytest
import torch

from tests.support.gpu_checks import Measured

results: list[Measured] = []
"""What the checks of this session measured."""


@pytest.fixture
def results_so_far() -> list[Measured]:
    return results


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.config.option.markexpr == "gpu" and not torch.cuda.is_available():
        terminalreporter.write_line("no GPU: torch.cuda finds none here, so nothing was checked")
    elif results:
        good = sum(measured.holds for measured in results)
        device = torch.cuda.get_device_name()
        terminalreporter.write_line(f"{device}: {good} of {len(results)} checks hold: {'; '.join(map(str, results))}")
