"""Which differences between recipes are shown: a t test with the pooled spread, Holm's adjustment over the table."""

import itertools
from types import ModuleType

import numpy as np
import pytest
from scipy.stats import f_oneway, ttest_ind

from tests.support.scripts import script


@pytest.fixture(scope="module")
def differences() -> ModuleType:
    return script("recipe_differences")


def three(mean: float, seed: int = 0) -> list[float]:
    return [mean + float(noise) for noise in np.random.default_rng(seed).normal(size=3)]


def test_of_two_recipes_the_test_is_students(differences: ModuleType) -> None:
    """With two recipes alone the pooled spread is that of the pair."""
    first, second = three(70.0), three(72.0, seed=1)
    spread = differences.pooled_spread({"a": first, "b": second})
    expected = ttest_ind(first, second).pvalue
    assert differences.pair_p_value(first, second, spread) == pytest.approx(expected)
    assert spread.degrees == 4


def test_the_spread_is_the_one_of_an_analysis_of_variance(differences: ModuleType) -> None:
    """F = (variance between recipes) / (spread squared), by scipy."""
    groups = [three(70.0 + k, seed=k) for k in range(5)] + [[71.0, 74.0]]
    spread = differences.pooled_spread({str(k): group for k, group in enumerate(groups)})
    every = np.concatenate(groups)
    between = sum(len(group) * (np.mean(group) - every.mean()) ** 2 for group in groups) / 5
    assert between / spread.deviation**2 == pytest.approx(f_oneway(*groups).statistic)
    assert spread.degrees == 17 - 6


def test_holm_counts_every_pair_of_every_number(differences: ModuleType) -> None:
    numbers = {
        "score": {name: three(70.0, seed) for seed, name in enumerate("abcd")} | {"worst": three(60.0, 9)},
        "rank": {name: three(80.0, 20 + seed) for seed, name in enumerate("abc")},
    }
    tests = []
    for number, each in numbers.items():
        spread = differences.pooled_spread(each)
        for a, b in itertools.combinations(each, 2):
            tests.append((differences.pair_p_value(each[a], each[b], spread), number, {a, b}))
    expected, still = [], True
    for place, (p, number, pair) in enumerate(sorted(tests, key=lambda test: test[0])):
        still = still and p * (len(tests) - place) < 0.05
        if still:
            expected.append((number, pair))
    shown = differences.shown_differences(numbers)
    assert len(tests) == 10 + 3 and len(expected) == 4
    assert sorted((each.number, sorted((each.higher, each.lower))) for each in shown) == sorted(
        (number, sorted(pair)) for number, pair in expected
    )
    assert {each.lower for each in shown} == {"worst"}
    gaps = [np.mean(numbers["score"][each.higher]) - np.mean(numbers["score"]["worst"]) for each in shown]
    assert [each.difference for each in shown] == pytest.approx(sorted(gaps, reverse=True))


def test_the_least_difference_shown_is_where_the_smallest_p_value_passes_alone(differences: ModuleType) -> None:
    base = [-1.0, 0.0, 1.0]
    for gap, is_shown in ((0.999, False), (1.001, True)):
        level = {"a": base, "b": base, "c": base}
        numbers = {"x": level, "y": level}
        least = differences.least_shown(numbers, "x")
        # Two recipes moved apart by as much, around the third: only their pair is that far apart.
        moved = {"a": base, "b": [v + gap * least / 2 for v in base], "c": [v - gap * least / 2 for v in base]}
        shown = differences.shown_differences({"x": moved, "y": level})
        assert [(each.higher, each.lower) for each in shown] == ([("b", "c")] if is_shown else [])


def test_a_line_says_what_is_shown(differences: ModuleType) -> None:
    numbers = {
        "score": {name: three(70.0, seed) for seed, name in enumerate("abcd")} | {"worst": three(60.0, 9)},
        "flat": {name: three(70.0, 30 + seed) for seed, name in enumerate("abc")},
    }
    score, flat = differences.differences_table(numbers).splitlines()[2:]
    means = [np.mean(values) for values in numbers["score"].values()]
    assert score.startswith("| score | 5 | ") and f"| {np.ptp(means):.2f} |" in score
    gaps = [np.mean(numbers["score"][name]) - np.mean(numbers["score"]["worst"]) for name in "abcd"]
    assert score.endswith(f"| `worst` is below 4 others, by {min(gaps):.1f} to {max(gaps):.1f} points |")
    assert flat.endswith("| nothing |")
