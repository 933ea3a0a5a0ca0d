"""The loop that stands for many small tests runs every case and names the one that fails."""

import inspect

import pytest

from tests.support.for_each import for_each


def test_every_combination_is_run_and_fixtures_are_passed_on() -> None:
    seen = []

    @for_each(seed=range(2), metric=("accuracy", "f1"))
    def statement(seed: int, metric: str, tmp_path: str) -> None:
        seen.append((seed, metric, tmp_path))

    assert list(inspect.signature(statement).parameters) == ["tmp_path"]
    statement(tmp_path="here")
    assert seen == [(seed, metric, "here") for seed in (0, 1) for metric in ("accuracy", "f1")]


def test_a_failure_names_its_case() -> None:
    @for_each(seed=range(5))
    def statement(seed: int) -> None:
        assert seed < 3

    with pytest.raises(AssertionError) as failure:
        statement()
    assert failure.value.__notes__ == ["in the case seed=3"]
