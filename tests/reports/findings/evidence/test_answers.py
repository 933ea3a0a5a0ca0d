"""The evidence page against pandas on the rows that it is made from."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from exitbench.places import FIXTURES
from exitbench.reports.findings.evidence.by_classes import classes_answer
from exitbench.reports.findings.evidence.choice_effects import choice_effects, grid_spreads, switches
from exitbench.reports.findings.evidence.choices_answer import choices_answer
from exitbench.reports.findings.evidence.contested_runs import RunsTogether
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow, drawn_svg
from exitbench.reports.findings.evidence.exit_rates import rates_answer
from exitbench.reports.findings.evidence.page import anchor, answers_of, evidence_page
from exitbench.reports.findings.evidence.published_answer import beside_published, published_answer
from exitbench.reports.findings.evidence.steadiness import change_between, order_pairs
from exitbench.reports.findings.sentences import span
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


def over_tasks(run: FinishedRun, pairs: pd.DataFrame) -> pd.Series:
    """Task means: of layers on a cache, of the networks of a model, of the models of a task."""
    caches = {cache.name: (cache.task, cache.model) for cache in run.caches}
    by_cache = pairs.dropna(subset="difference").groupby("cache").difference.mean().reset_index()
    by_cache[["task", "model"]] = [caches[name] for name in by_cache.cache]
    return by_cache.groupby(["task", "model"]).difference.mean().groupby("task").mean()


def interval_text(values: pd.Series, places: int = 1) -> str:
    """The mean of independent values with scipy's interval of Student, as the page prints it."""
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    signed = f"{values.mean():+.{places}f}"
    ends = [f"{end:.{places}f}" for end in (low, high)]
    signed, *ends = [text if float(text) else f"{0:.{places}f}" for text in (signed, *ends)]
    return f"{signed} [{ends[0]}, {ends[1]}]"


@pytest.mark.long
def test_differences_by_the_number_of_classes_are_those_of_the_pairs(run: FinishedRun, evidence: RunsTogether) -> None:
    classes = {cache.name: len(cache.classes) for cache in run.caches}
    answer = classes_answer(evidence)
    assert answer is not None
    by_row = {row[:2]: dict(zip(answer.tables[0].columns[2:], row[2:], strict=True)) for row in answer.tables[0].rows}
    assert {number for _, number in by_row} == {"2", "3"}
    for title in evidence.opponents:
        pairs = paired(run, evidence, title, measure="dis", decisions="")
        pairs = pairs.assign(classes=pairs.cache.map(classes))
        for number, group in pairs.groupby("classes"):
            shown = group[group.p_adjusted <= 0.05]
            better, worse = int((shown.difference > 0).sum()), int((shown.difference < 0).sum())
            row = by_row[title, str(number)]
            assert row["DIS: better, worse, of"] == f"{better}, {worse}, {len(group.difference.dropna())}"
            means = over_tasks(run, group)
            assert int(row["tasks"]) == len(means)
            if number == 2:
                assert row["DIS, mean difference"] == interval_text(means)
                assert row["about"] == "5 tasks"
            else:
                error = group.std_err.mean()  # of the layers of one cache, as if they erred alike
                value, reach = group.difference.mean(), stats.norm.ppf(0.975) * error
                assert row["DIS, mean difference"] == f"{value:+.1f} [{value - reach:.1f}, {value + reach:.1f}]"
                assert row["about"] == "these rows"
    dots = [dot for row in answer.chart.panels[0].rows for dot in row.dots if not dot.second]
    expected_dots = paired(run, evidence, evidence.opponents[0], measure="dis", decisions="").difference
    assert sorted(dot.value for dot in dots) == pytest.approx(sorted(expected_dots))


@pytest.mark.long
def test_the_short_answer_counts_what_is_shown_over_all_opponents_and_classes(evidence: RunsTogether) -> None:
    answer = classes_answer(evidence)
    assert answer is not None
    counts = re.match(r"(.+?): .* shown to be better in (\d+) and worse in (\d+)\.", answer.short)
    assert counts is not None
    word, better, worse = counts.groups()
    means = [dot for panel in answer.chart.panels for row in panel.rows for dot in row.dots if dot.second]
    assert int(better) == sum(dot.claimed and dot.value > 0 for dot in means)
    assert int(worse) == sum(dot.claimed and dot.value < 0 for dot in means)
    assert (
        word
        == {(0, 0): "Not shown", (1, 0): "Yes", (0, 1): "No", (1, 1): "Partly"}[min(int(better), 1), min(int(worse), 1)]
    )


