"""Which differences between recipes their trainings can show: the section behind the tables of ``docs/recipes.md``.

The kept numbers hold no rows, so that differences cannot be paired on them; what they do hold is how far trainings of
one recipe differ, on rows that all networks share. A difference between the means of two recipes is held against that:
a t test with the variance between trainings pooled over all recipes (a one-way analysis of variance), Holm's adjustment
over every pair of every number. It says what other seeds would change, not what other rows would.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from exitbench.benchmarks.statistics.multiple_comparisons import holm

LEVEL = 0.05

Trainings = Mapping[str, Sequence[float]]
"""The values of one number by recipe, one for each training."""


@dataclass(frozen=True)
class Spread:
    """The standard deviation between trainings of one recipe, pooled over recipes, and its degrees of freedom."""

    deviation: float
    degrees: int


@dataclass(frozen=True)
class ShownDifference:
    """Two recipes whose trainings differ in one number by ``difference`` points, which the test claims."""

    number: str
    higher: str
    lower: str
    difference: float
    p_adjusted: float


def pooled_spread(trainings: Trainings) -> Spread:
    """What trainings of one recipe differ by, from all recipes together.

    >>> pooled_spread({"a": [1.0, 3.0], "b": [5.0, 5.0]})
    Spread(deviation=1.0, degrees=2)
    """
    degrees = sum(len(values) - 1 for values in trainings.values())
    squares = sum((len(values) - 1) * statistics.variance(values) for values in trainings.values())
    return Spread(math.sqrt(squares / degrees), degrees)


def pair_p_value(first: Sequence[float], second: Sequence[float], spread: Spread) -> float:
    """The two-sided p-value of a difference between the means of two recipes."""
    error = spread.deviation * math.sqrt(1 / len(first) + 1 / len(second))
    return 2.0 * float(stdtr(spread.degrees, -abs(statistics.fmean(first) - statistics.fmean(second)) / error))


def shown_differences(numbers: Mapping[str, Trainings]) -> list[ShownDifference]:
    """The pairs that the tests claim among all pairs of all numbers, each number's largest difference first."""
    pairs = [(number, *pair) for number, each in numbers.items() for pair in itertools.combinations(sorted(each), 2)]
    spreads = {number: pooled_spread(each) for number, each in numbers.items()}
    p_values = [pair_p_value(numbers[number][a], numbers[number][b], spreads[number]) for number, a, b in pairs]
    claimed = []
    for (number, a, b), p in zip(pairs, holm(p_values), strict=True):
        difference = statistics.fmean(numbers[number][a]) - statistics.fmean(numbers[number][b])
        higher, lower = (a, b) if difference > 0 else (b, a)
        if p < LEVEL:
            claimed.append(ShownDifference(number, higher, lower, abs(difference), float(p)))
    order = list(numbers)
    return sorted(claimed, key=lambda each: (order.index(each.number), -each.difference))


def least_shown(numbers: Mapping[str, Trainings], number: str) -> float:
    """The difference of two means that would be claimed first, were it the only one: Holm's first step."""
    tests = sum(math.comb(len(each), 2) for each in numbers.values())
    spread = pooled_spread(numbers[number])
    fewest = min(len(values) for values in numbers[number].values())
    quantile = -float(stdtrit(spread.degrees, LEVEL / tests / 2))
    return quantile * spread.deviation * math.sqrt(2 / fewest)


def differences_table(numbers: Mapping[str, Trainings]) -> str:
    """A line for each number: how far trainings differ, what could be shown, and what is."""
    shown = shown_differences(numbers)
    lines = [
        "| number | recipes | between trainings of one recipe | largest difference | shown from | shown |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for number, trainings in numbers.items():
        means = [statistics.fmean(values) for values in trainings.values()]
        cells = [number, str(len(trainings)), f"{pooled_spread(trainings).deviation:.1f}", f"{np.ptp(means):.2f}"]
        cells += [f"{least_shown(numbers, number):.2f}", claims([each for each in shown if each.number == number])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def claims(shown: Sequence[ShownDifference]) -> str:
    """The claimed pairs of one number in words, those that share the lower recipe together."""
    texts = []
    for lower in dict.fromkeys(each.lower for each in shown):
        over = [each for each in shown if each.lower == lower]
        names = ", ".join(f"`{each.higher}`" for each in over) if len(over) < 4 else f"{len(over)} others"
        reach = sorted(f"{each.difference:.1f}" for each in over)
        sizes = f"{min(reach, key=float)} to {max(reach, key=float)}" if len(over) > 1 else reach[0]
        texts.append(f"`{lower}` is below {names}, by {sizes} points")
    return "; ".join(texts) or "nothing"
