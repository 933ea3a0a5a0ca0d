"""Curves, bounds, areas and histograms of an evaluation against independent oracles."""

import numpy as np
import pytest

from exitbench.benchmarks.api import evaluate, replay
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache
from exitbench.places import CACHES
from exitbench.signals import load_registry
from tests.support.evaluations import only_row


def test_every_protocol_has_the_bounds(evaluation, path):
    cache = Cache(path)
    right = cache.predictions() == cache.labels
    for protocol in ("in-sample", "cross-fit"):
        row = only_row(
            evaluation.results, protocol=protocol, signal="final", measure="accuracy", operating_point="final"
        )
        assert row.value == pytest.approx(100 * right[-1].mean())
        row = only_row(evaluation.results, protocol=protocol, signal="fixed", measure="accuracy", layer=2)
        assert row.value == pytest.approx(100 * right[1].mean())
        row = only_row(evaluation.results, protocol=protocol, signal="oracle", measure="accuracy")
        assert row.value == pytest.approx(100 * right.any(axis=0).mean())


def test_curves_keep_exact_points_and_their_exits(evaluation, path):
    curve = replay(path, "deebert")
    kept = evaluation.curves[(evaluation.curves.signal == "deebert") & (evaluation.curves.protocol == "in-sample")]
    points = kept[kept.kind == "point"]
    for point in points.iloc[:: max(1, len(points) // 20)].itertuples():
        where = int(curve.points_at(point.threshold))
        assert point.speed_up == curve.speed_up[where]
        assert point.score == curve.score("f1")[where]
        np.testing.assert_array_equal(point.exits, curve.histogram(where))
    band = kept[kept.kind == "band"]
    assert (band.low <= band.high).all()


def test_the_curve_of_a_grid_is_made_of_its_values_curves_and_passes_through_what_tables_read(path):
    grid = "pcee[patience=1|2|3]"
    evaluation = evaluate(path, [grid], protocols=["in-sample"], speed_ups=[1.5, 2.0, 3.0], resamples=10)
    points = evaluation.curves[(evaluation.curves.signal == "pcee") & (evaluation.curves.kind == "point")]
    exact = [replay(path, f"pcee[patience={patience}]") for patience in (1, 2, 3)]
    read_off = {pair for curve in exact for pair in zip(curve.relative_cost, curve.score("f1"), strict=True)}
    assert set(zip(points.cost, points.score, strict=True)) <= read_off
    assert points.threshold.isna().all()
    rows = evaluation.results[
        (evaluation.results.parameters == "patience=1|2|3") & (evaluation.results.decisions == "")
    ]
    for speed_up in (1.5, 2.0, 3.0):
        here = rows[rows["operating_point"] == f"speed_up={speed_up:g}"].set_index("measure").value
        assert ((points.speed_up == here["speed_up"]) & (points.score == here["f1"])).any()
    chosen = rows[rows.measure == "speed_up"].set_index("operating_point").chosen
    assert len(set(chosen)) > 1


@pytest.mark.long
def test_a_patience_that_is_a_fixed_layer_at_two_times_takes_no_part_there():
    """F-PABEE with a patience of 5 may exit from layer 6 on: at 2x of 12 layers every sample of a real cache does."""
    evaluation = evaluate(CACHES / "mpnet-base-rte-dev", ["f-pabee[patience=5]", "deebert", "nsp"], resamples=20)
    for protocol in ("in-sample", "cross-fit"):
        rows = evaluation.results[(evaluation.results.signal == "f-pabee") & (evaluation.results.protocol == protocol)]
        near = rows[rows["operating_point"] == "speed_up=2"]
        assert len(near) > 0
        assert set(near.status) == {"degenerate"}
        assert near.reason.str.startswith("every sample exits at layer 6: a fixed layer, not a signal").all()
        assert near.best.isna().all()
        fixed = only_row(evaluation.results, protocol=protocol, signal="fixed", layer=6, measure="accuracy")
        assert near.set_index("measure").value["accuracy"] == fixed.value
        pairs = evaluation.pairs[(evaluation.pairs.protocol == protocol)]
        at_two = pairs[pairs["operating_point"] == "speed_up=2"]
        assert set(at_two.signal_a) | set(at_two.signal_b) == {"deebert", "nsp"}


def test_random_exits_are_among_the_curves_as_in_a_run(evaluation):
    for protocol in ("in-sample", "cross-fit"):
        random_exits = evaluation.curves[
            (evaluation.curves.signal == "random") & (evaluation.curves.protocol == protocol)
        ]
        assert set(random_exits.parameters) == {""}
        assert random_exits.cost.min() == pytest.approx(1 / 5)
        assert random_exits.cost.max() == pytest.approx(1.0)


@pytest.mark.long
def test_the_area_is_the_mean_of_the_exact_curve_over_the_stated_range(path):
    curve = replay(path, "e-lang")
    cost, f1 = curve.relative_cost[::-1], curve.score("f1")[::-1]
    for low in (1 / 3, 0.5):
        evaluation = evaluate(
            path,
            ["pabee", "e-lang"],
            protocols=["in-sample"],
            speed_ups=[1.5],
            resamples=10,
            area_range=(low, 1.0),
        )
        row = only_row(evaluation.results, signal="e-lang", measure="area")
        fine = np.linspace(low, 1.0, 200_001)
        assert row.value == pytest.approx(np.interp(fine, cost, f1).mean(), abs=1e-3)
        assert f"mean score over relative costs {low:.4g} to 1" in row.reason


@pytest.mark.parametrize("protocol", ["in-sample", "cross-fit"])
def test_bounds_stand_where_they_belong(evaluation, protocol):
    rows = evaluation.results[evaluation.results.protocol == protocol]
    bounds = rows[rows.signal.isin(["oracle", "final", "fixed", "random"])]
    assert set(zip(bounds.signal, bounds["operating_point"], strict=True)) == {
        ("oracle", ""),
        ("final", "final"),
        ("fixed", ""),
        ("fixed", "speed_up=1.5"),
        ("fixed", "speed_up=2"),
        ("fixed", "loss=2"),
        ("random", "speed_up=1.5"),
        ("random", "speed_up=2"),
    }
    for speed_up in (1.5, 2.0):
        for signal in ("fixed", "random"):
            exactly = {"signal": signal, "operating_point": f"speed_up={speed_up:g}", "measure": "speed_up"}
            assert only_row(bounds, **exactly).value == pytest.approx(speed_up)


@pytest.mark.parametrize("signal", ["deebert", "pabee"])
def test_score_histograms_span_the_scores_as_the_signal_gives_them(evaluation, path, signal):
    bins = evaluation.histograms
    bins = bins[(bins.kind == "scores") & (bins.protocol == "in-sample") & (bins.signal == signal)]
    scores = score(Cache(path), load_registry().make(signal))
    assert len(bins)
    for layer, at_layer in bins.groupby("layer"):
        assert at_layer.low.min() == pytest.approx(scores[layer - 1].min())
        assert at_layer.high.max() == pytest.approx(scores[layer - 1].max())
        assert at_layer["count"].sum() == 150
