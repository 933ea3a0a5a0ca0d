import math

import numpy as np
import pytest
from scipy import stats

from exitbench.benchmarks.statistics.hashed_randomness import folds, hash64, poisson_weights
from exitbench.errors import InputError

IDS = np.arange(4000) * 7 - 500


def test_a_draw_belongs_to_the_id_and_not_to_the_row():
    order = np.random.default_rng(0).permutation(len(IDS))
    assert np.array_equal(hash64(3, IDS, 5)[order], hash64(3, IDS[order], 5))
    assert np.array_equal(folds(IDS, 3)[order], folds(IDS[order], 3))
    assert np.array_equal(poisson_weights(IDS, 3, 10)[order], poisson_weights(IDS[order], 3, 10))
    assert np.array_equal(poisson_weights(IDS[100:200], 3, 10), poisson_weights(IDS, 3, 10)[100:200])


def test_more_resamples_leave_the_first_ones_as_they_were():
    assert np.array_equal(poisson_weights(IDS, 1, 7), poisson_weights(IDS, 1, 30)[:, :7])


def test_seed_id_and_stream_each_change_the_word():
    words = {
        int(hash64(seed, [sample], stream)[0]) for seed in range(10) for sample in range(10) for stream in range(10)
    }
    assert len(words) == 1000


def test_words_are_the_published_splitmix64_sequence():
    # The first outputs of SplitMix64 from state 0, as in the reference implementation's test vectors.
    from exitbench.benchmarks.statistics.hashed_randomness import _mix

    assert int(_mix(np.array([0], dtype=np.uint64))[0]) == 0xE220A8397B1DCDAF


def test_every_bit_of_the_words_is_fair_and_unlike_its_neighbours():
    words = hash64(0, np.arange(20_000), 0)
    bits = (words[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert np.all(np.abs(bits.mean(axis=0) - 0.5) < 5 * 0.5 / math.sqrt(len(words)))
    agree = (bits[1:] == bits[:-1]).mean(axis=0)
    assert np.all(np.abs(agree - 0.5) < 5 * 0.5 / math.sqrt(len(words)))


def test_folds_are_of_nearly_equal_size_and_of_the_number_asked():
    counts = np.bincount(folds(np.arange(10_000), 0, 5), minlength=5)
    assert len(counts) == 5
    assert stats.chisquare(counts).pvalue > 1e-4


def test_fewer_than_two_folds_or_resamples_are_refused():
    with pytest.raises(InputError, match="at least 2 folds, found 1"):
        folds(IDS, 0, 1)
    with pytest.raises(InputError, match="at least 2 resamples, found 1"):
        poisson_weights(IDS, 0, 1)


def test_weights_follow_the_poisson_law():
    weights = poisson_weights(np.arange(3000), 0, 400)
    counts = np.bincount(weights.ravel(), minlength=8)[:8]
    expected = stats.poisson(1).pmf(np.arange(8)) * weights.size
    assert np.all(np.abs(counts - expected) < 5 * np.sqrt(expected) + 2e-5 * weights.size)


def test_weights_of_different_samples_and_resamples_are_uncorrelated():
    weights = poisson_weights(np.arange(400), 0, 400).astype(float)
    for table in (weights, weights.T):
        correlation = np.corrcoef(table)[np.triu_indices(400, 1)]
        assert abs(correlation.mean()) < 1e-3
        assert correlation.std() == pytest.approx(1 / math.sqrt(400), rel=0.05)
