"""The evidence page against pandas on the rows that it is made from."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import pandas as pd
import pytest

from exitbench.places import FIXTURES
from exitbench.reports.findings.choice_effects import ChoiceEffect, choice_effects, switches
from exitbench.reports.findings.dot_charts import Dot, DotChart, DotPanel, DotRow, drawn_svg
from exitbench.reports.findings.evidence import RunsTogether, evidence_page
from exitbench.reports.findings.evidence_sentences import choice_sentence, steadiness_sentences
from exitbench.reports.findings.steadiness import OrderPair, change_between, order_pairs
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata

KEPT = FIXTURES / "findings" / "paper"


@pytest.fixture(scope="module")
def run() -> FinishedRun:
    return FinishedRun(KEPT)


@pytest.fixture(scope="module")
def evidence(run: FinishedRun) -> RunsTogether:
    return RunsTogether([run])


def paired(run: FinishedRun, evidence: RunsTogether, title: str, **asked: object) -> pd.DataFrame:
    """The pairs of the subject and an opponent on single caches, turned so that the subject is first."""
    contest = evidence.contests[0]
    (other,) = [entry for entry in contest.others if entry.title == title]
    frame = pd.read_parquet(KEPT / "pairs.parquet")
    frame = frame[(frame.protocol == contest.protocol) & (frame.cache != "")]
    for name, value in asked.items():
        frame = frame[frame[name] == value]
    subject, rival = ((entry.signal, entry.parameters) for entry in (contest.subject, other))
    sides = [list(zip(frame[f"signal_{side}"], frame[f"parameters_{side}"], strict=True)) for side in "ab"]
    turned = [
        1 if pair == (subject, rival) else -1 if pair == (rival, subject) else 0 for pair in zip(*sides, strict=True)
    ]
    frame = frame.assign(turned=turned)
    frame = frame[frame.turned != 0]
    return frame.assign(difference=frame.difference * frame.turned)


@pytest.mark.long
def test_differences_by_the_number_of_classes_are_those_of_the_pairs(run: FinishedRun, evidence: RunsTogether) -> None:
    classes = {cache.name: len(cache.classes) for cache in run.caches}
    answer = evidence.by_classes()
    assert answer.table is not None
    by_row = {row[:2]: row[2:] for row in answer.table.rows}
    for title, sentence in zip(evidence.opponents, answer.sentences, strict=True):
        pairs = paired(run, evidence, title, measure="dis", decisions="")
        pairs = pairs.assign(classes=pairs.cache.map(classes))
        means = {}
        for number, group in pairs.groupby("classes"):
            shown = group[group.p_adjusted <= 0.05]
            better, worse = int((shown.difference > 0).sum()), int((shown.difference < 0).sum())
            known = group.difference.dropna()
            mean, counts = by_row[title, str(number)][:2]
            assert counts == f"{better}, {worse}, {len(known)}"
            assert float(mean) == pytest.approx(known.mean(), abs=0.051)
            means[number] = mean
        ends = ", ".join(f"{means[number]} points with {number} classes" for number in (min(means), max(means)))
        assert sentence == f"{evidence.subject} less {title}, mean difference of DIS: {ends}."
    first = answer.chart.panels[0]
    dots = [dot for row in first.rows for dot in row.dots]
    expected_dots = paired(run, evidence, evidence.opponents[0], measure="dis", decisions="").difference
    assert sorted(dot.value for dot in dots) == pytest.approx(sorted(expected_dots))


@pytest.mark.long
def test_premature_rates_are_held_against_the_first_opponent(run: FinishedRun, evidence: RunsTogether) -> None:
    answer = evidence.rates()
    assert answer.table is not None
    pairs = paired(run, evidence, evidence.opponents[0], measure="premature_rate", decisions="equal-share")
    shown = pairs[pairs.p_adjusted <= 0.05]
    lower, higher = int((shown.difference < 0).sum()), int((shown.difference > 0).sum())
    label = run.label(evidence.contests[0].subject.signal, evidence.contests[0].subject.parameters)
    rows = {row[0]: row[1:] for row in answer.table.rows}
    mean, *counts = rows[label]
    assert counts == [str(lower), str(higher), str(len(pairs))]
    assert float(mean) == pytest.approx(pairs.difference.mean(), abs=0.051)
    means = [float(row[1]) for row in answer.table.rows]
    assert means == sorted(means)
    assert len(means) == len(run.entries) - 1
    lead, *sides = answer.sentences
    more = {name for name, (_, low, high, _) in rows.items() if int(low) > int(high)}
    assert f" {len(more)} of {len(means)} signals are shown to have a lower premature rate than " in lead
    (lower_side,) = [side for side in sides if side.startswith("Lower more often: ")]
    assert all(f"{name} (" in lower_side for name in more)
    assert lower_side.count(" of ") == len(more)
    assert sum(side.count(" of ") for side in sides) == len(means)


@pytest.mark.long
def test_a_switch_is_a_parameter_in_which_two_entries_of_a_signal_differ(run: FinishedRun) -> None:
    changes = list(switches(run))
    assert changes
    for changed, plain, name in changes:
        if changed.signal == plain.signal:
            differ = {key for key in changed.settings if changed.settings[key] != plain.settings[key]}
            assert len(differ) == 1
            assert f"{differ.pop()}=" in name
        else:
            assert changed.settings["of"] == plain.signal
    pairs = {(changed.text, plain.text) for changed, plain, _ in changes}
    namesakes = [pair for pair in itertools.combinations(run.entries, 2) if pair[0].signal == pair[1].signal]
    single = [
        (second.text, first.text)
        for first, second in namesakes
        if sum(first.settings[key] != second.settings[key] for key in first.settings) == 1
    ]
    assert set(single) <= pairs


@pytest.mark.long
def test_choices_have_a_dot_for_every_cache_that_compares(run: FinishedRun, evidence: RunsTogether) -> None:
    contest = evidence.contests[0]
    effects = {effect.choice: effect for effect in choice_effects(run, contest.subject, contest.protocol)}
    (grid,) = [effect for effect in effects.values() if effect.is_spread]
    results = pd.read_parquet(KEPT / "results.parquet")
    primary = f"speed_up={float(run.suite['primary_speed_up']):g}"
    asked = results[(results.protocol == contest.protocol) & (results.operating_point == primary)]
    widths = []
    for cache in run.caches:
        own = asked[(asked.cache == cache.name) & (asked.measure == cache.measure) & (asked.decisions == "")]
        values = own[own.parameters.isin(contest.subject.values) & own.status.isin(["ok", "unreliable"])].value
        widths.append(values.max() - values.min())
    assert [dot.value for dot in grid.dots] == pytest.approx(widths)


def test_what_a_choice_changes_in_words() -> None:
    tested = ChoiceEffect("x: on less off", (Dot(1.0, 0.5, 1.5, claimed=True), Dot(-0.5, -1.0, 0.1)))
    assert choice_sentence(tested) == "x: on less off: +0.25 points in the mean, -0.5 to 1.0, shown in 1 of 2."
    moved = ChoiceEffect("held-out less in-sample", (Dot(-1.0), Dot(-2.0)))
    assert choice_sentence(moved) == "held-out less in-sample: -1.50 points in the mean, -2.0 to -1.0 (2 values)."
    width = ChoiceEffect("alpha", (Dot(0.5), Dot(1.5), Dot(3.0)), is_spread=True)
    assert choice_sentence(width) == "alpha: 1.5 points in the median, at most 3.0 (3 caches)."


def cache(**changes: str) -> CacheMetadata:
    names = {"name": "c", "model": "m", "task": "t", "split": "dev", **changes}
    return CacheMetadata(**names, metric="accuracy", layers=3, classes=("a", "b"), rows=9, table_layers=(1,))


def test_two_caches_differ_in_one_thing_or_in_several() -> None:
    first = cache()
    assert change_between(first, cache(name="d")) == "seed"
    assert change_between(first, cache(task="u")) == "task"
    assert change_between(first, cache(model="n")) == "model"
    assert change_between(first, cache(split="blur")) == "split"
    assert change_between(first, cache(split="blur", task="u")) is None


@pytest.mark.long
def test_tau_is_counted_over_all_pairs_of_signals(run: FinishedRun) -> None:
    pairs = [pair for pair in order_pairs(run) if pair.by == "score"]
    assert {pair.change for pair in pairs} == {"task", "model"}
    results = pd.read_parquet(KEPT / "results.parquet")
    primary = f"speed_up={float(run.suite['primary_speed_up']):g}"
    measures = {each.name: each.measure for each in run.caches}
    for pair in pairs[:3]:
        values = []
        for name in pair.caches:
            own = results[
                (results.cache == name)
                & (results.protocol == run.leading_protocol())
                & (results.operating_point == primary)
                & (results.measure == measures[name])
                & (results.decisions == "")
                & results.status.isin(["ok", "unreliable"])
            ].set_index(["signal", "parameters"])["value"]
            names = [(entry.signal, entry.parameters) for entry in run.entries]
            values.append(own[own.index.isin(names)])
        both = pd.concat(values, axis=1, join="inner").to_numpy()
        assert len(both) == pair.signals
        signs = [
            [math.copysign(1, a - b) if a != b else 0 for a, b in itertools.combinations(column, 2)]
            for column in both.T
        ]
        agreement = sum(a * b for a, b in zip(*signs, strict=True))
        untied = [sum(map(abs, column)) for column in signs]
        assert pair.tau == pytest.approx(agreement / math.sqrt(untied[0] * untied[1]))
        best = [set((both[:, side] == both[:, side].max()).nonzero()[0].tolist()) for side in (0, 1)]
        assert pair.same_first == bool(best[0] & best[1])


def test_steadiness_in_words() -> None:
    pairs = [
        OrderPair("seed", "score", ("a", "b"), 1.0, True, 5),
        OrderPair("seed", "score", ("a", "c"), 0.5, False, 5),
    ]
    assert list(steadiness_sentences(pairs)) == [
        "With another seed: by score tau is 0.75 in the median (0.50 to 1.00), and of the signals that both have the "
        "same comes first in 1 of 2 pairs."
    ]


@pytest.mark.long
def test_a_picture_has_a_mark_for_every_dot_and_its_labels_are_escaped() -> None:
    rows = (DotRow("<b>&", (Dot(1.0, 0.0, 2.0, claimed=True), Dot(-1.0))), DotRow("second", (Dot(0.5, second=True),)))
    chart = DotChart("name", "caption", "points", (DotPanel("title", rows),), kinds=("one", "two"))
    svg = drawn_svg(chart)
    assert svg == drawn_svg(chart)
    assert "&lt;b&gt;&amp;" in svg
    assert "<b>" not in svg
    fewer = DotChart("name", "caption", "points", (DotPanel("title", (rows[0], DotRow("second", ()))),))
    assert svg.count("<use") > drawn_svg(fewer).count("<use")
    assert not chart.is_empty
    assert DotChart("n", "c", "x", (DotPanel("", (DotRow("r", ()),)),)).is_empty


@pytest.mark.long
def test_the_page_has_a_picture_for_every_answer_and_a_number_in_every_sentence(evidence: RunsTogether) -> None:
    page = evidence_page(evidence, "origin", "folder", "tables", ["more"])
    answers = evidence.answers()
    assert len(answers) >= 5
    for answer in answers:
        assert f"](folder/{answer.chart.name}.svg)" in page
        assert all(re.search(r"\d", sentence) for sentence in answer.sentences)
    assert len(page.splitlines()) < 160


@pytest.mark.long
def test_the_page_says_what_each_suite_rests_on(evidence: RunsTogether, run: FinishedRun) -> None:
    assert evidence.opening()[2] == f"paper: {run.suite['description']}."


def test_runs_without_findings_have_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\[findings\]"):
        RunsTogether([])
