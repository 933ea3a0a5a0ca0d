"""The study of intervals and marks: many data sets from a law whose truth is known, through the stages of a run.

Every sample has a signed margin per layer that drifts towards the right answer, faster for easy samples; a prediction
is right when its margin is positive, and a signal is the margin's size, blurred by a factor of its own. Truths are read
off a population of 200,000, whose own error is a small fraction of any interval's width here. All of it is measured
under ``cross-fit``. What is read off curves is evaluated, merged and tested by the functions that the stages of a run
call, every choice repeated in every resample; DIS has closed forms, so many more data sets are ranked.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import rates_at_threshold
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.protocols.deal_values import point_values, rate_values
from exitbench.benchmarks.protocols.splits import DEAL_SEED
from exitbench.benchmarks.replay.operating_points import nearest_point, randomised
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.results.operating_point import OperatingPoint, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import Difference
from exitbench.benchmarks.results.vocabulary import is_claimed
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations, merged_parts
from exitbench.benchmarks.run.rows.exit_rate_rows import rate_rows
from exitbench.benchmarks.run.rows.measured import Measured, over_deals, with_intervals
from exitbench.benchmarks.run.rows.measured_rows import point_rows, score_influences, with_choice
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_store import PLAIN, Samples, ScoredCache, ScoresKey
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.deals import deal_error, paired_deal_errors
from exitbench.benchmarks.statistics.delong import influence_differences, logit_interval
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.benchmarks.statistics.intervals import score_differences
from exitbench.benchmarks.statistics.multiple_comparisons import column_marks
from exitbench.benchmarks.suites.questions import Questions
from tests.support.scored_cases import configuration

DEPTH, LAYER, EQUAL = 12, 6, 8
MATCHED, RATES, PROTOCOL = at_speed_up(2.0), at_speed_up(4.0), "cross-fit"
BLUR = 0.5
DEALS = Questions().deals_of(learns=False)
GRID = (0.0, 0.4, 0.8, 1.6)
POPULATION = 200_000
RESAMPLES = Questions().resamples
"""Resamples of a data set whose intervals are percentiles: a run's. Of 250 they would hold three quarters of a point
less, since the outermost resamples lie nearer."""
CONTEST_RESAMPLES = 250
"""Resamples of a data set whose signals are told apart, which is a matter of errors; percentiles has the grid alone."""
NOMINAL = {"coverage": 95.0, "error": 5.0}
MOST_MARKED = 6.0
"""The largest share of columns of equal signals in which a mark may be false, as it was asked for."""

Column = tuple[OperatingPoint, int | None, str, str]
COLUMNS: dict[str, Column] = {
    "accuracy at 2x": (MATCHED, None, "", "accuracy"),
    "premature rate at 4x": (RATES, None, "all", "premature_rate"),
    "delayed rate at 4x": (RATES, None, "all", "delayed_rate"),
}
READ_OFF, RANKED = "accuracy at 2x", "DIS"


@dataclass
class Tried:
    """How often something that may hold did hold, over independent draws."""

    question: str
    samples: int
    kind: str
    hits: int = 0
    draws: int = 0

    def note(self, hit: bool) -> None:
        self.hits, self.draws = self.hits + bool(hit), self.draws + 1

    @property
    def percent(self) -> float:
        return 100.0 * self.hits / self.draws

    @property
    def monte_carlo_error(self) -> float:
        """The standard error of :attr:`percent`, from the nominal share."""
        share = NOMINAL[self.kind] / 100.0
        return 100.0 * math.sqrt(share * (1 - share) / self.draws)

    @property
    def keeps(self) -> bool:
        """Whether it is what it says, up to two Monte Carlo errors: 95% held, 5% claimed, 6% where a column is marked.

        Nominal levels and nothing else, so that no result could move a limit.
        """
        slack = 2 * self.monte_carlo_error
        if self.kind == "coverage":
            return self.percent >= NOMINAL["coverage"] - slack
        return self.percent <= (MOST_MARKED if self.question.startswith("marks") else NOMINAL["error"]) + slack


@dataclass(frozen=True, eq=False)
class Draw:
    """Right or wrong [layers, samples], and the scores [layers - 1, samples] of every configuration."""

    right: NDArray[np.bool_]
    plain: NDArray[np.float64]
    equal: Sequence[NDArray[np.float64]]
    grid: Sequence[NDArray[np.float64]]


def draw(rng: np.random.Generator, samples: int, equal: int = EQUAL) -> Draw:
    """An independent data set."""
    ease = rng.gamma(2.0, 0.5, samples)
    steps = 0.25 * ease + 0.45 * rng.normal(size=(DEPTH, samples))
    margin = 0.3 * ease + np.cumsum(steps, axis=0)
    size = np.abs(margin[:-1])

    def blurred(amount: float) -> NDArray[np.float64]:
        return np.asarray(size * np.exp(amount * rng.normal(size=size.shape)))

    return Draw(margin > 0, size, [blurred(BLUR) for _ in range(equal)], [blurred(amount) for amount in GRID])


@dataclass(frozen=True)
class Truth:
    """The measures of one configuration on the population."""

    dis: float
    accuracy: float
    premature: float
    delayed: float

    @classmethod
    def of(cls, scores: NDArray[np.float64], right: NDArray[np.bool_]) -> Truth:
        signal, outcomes = SignalScores(scores, ">="), Outcomes(right)
        curve = trade_off_curve(signal, outcomes)
        exactly = randomised(curve, MATCHED.number)
        assert exactly is not None
        threshold = float(curve.thresholds[nearest_point(curve, RATES.number)])
        rates = rates_at_threshold(signal, outcomes, threshold, "all").sum_layers()
        dis = float(Ranking(signal.certainty, right[:-1]).dis()[LAYER - 1])
        return cls(dis, float(exactly.accuracy), float(rates.premature), float(rates.delayed))


@lru_cache(maxsize=1)
def truths() -> dict[str, Truth]:
    """The truth of the plain signal, of one of the equal ones, and of every value of the grid."""
    population = draw(np.random.default_rng(1), POPULATION, equal=1)
    named = {"plain": population.plain, "equal": population.equal[0]}
    named |= {f"blur={amount:g}": scores for amount, scores in zip(GRID, population.grid, strict=True)}
    return {name: Truth.of(scores, population.right) for name, scores in named.items()}


def scored(data: Draw) -> tuple[ScoredCache, list[list[int]]]:
    """A draw as a run has it after scoring, and which configurations make an entry."""
    named = [("plain", "", data.plain), *((f"equal-{k}", "", scores) for k, scores in enumerate(data.equal))]
    named += [("grid", f"blur={amount:g}", scores) for amount, scores in zip(GRID, data.grid, strict=True)]
    configurations = tuple(configuration(name, parameters, changed=0) for name, parameters, _ in named)
    samples = data.right.shape[1]
    labels = np.ones(samples, dtype=np.int64)
    answers = Samples(np.arange(samples), labels, data.right.astype(np.int64), "accuracy")
    store = {ScoresKey(number, PLAIN, "test"): scores for number, (_, _, scores) in enumerate(named)}
    alone = [[number] for number in range(1 + len(data.equal))]
    cache = ScoredCache("drawn", "made", "study", "dev", "accuracy", configurations, {"test": answers}, store)
    return cache, [*alone, list(range(len(alone), len(named)))]


def asked(resamples: int, seed: int, rates: OperatingPoint = RATES) -> Questions:
    """What the study asks of a data set; where no ``rates`` are needed, a point that is there anyway saves time."""
    return Questions(
        speed_ups=(MATCHED.number,),
        primary_speed_up=MATCHED.number,
        rates_speed_up=rates.number,
        losses=(),
        protocols=(PROTOCOL,),
        resamples=resamples,
        seed=seed,
        promises=False,
    )


@dataclass(frozen=True, eq=False)
class Entry:
    """The numbers of one entry that are read off curves, by column, and what each sample adds to their errors."""

    numbers: Mapping[Column, Measured]
    influence: Mapping[Column, NDArray[np.float64]]


def read_points(cache: ScoredCache, group: Sequence[int], questions: Questions) -> Entry:
    """One entry with its intervals over all deals of folds.

    These are the steps of a run without those whose numbers the study does not ask for: a test holds them against it.
    """
    merged = merged_parts(cache, evaluate_configurations(cache, group, questions), PROTOCOL, group, questions)
    first = cache.configurations[group[0]]
    blank = Row(**cache.key_columns, protocol=PROTOCOL, signal=first.signal, parameters="", measure="")
    samples = cache.samples()
    points = (MATCHED, RATES) if RATES.number == questions.rates_speed_up else (MATCHED,)
    here = {point: with_choice(blank, merged, point)._replace(operating_point=point) for point in points}
    rows = point_rows(here[MATCHED], merged.at(MATCHED), samples)
    rows += rate_rows(here[RATES], merged, samples) if RATES in here else []
    deals = [{**point_values(deal), **rate_values(deal)} for deal in merged.deals]
    columns = [column for column in COLUMNS.values() if column[0] in here]
    further = {column: np.array([values[column] for values in deals]) for column in columns}
    wanted = [measured for measured in rows if column_of(measured.row) in further]
    measured = with_intervals([over_deals(number, further) for number in wanted])
    return Entry({column_of(number.row): number for number in measured}, score_influences(merged))


def paired_tests(entries: Sequence[Entry], column: Column, pairs: Sequence[tuple[int, int]]) -> list[Difference]:
    """The paired tests of a column, as a run makes them."""
    numbers = [entry.numbers[column] for entry in entries]
    deals = [number.deals for number in numbers if number.deals is not None]
    errors = paired_deal_errors(deals, pairs)
    values = np.array([number.row.value for number in numbers])
    draws = np.stack([number.resampled for number in numbers if number.resampled is not None])
    influence = [entry.influence.get(column) for entry in entries]
    return score_differences(values, draws, influence, pairs, errors=errors)


@dataclass
class Study:
    """The counts of all questions at one number of samples."""

    samples: int
    tried: dict[tuple[str, str], Tried] = field(default_factory=dict)

    def note(self, question: str, kind: str, hit: bool) -> None:
        self.tried.setdefault((question, kind), Tried(question, self.samples, kind)).note(hit)

    def covered(self, question: str, row: Row, truth: float) -> None:
        self.note(question, "coverage", row.low <= truth <= row.high)

    def read_off(self, number: int) -> None:
        """Draw one data set, measure the plain signal as a run does, and note what its intervals hold."""
        cache, groups = scored(draw(np.random.default_rng((self.samples, number)), self.samples, equal=0))
        plain = read_points(cache, groups[0], asked(RESAMPLES, number))
        for (name, column), measure in zip(COLUMNS.items(), ("accuracy", "premature", "delayed"), strict=True):
            self.covered(name, plain.numbers[column].row, getattr(truths()["plain"], measure))

    def contest(self, number: int) -> None:
        """Draw one data set, measure all signals as a run does, and note what differences, grid and marks hold."""
        cache, groups = scored(draw(np.random.default_rng((self.samples, number)), self.samples))
        questions = asked(CONTEST_RESAMPLES, number, rates=MATCHED)
        plain, *equal, grid = (read_points(cache, group, questions) for group in groups)
        truth = truths()
        row = grid.numbers[COLUMNS[READ_OFF]].row
        chosen = json.loads(row.chosen or "{}")
        expected = sum(count * truth[name].accuracy for name, count in chosen.items()) / sum(chosen.values())
        self.covered(f"{READ_OFF} of a grid", row, expected)
        self._differences([plain, *equal])

    def _differences(self, entries: Sequence[Entry]) -> None:
        """The differences of a column: of the plain signal to an equal one, and of all equal ones to each other."""
        pairs = list(itertools.combinations(range(1, 1 + EQUAL), 2))
        apart, *tests = paired_tests(entries, COLUMNS[READ_OFF], [(0, 1), *pairs])
        expected = truths()["plain"].accuracy - truths()["equal"].accuracy
        self.note(f"difference of {READ_OFF}", "coverage", apart.low <= expected <= apart.high)
        self.note(f"p of two equal signals, {READ_OFF}", "error", is_claimed(tests[0].p_value))
        values = np.array([entry.numbers[COLUMNS[READ_OFF]].row.value for entry in entries[1:]])
        p_values = {(a - 1, b - 1): test.p_value for (a, b), test in zip(pairs, tests, strict=True)}
        told_apart = not column_marks(values, p_values).tied_with_best.all()
        self.note(f"marks of {EQUAL} equal signals, {READ_OFF}", "error", told_apart)

    def rank(self, number: int) -> None:
        """The same for DIS, by its closed forms: the mean over deals of folds, with the spread between them."""
        data = draw(np.random.default_rng((self.samples, number)), self.samples)
        right = data.right[LAYER - 1 : LAYER]
        dealt = [folds(np.arange(self.samples), number + deal * DEAL_SEED) for deal in range(DEALS)]
        rankings = [
            [Ranking(scores[LAYER - 1 : LAYER], right, fold) for fold in dealt] for scores in (data.plain, *data.equal)
        ]
        deals = np.array([[ranking.dis()[0] for ranking in of_signal] for of_signal in rankings])
        values = deals.mean(axis=1)
        plain, equal = truths()["plain"].dis, truths()["equal"].dis
        error = float(np.hypot(rankings[0][0].std_err()[0], deal_error(deals[0])))
        low, high = logit_interval(values[0], error)
        self.note(RANKED, "coverage", low <= plain <= high)
        influence = [of_signal[0].influence(1, "half") for of_signal in rankings]
        pairs = list(itertools.combinations(range(1, 1 + EQUAL), 2))
        every_pair = [(0, 1), *pairs]
        between = paired_deal_errors(list(deals), every_pair)
        apart, *tests = influence_differences(values, influence, every_pair, between)
        self.note(f"difference of {RANKED}", "coverage", apart.low <= plain - equal <= apart.high)
        self.note(f"p of two equal signals, {RANKED}", "error", is_claimed(tests[0].p_value))
        p_values = {(a - 1, b - 1): test.p_value for (a, b), test in zip(pairs, tests, strict=True)}
        told_apart = not column_marks(values[1:], p_values).tied_with_best.all()
        self.note(f"marks of {EQUAL} equal signals, {RANKED}", "error", told_apart)


def column_of(row: Row) -> Column:
    return row.operating_point, row.layer, row.decisions, row.measure


MORE_DRAWS = 5
"""Data sets that are ranked, or read off, for each contest through the stages of a run, which takes far longer."""


def ranked(samples: int, draws: int, first: int = 0) -> list[Tried]:
    """The counts of DIS over ``draws`` data sets of so many samples; ``first`` numbers the first of them."""
    study = Study(samples)
    for number in range(first, first + draws):
        study.rank(number)
    return list(study.tried.values())


def read_off(samples: int, draws: int, first: int = 0) -> list[Tried]:
    """The counts of what is read off the curves of one signal, likewise."""
    study = Study(samples)
    for number in range(first, first + draws):
        study.read_off(number)
    return list(study.tried.values())


def contests(samples: int, draws: int, first: int = 0) -> list[Tried]:
    """The counts of what is read off the curves of several signals, likewise."""
    study = Study(samples)
    for number in range(first, first + draws):
        study.contest(number)
    return list(study.tried.values())


def studied(samples: int, draws: int, first: int = 0) -> list[Tried]:
    """The counts of all questions that need no learning; five times as many data sets have one signal only."""
    more, start = draws * MORE_DRAWS, first * MORE_DRAWS
    return [*ranked(samples, more, start), *read_off(samples, more, start), *contests(samples, draws, first)]
