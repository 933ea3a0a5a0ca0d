"""Discovery: signals are found where they lie, and what cannot be found or loaded says why."""

import json
import os
import sys
import textwrap
from pathlib import Path

import pytest

from exitbench import signals
from exitbench.errors import InputError
from exitbench.signals import ExitSignal, Registry, load_registry, signals_in
from exitbench.signals.registry.catalogue import catalogue_of
from tests.support.signal_files import write_signal


def test_the_published_signals_and_the_baseline_are_found(registry: Registry) -> None:
    eight = {"deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap"}
    plain = {"margin", "max-logit", "gini", "gen", "beem", "saturation"}
    from_logits = {"calibrated", "meta", "jei-gate", "eenet"}
    from_features = {"berxit", "edr", "fdbd", "knn-agreement", "mahalanobis", "residual", "she", "vim"}
    from_features |= {"palbert", "consistentee"}
    assert set(registry.signals) >= eight | plain | from_logits | from_features | {"random", "output"}
    assert registry.broken == []


def test_no_published_name_is_listed_outside_its_own_file(registry: Registry) -> None:
    """Discovery would be a pretence if the registry named what it finds."""
    source = Path(signals.__path__[0])
    plumbing = [source / "__init__.py", *source.glob("contract/*.py"), *source.glob("registry/*.py")]
    assert len(plumbing) > 10
    for path in plumbing:
        for name in registry.signals:
            assert f'"{name}"' not in path.read_text(), f"{path.name} names {name}"


def test_each_signal_names_its_paper_year_and_link(registry: Registry) -> None:
    for name, signal in registry.signals.items():
        reference = signal.reference
        assert isinstance(reference.paper, str) and reference.paper, name
        assert isinstance(reference.year, int) and 1990 < reference.year <= 2026, name
        assert reference.link.startswith("https://") or not reference.link, name


def test_each_signal_has_a_file_of_its_own(registry: Registry) -> None:
    origins = [registry.origin(name) for name in registry.signals]
    assert len(set(origins)) == len(origins)
    assert all(Path(origin).is_file() for origin in origins)


def test_a_file_in_a_directory_is_found_without_being_listed(tmp_path: Path) -> None:
    path = write_signal(tmp_path / "anything.py", "mine")
    registry = load_registry([tmp_path])
    assert registry.make("mine").text == "mine"
    assert registry.origin("mine") == str(path)
    assert "cap" in registry.signals


def test_tests_and_private_files_of_a_directory_are_left_alone(tmp_path: Path) -> None:
    write_signal(tmp_path / "mine.py", "mine")
    for name in ("test_mine.py", "conftest.py", "_draft.py"):
        (tmp_path / name).write_text("raise RuntimeError('must not be run')\n")
    assert load_registry([tmp_path]).broken == []


def test_one_directory_given_twice_is_read_once(tmp_path: Path) -> None:
    write_signal(tmp_path / "mine.py", "mine")
    assert "mine" in load_registry([tmp_path, tmp_path / ".." / tmp_path.name]).signals


def test_the_package_itself_may_be_given_as_a_directory() -> None:
    assert "cap" in load_registry([Path(signals.__path__[0])]).signals


COUNTING = """
import pathlib

with pathlib.Path(__file__).with_name("imports.txt").open("a") as file:
    file.write("imported\\n")
"""


def imports(directory: Path) -> int:
    """How often the signals of a directory written with :data:`COUNTING` were imported."""
    return (directory / "imports.txt").read_text().count("imported")


def test_a_process_imports_the_files_of_a_directory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_signal(tmp_path / "mine.py", "mine", COUNTING)
    monkeypatch.chdir(tmp_path.parent)
    registry = load_registry([tmp_path])
    assert load_registry([tmp_path]) is registry
    assert load_registry([Path(tmp_path.name)]) is registry
    assert load_registry() is not registry
    assert load_registry() is load_registry()
    assert imports(tmp_path) == 1


