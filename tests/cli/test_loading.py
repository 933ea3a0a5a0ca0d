"""Nothing is loaded before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache

HEAVY = ("pandas", "scipy.stats", "scipy.optimize", "sklearn", "matplotlib", "seaborn", "jinja2", "pyarrow.dataset")


def loaded_after(words: list[str]) -> str:
    script = (
        "import sys\nfrom exitbench.cli.app import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit as ended:\n"
        f"    sys.stderr.write(repr((ended.code, sorted(set({HEAVY!r}) & sys.modules.keys()))))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    ).stderr


@pytest.mark.process
@pytest.mark.long
def test_a_run_to_its_verdict_loads_no_frames_no_statistics_and_nothing_that_draws(tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=60, layers=4, width=4)
    words = ["run", str(cache), "--signals", "deebert,cap", "--resamples", "2", "--out", str(tmp_path / "out")]
    assert loaded_after([*words, "--no-report"]).endswith("(0, [])")


@pytest.mark.process
def test_pyarrow_still_gives_frames_after_pandas_was_put_off() -> None:
    script = (
        "import sys\nfrom exitbench.cli.pandas_later import load_pandas_later\nload_pandas_later()\n"
        "import pyarrow as pa\ntable = pa.table({'a': [1, 2], 'b': ['x', None]})\n"
        "assert 'pandas' not in sys.modules\n"
        "frame = table.to_pandas()\nimport pandas\nassert isinstance(frame, pandas.DataFrame)\n"
        "print(pa.Table.from_pandas(frame).to_pydict(), pa.array(pandas.Series([1.5])).to_pylist())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "{'a': [1, 2], 'b': ['x', None]} [1.5]\n"
