"""Areas: their values are those of the exact curve, and so is the middle of their resamples."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.compare_stage import area_rows, compare_signals, dis_sources
from exitbench.benchmarks.run.measurements import ComparedEntry
from exitbench.benchmarks.scoring.score_store import Samples
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import layer_sums
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.benchmarks.suites.questions import Questions
from tests.support.scored_cases import configuration, random_arrays, scored_cache

COLUMNS = {"cache": "c", "model": "m", "task": "t", "split": "dev", "protocol": "in-sample"}


def entry(*, exact: bool) -> ComparedEntry:
    """A band of three costs below a curve that is higher between them; resamples differ by a whole point each."""
    cost, score = np.array([0.2, 0.6, 1.0]), np.array([60.0, 80.0, 90.0])
    moves = np.array([-1.0, 0.0, 1.0])
    return ComparedEntry(
        protocol="in-sample",
        signal="made-up",
        parameters="",
        reason="",
        resampled={},
        certainty=np.zeros((4, 9)),
        cost=cost,
        score=score,
        cost_resampled=np.repeat(cost[:, None], 3, axis=1),
        score_resampled=score[:, None] + moves,
        exact_cost=np.array([0.2, 0.4, 0.6, 0.8, 1.0]) if exact else None,
        exact_score=np.array([60.0, 74.0, 80.0, 88.0, 90.0]) if exact else None,
    )


def all_right() -> tuple[Samples, Tally]:
    """Nine samples that every layer gets right, and the last layer in three resamples that draw each once."""
    samples = Samples(np.arange(9), np.zeros(9, dtype=int), np.zeros((5, 9), dtype=int), "accuracy")
    return samples, layer_sums(samples.outcomes, SampleWeights.of(np.ones((9, 3), dtype=np.uint8))).at(5)


@pytest.mark.parametrize("exact", [True, False])
def test_resamples_of_an_area_are_moved_to_the_exact_curve(exact: bool) -> None:
    samples, final = all_right()
    (area,) = area_rows(COLUMNS, [entry(exact=exact)], samples, (0.2, 1.0), final)
    # Trapezia by hand; a whole point over the whole range is a whole point of the mean.
    band = (0.4 * 70 + 0.4 * 85) / 0.8
    curve = (0.2 * 67 + 0.2 * 77 + 0.2 * 84 + 0.2 * 89) / 0.8
    expected = curve if exact else band
    assert area.row.value == pytest.approx(expected)
    assert area.resampled == pytest.approx(expected + np.array([-1.0, 0.0, 1.0]))
    assert "mean score over relative costs 0.2 to 1" in area.row.reason
    assert area.row.status == "ok"
    assert area.row.low < area.row.value < area.row.high


def cut(made: ComparedEntry, low: float, high: float) -> ComparedEntry:
    """The entry as if it reached only some of its costs."""
    kept = (made.cost >= low) & (made.cost <= high)
    return dataclasses.replace(
        made,
        cost=made.cost[kept],
        score=made.score[kept],
        cost_resampled=made.cost_resampled[kept],
        score_resampled=made.score_resampled[kept],
    )


def test_a_curve_that_ends_before_full_cost_is_randomised_with_the_last_layer() -> None:
    samples, final = all_right()
    (area,) = area_rows(COLUMNS, [cut(entry(exact=False), 0.2, 0.6)], samples, (0.2, 1.0), final)
    # From 60 at 0.2 over 80 at 0.6 straight to the last layer's 100.
    assert area.row.value == pytest.approx((0.4 * 70 + 0.4 * 90) / 0.8)
    assert area.row.status == "ok"
    # The last layer is right in every resample, so a whole point fades out towards it.
    assert area.resampled == pytest.approx(area.row.value + np.array([-0.75, 0.0, 0.75]))


def test_a_signal_that_does_not_reach_the_range_has_its_cheapest_point_there_and_is_unmatched() -> None:
    samples, final = all_right()
    (area,) = area_rows(COLUMNS, [cut(entry(exact=False), 0.6, 1.0)], samples, (0.2, 1.0), final)
    assert area.row.value == pytest.approx((0.4 * 80 + 0.4 * 85) / 0.8)
    assert area.row.status == "unmatched"
    assert "reaches down to relative cost 0.6 only" in area.row.reason


def test_an_area_does_not_depend_on_the_other_signals() -> None:
    samples, final = all_right()
    alone = area_rows(COLUMNS, [entry(exact=True)], samples, (1 / 3, 1.0), final)[0]
    others = [cut(entry(exact=False), 0.6, 0.6), entry(exact=True), cut(entry(exact=False), 0.9, 0.9)]
    beside = area_rows(COLUMNS, others, samples, (1 / 3, 1.0), final)
    assert beside[1].row == alone.row
    assert beside[2].row.status == "undefined"


def test_pairs_that_signals_bring_along_are_adjusted_together_and_random_exits_stand_beside(tmp_path: Path) -> None:
    scored = scored_cache(tmp_path, *random_arrays(4, 90, 6, 1), [configuration()])
    question = {**COLUMNS, "operating_point": "speed_up=2", "measure": "accuracy", "decisions": "per-layer"}
    brought = [[{**question, "signal_a": "a", "p_value": 0.02}], [{**question, "signal_a": "b", "p_value": 0.03}]]
    measured: list[Any] = [SimpleNamespace(rows=[], entries=lambda _: [], pairs=pairs) for pairs in brought]
    questions = Questions(speed_ups=(2.0, 3.0), rates_speed_up=2.0, losses=(), protocols=("in-sample",), resamples=5)
    compared = compare_signals(scored, measured, questions, ("pairs",))
    adjusted = {pair["signal_a"]: pair["p_adjusted"] for pair in compared.pairs}
    assert adjusted == pytest.approx({"a": 0.04, "b": 0.04})  # Holm: twice the smaller, and none below it
    points = {row.operating_point for row in compared.rows if row.signal == "random" and row.measure == "accuracy"}
    assert points == {at_speed_up(2.0), at_speed_up(3.0)}


def test_errors_of_dis_are_kept_where_dis_has_one() -> None:
    samples, _ = all_right()
    contestant: Any = SimpleNamespace(name=("s", ""), influence=lambda layer, measure: np.full(9, layer), deals={})
    dis = Row(**COLUMNS, signal="s", parameters="", measure="dis", std_err=1.0)
    rows = [
        dis._replace(layer=1),
        dis._replace(layer=2, std_err=np.nan),
        dis._replace(layer=3, measure="aurc"),
        dis._replace(layer=4, protocol="cross-fit"),
    ]
    sources = dis_sources(COLUMNS, [contestant], rows, Questions(layers=(1, 2, 3, 4)), samples)
    ((key, source),) = sources.items()
    assert key[:3] == ("in-sample", "s", "")
    assert (source.spread.tolist(), source.deals.tolist(), source.influence) == ([1] * 9, [], True)
