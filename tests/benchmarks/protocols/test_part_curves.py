"""The sums of a part at a list of thresholds, against loops over its samples."""

import numpy as np

from exitbench.benchmarks.protocols.part_curves import PartCurves
from exitbench.benchmarks.protocols.splits import parts_of
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import bootstrap_weights
from tests.support.scored_cases import configuration, random_arrays, scored_cache


def test_a_calibration_cache_lists_its_own_thresholds_and_the_events_of_the_test_samples(tmp_path):
    labels, predictions, scores = random_arrays(2, 60, 5, 1)
    calibration = random_arrays(8, 70, 5, 1)
    scored = scored_cache(tmp_path / "s", labels, predictions, scores, [configuration()], calibration=calibration)
    weights = bootstrap_weights(scored, 0, 3, held_out=True)
    (part,) = parts_of("held-out", np.arange(60), seed=0, count=5, calibration=70)
    resampled = PartCurves(scored, 0, weights, (2.0,)).resampled(part)

    own = np.unique(np.maximum.accumulate(calibration[2][0], axis=0))
    inside = resampled.thresholds[np.isfinite(resampled.thresholds)]
    assert len(inside) > 10
    assert np.isin(inside, np.concatenate([own, (own[1:] + own[:-1]) / 2])).all()
    # A sample has an event at a layer whose score is above those of all earlier layers.
    running = np.maximum.accumulate(scores[0], axis=0)
    rises = np.vstack([np.ones((1, 60), dtype=bool), running[1:] > running[:-1]])
    counts = [int((rises & (running >= threshold)).sum()) for threshold in resampled.thresholds]
    assert resampled.event_indices.tolist() == counts
