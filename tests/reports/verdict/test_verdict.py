"""The verdict says what the results say: who leads, by how much, and where no difference can be claimed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.run_data.protocol_order import leading_protocol
from exitbench.reports.run_data.provenance import SourceRows
from exitbench.reports.verdict.standings import ColumnStanding, Lead, Standings
from exitbench.reports.verdict.verdict import (
    RunVerdict,
    Sentence,
    absent_sentence,
    lead_sentence,
    ranking_sentence,
    verdict_of,
    winners_sentence,
)
from tests.support.page_runs import main_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


@pytest.fixture(scope="module")
def verdict(run_dir: Path) -> RunVerdict:
    return verdict_of(Standings(SourceRows(FinishedRun(run_dir))))


@pytest.fixture(scope="module")
def column(run_dir: Path) -> pd.DataFrame:
    """The average of model base near 2x, cross-fit, best first: read without any code of reports."""
    results = pd.read_parquet(run_dir / "results.parquet")
    chosen = results[
        (results["cache"] == "")
        & (results["model"] == "base")
        & (results["protocol"] == "cross-fit")
        & (results["operating_point"] == "speed_up=2")
        & (results["measure"] == "mean_accuracy_f1")
        & results["best"].notna()
    ]
    return chosen.sort_values("value", ascending=False)


def words(sentence: Sentence) -> str:
    return "".join(piece if isinstance(piece, str) else piece.text for piece in sentence)


def test_the_headline_is_the_best_average_under_the_most_cautious_protocol(
    verdict: RunVerdict, column: pd.DataFrame, run_dir: Path
) -> None:
    first = verdict.standings[0]
    assert verdict.protocol == "cross-fit" and first.cache == ""
    assert first.score.value == column["value"].max()
    assert first.signal in set(column[column["best"].astype(bool)]["signal"])
    assert first.compared == len(column)
    text = words(verdict.sentences[0])
    assert first.best in text and first.score.text in text and "cross-fit" in text


def test_those_level_with_the_best_are_named_and_the_clear_lead_is_the_next(
    verdict: RunVerdict, column: pd.DataFrame, run_dir: Path
) -> None:
    first = verdict.standings[0]
    tied = column["tied_with_best"].astype(bool)
    assert len(first.leaders) == int(tied.sum())
    assert len(first.shared) + 1 == int(column["best"].astype(bool).sum())
    clear = column[~tied]
    pairs = pd.read_parquet(run_dir / "pairs.parquet")
    if clear.empty:
        assert first.behind is None
        return
    other = clear.iloc[0]
    assert first.behind is not None
    assert first.behind.difference.value == pytest.approx(first.score.value - other["value"], abs=1e-9)
    tested = pairs[
        (pairs["cache"] == "")
        & (pairs["protocol"] == "cross-fit")
        & (pairs["operating_point"] == "speed_up=2")
        & (pairs["measure"] == "mean_accuracy_f1")
        & (pairs["model"] == "base")
        & ((pairs["signal_a"] == other["signal"]) | (pairs["signal_b"] == other["signal"]))
        & ((pairs["signal_a"] == first.signal) | (pairs["signal_b"] == first.signal))
    ]
    assert first.behind.p_value.value == tested["p_against_best"].item() < 0.05


def test_who_is_missing_from_the_headline_is_named(verdict: RunVerdict, run_dir: Path, column: pd.DataFrame) -> None:
    entries = pd.read_parquet(run_dir / "results.parquet").query("measure == 'dis' and signal != 'random'")["signal"]
    assert set(entries) - set(column["signal"]) - {"detectable"} == {"pabee"}, "not matched on some task"
    results = pd.read_parquet(run_dir / "results.parquet")
    speeds = results.query(
        "cache == 'base-mrpc' and protocol == 'cross-fit' and signal == 'pabee' and operating_point == 'speed_up=2' "
        "and measure == 'speed_up' and decisions == ''"
    )
    assert set(speeds["status"]) == {"unmatched"}
    text = words(verdict.sentences[1])
    assert text.startswith("Not part of this: PABEE (") and f"{speeds['value'].item():.2f}× on MRPC" in text
    assert text.endswith("; only what has a comparable score on every task takes part.")
    standings = Standings(SourceRows(FinishedRun(run_dir)))
    alone = [replace(verdict.standings[0], compared=1)]
    assert absent_sentence(standings, alone) == () == absent_sentence(standings, [])


def test_every_task_has_its_standing(verdict: RunVerdict) -> None:
    assert [standing.cache for standing in verdict.standings][-3:] == ["base-sst2", "base-mrpc", "tiny-mnli"]
    assert verdict.standings[-2].question[-1] == "f1"


def made(
    task: str, best: str, level: tuple[str, ...] = (), compared: int = 3, behind: Lead | None = None
) -> ColumnStanding:
    """A standing on one task, made by hand."""
    return ColumnStanding(
        task=task,
        question=(f"m-{task}-dev", "m", "dev", "in-sample", "speed_up=2", None, "", "accuracy"),
        best=best,
        signal=best,
        score=Number(90.0, "90.0", 89.0, 91.0, "[89.0, 91.0]"),
        speed_up=Number(2.0, "2.00"),
        level=level,
        behind=behind,
        compared=compared,
    )


LEAD = Lead("C", Number(1.25, "1.2", 0.5, 2.0, "[0.5, 2.0]"), Number(0.0125, "0.013"))


def test_where_no_difference_can_be_claimed_it_says_so() -> None:
    text = words(lead_sentence([made("SST-2", "A", ("B", "C"))], 2.0, "in-sample"))
    assert text == (
        "Near 2×, on SST-2, A keeps the highest score, 90.0 at 2.00× (in-sample); "
        "no difference from B and C can be claimed."
    )


def test_a_lead_has_its_size_interval_and_certainty() -> None:
    text = words(lead_sentence([made("SST-2", "A", ("B",), behind=LEAD)], 2.0, "cross-fit"))
    assert text.endswith(
        "no difference from B can be claimed, but it is ahead of C by 1.2 points [0.5, 2.0] (adjusted p = 0.013)."
    )
    alone = words(lead_sentence([made("SST-2", "A", behind=LEAD)], 2.0, "cross-fit"))
    assert alone.endswith(
        "it is ahead of every other signal, of C, the next best, by 1.2 points [0.5, 2.0] (adjusted p = 0.013)."
    )


def test_equal_scores_share_the_first_place() -> None:
    shared = replace(made("SST-2", "A", ("C",)), shared=("B",))
    assert not shared.alone and shared.leaders == ("A", "B", "C")
    assert "A and B share the highest score, 90.0" in words(lead_sentence([shared], 2.0, "in-sample"))
    clear = replace(made("SST-2", "A", behind=LEAD), shared=("B",))
    assert "they are ahead of every other signal, of C" in words(lead_sentence([clear], 2.0, "in-sample"))
    everyone = replace(made("SST-2", "A", compared=2), shared=("B",))
    assert words(lead_sentence([everyone], 2.0, "in-sample")).endswith("no other signal was compared.")


def test_one_signal_alone_is_compared_with_nothing() -> None:
    assert words(lead_sentence([made("SST-2", "A", compared=1)], 2.0, "in-sample")).endswith(
        "nothing to compare it with."
    )
    assert words(lead_sentence([], 2.0, "in-sample")) == (
        "No score near 2× could be compared under the in-sample protocol."
    )


def test_winners_are_claimed_only_where_they_stand_alone() -> None:
    tasks = [made("SST-2", "A", behind=LEAD), made("RTE", "B", ("A",)), made("QNLI", "A", ("C",))]
    assert words(winners_sentence(tasks)) == (
        "Task by task, one signal is clearly ahead on 1 of 3 tasks: A on SST-2; "
        "no single winner can be claimed on RTE and QNLI."
    )
    assert "no single winner can be claimed on any of the 2 tasks" in words(winners_sentence(tasks[1:]))
    assert winners_sentence(tasks[:1]) == ()


def test_several_networks_of_a_task_are_counted_as_caches() -> None:
    networks = [replace(made("sst2-s1", "A", behind=LEAD), question=("sst2-s1", *made("x", "A").question[1:]))]
    networks += [replace(made("sst2-s2", "B", ("A",)), question=("sst2-s2", *made("x", "A").question[1:]))]
    assert words(winners_sentence(networks)) == (
        "Cache by cache, one signal is clearly ahead on 1 of 2 caches: A on sst2-s1; "
        "no single winner can be claimed on sst2-s2."
    )


def test_who_was_not_compared_is_named_beside_winners_and_ranks() -> None:
    tasks = [replace(made("SST-2", "A", behind=LEAD), absent=("D", "E")), made("RTE", "B", ("A",))]
    assert "A on SST-2 (without D and E); no single winner" in words(winners_sentence(tasks))
    columns = [replace(made("SST-2", "A"), absent=("D",)), replace(made("RTE", "A"), absent=("D", "E")), made("Q", "A")]
    text = words(ranking_sentence(columns))
    assert text.endswith("clearly ahead of all others: A (3). Not compared in all 3: D in 1 and E in 2.")


def test_ranking_counts_columns_at_the_top() -> None:
    columns = [made("SST-2", "A"), made("RTE", "B", ("A",)), made("QNLI", "A", ("B",))]
    text = words(ranking_sentence(columns))
    assert "3 pairs of task and layer" in text and "A is best or level with the best most often (3)" in text
    assert text.endswith("clearly ahead of all others: A (1).")


def test_the_most_cautious_protocol_leads() -> None:
    assert leading_protocol(["in-sample", "cross-fit"]) == "cross-fit"
    assert leading_protocol(["in-sample", "held-out", "cross-fit"]) == "held-out"
    assert leading_protocol(["in-sample"]) == "in-sample"