def test_a_changed_file_a_new_one_and_one_that_is_gone_are_noticed(tmp_path: Path) -> None:
    path = write_signal(tmp_path / "mine.py", "mine")
    first = load_registry([tmp_path])
    write_signal(path, "renamed")
    assert {"mine", "renamed"} & set(load_registry([tmp_path]).signals) == {"renamed"}
    write_signal(tmp_path / "second.py", "second")
    assert {"renamed", "second"} <= set(load_registry([tmp_path]).signals)
    path.unlink()
    assert "renamed" not in load_registry([tmp_path]).signals
    assert "mine" in first.signals


def test_a_change_within_a_second_that_keeps_the_size_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = write_signal(tmp_path / "mine.py", "mine")
    second = 1_700_000_000 * 10**9
    os.utime(path, ns=(second, second))
    load_registry([tmp_path])
    write_signal(path, "ours")
    os.utime(path, ns=(second + 10**8, second + 10**8))
    assert "ours" in load_registry([tmp_path]).signals


def test_a_file_that_lacked_a_module_is_loaded_once_the_module_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_signal(tmp_path / "mine.py", "mine", "import module_that_comes_later\n")
    assert load_registry([tmp_path]).broken
    monkeypatch.setitem(sys.modules, "module_that_comes_later", sys)
    assert load_registry([tmp_path]).broken == []


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected a directory of signals, found none at .*nowhere"):
        load_registry([tmp_path / "nowhere"])


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("def broken(:\n", "SyntaxError"),
        ("import no_such_module_anywhere\n", "ModuleNotFoundError: No module named 'no_such_module_anywhere'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("x = 1\n", "defines no signal: expected a subclass of ExitSignal with a name"),
        ("from exitbench.signals.cap import CAP\n", "defines no signal"),
    ],
)
def test_a_broken_file_is_reported_with_path_and_error_while_the_others_load(
    tmp_path: Path, source: str, error: str
) -> None:
    (tmp_path / "broken.py").write_text(source)
    write_signal(tmp_path / "mine.py", "mine")
    registry = load_registry([tmp_path])
    assert "mine" in registry.signals
    ((path, problem),) = registry.broken
    assert path == str(tmp_path / "broken.py")
    assert error in problem
    assert "\n" not in problem


def test_a_link_to_nowhere_as_editors_leave_it_is_reported_as_broken(tmp_path: Path) -> None:
    write_signal(tmp_path / "mine.py", "mine")
    (tmp_path / ".#mine.py").symlink_to("someone@somewhere.1234")
    registry = load_registry([tmp_path])
    assert "mine" in registry.signals
    assert [path for path, _ in registry.broken] == [str(tmp_path / ".#mine.py")]


def test_a_file_that_fails_keeps_no_half_made_module(tmp_path: Path) -> None:
    (tmp_path / "halfmade.py").write_text("1 / 0\n")
    load_registry([tmp_path])
    assert not any(name.endswith("_halfmade") and name.startswith("exitbench_signal_") for name in sys.modules)


def test_a_name_that_belongs_to_a_broken_file_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match=r"unknown signal 'mine'.* Not loaded: .*mine\.py \(ZeroDivisionError"):
        load_registry([tmp_path]).get("mine")


def test_two_signals_of_one_name_are_an_error_that_names_both_files(tmp_path: Path) -> None:
    first, second = write_signal(tmp_path / "a.py", "mine"), write_signal(tmp_path / "b.py", "mine")
    with pytest.raises(InputError) as raised:
        load_registry([tmp_path])
    assert str(first) in str(raised.value)
    assert str(second) in str(raised.value)
    assert "two signals are named 'mine'" in str(raised.value)


def test_a_name_taken_by_a_published_signal_is_an_error_that_names_both(tmp_path: Path) -> None:
    write_signal(tmp_path / "mine.py", "cap")
    with pytest.raises(InputError, match=r"'cap': .*cap\.py and .*mine\.py"):
        load_registry([tmp_path])


