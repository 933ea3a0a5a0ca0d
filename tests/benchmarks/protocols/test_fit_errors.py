"""What fitting adds to the error of DIS, against fits made one by one and pairs counted one by one."""

import dataclasses
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from exitbench import evaluate
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.replay.replay_signal import replay_signal
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.cache import Cache, synthetic_cache
from tests.support.learned_study import Ridge

pytestmark = pytest.mark.long

ROWS, LAYER, SEED = 130, 2, 5


class Unmoved(Ridge):
    """Learns, and then scores by the margin alone: every fit ranks as every other does."""

    name: ClassVar[str] = "unmoved"

    def fit(self, calibration, labels):
        weights = [0.0] * (self.design(calibration[0]).shape[1] - 1) + [1.0]
        return dataclasses.replace(self, weights=tuple(tuple(weights) for _ in calibration))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    folder: Path = tmp_path_factory.mktemp("fits") / "cache"
    return Cache(synthetic_cache(folder, rows=ROWS, layers=4, width=6, seed=3))


@pytest.fixture(scope="module")
def results(cache):
    asked = {"speed_ups": [1.5], "rates_speed_up": 1.5, "losses": [], "resamples": 2, "seed": SEED}
    return evaluate(cache, [Ridge(), Unmoved(), "deebert"], protocols=["cross-fit"], **asked)


def scores_of(cache, rows):
    """The scores of a fit on some rows, of all rows, at the layer."""
    return replay_signal(cache, fitted(Ridge(), cache, rows)).scores.certainty[LAYER - 1]


def ordered_pairs(scores, right, together):
    """Share of (wrong, right) pairs of rows that belong together in which the right one is surer, in percent."""
    won = total = 0.0
    for easy in np.flatnonzero(right):
        for hard in np.flatnonzero(~right):
            if together[easy] == together[hard]:
                total += 1
                won += (scores[easy] > scores[hard]) + 0.5 * (scores[easy] == scores[hard])
    return 100 * won / total


def literal_fit_error(cache):
    """The folds' own scores, the error by fits made anew, and the folds."""
    right = cache.predictions()[LAYER - 1] == np.asarray(cache.labels)
    outer = folds(np.arange(ROWS), SEED, 5)
    merged = np.zeros(ROWS)
    for fold in range(5):
        merged[outer == fold] = scores_of(cache, np.flatnonzero(outer != fold))[outer == fold]
    changes = []
    for left_out in range(5):
        rows = np.flatnonzero(outer != left_out)
        again = np.zeros(ROWS)
        for fold in set(range(5)) - {left_out}:
            without_both = np.flatnonzero((outer != left_out) & (outer != fold))
            again[outer == fold] = scores_of(cache, without_both)[outer == fold]
        before, after = (ordered_pairs(scores[rows], right[rows], outer[rows]) for scores in (merged, again))
        changes.append(after - before)
    return merged, right, outer, np.sqrt(np.mean(np.square(changes)))


def dis_row(results, signal):
    frame = results.results
    return frame[(frame.signal == signal) & (frame.layer == LAYER) & (frame.measure == "dis")].iloc[0]


def test_the_error_of_dis_has_what_other_fits_change_on_the_same_pairs(cache, results):
    merged, right, outer, added = literal_fit_error(cache)
    delong = float(Ranking(merged[None], right[None], outer).std_err()[0])
    row = dis_row(results, "ridge")
    assert added > 0.5
    assert row.std_err == pytest.approx(np.hypot(delong, added))
    assert row.low < row.value < row.high
    assert row.reason.endswith("the error has what other fits change added")


def test_a_learner_whose_fits_agree_has_the_error_of_a_signal_that_learns_nothing(results):
    plain, learned = dis_row(results, "deebert"), dis_row(results, "unmoved")
    assert learned.value == pytest.approx(plain.value, abs=2)  # two classes: the margin is what entropy follows
    assert learned.std_err == pytest.approx(plain.std_err, rel=0.1)


def test_a_pair_has_the_errors_of_both_fits(cache, results):
    *_, added = literal_fit_error(cache)
    pairs = results.pairs
    chosen = pairs[(pairs.layer == LAYER) & (pairs.measure == "dis")]
    errors = {frozenset((pair.signal_a, pair.signal_b)): pair.std_err for pair in chosen.itertuples()}
    assert errors[frozenset(("ridge", "deebert"))] > added
    assert errors[frozenset(("ridge", "unmoved"))] > added
    assert errors[frozenset(("unmoved", "deebert"))] < added