@pytest.mark.long
def test_premature_rates_are_held_against_the_first_opponent(run: FinishedRun, evidence: RunsTogether) -> None:
    answer = rates_answer(evidence, "nsp")
    assert answer is not None
    rows = {row[0]: row[1:] for row in answer.tables[0].rows}
    pairs = paired(run, evidence, evidence.opponents[0], measure="premature_rate", decisions="equal-share")
    shown = pairs[pairs.p_adjusted <= 0.05]
    lower, higher = int((shown.difference < 0).sum()), int((shown.difference > 0).sum())
    label = run.label(evidence.contests[0].subject.signal, evidence.contests[0].subject.parameters)
    assert rows[label] == (interval_text(over_tasks(run, pairs)), "6 tasks", str(lower), str(higher), str(len(pairs)))
    means = [float(row[1].split()[0]) for row in answer.tables[0].rows]
    assert means == sorted(means)
    assert len(rows) == len(means) == len(run.entries) - 1, "every signal has a label of its own"


@pytest.mark.long
def test_the_asked_signals_rate_is_told_by_the_number_of_classes(run: FinishedRun, evidence: RunsTogether) -> None:
    answer = rates_answer(evidence, "nsp")
    assert answer is not None
    (nsp,) = [entry for entry in run.entries if entry.text == "nsp"]
    rival = evidence.contests[0].others[0]
    frame = pd.read_parquet(KEPT / "pairs.parquet")
    frame = frame[(frame.protocol == "cross-fit") & (frame.measure == "premature_rate")]
    frame = frame[frame.decisions == "equal-share"]
    own = frame[(frame.signal_a == rival.signal) & (frame.parameters_a == rival.parameters)]
    own = own[(own.signal_b == nsp.signal) & (own.parameters_b == nsp.parameters)]
    own = own.assign(difference=-own.difference)
    two = own[own.cache.map({cache.name: len(cache.classes) for cache in run.caches}) == 2]
    assert f" {interval_text(over_tasks(run, two))} with 2 (5 tasks), " in answer.short
    assert f"; {interval_text(over_tasks(run, own))} over all 6 tasks." in answer.short
    at_one_speed = answer.sentences[-1]
    assert at_one_speed.startswith("At one speed-up (4×), where signals exit unequal shares, NSP")
    assert rates_answer(evidence, "no-such-signal").short != answer.short  # type: ignore[union-attr]


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
    results = pd.read_parquet(KEPT / "results.parquet")
    primary = f"speed_up={float(run.suite['primary_speed_up']):g}"
    asked = results[(results.protocol == contest.protocol) & (results.operating_point == primary)]
    widths = []
    for cache in run.caches:
        own = asked[(asked.cache == cache.name) & (asked.measure == cache.measure) & (asked.decisions == "")]
        values = own[own.parameters.isin(contest.subject.values) & own.status.isin(["ok", "unreliable"])].value
        widths.append(values.max() - values.min())
    assert [spread.width for _, spread in grid_spreads(evidence)] == pytest.approx(widths)
    answer = choices_answer(evidence)
    assert answer is not None
    assert f" points in the median over {len(widths)} caches and by at most {max(widths):.1f} " in answer.sentences[0]


