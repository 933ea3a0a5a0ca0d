"""Promises on draws from a population whose risks are known; the study is in ``tests/support/guarantee_study.py``."""

import sys

import numpy as np
import pytest

from tests.support.guarantee_study import (
    NAIVE,
    PAGE,
    QUESTIONS,
    Kept,
    Population,
    broken_promises,
    naive,
    stored,
    studied,
    study_table,
    with_table,
)


def test_the_page_has_the_table_of_the_stored_counts():
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, study_table(stored())) == page


def test_the_stored_counts_answer_every_question_and_keep_what_is_promised():
    counts = stored()
    assert [(count.risk, count.limit, count.procedure) for count in counts] == list(QUESTIONS)
    assert {count.draws for count in counts} == {1000}
    assert broken_promises(counts) == []
    gaps = [count for count in counts if count.procedure == NAIVE and count.risk == "gap"]
    assert min(count.share_broken for count in gaps) > 0.2  # what a guarantee is for


def test_a_promise_that_is_broken_too_often_is_seen():
    often = Kept("harm", 0.01, "learn-then-test", draws=1000, broken=120)
    assert len(broken_promises([often])) == 1
    assert broken_promises([Kept("harm", 0.01, "learn-then-test", draws=1000, broken=118)]) == []
    mean = Kept("harm", 0.01, "risk-control", draws=1000, total=10.5, squares=0.12)
    assert len(broken_promises([mean])) == 1
    assert broken_promises([Kept("harm", 0.01, NAIVE, draws=1000, broken=999)]) == []


def test_a_draw_answers_every_question():
    counts = studied(1)
    assert [count.draws for count in counts] == [1] * len(QUESTIONS)
    assert all(count.speed_ups >= 1 for count in counts)


def test_the_naive_choice_keeps_the_limit_on_its_own_rows():
    population = Population()
    rows = np.arange(400)
    whole = population.half("harm", rows, population.cache.ids[rows])
    candidate = naive(whole, 0.02)
    risk = whole.evidence.losses[whole.exits(candidate) - 1, rows].mean()
    assert 0.01 < risk <= 0.02


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_promises_are_kept_on_a_thousand_other_draws(capsys):
    counts = studied(1000, first=10_000)
    with capsys.disabled():
        sys.stdout.write("\n" + study_table(counts))
    assert broken_promises(counts) == []
