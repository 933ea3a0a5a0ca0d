"""PALBERT and ConsistentEE on frozen exits: a literal objective, torch's gradients, a planted rule and none."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.optimize import check_grad, minimize

from exitbench.benchmarks.scoring.calibration_layers import CalibrationLayers
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.places import FIXTURES
from exitbench.signals import ExitSignal, Layer, load_registry, score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.consistentee import ConsistentEE, memorised_layers
from exitbench.signals.contract import hazard
from exitbench.signals.contract.hazard import Seen, SortedLayer, expected_cost, prior_divergence
from exitbench.signals.palbert import PALBERT, geometric_prior
from tests.support.planted_layers import layers_from

Source = Callable[[], tuple[list[Layer], torch.Tensor]]

BOTH = ["palbert", "consistentee"]
REGISTRY = load_registry()


def literal_shares(hazards: list[float]) -> list[float]:
    """The probability of leaving at each layer of one sample, the last layer included."""
    shares, staying = [], 1.0
    for value in hazards:
        shares.append(staying * value)
        staying *= 1 - value
    return [*shares, staying]


def literal_objective(signal: ExitSignal, hazards: np.ndarray, logits: np.ndarray, labels: np.ndarray) -> float:
    """What a signal minimises but for its ridge, sample by sample and layer by layer."""
    depth = len(logits)
    total = 0.0
    for sample, label in enumerate(labels):
        losses = [-float(torch.log_softmax(torch.tensor(logits[m, sample]), 0)[label]) for m in range(depth)]
        shares = literal_shares(list(hazards[:, sample]))
        if isinstance(signal, PALBERT):
            prior = literal_shares([signal.prior_rate] * (depth - 1))
            divergence = sum(p * np.log(p / share) for p, share in zip(prior, shares, strict=True))
            total += sum(share * loss for share, loss in zip(shares, losses, strict=True)) + signal.beta * divergence
        else:
            assert isinstance(signal, ConsistentEE)
            memorised = depth
            for m in range(depth, 0, -1):
                if logits[m - 1, sample].argmax() != label:
                    break
                memorised = m
            for m in range(1, depth + 1):
                reward = -losses[m - 1] - signal.alpha * m * (1 - memorised / depth)
                total -= shares[m - 1] * reward
    return total / len(labels)


def hazards_of(signal: ExitSignal, scores: np.ndarray) -> np.ndarray:
    """The hazards behind some scores: those of PALBERT are sums of shares."""
    if not isinstance(signal, PALBERT):
        return scores
    staying = np.concatenate([np.ones((1, scores.shape[1])), 1 - scores])
    return 1 - staying[1:] / staying[:-1]


def made_up() -> tuple[list[Layer], torch.Tensor]:
    """Noise of two classes, features of width 3."""
    draw = np.random.default_rng(0)
    layers = layers_from(draw.normal(size=(4, 60, 2)) * 2, draw.normal(size=(4, 60, 3)))
    return layers, torch.from_numpy(draw.integers(0, 2, 60))


def real() -> tuple[list[Layer], torch.Tensor]:
    """Three layers of width 16 and the last one of a committed ResNet-20, as a network of four with ten classes."""
    cache = Cache(FIXTURES / "caches" / "resnet20-cifar10-features-dev")
    rows = np.arange(0, cache.rows, 10)
    stored = CalibrationLayers(cache, rows, frozenset({"logits", "features"}))
    layers = []
    for index, layer in enumerate([*stored[:3], stored[-1]], start=1):
        kept = {name: getattr(layer, name) for name in ("ids", "classes", "logits", "features")}
        layers.append(Layer(index=index, depth=4, **kept))
    return layers, torch.from_numpy(cache.labels[rows])


@pytest.mark.parametrize("source", [made_up, real])
@pytest.mark.parametrize("text", [*BOTH, "palbert[form=linear]", "consistentee[form=linear]"])
def test_the_fit_is_that_of_torchs_gradients_on_the_literal_objective(text: str, source: Source) -> None:
    """Other whitening, other gradients: not convex, but L-BFGS takes the same path in rotated coordinates."""
    layers, labels = source()
    samples = len(labels)
    logits = np.stack([layer.logits.double().numpy() for layer in layers])
    signal = REGISTRY.make(text).__class__(form=REGISTRY.make(text).form, penalty=0.05)
    scores = score_layers(signal.fit(layers, labels), layers).numpy()
    hazards = hazards_of(signal, scores)

    linear = "linear" in text
    answers = [torch.zeros(samples).long() if linear else layer.logits.argmax(dim=1) for layer in layers]
    turn = torch.from_numpy(np.linalg.qr(np.random.default_rng(2).normal(size=(8, 8)))[0])
    columns = []
    for m in range(3):
        seen = [layers[m].features] + ([layers[m - 1].features] if m and text.startswith("palbert") else [])
        parts = []
        for x in seen:  # whitened in its 8 directions of largest variance and turned, which leaves the ridge as it is
            centred = x.double() - x.double().mean(dim=0)
            spectrum, vectors = torch.linalg.eigh(centred.T @ centred / samples)
            kept = min(8, len(spectrum))
            whitened = centred @ vectors[:, -kept:] @ torch.diag(spectrum[-kept:].rsqrt())
            parts.append(whitened @ turn if kept == 8 else whitened)
        columns.append(torch.cat(parts, dim=1))
    count = 1 if linear else layers[0].classes
    sizes = [count * (c.shape[1] + 1) for c in columns]
    losses = torch.stack(
        [torch.nn.functional.cross_entropy(layer.logits.double(), labels, reduction="none") for layer in layers]
    )
    right = torch.stack([layer.logits.argmax(dim=1) == labels for layer in layers])
    easy = torch.tensor([1 - next((m for m in range(1, 5) if right[m - 1 :, i].all()), 4) / 4 for i in range(samples)])

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weights = torch.tensor(flat, requires_grad=True)
        staying, total, ridge = torch.ones(samples, dtype=torch.float64), torch.zeros(samples, dtype=torch.float64), 0.0
        prior = literal_shares([0.1] * 3)
        for m, part in enumerate([*torch.split(weights, sizes), None]):
            if part is None:
                share = staying
            else:
                table = part.reshape(count, -1)[answers[m]]
                kept = part.reshape(count, -1)
                ridge = ridge + ((kept if text.startswith("consistentee") else kept[:, :-1]) ** 2).sum()
                value = torch.sigmoid((columns[m] * table[:, :-1]).sum(dim=1) + table[:, -1])
                share, staying = staying * value, staying * (1 - value)
            if isinstance(signal, PALBERT):
                total = total + share * losses[m] + 0.5 * prior[m] * (np.log(prior[m]) - share.log())
            else:
                total = total + share * (losses[m] + signal.alpha * (m + 1) * easy)
        value = total.mean() + 0.05 / 2 * ridge
        value.backward()
        assert weights.grad is not None
        return float(value.detach()), weights.grad.numpy()

    options = {"maxcor": 30, "maxiter": 2000, "ftol": 1e-14, "gtol": 1e-10}
    best = minimize(objective, np.zeros(sum(sizes)), jac=True, method="L-BFGS-B", options=options)
    own = literal_objective(signal, hazards, logits, labels.numpy())
    # The same minimum: by the objective, and by every hazard.
    theirs = []
    for m, part in enumerate(np.split(best.x, np.cumsum(sizes)[:-1])):
        table = part.reshape(count, -1)[answers[m].numpy()]
        theirs.append(1 / (1 + np.exp(-((columns[m].numpy() * table[:, :-1]).sum(axis=1) + table[:, -1]))))
    assert own == pytest.approx(literal_objective(signal, np.stack(theirs), logits, labels.numpy()), abs=1e-6)
    np.testing.assert_allclose(hazards, np.stack(theirs), atol=2e-4)


@pytest.mark.parametrize("rows", [1, 5])
def test_gradients_are_those_of_finite_differences(rows: int) -> None:
    draw = np.random.default_rng(1)
    costs, prior = draw.uniform(0, 3, (5, rows)), draw.dirichlet(np.ones(5))
    for objective in (lambda z: expected_cost(z, costs), lambda z: prior_divergence(z, prior)):
        error = check_grad(
            lambda flat, of=objective: of(flat.reshape(4, rows))[0],
            lambda flat, of=objective: of(flat.reshape(4, rows))[1].ravel(),
            draw.normal(size=4 * rows),
        )
        assert error < 1e-6


@pytest.mark.parametrize("rows", [1, 40])
def test_a_hazards_log_odds_and_gradient_are_those_of_its_samples_one_by_one(rows: int) -> None:
    """Seven maps, of which some have one sample or none."""
    draw = np.random.default_rng(3)
    columns, classes, by_log_odds = draw.normal(size=(rows, 3)), draw.integers(0, 5, rows), draw.normal(size=rows)
    classes[0] = 6  # alone
    weight = draw.normal(size=(7, 4))
    by_map = SortedLayer.of(Seen(maps=(), columns=columns, classes=classes, maps_count=7))
    extended = np.concatenate([columns, np.ones((rows, 1))], axis=1)
    np.testing.assert_allclose(by_map.log_odds(weight), [x @ weight[c] for x, c in zip(extended, classes, strict=True)])
    gradient = np.zeros((7, 4))
    np.add.at(gradient, classes, by_log_odds[:, None] * extended)
    np.testing.assert_allclose(by_map.gradient(by_log_odds, 7), gradient, atol=1e-14)


def test_at_a_closed_layer_nobody_leaves_and_the_prior_goes_on_to_the_next() -> None:
    log_odds = np.array([[0.3], [-np.inf], [1.0]])
    costs = np.array([[1.0], [100.0], [2.0], [3.0]])
    first, third = 1 / (1 + np.exp(-0.3)), 1 / (1 + np.exp(-1.0))
    shares = literal_shares([first, third])
    assert expected_cost(log_odds, costs)[0] == pytest.approx(np.dot(shares, [1.0, 2.0, 3.0]))
    prior = geometric_prior(0.1, 4)
    np.testing.assert_allclose(prior, [0.1, 0.09, 0.081, 0.729])
    # Without the second layer the geometric prior is [0.1, 0.09, 0.81], as if it were not there.
    expected = sum(p * np.log(p / share) for p, share in zip([0.1, 0.09, 0.81], shares, strict=True))
    assert prior_divergence(log_odds, prior)[0] == pytest.approx(expected)


def test_the_memorised_layer_is_the_first_of_an_unbroken_run_to_the_end() -> None:
    right = np.array([[1, 0, 1, 0, 1], [1, 1, 0, 0, 1], [1, 1, 1, 0, 0]], dtype=bool)
    assert memorised_layers(right).tolist() == [1, 2, 3, 3, 3]


def told_by_the_feature(rows: int, seed: int, *, planted: bool) -> tuple[list, torch.Tensor]:
    """Layer 2 is right where the first coordinate has its answer's sign, or by a coin; the last always, and unsure."""
    draw = np.random.default_rng(seed)
    labels, answers = draw.integers(0, 2, rows), draw.integers(0, 2, (4, rows))
    features = draw.normal(size=(4, rows, 5))
    sign = labels if planted else draw.integers(0, 2, rows)
    features[1, :, 0] = np.where(sign == 1, 2.0, -2.0) + draw.normal(size=rows)
    answers[3] = labels
    logits = np.zeros((4, rows, 2))
    np.put_along_axis(logits, answers[:, :, None], np.array([2.0, 2.0, 2.0, 0.5])[:, None, None], axis=2)
    return layers_from(logits, features), torch.from_numpy(labels)


