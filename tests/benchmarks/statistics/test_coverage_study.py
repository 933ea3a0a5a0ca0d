"""Do the 95% intervals hold the truth 95% of the time, and are equal signals told apart in 5% of columns at most?

The study itself is in ``tests/support/interval_study.py`` and ``learned_study.py``: data sets from a law whose truth is
known, through the stages of a run. Its counts are stored, and the table on the page is written from them.
"""

import dataclasses
import itertools
import sys

import numpy as np
import pytest

from exitbench.benchmarks.run.compare_stage import compare_signals
from exitbench.benchmarks.run.measure_stage import measure_signal
from tests.support.interval_study import (
    COLUMNS,
    EQUAL,
    MATCHED,
    MORE_DRAWS,
    Tried,
    asked,
    column_of,
    draw,
    paired_tests,
    read_points,
    scored,
    studied,
    truths,
)
from tests.support.learned_study import RANKED_LEARNED, LearnedStudy, committed_law
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
    "DIS of a learned signal, rows of a committed cache": "coverage",
    "p of two equal signals, DIS": "error",
    "p of two equal signals, accuracy at 2x": "error",
    f"marks of {EQUAL} equal signals, DIS": "error",
    f"marks of {EQUAL} equal signals, accuracy at 2x": "error",
}
LEAST_DRAWS = 200
FIT_NOT_REPEATED = "accuracy at 2x of a learned signal"
"""Its resamples repeat the choice of a threshold and not the fit: its interval may be short, and the page marks it."""


def check(counts: list[Tried]) -> None:
    """Whatever repeats all that the sample decided keeps its nominal level."""
    short = [(count.question, count.samples, count.percent) for count in counts if not count.keeps]
    assert {question for question, _, _ in short} <= {FIT_NOT_REPEATED}, short


@pytest.mark.parametrize(
    ("question", "kind", "hits", "keeps"),
    [
        ("DIS", "coverage", 9457, True),  # of 10,000 draws: two Monte Carlo errors are 0.436 points
        ("DIS", "coverage", 9456, False),
        ("p of two equal signals, DIS", "error", 543, True),
        ("p of two equal signals, DIS", "error", 544, False),
        ("marks of 8 equal signals, DIS", "error", 643, True),
        ("marks of 8 equal signals, DIS", "error", 644, False),
    ],
)
def test_a_level_is_kept_up_to_two_monte_carlo_errors(question, kind, hits, keeps):
    count = Tried(question, 277, kind, hits, 10_000)
    assert count.keeps is keeps
    assert shown(count).endswith(" †") is not keeps


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
    one_signal = {count.question for count in counts if count.draws == MORE_DRAWS}
    assert one_signal == {*COLUMNS, *(name for name in QUESTIONS if "DIS" in name and "learned" not in name)}
    assert {count.draws for count in counts if count.question not in one_signal} == {1}
    assert truths()["plain"].accuracy == pytest.approx(90.6, abs=0.5)
    assert truths()["equal"].accuracy < truths()["plain"].accuracy


@pytest.mark.long
def test_what_the_study_measures_is_what_a_run_measures():
    cache, groups = scored(draw(np.random.default_rng(5), 90, equal=2))
    questions = dataclasses.replace(asked(40, 5), folds=3)
    tables = ("results", "pairs")
    compared = compare_signals(
        cache, [measure_signal(cache, [group], questions, tables) for group in groups], questions, tables
    )
    entries = [read_points(cache, group, questions) for group in groups]
    names = ["plain", "equal-0", "equal-1", "grid"]
    rows = {(row.signal, column_of(row)): row for row in compared.rows if row.signal != "grid" or "|" in row.parameters}
    for name, entry in zip(names, entries, strict=True):
        assert set(entry.numbers) == set(COLUMNS.values())
        for column, number in entry.numbers.items():
            expected = rows[name, column]
            assert (number.row.value, number.row.low, number.row.high, number.row.chosen) == (
                expected.value,
                expected.low,
                expected.high,
                expected.chosen,
            )
    column = COLUMNS["accuracy at 2x"]
    for group, entry in zip(groups, entries, strict=True):
        contest = read_points(cache, group, dataclasses.replace(asked(40, 5, rates=MATCHED), folds=3))
        assert {name: number.row for name, number in contest.numbers.items()} == {column: entry.numbers[column].row}
    pairs = {
        (pair["signal_a"], pair["signal_b"]): pair
        for pair in compared.pairs
        if (pair["operating_point"], pair["measure"]) == ("speed_up=2", "accuracy")
    }
    numbers = [(a, b) for a, b in itertools.combinations(range(4), 2) if (names[a], names[b]) in pairs]
    assert len(numbers) > 2
    for (a, b), test in zip(numbers, paired_tests(entries, column, numbers), strict=True):
        pair = pairs[names[a], names[b]]
        assert (test.low, test.high, test.p_value) == (pair["low"], pair["high"], pair["p_value"])


@pytest.mark.slow
@pytest.mark.parametrize("samples", [277, 872])
def test_intervals_cover_and_marks_err_as_they_promise(samples, tmp_path, capsys):
    draws, first = 200, 10_000
    learned = LearnedStudy(tmp_path)
    counts = [*studied(samples, draws, first), *learned.studied(samples, draws, first)]
    counts = [count for count in counts if count.question != RANKED_LEARNED]
    counts += [law.ranked(samples, draws * MORE_DRAWS, first) for law in (learned.law(), committed_law())]
    with capsys.disabled():
        sys.stdout.write("\n" + study_table(counts))
    check(counts)
