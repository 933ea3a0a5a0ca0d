"""Some runs with common ground as one contest: every signal of every run, once where runs agree in all answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from exitbench.benchmarks.results.schema import Row
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry, told_apart
from exitbench.reports.several_runs.common_ground import CommonGround, Content, contents
from exitbench.reports.several_runs.stored_answers import AnswersOf, StoredAnswers, refuse_other_rows, stored_answers

NOISE = 1e-9
"""Scores closer than this are the same: two ways of adding up the same samples."""


@dataclass(frozen=True)
class Contender:
    """One signal in the runs, by number, in which it exits and answers alike."""

    runs: tuple[int, ...]
    entry: RunEntry

    @property
    def name(self) -> tuple[str, str]:
        return self.entry.signal, self.entry.parameters


class JointRuns:
    """Runs that share caches: ``names`` are what a reader calls them, ``numbers`` their places on the page."""

    def __init__(
        self, runs: Sequence[FinishedRun], names: Sequence[str], ground: CommonGround, numbers: Sequence[int] = ()
    ) -> None:
        self.runs, self.names, self.ground = list(runs), list(names), ground
        self.numbers = list(numbers) or list(range(len(self.runs)))
        self._contents = [contents(run) for run in self.runs]

    @cached_property
    def answers(self) -> list[AnswersOf]:
        """What each run stores near the common speed-up."""
        return [stored_answers(run, self.ground.protocol, self.ground.point) for run in self.runs]

    def cache(self, number: int, content: Content) -> CacheMetadata | None:
        """A cache as a run calls it; None where that run does not have it under the common protocol."""
        cache = self._contents[number].get(content)
        return cache if cache is not None and self.ground.protocol in cache.protocols else None

    def owner(self, content: Content) -> tuple[int, CacheMetadata]:
        """The first run that has a cache under the common protocol, and the cache as that run calls it."""
        return next(
            (number, cache) for number in range(len(self.runs)) if (cache := self.cache(number, content)) is not None
        )

    @cached_property
    def every_content(self) -> list[Content]:
        """All caches: those that all runs share first, then by how many runs have them."""
        every = dict.fromkeys(
            content
            for number in range(len(self.runs))
            for content in self._contents[number]
            if self.cache(number, content) is not None
        )
        count = {content: sum(self.cache(n, content) is not None for n in range(len(self.runs))) for content in every}
        return sorted(every, key=lambda content: (content not in self.ground.shared, -count[content]))

    @cached_property
    def titles(self) -> dict[Content, str]:
        """Each cache in a heading: its task, its model where there are several, its name where tasks repeat."""
        models = {cache.model for caches in self._contents for cache in caches.values()}
        plain, named = {}, {}
        for content in self.every_content:
            number, cache = self.owner(content)
            task = self.runs[number].task_heading(cache)
            plain[content] = f"{task}, {cache.model}" if len(models) > 1 else task
            named[content] = f"{cache.name} ({self.names[number]})"
        titles = list(plain.values())
        return {content: named[content] if titles.count(title) > 1 else title for content, title in plain.items()}

    def home(self, contender: Contender, content: Content) -> int | None:
        """The first run of a contender that has a cache; None where none has it."""
        return next((number for number in contender.runs if self.cache(number, content) is not None), None)

    def row(self, contender: Contender, content: Content, measure: str = "") -> Row | None:
        """The stored row of a contender near the common speed-up: its task score, or another measure there."""
        number = self.home(contender, content)
        if number is None:
            return None
        cache, ground = self._contents[number][content], self.ground
        return self.runs[number].row(cache, ground.protocol, *contender.name, measure or cache.measure, ground.point)

    def answers_of(self, contender: Contender, content: Content) -> StoredAnswers | None:
        """What a contender answered on a cache; None where no run stores it."""
        number = self.home(contender, content)
        if number is None:
            return None
        return self.answers[number].get((self._contents[number][content].name, *contender.name))

    @cached_property
    def contenders(self) -> list[Contender]:
        """Every signal of every run, in their order; one that gives the same answers in several runs is one."""
        contenders: list[Contender] = []
        for number, run in enumerate(self.runs):
            for entry in run.entries:
                new = Contender((number,), entry)
                for index, known in enumerate(contenders):
                    if known.name == new.name and self.are_one(known, new):
                        contenders[index] = replace(known, runs=(*known.runs, number))
                        break
                else:
                    contenders.append(new)
        return contenders

    def are_one(self, first: Contender, second: Contender) -> bool:
        """Whether a signal of two runs has the same answers and scores on every cache that both have."""
        for content in self.every_content:
            if self.home(first, content) is None or self.home(second, content) is None:
                continue
            ours, theirs = self.answers_of(first, content), self.answers_of(second, content)
            rows = [self.row(contender, content) for contender in (first, second)]
            if (ours is None) != (theirs is None) or (rows[0] is None) != (rows[1] is None):
                return False
            if ours is not None and theirs is not None:
                refuse_other_rows(self.titles[content], ours, theirs)
                if not ours.same_as(theirs):
                    return False
            values = [row.value for row in rows if row is not None]
            if values and not math.isclose(values[0], values[1], rel_tol=NOISE) and not math.isnan(sum(values)):
                return False
        return True

    def label(self, contender: Contender) -> str:
        """What a sentence calls a contender: its signal, with its run where another of that name is in another run."""
        label = self.signal_label(contender)
        namesakes = [other for other in self.contenders if other != contender and self.signal_label(other) == label]
        return f"{label} ({self.run_names(contender)})" if namesakes else label

    def signal_label(self, contender: Contender) -> str:
        """A signal as its own run calls it, with the parameters that tell it from one of another run."""

        def own(other: Contender) -> str:
            return self.runs[other.runs[0]].label(*other.name)

        others = [
            other.entry for other in self.contenders if other.name != contender.name and own(other) == own(contender)
        ]
        apart = told_apart(contender.entry, others)
        return f"{own(contender)} [{apart}]" if apart else own(contender)

    def run_names(self, contender: Contender) -> str:
        """The runs of a contender."""
        if len(contender.runs) == len(self.runs) > 1:
            return "all runs" if len(self.runs) > 2 else "both runs"
        return ", ".join(self.names[number] for number in contender.runs)
