"""Do the 95% intervals hold the truth 95% of the time, and are equal signals told apart in 5% of columns at most?

The study itself is in ``tests/support/interval_study.py`` and ``learned_study.py``: data sets from a law whose truth is
known, through the stages of a run. Its counts are stored, and the table on the page is written from them.
"""

import sys

import pytest

from tests.support.interval_study import EQUAL, RANKED_DRAWS, Tried, studied, truths
from tests.support.learned_study import LearnedStudy
from tests.support.study_table import BEGIN, END, PAGE, added, shown, stored_counts, study_table, with_table

QUESTIONS = {
    "DIS": "coverage",
    "accuracy at 2x": "coverage",
    "premature rate at 4x": "coverage",
    "delayed rate at 4x": "coverage",
    "accuracy at 2x of a grid": "coverage",
    "difference of DIS": "coverage",
    "difference of accuracy at 2x": "coverage",
    "accuracy at 2x of a learned signal": "coverage",
    "DIS of a learned signal": "coverage",
    "p of two equal signals, DIS": "error",
    "p of two equal signals, accuracy at 2x": "error",
    f"marks of {EQUAL} equal signals, DIS": "error",
    f"marks of {EQUAL} equal signals, accuracy at 2x": "error",
}
LEAST_DRAWS = 100


def check(counts: list[Tried]) -> None:
    """Coverage of at least 93%, also of what learns, a false claim at most 6%: each up to two Monte Carlo errors."""
    for count in counts:
        slack = 2 * count.monte_carlo_error
        if count.kind == "coverage":
            assert count.percent >= 93 - slack, (count.question, count.samples, count.percent)
        else:
            assert count.percent <= 6 + slack, (count.question, count.samples, count.percent)


def test_the_page_has_the_table_of_the_stored_counts():
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, study_table(stored_counts())) == page
    assert page.index(BEGIN) < page.index(END)


def test_the_stored_counts_answer_every_question_and_keep_what_is_promised():
    counts = stored_counts()
    for samples in (277, 872):
        here = {count.question: count for count in counts if count.samples == samples}
        assert {question: count.kind for question, count in here.items()} == QUESTIONS
        assert min(count.draws for count in here.values()) >= LEAST_DRAWS
    check(counts)


def test_counts_of_one_question_add_up():
    some, more = Tried("DIS", 277, "coverage", 9, 10), Tried("DIS", 277, "coverage", 40, 40)
    (both,) = added([some, more])
    assert (both.hits, both.draws) == (49, 50)
    assert shown(both) == "98.0% ± 3.1 (50 draws)"


@pytest.mark.long
def test_a_draw_answers_every_question_that_needs_no_learning():
    counts = studied(100, 1)
    assert {count.question for count in counts} == {name for name in QUESTIONS if "learned" not in name}
    assert {count.draws for count in counts if "DIS" in count.question} == {RANKED_DRAWS}
    assert {count.draws for count in counts if "DIS" not in count.question} == {1}
    assert truths()["plain"].accuracy == pytest.approx(90.6, abs=0.5)
    assert truths()["equal"].accuracy < truths()["plain"].accuracy


@pytest.mark.slow
@pytest.mark.parametrize("samples", [277, 872])
def test_intervals_cover_and_marks_err_as_they_promise(samples, tmp_path, capsys):
    draws = 200
    counts = [*studied(samples, draws, first=10_000), *LearnedStudy(tmp_path).studied(samples, draws, first=10_000)]
    with capsys.disabled():
        sys.stdout.write("\n" + study_table(counts))
    check(counts)
