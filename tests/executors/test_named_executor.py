"""``--executor``: four forms, and a line for anything else."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from exitbench.errors import InputError
from exitbench.executors.local_pool import Workers
from exitbench.executors.named_executor import named_executor, own_client
from tests.support.command_line import exit_code


def test_the_local_pool_has_as_many_processes_as_asked_or_as_there_is_work_for() -> None:
    for asked, expected in ((None, 3), (2, 2)):
        executor = named_executor("local", asked, 3)
        assert isinstance(executor, Workers)
        assert executor.jobs == expected


WRONG = [
    "",
    "rau",
    "http://127.0.0.1:8786",
    "client.toml:make",
    "client.py",
    "tcp://10.0.0.1",
    "tcp://a:99999",
    "tls://:1",
]


@pytest.mark.parametrize("name", WRONG)
def test_any_other_form_is_refused_with_the_four(name: str) -> None:
    with pytest.raises(InputError, match="expected --executor local, dask, tcp://HOST:PORT or FILE"):
        named_executor(name, None, 1)


@pytest.mark.parametrize("name", ["tcp://127.0.0.1:8786", "client.py:make"])
def test_processes_that_exitbench_does_not_start_are_not_counted(name: str) -> None:
    with pytest.raises(InputError, match="expected none beside --executor"):
        named_executor(name, 2, 1)


@pytest.mark.parametrize("name", ["dask", "tcp://127.0.0.1:8786", "client.py:make"])
def test_without_the_extra_every_verb_says_in_a_line_what_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda wanted: None if wanted == "distributed" else found(wanted))
    assert exit_code("check", "smoke", "--executor", name) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: expected the package 'distributed' for this executor, found none: pip install 'exitbench[dask]'"
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "expected a Python file, found no"),
        ("def other(): pass", "expected a function 'make' in .*client.py, found none"),
        ("def make(): return 3", "to return a Dask client, found int"),
        ("def make(): raise KeyError('queue')", "client.py failed with KeyError: 'queue'"),
        ("import no_such_thing", "client.py failed with ModuleNotFoundError"),
        ("import sys\ndef make(): sys.exit(3)", "client.py failed with SystemExit: 3"),
        ("make = 3", "expected a function 'make' in .*client.py, found int"),
    ],
)
def test_a_file_that_makes_no_client_is_refused_in_a_line(tmp_path: Path, source: str | None, message: str) -> None:
    file = tmp_path / "client.py"
    if source is not None:
        file.write_text(source)
    with pytest.raises(InputError, match=message):
        own_client(file, "make")


def test_a_file_may_make_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Client(SimpleNamespace):
        pass

    import distributed

    monkeypatch.setattr(distributed, "Client", Client)
    file = tmp_path / "client.py"
    file.write_text("import distributed\ndef make(): return distributed.Client(address='here', status='running')")
    assert own_client(file, "make").address == "here"
    file.write_text("import distributed\ndef make(): return distributed.Client(status='closed')")
    with pytest.raises(InputError, match="to return a running client, found a closed one"):
        own_client(file, "make")
