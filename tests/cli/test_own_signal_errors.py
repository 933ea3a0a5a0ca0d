"""A mistake in a user's signal or in its name is said at once, with its place."""

import subprocess
import sys
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from exitbench.cli.loading.declared_names import declared_names, refuse_unknown_names
from exitbench.errors import InputError
from exitbench.signals.registry.discovery import PACKAGE, load_registry, signal_files
from tests.support.command_line import QUICK, exit_code
from tests.support.page_runs import SIGNAL

CRASH = SIGNAL.format(number=1, title="Crash").replace(
    "return logits.max", "raise ValueError('no such thing')\n        return logits.max"
)


@pytest.fixture
def crashing(tmp_path: Path) -> Path:
    (tmp_path / "signals").mkdir()
    file = tmp_path / "signals" / "crash.py"
    file.write_text(CRASH)
    return file


def test_a_crash_stops_the_run_and_says_file_line_and_function(
    crashing: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=20, layers=3, width=4)
    line = CRASH.splitlines().index("        raise ValueError('no such thing')") + 1
    words = [
        "run",
        cache,
        *QUICK,
        "--signals",
        "hostile-1",
        "--signals-dir",
        crashing.parent,
        "--out",
        tmp_path / "out",
    ]
    assert exit_code(*words) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: crash.py:{line} in score: ValueError: no such thing"
    assert second.strip() == "raise ValueError('no such thing')"
    assert not (tmp_path / "out").exists()
    words = ["score", cache, "--signal", "hostile-1", "--signals-dir", crashing.parent, "--out", tmp_path / "s.npz"]
    assert exit_code(*words) == 2
    assert f"crash.py:{line} in score" in capsys.readouterr().err
    with pytest.raises(InputError) as raised:
        from exitbench.cli.app import main

        main([*map(str, words), "--debug"])
    assert isinstance(raised.value.__cause__, ValueError)


def test_every_signal_of_exitbench_declares_its_name_in_plain_text() -> None:
    names = {name for path in signal_files(PACKAGE) for name in declared_names(path) or ()}
    assert names == load_registry().signals.keys()


def test_a_mistyped_name_is_refused_before_anything_is_loaded(tmp_path: Path) -> None:
    refuse_unknown_names(["deebert", "cap[alpha=0.1|1]"])
    with pytest.raises(InputError, match=r"unknown signal 'deebrt'\. Did you mean deebert\? Known: beem"):
        refuse_unknown_names(["cap", "deebrt"])
    (tmp_path / "mine.py").write_text('class Mine:\n    name = "mine"\n')
    refuse_unknown_names(["mine"], [tmp_path])
    with pytest.raises(InputError, match="unknown signal 'yours'"):
        refuse_unknown_names(["yours"], [tmp_path])


@pytest.mark.parametrize("text", ['PREFIX = "my"\nclass Mine:\n    name = PREFIX + "-own"\n', "class Mine(\n", ""])
def test_a_file_whose_names_cannot_be_read_refuses_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    refuse_unknown_names(["my-own"], [tmp_path])


@pytest.mark.process
def test_a_wrong_word_loads_neither_torch_nor_numpy() -> None:
    script = (
        "import sys\nfrom exitbench.cli.app import main\n"
        "try:\n    main(['run', 'mpnet-base-rte-dev', '--signals', 'deebrt'])\n"
        "except SystemExit as ended:\n"
        "    print(ended.code, sorted({'torch', 'numpy', 'pyarrow'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "2 []\n"
