"""The frame of the command line: light starts, one-line errors, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from exitbench.cli.app import VERBS, main
from exitbench.cli.verbs.run import MODULES
from exitbench.errors import InputError

HEAVY = ("torch", "pandas", "matplotlib", "seaborn", "transformers", "datasets", "accelerate", "scipy", "numpy")


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [["--help"], ["list", "caches"], ["list", "suites"], ["--version"], ["run", "--help"]]
)
def test_a_light_verb_imports_nothing_heavy(words: list[str]) -> None:
    program = (
        "import sys\n"
        "from exitbench.cli.app import main\n"
        f"try: main({words!r})\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("LOADED []")


@pytest.mark.process
def test_what_the_workers_of_a_run_import_needs_no_torch() -> None:
    program = (
        "import importlib, sys\n"
        f"for name in {MODULES!r}: importlib.import_module(name)\n"
        "print([name for name in ('torch', 'transformers', 'datasets') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.process
def test_importing_the_package_imports_nothing_heavy() -> None:
    program = f"import sys, exitbench; print([n for n in {HEAVY!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.long
def test_every_verb_has_help_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in VERBS:
        assert run(verb, "--help") == 0
        text = capsys.readouterr().out
        assert "exitbench " + verb in text.split("Usage:")[1], verb
        assert "Example" in text, verb


def test_no_words_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    assert "Usage: exitbench" in capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == "exitbench 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["verify"], "Missing argument"),
        (["verify", "--nonsense", "x"], "No such option"),
        (["verify", "no-such-cache"], "'no-such-cache' is no cache"),
        (["inspect", "no-such-cache"], "'no-such-cache' is no cache"),
        (["import", "nothing.npz", "--task", "x", "--split", "y", "--out", "z"], "found nothing"),
        (["list", "sounds"], "sounds"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_exit_code_2(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("error: ")
    assert message in captured.err


@pytest.mark.parametrize("words", [["--debug", "verify", "nowhere"], ["verify", "nowhere", "--debug"]])
def test_debug_shows_the_traceback_wherever_it_stands(words: list[str]) -> None:
    with pytest.raises(InputError):
        main(words)


def test_an_unforeseen_error_is_said_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def explode(path: Path) -> list[str]:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("exitbench.cache.verify", explode)
    assert run("verify", str(tmp_path)) == 70
    assert "defect in exitbench: ZeroDivisionError: by zero" in capsys.readouterr().err
    with pytest.raises(ZeroDivisionError):
        main(["verify", str(tmp_path), "--debug"])


# -- the verbs of the cache ------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return synthetic_cache(tmp_path / "cache", rows=40, layers=3, width=4)


def test_verify_says_good_or_names_the_defect(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", str(cache)) == 0
    assert capsys.readouterr().out == f"{cache}: good\n"
    (cache / "array.py").touch()
    assert run("verify", str(cache)) == 0
    streams = capsys.readouterr()
    assert streams.out == f"{cache}: good\n"
    assert streams.err == f"warning: {cache}: 'array.py' is not listed in the manifest\n"
    shard = cache / "shard-00000.safetensors"
    shard.write_bytes(shard.read_bytes()[:-4] + b"\0\0\0\0")
    assert run("verify", str(cache)) == 1
    assert "shard-00000.safetensors: changed" in capsys.readouterr().err


@pytest.mark.long
def test_inspect_shows_a_card_and_json(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("inspect", str(cache), "--json") == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["rows"], card["layers"], card["features"]) == (40, 3, "float16")
    assert len(card["accuracy_per_layer"]) == 3
    assert run("inspect", str(cache)) == 0
    shown = capsys.readouterr().out
    assert "float16" in shown
    assert f"1: {card['accuracy_per_layer'][0]:.1f}" in shown


def test_inspect_counts_right_answers_as_a_loop_does(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.torch import load_file

    run("inspect", str(cache), "--json")
    card = json.loads(capsys.readouterr().out)
    shard = load_file(cache / "shard-00000.safetensors")
    right = [sum(int(shard["logits"][m, i].argmax()) == int(shard["labels"][i]) for i in range(40)) for m in range(3)]
    assert card["accuracy_per_layer"] == [round(100 * count / 40, 2) for count in right]


def test_compact_tells_both_sizes(cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compact", str(cache), str(tmp_path / "small")) == 0
    assert "bytes, from" in capsys.readouterr().out
    assert run("verify", str(tmp_path / "small")) == 0


def test_import_makes_a_cache_and_says_what_was_rounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    logits = np.random.default_rng(0).normal(size=(2, 3, 2))
    np.savez(tmp_path / "in.npz", labels=np.array([0, 1, 1]), logits=logits, ids=np.arange(3))
    words = ["import", str(tmp_path / "in.npz"), "--task", "sst2", "--split", "dev", "--out", str(tmp_path / "out")]
    assert run(*words) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{tmp_path / 'out'}: complete\n"
    assert captured.err == "note: float64 values were rounded to float32\n"
    assert run(*words) == 2
    assert "found a complete one" in capsys.readouterr().err


@pytest.mark.long
def test_list_shows_signals_caches_and_suites(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list") == 0
    shown = capsys.readouterr().out
    for name in ("signals", "caches", "suites", "cap", "f-pabee", "paper"):
        assert name in shown
    assert run("list", "signals", "--json") == 0
    keys = [row["key"] for row in json.loads(capsys.readouterr().out)]
    published = {"deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap", "random"}
    assert published <= set(keys)
