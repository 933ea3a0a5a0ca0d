"""The part of the study of intervals that learns: a ridge probe, fitted anew on every draw as a run fits it.

A draw is a few rows out of a large cache. The truth of a draw is what its own fits, one per fold, do on rows of that
cache which nobody has seen: the intervals of a run repeat the choice of the threshold, but not the fit. DIS is drawn
from a second law too, the rows of a committed cache, since the form of its interval was chosen on the first.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from exitbench import CacheWriter, Direction, ExitSignal, Input, Layer, Reference, Tensor, evaluate, learned
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.fit_errors import fit_errors
from exitbench.benchmarks.protocols.splits import fold_numbers, inner_folds, parts_of
from exitbench.benchmarks.replay.operating_points import randomised
from exitbench.benchmarks.replay.replay_signal import replay_signal
from exitbench.benchmarks.results.operating_point import NOWHERE
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.benchmarks.statistics.delong import logit_interval
from exitbench.cache import Cache, synthetic_cache
from exitbench.places import FIXTURES
from tests.support.interval_study import Tried

LAYERS, WIDTH, LAYER, SPEED_UP = 6, 12, 3, 2.0
ROWS, UNSEEN = 20_000, 8_000


RANKED_LEARNED = "DIS of a learned signal"
RANKED_COMMITTED = "DIS of a learned signal, rows of a committed cache"
COMMITTED = FIXTURES / "caches" / "mpnet-base-qnli-dev"
COMMITTED_LAYER = 6


def ridge(design: NDArray[np.float64], right: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The weights of a ridge regression of right or wrong on a design [samples, columns]."""
    normal = design.T @ design + np.eye(design.shape[1])
    return np.asarray(np.linalg.solve(normal, design.T @ right.astype(np.float64)))