@pytest.mark.parametrize(
    ("wrong", "near"), [("deebrt", "deebert"), ("CAP", "cap"), ("right_tool", "right-tool"), ("pabe", "pabee")]
)
def test_an_unknown_name_answers_with_the_nearest(registry: Registry, wrong: str, near: str) -> None:
    with pytest.raises(
        InputError, match=rf"unknown signal '{wrong}'\. Did you mean .*{near}.* Known: .*cap, .*deebert"
    ):
        registry.make(wrong)
    with pytest.raises(InputError, match="unknown signal"):
        registry.origin(wrong)


def install(site: Path, entries: str) -> None:
    """Make ``site`` look like a place where a package with these entry points is installed."""
    info = site / "others_signals-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others-signals\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[exitbench.signals]\n" + textwrap.dedent(entries))


@pytest.mark.parametrize("entry", ["others_signals_module", "others_signals_module:Mine"])
def test_an_installed_package_adds_a_module_or_a_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    write_signal(tmp_path / "others_signals_module.py", "installed")
    install(tmp_path, f"installed = {entry}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "others_signals_module", raising=False)
    registry = load_registry()
    assert registry.make("installed").text == "installed"
    assert registry.origin("installed") == f"entry point installed = {entry}"
    sys.modules.pop("others_signals_module", None)


def test_a_broken_entry_point_is_reported_while_the_others_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "gone = no_such_package_anywhere\nwrong = pathlib:Path\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = load_registry()
    assert "cap" in registry.signals
    assert {path: error.split(":")[0] for path, error in registry.broken} == {
        "entry point gone = no_such_package_anywhere": "ModuleNotFoundError",
        "entry point wrong = pathlib:Path": "defines no signal",
    }


def test_signals_of_one_file(tmp_path: Path) -> None:
    (signal,) = signals_in(write_signal(tmp_path / "mine.py", "mine"))
    assert issubclass(signal, ExitSignal)
    assert signal.name == "mine"
    (tmp_path / "bad.py").write_text("1 / 0\n")
    with pytest.raises(InputError, match=r"bad\.py: ZeroDivisionError"):
        signals_in(tmp_path / "bad.py")
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"expected a Python file with a signal, found .*notes\.txt"):
        signals_in(tmp_path / "notes.txt")


def test_the_catalogue_describes_every_signal_in_json(registry: Registry) -> None:
    described = {row["key"]: row for row in json.loads(json.dumps(catalogue_of(registry)))}
    assert list(described) == sorted(registry.signals)
    cap = described["cap"]
    assert (cap["title"], cap["direction"], cap["inputs"]) == ("CAP", "<", ["logits", "offset_norm", "head"])
    assert cap["parameters"][0] == {
        "name": "alpha",
        "type": "float",
        "default": 1.0,
        "grid": [0.01, 0.1, 1.0, 10.0],
        "choices": [],
        "help": "weight of the null space share",
        "text": "alpha=1 (0.01|0.1|1|10)",
    }
    assert cap["reference"]["year"] == 2025
    assert described["pabee"]["thresholds"] == "integers 1..M-2"
    assert described["pabee"]["first_exit_layer"] == 2
    assert described["f-pabee"]["first_exit_layer"] == 3
    assert described["right-tool"]["parameters"][0]["text"] == "temperature=none (none|fitted)"
    assert described["random"]["inputs"] == ["ids"]
    assert described["random"]["origin"].endswith("random_exit.py")


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("pabee", {}),
        ("f-pabee", {"divergence": "jsd", "patience": 2}),
        ("e-lang", {"temperature": 1.0, "center": False}),
        ("random", {"seed": 0}),
    ],
)
def test_a_signal_without_parameters_is_the_documented_one(
    registry: Registry, name: str, defaults: dict[str, object]
) -> None:
    """Results name parameters in full, so another default would be another signal under the same short name."""
    made = registry.make(name)
    for parameter, value in defaults.items():
        assert getattr(made, parameter) == value


def test_the_energy_is_shift_invariant_exactly_when_centred(registry: Registry) -> None:
    assert registry.make("e-lang[center=true]").shift_invariant is True
    assert registry.make("e-lang[center=false]").shift_invariant is False
