"""What lies in the current folder, or in the user's settings of matplotlib, does not reach a figure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRINTED = "import exitbench.reports.figures.drawing.render, matplotlib; print(matplotlib.rcParams['lines.linewidth'])"


def loaded_in(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", PRINTED],
        check=False,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3]), "MPLCONFIGDIR": str(folder)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.process
def test_a_settings_file_in_the_current_folder_is_not_even_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "matplotlibrc")  # whoever opens it to read waits for ever
    finished = loaded_in(tmp_path, MPLCONFIGDIR=str(tmp_path / "configuration"))
    assert (finished.returncode, finished.stdout) == (0, "1.5\n"), finished.stderr


@pytest.mark.process
def test_a_settings_file_that_the_user_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "named").write_text("lines.linewidth: 7\n")
    finished = loaded_in(tmp_path, MATPLOTLIBRC=str(tmp_path / "named"))
    assert (finished.returncode, finished.stdout) == (0, "7.0\n"), finished.stderr