@dataclass(frozen=True)
class Ridge(ExitSignal):
    """A ridge regression of right or wrong on the features, one per layer."""

    name: ClassVar[str] = "ridge"
    title: ClassVar[str] = "Ridge"
    reference: ClassVar[Reference] = Reference("unpublished", 2026, "")
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features"})
    weights: tuple[tuple[float, ...], ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.weights is None

    @staticmethod
    def design(layer: Layer) -> NDArray[np.float64]:
        """Features, their squares and the margin of the logits: enough to learn something, [samples, columns]."""
        assert layer.features is not None
        features = layer.features.double().numpy()
        logits = layer.logits.double().numpy()
        margin = np.abs(logits[:, :1] - logits[:, 1:2])
        return np.concatenate([np.ones((len(features), 1)), features, features**2, margin], axis=1)

    def fit(self, calibration, labels):  # type: ignore[no-untyped-def]
        weights = []
        for layer in calibration:
            weights.append(tuple(ridge(self.design(layer), (layer.prediction == labels).numpy())))
        return dataclasses.replace(self, weights=tuple(weights))

    def score(self, layer: Layer) -> Tensor:
        assert self.weights is not None
        return torch.from_numpy(self.design(layer) @ np.array(self.weights[layer.index - 1]))


@dataclass(frozen=True, eq=False)
class RankedLaw:
    """What rows are drawn from, to be ranked by a ridge probe of one layer: its ``design`` [rows, columns], ``right``.

    Rows are drawn among those from ``first`` on, with replacement if that is said; the truth of a fit is its DIS on the
    rows before ``judged``. Drawn with replacement and judged on all rows, the rows themselves are the law, and their
    truth is exact.
    """

    question: str
    design: NDArray[np.float64]
    right: NDArray[np.bool_]
    first: int
    judged: int
    replace: bool

    def ranked(self, samples: int, draws: int, first: int = 0) -> Tried:
        """How often the interval of DIS of a draw holds what its own fits do, by the functions that a run calls."""
        tried = Tried(self.question, samples, "coverage")
        for number in range(first, first + draws):
            rng = np.random.default_rng((samples, number))
            among = len(self.design) - self.first
            tried.note(self._is_covered(self.first + np.sort(rng.choice(among, samples, replace=self.replace)), number))
        return tried

    def _is_covered(self, rows: NDArray[np.int64], seed: int) -> bool:
        """Whether the interval of DIS of one draw holds what its own fits do on the rows that judge."""
        drawn, answers, ids = self.design[rows], self.right[rows], np.arange(len(rows))
        parts = parts_of("cross-fit", ids, seed=seed, count=5)
        certainty, out_of_fold, truth = np.zeros((1, len(rows))), [], 0.0
        for part in parts:
            weights = ridge(drawn[part.train], answers[part.train])
            certainty[0, part.test] = drawn[part.test] @ weights
            judged = Ranking((self.design[: self.judged] @ weights)[None], self.right[None, : self.judged])
            truth += part.test.mean() * float(judged.dis()[0])
            again, inner = np.zeros((1, len(rows))), inner_folds(part, ids, seed)
            for fold in np.unique(inner[part.train]):
                seen, own = part.train & (inner != fold), part.train & (inner == fold)
                again[0, own] = drawn[own] @ ridge(drawn[seen], answers[seen])
            out_of_fold.append(again)
        ranking = Ranking(certainty, answers[None], fold_numbers(parts))
        added = fit_errors(parts, certainty, out_of_fold, answers[None], ids, seed=seed)
        error = np.hypot(ranking.std_err()[0], added[NOWHERE, 1, "", "dis"])
        low, high = logit_interval(float(ranking.dis()[0]), float(error))
        return low <= truth <= high


def committed_law() -> RankedLaw:
    """The rows of a committed cache as a law: a second one, which no form of an interval was chosen on.

    The probe reads margin, entropy and squared margin of each layer up to its own.
    """
    cache = Cache(COMMITTED)
    columns = [np.ones(cache.rows)]
    for layer in range(1, COMMITTED_LAYER + 1):
        log_p = torch.log_softmax(cache.logits(layer).double(), dim=1).numpy()
        margin = np.abs(np.diff(np.sort(log_p, axis=1)[:, -2:], axis=1))[:, 0]
        columns += [margin, -(np.exp(log_p) * log_p).sum(axis=1), margin**2]
    right = cache.predictions()[COMMITTED_LAYER - 1] == cache.labels
    return RankedLaw(RANKED_COMMITTED, np.stack(columns, axis=1), right, 0, cache.rows, replace=True)


class LearnedStudy:
    """Draws out of one large synthetic cache under ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.whole = Cache(synthetic_cache(folder / "whole", rows=ROWS, layers=LAYERS, width=WIDTH, seed=3))
        self.unseen = self._cut("unseen", np.arange(UNSEEN))
        self.right = self.unseen.predictions() == self.unseen.labels

    def _cut(self, name: str, rows: NDArray[np.int64]) -> Cache:
        """Some rows as a cache of their own."""
        whole, layers = self.whole, range(1, LAYERS + 1)
        heads = tuple(
            torch.stack([getattr(whole.head(layer), part) for layer in layers]).float() for part in ("weight", "bias")
        )
        manifest = whole.manifest
        described = {"task": manifest.task, "split": "dev", "model": manifest.model, "heads": heads}
        with CacheWriter(self.folder / name, **described, feature_dtype="float32") as writer:
            writer.add(
                labels=whole.labels[rows],
                ids=whole.ids[rows],
                logits=torch.stack([whole.logits(layer)[rows] for layer in layers]),
                features=torch.stack([whole.features(layer)[rows] for layer in layers]),
            )
        return Cache(self.folder / name)

    def truth(self, drawn: Cache, seed: int) -> tuple[float, float]:
        """Accuracy at 2x and DIS of the fits of all folds on unseen rows, each fold with its share of samples."""
        order = np.argsort(drawn.ids, kind="stable")
        accuracy = dis = 0.0
        for part in parts_of("cross-fit", drawn.ids[order], seed=seed, count=5):
            curve = replay_signal(self.unseen, fitted(Ridge(), drawn, order[part.train]))
            exactly = randomised(curve, SPEED_UP)
            assert exactly is not None
            share = part.test.mean()
            accuracy += share * float(exactly.accuracy)
            dis += share * float(Ranking(curve.scores.certainty, self.right[:-1]).dis()[LAYER - 1])
        return accuracy, dis

    def law(self) -> RankedLaw:
        """The synthetic cache as a law for DIS alone; the truth comes from rows that no draw has."""
        layer = [self.whole.logits(LAYER), self.whole.features(LAYER)]
        design = Ridge.design(Layer(LAYER, LAYERS, 2, torch.from_numpy(self.whole.ids), *layer))
        right = self.whole.predictions()[LAYER - 1] == self.whole.labels
        return RankedLaw(RANKED_LEARNED, design, right, UNSEEN, UNSEEN, replace=False)

    def studied(self, samples: int, draws: int, first: int = 0, resamples: int = 400) -> list[Tried]:
        """The counts over ``draws`` data sets; ``first`` numbers the first of them."""
        tried = [Tried(f"{name} of a learned signal", samples, "coverage") for name in ("accuracy at 2x", "DIS")]
        for number in range(first, first + draws):
            rng = np.random.default_rng((samples, number))
            rows = UNSEEN + np.sort(rng.choice(ROWS - UNSEEN, samples, replace=False))
            drawn = self._cut(f"draw-{samples}-{number}", rows)
            asked = {"speed_ups": [SPEED_UP], "rates_speed_up": SPEED_UP, "losses": []}
            results = evaluate(
                drawn, [Ridge()], protocols=["cross-fit"], resamples=resamples, seed=number, **asked
            ).results  # type: ignore[arg-type]
            own = results[results["signal"] == "ridge"]
            scores = own[(own["operating_point"] == f"speed_up={SPEED_UP:g}") & (own["measure"] == "accuracy")]
            ranks = own[(own["layer"] == LAYER) & (own["measure"] == "dis")]
            for count, table, truth in zip(tried, (scores, ranks), self.truth(drawn, number), strict=True):
                row = table[table["decisions"] == ""].iloc[0]
                count.note(bool(row["low"] <= truth <= row["high"]))
        return tried
