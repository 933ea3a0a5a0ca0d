"""Workers elsewhere are asked whether they see the same files and run the same code; those here are not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exitbench.benchmarks.run.stages import require_same_world
from exitbench.errors import InputError


class Asked:
    """An executor that says the same of every file, and answers any other question as this process does."""

    def __init__(self, *, remote: bool, sees: bool = True, removes: bool = False) -> None:
        self.is_remote, self.sees, self.removes = remote, sees, removes
        self.questions = 0

    def ask_all(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        self.questions += 1
        if function is not Path.is_file:
            return [function(*arguments)]
        if self.removes:
            arguments[0].unlink()
        return [self.sees]


@pytest.mark.parametrize("removes", [False, True])
def test_workers_that_see_the_folder_are_taken_and_nothing_stays_in_it(tmp_path: Path, removes: bool) -> None:
    executor: Any = Asked(remote=True, removes=removes)
    require_same_world(executor, tmp_path / "units", [])
    assert executor.questions == 2
    assert list((tmp_path / "units").iterdir()) == []


def test_workers_that_do_not_see_it_are_refused(tmp_path: Path) -> None:
    executor: Any = Asked(remote=True, sees=False)
    with pytest.raises(InputError, match="expected all workers to see"):
        require_same_world(executor, tmp_path / "units", [])
    assert list((tmp_path / "units").iterdir()) == []


def test_processes_of_this_machine_are_not_asked(tmp_path: Path) -> None:
    executor: Any = Asked(remote=False, sees=False)
    require_same_world(executor, tmp_path / "units", [])
    assert executor.questions == 0
