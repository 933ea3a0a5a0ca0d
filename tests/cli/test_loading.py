"""Nothing is loaded before it is needed."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from exitbench.cache import synthetic_cache
from exitbench.derive import methods
from exitbench.models import recipes
from exitbench.signals.registry.catalogue import catalogue_of
from exitbench.signals.registry.discovery import load_registry
from tests.support.page_runs import SIGNAL

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
        "import sys\nfrom exitbench.executors.pandas_later import load_pandas_later\nload_pandas_later()\n"
        "import pyarrow as pa\ntable = pa.table({'a': [1, 2], 'b': ['x', None]})\n"
        "assert 'pandas' not in sys.modules\n"
        "frame = table.to_pandas()\nimport pandas\nassert isinstance(frame, pandas.DataFrame)\n"
        "print(pa.Table.from_pandas(frame).to_pydict(), pa.array(pandas.Series([1.5])).to_pylist())\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "{'a': [1, 2], 'b': ['x', None]} [1.5]\n"


@pytest.mark.process
def test_a_worker_that_measures_makes_arrays_without_pandas() -> None:
    script = (
        "import sys\nfrom exitbench.cli.verbs.run import MODULES\n"
        "from exitbench.executors.worker_processes import get_ready\nget_ready(MODULES, kernel=False)\n"
        "import pyarrow as pa\npa.array([1.5, None])\nprint('pandas' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "False\n"


def listed(*words: str) -> tuple[str, str, list[str]]:
    """What ``exitbench list`` prints in a process of its own, and which of torch and pandas it loads."""
    script = (
        "import sys\nfrom exitbench.cli.app import main\n"
        f"try:\n    main({['list', *words]!r})\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "loaded = [name for name in ('torch', 'pandas') if hasattr(sys.modules.get(name), '__file__')]\n"
        "sys.stderr.write(f'LOADED{loaded}')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    errors, _, loaded = done.stderr.rpartition("LOADED")
    return done.stdout, errors, json.loads(loaded.replace("'", '"'))


@pytest.mark.process
@pytest.mark.long
def test_signals_are_listed_without_torch_as_with_it() -> None:
    printed, errors, loaded = listed("signals", "--json")
    assert json.loads(printed) == json.loads(json.dumps(catalogue_of(load_registry())))
    assert (errors, loaded) == ("", [])


@pytest.mark.process
@pytest.mark.long
def test_everything_is_listed_without_torch() -> None:
    printed, errors, loaded = listed()
    for word in ("signals:", "deebert", "caches:", "suites:", "methods:", "past-future"):
        assert word in printed
    assert (errors, loaded) == ("", [])


@pytest.mark.process
@pytest.mark.long
def test_a_file_that_computes_while_it_is_loaded_gets_torch(tmp_path: Path) -> None:
    file = SIGNAL.format(number=1, title="Table")
    (tmp_path / "plain.py").write_text(file.replace("hostile-1", "plain"))
    printed, _, loaded = listed("signals", "--signals-dir", str(tmp_path))
    assert ("plain" in printed, loaded) == (True, [])
    (tmp_path / "table.py").write_text(
        f"{file}\nimport torch\nTABLE = torch.zeros(3).tolist()\nassert TABLE == [0, 0, 0]\n"
    )
    (tmp_path / "broken.py").write_text("import torch\ntorch.no_such_thing\n")
    printed, errors, loaded = listed("signals", "--signals-dir", str(tmp_path))
    assert "hostile-1" in printed
    assert errors.startswith(f"warning: {tmp_path / 'broken.py'}: AttributeError: module 'torch' has no attribute")
    assert loaded == ["torch"]


@pytest.mark.process
@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "package", "file", "own"),
    [("methods", methods, "vector.py", "my-vector"), ("recipes", recipes, "sum.py", "my-sum")],
)
def test_a_users_methods_and_recipes_are_listed_and_get_torch_if_they_compute(
    kind: str, package: ModuleType, file: str, own: str, tmp_path: Path
) -> None:
    folder, text = tmp_path / kind, (Path(package.__path__[0]) / file).read_text(encoding="utf-8")
    folder.mkdir()
    (folder / "own.py").write_text(text.replace(f'"{file.removesuffix(".py")}"', f'"{own}"'), encoding="utf-8")
    words = kind, "--json", f"--{kind}-dir", str(folder)
    printed, errors, loaded = listed(*words)
    assert {own, file.removesuffix(".py")} < {row["key"] for row in json.loads(printed)}
    assert (errors, loaded) == ("", [])
    with (folder / "own.py").open("a", encoding="utf-8") as opened:
        opened.write("\nimport torch\n\nTABLE = torch.zeros(3).tolist()\nassert TABLE == [0, 0, 0]\n")
    printed, errors, loaded = listed(*words)
    assert own in {row["key"] for row in json.loads(printed)}
    assert (errors, loaded) == ("", ["torch"])