@pytest.mark.parametrize("text", BOTH)
@pytest.mark.parametrize(("planted", "low", "high"), [(True, 0.9, 1.0), (False, 0.44, 0.56)])
def test_a_planted_reason_to_leave_is_found_and_one_that_is_not_there_is_not(
    text: str, planted: bool, low: float, high: float
) -> None:
    layers, labels = told_by_the_feature(1200, 0, planted=planted)
    fresh, fresh_labels = told_by_the_feature(1200, 1, planted=planted)
    signal = REGISTRY.make(text).fit(layers, labels)
    # PALBERT's score has the first layer's hazard in it, which knows nothing; the hazard itself is asked.
    certainty = torch.from_numpy(hazards_of(signal, score_layers(signal, fresh).numpy())[1])
    right = fresh[1].prediction == fresh_labels
    lead = certainty[right][:, None] - certainty[~right]
    assert low <= float((lead > 0).double().mean() + (lead == 0).double().mean() / 2) <= high


@pytest.mark.parametrize("text", BOTH)
def test_a_layer_that_cannot_be_taught_takes_no_part(text: str) -> None:
    layers, labels = told_by_the_feature(100, 0, planted=True)
    certain = 10.0 * torch.nn.functional.one_hot(labels, 2).float()
    layers[0] = dataclasses.replace(layers[0], logits=certain)
    signal = REGISTRY.make(text).leave_out(layers, labels)
    assert list(signal.unscored_layers) == [1]
    scores = score_layers(signal.fit(layers, labels), layers)
    assert scores[0].isnan().all() and scores[1:].isfinite().all()


