"""The message of an error is one line that can be printed, whatever it quotes."""

import pickle

import pytest

from exitbench.errors import InputError, MissingExtraError

HOSTILE = "a\nb\rc\u2028d\x85e\x1b[31mf\u202eg\x00"


@pytest.mark.parametrize("error", [InputError, MissingExtraError])
def test_a_message_is_one_printable_line_whatever_it_quotes(error: type[InputError]) -> None:
    message = str(error(f"unknown key {HOSTILE} in it"))
    assert len(message.splitlines()) == 1
    assert message.isprintable()
    assert message == r"unknown key a b c d e\x1b[31mf\u202eg\x00 in it"


def test_of_a_message_without_an_end_both_ends_are_kept() -> None:
    message = str(InputError(f"policy.json: found {'x' * 10**6} in it"))
    assert len(message) < 5000
    assert message.startswith("policy.json: found xxx")
    assert message.endswith("xxx in it")


def test_spaces_inside_a_quoted_name_are_kept() -> None:
    assert str(InputError("no file 'two  words'")) == "no file 'two  words'"


def test_an_error_of_a_worker_process_arrives_with_its_message() -> None:
    arrived = pickle.loads(pickle.dumps(InputError(HOSTILE)))
    assert isinstance(arrived, InputError)
    assert str(arrived) == str(InputError(HOSTILE))
