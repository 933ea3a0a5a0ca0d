"""Cross-fitting over several deals of folds as literal loops over deals, folds and thresholds; 60 made-up samples."""

import numpy as np
from scipy.stats import rankdata

from exitbench.benchmarks.protocols.splits import DEAL_SEED
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.benchmarks.suites.questions import Questions
from tests.support.literal_points import literal_choice, literal_exits, literal_near, literal_point
from tests.support.scored_cases import configuration, random_arrays, scored_cache

QUESTIONS = Questions(
    speed_ups=(1.5, 2.0),
    rates_speed_up=2.0,
    losses=(5.0,),
    resamples=40,
    folds=3,
    protocols=("cross-fit",),
    deals=4,
)
LABELS, PREDICTIONS, SCORES = random_arrays(3, 60, 5, 2)
RIGHT = PREDICTIONS == LABELS


def literal_deal(deal, speed_up, scores=SCORES):
    """Speed-up and accuracy of a grid under one deal of folds, by trying every threshold of every fold."""
    fold = folds(np.arange(60), deal * DEAL_SEED, 3)
    exits = np.zeros(60, dtype=int)
    for number in range(3):
        train, test = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        near = [literal_near(values[:, train], RIGHT[:, train], speed_up) for values in scores]
        chosen = literal_choice(near, default=min(1, len(scores) - 1))
        threshold = literal_point(scores[chosen][:, train], RIGHT[:, train], speed_up)[0]
        exits[test] = literal_exits(scores[chosen][:, test], threshold)
    return 5 / exits.mean(), 100 * RIGHT[exits - 1, np.arange(60)].mean()


def literal_dis(deal, layer, values_of_all=SCORES[0]):
    """Pairs within a fold, pooled over the folds of one deal."""
    fold = folds(np.arange(60), deal * DEAL_SEED, 3)
    ordered = pairs = 0.0
    for number in range(3):
        here = fold == number
        right, values = RIGHT[layer - 1, here], values_of_all[layer - 1, here]
        easy, hard = right.sum(), (~right).sum()
        ordered += rankdata(values)[right].sum() - easy * (easy + 1) / 2
        pairs += easy * hard
    return 100 * ordered / pairs


def scored_deals(folder):
    """Stage one of these samples under two values of a parameter."""
    configurations = [configuration(parameters=f"a={number}", changed=1 - number) for number in range(2)]
    return scored_cache(folder, LABELS, PREDICTIONS, SCORES, configurations)
