"""What the matrix takes for damage: a record that was cut is damage, unless it lies in unfinished work."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.fault_cases import Case, Expected
from tests.support.fault_verbs import VERBS, snapshot

RUN = next(verb for verb in VERBS if verb.name == "run --force")


def case_with(folder: Path, name: str, content: str) -> Case:
    """A run that was made again until a file of it had been written so far."""
    no_server: Any = None  # nothing is started here
    expected = Expected({"made/run.json": b'{"complete": true}'}, 1.0, 1.0)
    case = Case(no_server, RUN, folder, expected, Random(0))
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(content)
    return case


def test_records_are_compared_by_what_two_runs_share(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"seconds": 3, "complete": true}')
    assert snapshot(tmp_path) == {"run.json": b'{"complete": true}'}


@pytest.mark.parametrize("content", ["", '{"label": "a", "fi'])
def test_a_stop_amid_the_signature_of_a_unit_is_no_damage(tmp_path: Path, content: str) -> None:
    case_with(tmp_path, "made/.units/a/done.json", content).nothing_is_damaged()


@pytest.mark.parametrize("name", ["made/results.json", "elsewhere/done.json"])
def test_a_cut_record_anywhere_else_is_damage(tmp_path: Path, name: str) -> None:
    case = case_with(tmp_path, name, '{"label')
    with pytest.raises(AssertionError, match="is neither the old nor the new file"):
        case.nothing_is_damaged()
