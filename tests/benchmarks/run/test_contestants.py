"""What each sample adds to the error of a measure is that of the layer asked for, however layers are sorted."""

from __future__ import annotations

import numpy as np
import pytest

from exitbench.benchmarks.measures import ranking as rankings
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.run.contestants import Contestant


@pytest.mark.parametrize("together", [1 << 16, 1])
def test_influence_is_that_of_the_layer_as_leaving_out_each_sample_shows(
    together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rankings, "TOGETHER", together)
    rng = np.random.default_rng(1)
    samples = 120
    certainty, right = rng.normal(size=(3, samples)), rng.random((3, samples)) < np.array([[0.5], [0.7], [0.9]])
    certainty += right
    contestant = Contestant(
        signal="s",
        parameters="",
        resampled={},
        ranking=Ranking(certainty, right),
        ties="half",
        deals={},
        fit_errors={},
        score_influence={},
    )
    for layer in (1, 2, 3):
        left_out = [
            Ranking(np.delete(certainty[layer - 1 : layer], sample, 1), np.delete(right[layer - 1 : layer], sample, 1))
            for sample in range(samples)
        ]
        for measure, values in (
            ("dis", [float(ranking.dis()[0]) for ranking in left_out]),
            ("aurc", [float(ranking.aurc[0]) for ranking in left_out]),
            ("excess_aurc", [float(ranking.excess_aurc[0]) for ranking in left_out]),
        ):
            jackknife = np.mean(values) - np.array(values)
            influence = contestant.influence(layer, measure)
            assert np.corrcoef(jackknife, influence)[0, 1] > 0.99
            assert np.linalg.norm(influence) == pytest.approx(np.linalg.norm(jackknife), rel=0.1)