@pytest.mark.long
def test_what_a_choice_changes_is_a_mean_over_tasks(run: FinishedRun, evidence: RunsTogether) -> None:
    answer = choices_answer(evidence)
    assert answer is not None
    rows = {row[0]: row[1:] for row in answer.tables[0].rows}
    results = pd.read_parquet(KEPT / "results.parquet")
    names = {(entry.signal, entry.parameters) for entry in run.entries}
    own = results[(results.operating_point == "speed_up=2") & (results.decisions == "")]
    own = own[own.status.isin(["ok", "unreliable"])]
    own = own[[name in names for name in zip(own.signal, own.parameters, strict=True)]]
    own = own[own.measure == own.cache.map({cache.name: cache.measure for cache in run.caches})]
    wide = own.pivot(index=["cache", "signal", "parameters"], columns="protocol", values="value").dropna()
    moved = (wide["cross-fit"] - wide["in-sample"]).rename("difference").reset_index()
    by_cache = moved.groupby("cache").difference.mean()
    expected = (interval_text(over_tasks(run, moved), 2), "6 tasks", span(list(by_cache)), "–", str(len(by_cache)))
    assert rows["cross-fit less in-sample, mean over signals"] == expected
    effect = next(effect for effect in choice_effects(evidence.contests) if effect.choice.startswith("CAP: center"))
    shown = sum(change.dot.claimed for change in effect.changes)
    assert rows[effect.choice][3] == f"{shown} of {len(effect.changes)}"


@pytest.mark.long
def test_a_cache_of_two_runs_counts_once(evidence: RunsTogether, run: FinishedRun) -> None:
    twice = RunsTogether([run, run])
    for answer in (classes_answer, choices_answer, published_answer):
        once, again = answer(evidence), answer(twice)
        assert once is not None
        assert again is not None
        assert (again.short, again.tables) == (once.short, once.tables)
    assert rates_answer(twice, "nsp").tables == rates_answer(evidence, "nsp").tables  # type: ignore[union-attr]


@pytest.mark.long
def test_the_papers_differences_stand_beside_ours_and_what_could_be_shown(evidence: RunsTogether) -> None:
    answer = published_answer(evidence, ["Under 1 difference."])
    assert answer is not None
    every = beside_published(evidence)
    assert answer.sentences[-1] == "Under 1 difference."
    frame = pd.read_parquet(KEPT / "pairs.parquet")
    published = pd.read_csv(FIXTURES / "published" / "glue_test_bert_base.csv").set_index(["method", "task"]).score
    for both, row in zip(every, answer.tables[0].rows, strict=True):
        pair = both.duel.pair
        assert pair is not None
        own = frame[(frame.cache == both.cache.name) & (frame.protocol == "cross-fit") & (frame.decisions == "")]
        own = own[(own.operating_point == "speed_up=2") & (own.measure == both.cache.measure)]
        own = own[(own.signal_a == pair["signal_a"]) & (own.signal_b == pair["signal_b"])]
        assert abs(both.duel.difference) in own.difference.abs().tolist()
        if both.cache.model == "mpnet-base":
            figure = published["CAP", both.task] - published[both.other, both.task]
            assert row[3] == f"{figure:+.1f}"
        low, high = both.ends
        assert row[-1] == ("yes" if low <= both.published <= high else "no")
    shown = sum(both.duel.verdict == "better" for both in every if both.published > 0)
    assert f" better in {shown} of these " in answer.short


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
        for name in (each.name for each in pair.caches):
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
def test_the_page_has_a_summary_a_picture_for_every_answer_and_a_number_in_every_sentence(
    evidence: RunsTogether,
) -> None:
    page = evidence_page(evidence, "origin", "folder", "tables", ["more"], asked="nsp")
    answers = answers_of(evidence, "nsp")
    assert len(answers) >= 6
    summary, *_ = page.split("## How to read the numbers")
    for answer in answers:
        assert f"](folder/{answer.chart.name}.svg)" in page
        assert all(re.search(r"\d", sentence) for sentence in (answer.short, *answer.sentences))
        assert f"](#{anchor(answer.question)})** " in summary
        assert all(len(row) == len(table.columns) for table in answer.tables for row in table.rows)
    assert len(page.splitlines()) < 320


@pytest.mark.long
def test_the_page_says_what_each_suite_rests_on(evidence: RunsTogether, run: FinishedRun) -> None:
    page = evidence_page(evidence, "origin", "folder", "tables", [])
    assert f"* paper (cross-fit, scores near 2×): {run.suite['description']}.\n" in page
    assert "It rests on 8 caches of 6 tasks and 2 models " in page


def test_runs_without_findings_have_no_evidence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\[findings\]"):
        RunsTogether([])