def test_the_exit_mass_grows_from_layer_to_layer_and_stays_below_one() -> None:
    data = synthetic_layers(100, depth=6, seed=2)
    scores = score_layers(PALBERT().fit(data.layers, data.labels), data.layers)
    assert (scores[1:] >= scores[:-1]).all() and (scores > 0).all() and (scores <= 1).all()


@pytest.mark.parametrize("text", BOTH)
def test_of_too_many_rows_some_are_taken_evenly(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layers, labels = told_by_the_feature(120, 0, planted=True)
    signal = REGISTRY.make(text)
    whole = score_layers(signal.fit(layers, labels), layers)
    monkeypatch.setattr(hazard, "ENTRIES", 60 * 2 * 8 * 3)
    part = score_layers(signal.fit(layers, labels), layers)
    assert not torch.equal(part, whole)
    assert np.corrcoef(part[1], whole[1])[0, 1] > 0.6
    monkeypatch.setattr(hazard, "ENTRIES", 120 * 2 * 8 * 3)
    torch.testing.assert_close(score_layers(signal.fit(layers, labels), layers), whole, rtol=0, atol=0)


def test_missing_features_are_refused() -> None:
    data = synthetic_layers(40, depth=4)
    bare = [dataclasses.replace(layer, features=None) for layer in data.layers]
    for text in BOTH:
        with pytest.raises(InputError, match="needs features"):
            REGISTRY.make(text).fit(bare, data.labels)
        with pytest.raises(InputError, match="must be fitted"):
            REGISTRY.make(text).step(data.layers[0], None)


def test_a_prior_that_is_no_hazard_is_refused() -> None:
    with pytest.raises(InputError, match="prior-rate must be below 1, found 1"):
        REGISTRY.make("palbert[prior-rate=1]")


@pytest.mark.parametrize("name", ["palbert", "consistentee"])
def test_a_feature_is_seen_in_at_least_one_direction(name: str) -> None:
    assert REGISTRY.make(f"{name}[directions=1]").text == f"{name}[directions=1]"
    with pytest.raises(InputError, match=r"directions must be .*at least 1"):
        REGISTRY.make(f"{name}[directions=0]")
