"""Calibrated: Platt's and the isotonic map against other implementations, and rankings that stay."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from exitbench.benchmarks.scoring.score_cache import fitted, score
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.places import FIXTURES
from exitbench.signals import load_registry, score_layers
from exitbench.signals.calibrated import Calibrated, isotonic_map, mapped, platt_map
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.meta import Meta
from tests.support.planted_layers import auroc, layers_from, nothing_decides

REGISTRY = load_registry()


def certainty_and_right(rows: int = 400, slope: float = 2.0, intercept: float = 0.5, seed: int = 0):
    draw = np.random.default_rng(seed)
    certainty = draw.normal(size=rows)
    return certainty, draw.uniform(size=rows) < expit(slope * certainty + intercept)


def test_platts_map_minimises_platts_loss() -> None:
    certainty, right = certainty_and_right()
    positives, negatives = right.sum(), (~right).sum()
    target = np.where(right, (positives + 1) / (positives + 2), 1 / (negatives + 2))

    def loss(parameters: np.ndarray) -> float:
        predictor = parameters[0] * certainty + parameters[1]
        return float((target * np.logaddexp(0, -predictor) + (1 - target) * np.logaddexp(0, predictor)).sum())

    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12})
    np.testing.assert_allclose(platt_map(certainty, right), best.x, rtol=1e-5)


def test_a_planted_slope_and_intercept_are_found() -> None:
    slope, intercept = platt_map(*certainty_and_right(40_000, slope=1.5, intercept=-0.7))
    assert slope == pytest.approx(1.5, abs=0.06)
    assert intercept == pytest.approx(-0.7, abs=0.05)


def test_the_isotonic_map_is_scikit_learns_prediction_everywhere() -> None:
    certainty, right = certainty_and_right(200)
    certainty = certainty.round(1)  # many ties
    points = np.concatenate([certainty, np.linspace(-6, 6, 300)])
    model = IsotonicRegression(out_of_bounds="clip").fit(certainty, right.astype(float))
    probabilities = mapped(torch.from_numpy(points), isotonic_map(certainty, right))
    np.testing.assert_allclose(probabilities, model.predict(points), atol=1e-12)


def test_pools_of_adjacent_violators_by_hand() -> None:
    xs, ys = isotonic_map(np.array([1.0, 2.0, 3.0, 4.0]), np.array([False, True, False, True]))
    assert mapped(torch.tensor([1.0, 2.0, 3.0, 4.0, 9.0], dtype=torch.float64), (xs, ys)).tolist() == [
        0,
        0.5,
        0.5,
        1,
        1,
    ]


@pytest.mark.parametrize("right", [True, False])
def test_equal_scores_get_the_share_of_right_answers(right: bool) -> None:
    flat, answers = np.zeros(30), np.array([right] * 20 + [not right] * 10)
    for make, expected in ((isotonic_map, answers.mean()), (platt_map, answers.mean())):
        assert float(mapped(torch.zeros(1, dtype=torch.float64), make(flat, answers))) == pytest.approx(
            expected, abs=0.01
        )


@pytest.mark.parametrize("of", ["deebert", "e-lang", "cap[alpha=0.1]", "pcee[patience=1]"])
def test_platt_keeps_the_ranking_of_every_layer(of: str) -> None:
    data = synthetic_layers(300, seed=3)
    inner = REGISTRY.make(of)
    before = score_layers(inner, data.layers) * (1 if ">" in inner.exits_when else -1)
    signal = REGISTRY.make(f"calibrated[of={of}]").fit(data.layers, data.labels)
    for certainty, chance in zip(before, score_layers(signal, data.layers), strict=True):
        order = certainty.argsort()
        apart, steps = certainty[order].diff() > 1e-6, chance[order].diff()
        assert apart.sum() > 200
        assert bool((steps > -1e-12).all()) and bool((steps[apart] > 0).all())


def test_a_score_means_how_often_its_samples_are_right() -> None:
    data = synthetic_layers(20_000, classes=2, seed=1)
    half = torch.arange(10_000)
    signal = Calibrated(of="margin", method="isotonic").fit(
        [layer.take(half) for layer in data.layers], data.labels[half]
    )
    fresh = [layer.take(half + 10_000) for layer in data.layers]
    for layer, chance in zip(fresh, score_layers(signal, fresh), strict=False):
        right = (layer.prediction == data.labels[10_000:]).double()
        for low in (0.5, 0.7, 0.9):
            inside = (chance >= low) & (chance < low + 0.1)
            if inside.sum() > 300:
                assert float(right[inside].mean()) == pytest.approx(float(chance[inside].mean()), abs=0.06)


@pytest.mark.long
def test_a_rule_that_is_not_there_is_not_found() -> None:
    layers, labels = nothing_decides(4000, seed=0)
    fresh, fresh_labels = nothing_decides(4000, seed=1)
    signal = Calibrated(of="margin").fit(layers, labels)
    chance = score_layers(signal, fresh)[1]
    assert float(chance.min()) > 0.6 and float(chance.max()) < 0.74, "all samples are right twice in three times"
    assert auroc(signal, fresh, fresh_labels, 2) == pytest.approx(0.5, abs=0.03)


def test_a_signal_that_learns_is_calibrated_on_samples_its_fit_has_not_seen() -> None:
    layers, labels = nothing_decides(300, seed=2)
    signal = Calibrated(of="meta").fit(layers, labels)
    chances = np.empty(300)
    for fold in range(5):
        inside = torch.arange(300) % 5 == fold
        ready = Meta().fit([layer.take(~inside) for layer in layers], labels[~inside])
        chances[inside.numpy()] = score_layers(ready, [layer.take(inside) for layer in layers])[1].numpy()
    right = (layers[1].prediction == labels).numpy()
    assert signal.maps is not None
    np.testing.assert_allclose(signal.maps[1], platt_map(chances, right), rtol=1e-6)  # type: ignore[arg-type]
    assert signal.inner == Meta().fit(layers, labels)
    again = Calibrated.from_json(signal.to_json())
    assert torch.equal(score_layers(again, layers), score_layers(signal, layers))


def test_layers_without_a_score_have_no_probability() -> None:
    data = synthetic_layers(80, seed=2)
    signal = Calibrated(of="pabee").fit(data.layers, data.labels)
    assert (signal.first_scored_layer, signal.first_exit_layer) == (2, 2)
    scores = score_layers(signal, data.layers)
    assert scores[0].isnan().all() and scores[1:].isfinite().all()


def test_it_reads_what_the_signal_inside_reads_and_refuses_what_that_refuses() -> None:
    assert REGISTRY.make("calibrated[of=nsp]").inputs == {"logits", "offset_norm", "head"}
    assert REGISTRY.make("calibrated[of=meta[features=true]]").inputs == {"logits", "features"}
    assert "one pooler" in REGISTRY.make("calibrated[of=saturation]").unsuited("per-layer")
    assert REGISTRY.make("calibrated[of=nsp[center=true]]").shift_invariant
    assert not REGISTRY.make("calibrated[of=nsp]").shift_invariant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("calibrated[of=deebrt]", "unknown signal 'deebrt'. Did you mean deebert"),
        ("calibrated[of=cap[alpha=-1]]", "alpha must be a number, at least 0"),
        ("calibrated[of=cap[alpha=1]", "cannot read the signal"),
        ("calibrated[of=cap]]", "cannot read the signal"),
    ],
)
def test_a_text_inside_that_cannot_be_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        REGISTRY.make(text)


def test_calibrating_twice_is_refused() -> None:
    with pytest.raises(InputError, match="not calibrated again"):
        REGISTRY.make("calibrated[of=calibrated[of=cap]]").first_exit_layer  # noqa: B018


def test_texts_inside_are_shortened_and_their_grids_expanded() -> None:
    assert REGISTRY.make("calibrated[of=cap[alpha=1,center=false]]").text == "calibrated[of=cap]"
    texts = [signal.text for signal in REGISTRY.expand("calibrated[of=cap[alpha=0.1|1]|deebert,method=isotonic]")]
    assert texts == [
        "calibrated[of=cap[alpha=0.1],method=isotonic]",
        "calibrated[of=cap,method=isotonic]",
        "calibrated[of=deebert,method=isotonic]",
    ]


@pytest.mark.long
def test_on_a_real_cache_it_is_the_map_of_the_raw_score() -> None:
    cache = Cache(FIXTURES / "caches" / "mpnet-base-sst2-dev")
    signal = fitted(REGISTRY.make("calibrated[of=e-lang]"), cache)
    scores, energy = score(cache, signal), score(cache, "e-lang")
    for layer in range(cache.layers - 1):
        if np.isnan(scores[layer]).any():
            continue
        right = cache.predictions()[layer] == cache.labels
        slope, intercept = platt_map(-energy[layer], right)
        np.testing.assert_allclose(scores[layer], expit(-slope * energy[layer] + intercept), rtol=1e-9)
        assert scores[layer].mean() == pytest.approx(right.mean(), abs=0.01)


def test_two_samples_are_the_fewest_that_a_learner_can_be_calibrated_on() -> None:
    logits = np.random.default_rng(0).normal(size=(3, 1, 2))
    with pytest.raises(InputError, match="needs at least 2 samples, found 1"):
        Calibrated(of="meta").fit(layers_from(logits), torch.zeros(1, dtype=torch.int64))
