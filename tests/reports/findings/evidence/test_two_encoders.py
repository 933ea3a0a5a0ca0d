"""Two encoders with different numbers of seeds and tasks on one page; kept runs of shift, power and many classes."""

from __future__ import annotations

import itertools
import re

import pandas as pd
import pytest
from scipy import stats

from exitbench.places import FIXTURES
from exitbench.reports.findings.evidence.by_classes import classes_answer, classes_rows
from exitbench.reports.findings.evidence.contested_runs import RunsTogether
from exitbench.reports.findings.evidence.models_answer import models_answer, models_rows, shared_models
from exitbench.reports.findings.evidence.page import answers_of, evidence_page
from exitbench.reports.findings.evidence.shift_answer import shift_answer
from exitbench.reports.findings.evidence.steadiness import every_order_pair, mean_tau
from exitbench.reports.findings.evidence.steadiness_answer import steadiness_answer
from exitbench.reports.run_data.finished_run import FinishedRun
from tests.support.two_encoders import (
    AHEAD,
    FIRST,
    SECOND,
    TASKS,
    of_first_encoder,
    student_interval,
    task_means,
    with_second_encoder,
)

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> RunsTogether:
    return RunsTogether([of_first_encoder(tmp_path_factory.mktemp("one") / "run")])


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> RunsTogether:
    return RunsTogether([with_second_encoder(tmp_path_factory.mktemp("two") / "run")])


def test_models_are_asked_about_only_where_two_share_tasks(one: RunsTogether, both: RunsTogether) -> None:
    assert models_answer(one) is None
    answer = models_answer(both)
    assert answer is not None
    assert answer.question == f"Does the order hold between {FIRST} (6 layers) and {SECOND} (12 layers)?"
    page = evidence_page(both, "", "f", "t", [], asked="nsp")
    assert f"## {answer.question}" in page
    assert re.search(r"^\d\. \*\*\[Does the order hold between", page, flags=re.MULTILINE)


def test_what_one_model_is_ahead_by_less_the_other_is_a_mean_over_shared_tasks(both: RunsTogether) -> None:
    models = shared_models(every_order_pair(both.contests))
    assert models is not None
    assert (models.first, models.second, sorted(models.tasks)) == (FIRST, SECOND, sorted(TASKS))
    pairs = pd.read_parquet(both.contests[0].run.path / "pairs.parquet")
    caches = {cache.name: cache for cache in both.caches}
    tasks = {name: cache.task for name, cache in caches.items() if cache.task in TASKS}
    pairs = pairs[(pairs.measure == "dis") & pairs.cache.isin(list(tasks))]
    own = pairs[(pairs.signal_a == "e-lang") & (pairs.signal_b == "cap")]
    own = own.assign(difference=-own.difference)
    first, second = (task_means(own[own.model == model], tasks) for model in (FIRST, SECOND))
    moved = [second[task] - first[task] for task in models.tasks]
    (row,) = [row for row in models_rows(both, models) if (row.other, row.by) == (both.rival, "DIS")]
    assert row.change.value == pytest.approx(sum(moved) / 3)
    assert (row.change.low, row.change.high) == pytest.approx(student_interval(moved))
    assert row.first.value == pytest.approx(sum(first.values()) / 3)
    assert row.change.value == pytest.approx(AHEAD, abs=1.0), "other seeds apart"


def test_a_model_with_more_seeds_and_tasks_counts_no_more(one: RunsTogether, both: RunsTogether) -> None:
    before = {(row.other, row.classes): row for row in classes_rows(one)}
    after = {(row.other, row.classes): row for row in classes_rows(both)}
    pairs = pd.read_parquet(both.contests[0].run.path / "pairs.parquet")
    caches = {cache.name: cache for cache in both.caches}
    for number in (2, 77):
        old, new = before[both.rival, number], after[both.rival, number]
        names = [name for name, cache in caches.items() if len(cache.classes) == number]
        own = pairs[(pairs.measure == "dis") & pairs.cache.isin(names)]
        own = own[(own.signal_a == "e-lang") & (own.signal_b == "cap")]
        by_cache = -own.groupby(["model", "cache"]).difference.mean()
        table = by_cache.reset_index()
        table["task"] = table.cache.map({name: cache.task for name, cache in caches.items()})
        means = table.groupby(["task", "model"]).difference.mean().groupby("task").mean()
        assert new.dis.value == pytest.approx(means.mean())
        assert (old.dis == new.dis) == (number == 77), "only tasks with the second encoder move"
    assert after[both.rival, 3].dis.about == "these 8 networks", "three networks of one model are no sample"
    assert before[both.rival, 3].dis.about == "rows and 5 networks"
    assert classes_answer(both) is not None


def test_tau_over_seeds_is_a_mean_over_tasks_of_means_over_models(both: RunsTogether) -> None:
    pairs = [pair for pair in every_order_pair(both.contests) if (pair.change, pair.by) == ("seed", "DIS")]
    assert len(pairs) == 7 * 10 + 3 * 3
    frame = pd.DataFrame(
        [(pair.tasks[0], pair.models[0], pair.tau) for pair in pairs], columns=["task", "model", "tau"]
    )
    means = frame.groupby(["task", "model"]).tau.mean().groupby("task").mean()
    middle = mean_tau(pairs)
    assert (middle.value, middle.tasks) == (pytest.approx(means.mean()), 7)
    assert (middle.low, middle.high) == pytest.approx(student_interval(list(means)))


