"""``--part I/N``: two whole numbers, or a line and exit code 2."""

import pytest

from exitbench.cli.options.part_option import parse_part
from exitbench.errors import InputError
from tests.support.command_line import exit_code


def test_a_part_is_its_number_and_their_count() -> None:
    assert parse_part(None) is None
    assert parse_part("3/16") == (3, 16)
    assert parse_part("1/1") == (1, 1)


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "1.5/4", "a/b", "1/100000", "٣/٤"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected --part I/N such as 3/16"):
        parse_part(text)


def test_both_verbs_take_it(capsys: pytest.CaptureFixture[str], tmp_path) -> None:
    assert exit_code("run", "smoke", "--part", "4/3", "--out", tmp_path / "out") == 2
    assert exit_code("collect", "--model", tmp_path, "--part", "4/3", "--out", tmp_path / "cache") == 2
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 2
    assert all("found '4/3'" in line for line in errors)
    assert not list(tmp_path.iterdir())
