"""The function that ``--network`` names is found in a file or a module, or one line says why not."""

import sys
from pathlib import Path
from typing import Any

import pytest

from exitbench.errors import InputError
from exitbench.models.own_network.loading import load_network, network_function
from tests.support.own_networks import CLASSES


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("two_blocks.py", "expected --network FILE.py:function or package.module:function, found"),
        ("nowhere.py:network", "expected a Python file at .*nowhere.py, found no such file"),
        ("two_blocks.py:netwrok", "expected a function 'netwrok' in .*, found none. Did you mean network?"),
        ("two_blocks.py:not_callable", "expected a function 'not_callable' in .*, found a int"),
        ("two_blocks.py:broken", "two_blocks.py:broken: KeyError: 'dev'"),
        ("two_blocks.py:something_else", "expected a Network from exitbench.models, found a dict"),
        ("no.such.module:network", "no.such.module:network: ModuleNotFoundError: No module named 'no'"),
    ],
)
def test_what_cannot_be_called_is_one_line(reference: str, message: str, cnn: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(cnn.parent)
    with pytest.raises(InputError, match=message):
        load_network(reference, "dev")


def test_an_installed_module_is_found_by_its_name(cnn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(cnn.parent)
    assert network_function("two_blocks:network")("dev").classes == CLASSES
    monkeypatch.delitem(sys.modules, "two_blocks")


def test_the_files_beside_a_file_can_be_imported_only_while_it_loads(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("classes = ('a', 'b')\n", encoding="utf-8")
    (tmp_path / "nets.py").write_text("import beside_it\ndef f(split): return beside_it.classes\n", encoding="utf-8")
    before = list(sys.path)
    assert network_function(f"{tmp_path / 'nets.py'}:f")("dev") == ("a", "b")
    assert sys.path == before
    del sys.modules["beside_it"]