def test_tau_between_models_is_told_beside_tau_between_seeds_of_the_same_tasks(both: RunsTogether) -> None:
    pairs = every_order_pair(both.contests)
    between = [pair for pair in pairs if (pair.change, pair.by) == ("model", "DIS")]
    assert len(between) == 3 * 5 * 3
    seeds = [pair for pair in pairs if (pair.change, pair.by) == ("seed", "DIS") and pair.tasks[0] in TASKS]
    frames = [
        pd.DataFrame([(p.tasks[0], p.models, p.tau) for p in each], columns=["task", "models", "tau"])
        for each in (between, seeds)
    ]
    models, alike = (frame.groupby(["task", "models"]).tau.mean().groupby("task").mean() for frame in frames)
    gap = list(models - alike)
    low, high = student_interval(gap)
    answer = models_answer(both)
    assert answer is not None
    assert f"between models less between seeds: {sum(gap) / 3:+.2f} [{low:.2f}, {high:.2f}]" in answer.short


def test_the_variance_of_a_difference_is_split_by_hand(one: RunsTogether) -> None:
    answer = steadiness_answer(one)
    assert answer is not None
    (sentence,) = [each for each in answer.sentences if "variance of one network's score difference" in each]
    pairs = pd.read_parquet(one.contests[0].run.path / "pairs.parquet")
    caches = {cache.name: cache for cache in one.caches}
    own = pairs[(pairs.operating_point == "speed_up=1.5") & pairs.cache.isin(list(caches)) & (pairs.decisions == "")]
    own = own[own.measure == own.cache.map({name: cache.measure for name, cache in caches.items()})]
    own = own[(own.signal_a == "e-lang") & (own.signal_b == "cap")]
    own = own.assign(task=own.cache.map({name: cache.task for name, cache in caches.items()}))
    by_task = own.groupby("task")
    rows = (by_task.std_err.mean() ** 2).mean()
    networks = by_task.difference.var(ddof=1).mean()
    tasks = max(by_task.difference.mean().var(ddof=1) - rows - networks / 5, 0.0)
    total = rows + networks + tasks
    shares = ", ".join(f"{100 * part / total:.0f}%" for part in (rows, networks, tasks))
    assert f"CAP less {one.rival} {total:.2f} squared points ({shares})" in sentence


def test_ranks_say_how_many_are_not_shown_to_rank_behind_the_first(one: RunsTogether) -> None:
    across = pd.read_parquet(one.contests[0].run.path / "across.parquet")
    dis = across[across.measure == "dis"]
    ranks = dis[dis.statistic == "average_rank"].value
    critical = dis[dis.statistic == "critical_difference"].value.item()
    answer = steadiness_answer(one)
    assert answer is not None
    level = int((ranks - ranks.min() <= critical).sum())
    end = f"critical difference of {critical:.1f}, {level} of {len(ranks)} signals are not shown to rank behind it."
    assert any("by DIS" in each and each.endswith(end) for each in answer.sentences)
    assert len(answer.tables[1].rows) == len(ranks)


def test_a_threshold_chosen_on_clean_rows_is_read_off_the_shifted_ones() -> None:
    path = FIXTURES / "findings" / "shift"
    answer = shift_answer(RunsTogether([FinishedRun(path)]))
    assert answer is not None
    results = pd.read_parquet(path / "results.parquet")
    own = results[(results.operating_point == "speed_up=1.5") & (results.decisions == "")]
    rows = {row[:2]: row[2:] for row in answer.tables[0].rows}
    assert {name for name, _ in rows} == {"resnet20-cifar10-blur", "minilm-l6-clinc150-s0-oos"}
    for (shifted, label), cells in rows.items():
        signal = {"NSP": "nsp", "E-LANG": "e-lang", "PABEE": "pabee"}.get(label)
        if signal is None:
            continue
        clean = {"resnet20-cifar10-blur": "resnet20-cifar10-dev"}.get(shifted, "minilm-l6-clinc150-s0-dev")
        expected = []
        for measure, places, sign in (("speed_up", 2, "×"), ("accuracy", 1, "")):
            for name in (clean, shifted):
                row = own[(own.cache == name) & (own.signal == signal) & (own.measure == measure)].iloc[0]
                expected.append(f"{row.value:.{places}f}{sign} [{row.low:.{places}f}, {row.high:.{places}f}]")
        assert list(cells[:4]) == expected
        before, after = (
            own[(own.cache == name) & (own.signal == signal) & (own.measure == "accuracy")].iloc[0]
            for name in (clean, shifted)
        )
        reach = stats.norm.ppf(0.975) * (before.std_err**2 + after.std_err**2) ** 0.5
        change = after.value - before.value
        assert cells[4] == f"{change:+.1f} [{change - reach:.1f}, {change + reach:.1f}]"
    assert answer.short.count("that was chosen for 1.5×") == 2


def test_rows_without_labels_judge_nobody(one: RunsTogether) -> None:
    runs = [FinishedRun(FIXTURES / "findings" / "shift"), one.contests[0].run]
    with_shift = {answer.question: answer for answer in answers_of(RunsTogether(runs), "nsp")}
    alone = {answer.question: answer for answer in answers_of(one, "nsp")}
    for question, answer in alone.items():
        if "steady" not in question:
            assert with_shift[question].tables == answer.tables
    assert set(with_shift) - set(alone) == {"What does a threshold chosen on clean rows do on shifted ones?"}


def test_no_sentence_of_all_kept_runs_is_without_a_number() -> None:
    names = ("paper", "classes", "power", "seeds", "shift", "per-layer")
    answers = answers_of(RunsTogether([FinishedRun(FIXTURES / "findings" / name) for name in names]), "nsp")
    texts = list(itertools.chain.from_iterable((answer.short, *answer.sentences) for answer in answers))
    assert len(texts) > 20
    assert [text for text in texts if not re.search(r"\d", text) or "nan" in text] == []
