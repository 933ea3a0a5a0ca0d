"""``--memory``: amounts as people write them."""

import pytest

from exitbench.errors import InputError
from exitbench.memory_budget import DEFAULT, VARIABLE, memory_budget, parse_memory, set_memory_budget


def test_amounts_are_read_as_people_write_them() -> None:
    amounts = {"2GB": 2 * 10**9, "2g": 2 * 10**9, " 500 MB ": 5 * 10**8, "1.25G": 1_250_000_000, "100000000": 10**8}
    for text, expected in amounts.items():
        assert parse_memory(text) == expected


@pytest.mark.parametrize("text", ["", "lots", "-2GB", "2XB", "1e9", "99MB", "0", "1.2345GB", "9" * 40, "nan"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="expected an amount of memory such as 2GB"):
        parse_memory(text)


def test_the_budget_reaches_other_processes_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert memory_budget() == parse_memory(DEFAULT)
    monkeypatch.setenv(VARIABLE, "3GB")
    assert memory_budget() == 3 * 10**9
    set_memory_budget("150MB")
    assert memory_budget() == 150_000_000
