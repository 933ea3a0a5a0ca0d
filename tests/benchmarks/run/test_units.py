"""A unit's folder is named after everything its result depends on, the code included."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from exitbench.benchmarks.run.units import CompareUnit, code_digest
from exitbench.errors import InputError


def test_another_source_of_a_signal_is_another_digest_and_its_tests_are_none(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("a = 1\n")
    first = code_digest([str(tmp_path)])
    (tmp_path / "test_mine.py").write_text("assert True\n")
    (tmp_path / "notes.txt").write_text("of no concern\n")
    assert code_digest([str(tmp_path)]) == first
    (tmp_path / "mine.py").write_text("a = 2\n")
    second = code_digest([str(tmp_path)])
    (tmp_path / "mine.py").rename(tmp_path / "renamed.py")
    assert len({first, second, code_digest([str(tmp_path)]), code_digest([])}) == 4


def test_where_no_signal_was_measured_there_is_nothing_to_compare(tmp_path: Path) -> None:
    unit: Any = SimpleNamespace(measured=(tmp_path / "unfinished",))
    with pytest.raises(InputError, match="no signal could be measured on this cache"):
        CompareUnit.work(unit)
