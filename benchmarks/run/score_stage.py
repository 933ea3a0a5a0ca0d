"""Stage one, per cache: score all configurations of all signals in one pass; fit what learns once per part."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange, empty, full, order_of, roomy
from exitbench.benchmarks.guarantees.split import certifying_part
from exitbench.benchmarks.protocols.splits import Part, inner_folds, parts_of
from exitbench.benchmarks.scoring.calibration_layers import cannot_run, check_inputs, lacking
from exitbench.benchmarks.scoring.configuration import Configuration, configuration_of
from exitbench.benchmarks.scoring.fitted_scores import FitSize, FittedScores
from exitbench.benchmarks.scoring.score_cache import score_each, without_untaught_layers
from exitbench.benchmarks.scoring.score_store import PLAIN, Role, Samples, ScoredCache, Scores, ScoresKey, ScoreStore
from exitbench.benchmarks.suites.questions import Questions
from exitbench.cache import Cache, Target
from exitbench.errors import InputError, one_line
from exitbench.progress import ProgressBar
from exitbench.signals.contract.learned_signal import UntaughtError
from exitbench.signals.contract.signal import ExitSignal


def score_signals(
    cache: Cache,
    signals: Sequence[ExitSignal],
    questions: Questions,
    *,
    calibration: Cache | None = None,
    store: ScoreStore | None = None,
) -> ScoredCache:
    """Score ``signals``, each one configuration; the scores go to ``store``, by default into memory.

    A signal that cannot be scored is noted with its problem and stops no other; one that reads what a cache does not
    hold is left out. ``calibration`` is the cache that the held-out protocol chooses on.
    """
    caches: dict[Role, Cache] = {"test": cache}
    if "held-out" in questions.protocols:
        if calibration is None:
            raise InputError(f"cache {cache.name}: protocol held-out needs a calibration cache")
        check_same_network(cache, calibration)
        caches["calibration"] = calibration
    described = [described_on(caches.values(), signal) for signal in signals]
    target: Target = questions.target or cache.manifest.target
    scoring = _Scoring(caches, {} if store is None else store, described, target)
    usable = [number for number, configuration in enumerate(scoring.configurations) if not configuration.problem]
    plain = [number for number in usable if not scoring.configurations[number].learns]
    for role in caches:
        scoring.score(role, {number: signals[number] for number in plain}, PLAIN)
    for number in usable:
        if scoring.configurations[number].learns:
            scoring.fit_and_score(number, signals[number], questions)
        if questions.promises and scoring.configurations[number].learns and not scoring.configurations[number].problem:
            scoring.try_on_choosing(number, signals[number], questions.seed)
    return scoring.scored()


def score_halves(
    cache: Cache, signals: Sequence[ExitSignal], *, seed: int, target: Target | None = None
) -> ScoredCache:
    """Score ``signals`` for a guarantee: what learns is fitted on the choosing rows and nothing else.

    Its choosing rows have out-of-fold scores, its certifying rows those of the fit on all choosing rows; both under the
    variant of :func:`certifying_part`. Raises InputError for a signal that cannot be scored, or could never exit.
    """
    for signal in signals:
        check_inputs(cache, signal)
    chosen: Target = target or cache.manifest.target
    scoring = _Scoring({"test": cache}, {}, [configuration_of(signal, cache.layers) for signal in signals], chosen)
    usable = [number for number, configuration in enumerate(scoring.configurations) if not configuration.problem]
    plain = {number: signals[number] for number in usable if not scoring.configurations[number].learns}
    scoring.score("test", plain, PLAIN)
    for number in usable:
        if scoring.configurations[number].learns:
            scoring.fit_on_choosing(number, signals[number], seed)
    for configuration in scoring.configurations:
        if configuration.problem and not configuration.left_out:
            raise InputError(configuration.problem)
    return scoring.scored()


def described_on(caches: Iterable[Cache], signal: ExitSignal) -> Configuration:
    """A signal in plain values, left out where one of the caches lacks what it reads."""
    several = list(caches)
    configuration = configuration_of(signal, several[0].layers)
    unfit = next((cache for cache in several if cannot_run(cache, signal)), None)
    if unfit is None:
        return dataclasses.replace(configuration, head_notes=head_notes(several[0], signal))
    reason, lacks = cannot_run(unfit, signal), lacking(unfit, signal)
    return dataclasses.replace(configuration, problem=reason, left_out=True, cannot_run=True, lacks=lacks)


def head_notes(cache: Cache, signal: ExitSignal) -> tuple[tuple[int, str], ...]:
    """Layer and note for every internal layer whose head leaves the signal no score, or little to see."""
    if "head" not in signal.inputs:
        return ()
    heads = [(layer, cache.head(layer)) for layer in range(1, cache.layers)]
    notes = [(layer, signal.unscored_head(head) or signal.head_note(head)) for layer, head in heads]
    return tuple((layer, note) for layer, note in notes if note)


def reads_features(cache: Cache, signals: Sequence[ExitSignal]) -> bool:
    """Whether a signal reads a cache's features, itself or for offset norms that are not stored."""
    inputs = {name for signal in signals for name in signal.inputs}
    return "features" in inputs or ("offset_norm" in inputs and not cache.stores_offset_norms)


class _Scoring:
    """The caches of one unit by role, with the order of their samples and what became of each configuration."""

    def __init__(
        self, caches: Mapping[Role, Cache], store: ScoreStore, configurations: list[Configuration], target: Target
    ) -> None:
        self.caches, self.store, self.configurations, self.target = caches, store, configurations, target
        self.order: dict[Role, NDArray[np.intp]] = {
            role: order_of(cache.ids, "stable") for role, cache in caches.items()
        }
        self.fits = FittedScores(caches, self.order, target)

    def scored(self) -> ScoredCache:
        """Everything that was scored."""
        cache = self.caches["test"]
        manifest = cache.manifest
        return ScoredCache(
            cache=cache.name,
            model=manifest.model.name,
            task=manifest.task.name,
            split=manifest.split,
            metric=manifest.task.metric,
            configurations=tuple(self.configurations),
            samples_by_role={role: self.samples(role) for role in self.caches},
            score_store=self.store,
            target=self.target,
            trained_on=tuple(role for role, source in self.caches.items() if source.manifest.split_role == "train"),
        )

    def samples(self, role: Role) -> Samples:
        """The samples of one role, ordered by id."""
        cache, order = self.caches[role], self.order[role]
        return Samples(
            ids=cache.ids[order],
            labels=cache.truth(self.target)[order],
            predictions=ordered_predictions(cache, order),
            metric=cache.manifest.task.metric,
            costs=cache.costs,
            groups=None if cache.groups is None else cache.groups[order],
        )

    def _units(self, role: Role) -> NDArray[np.int64]:
        """What folds keep together, [samples] ordered by id: groups, else the samples themselves."""
        cache = self.caches[role]
        return roomy(cache.ids if cache.groups is None else cache.groups)[self.order[role]]

    def score(self, role: Role, signals: Mapping[int, ExitSignal], variant: str) -> None:
        """Score some configurations on the samples of one role; a failure becomes their problem."""
        outcomes = score_each(self.caches[role], list(signals.values()))
        for number, outcome in zip(signals, outcomes, strict=True):
            if isinstance(outcome, InputError):
                self._fail(number, outcome)
            else:
                self.store[ScoresKey(number, variant, role)] = roomy(outcome)[:, self.order[role]]

    def fit_and_score(self, number: int, signal: ExitSignal, questions: Questions) -> None:
        """Fit and score a signal that learns, for every part of every protocol; a failure becomes its problem.

        Training samples get out-of-fold scores: each is scored by a fit that has not seen it, since a threshold chosen
        on scores of samples that were learned from promises what no other sample keeps.
        """
        units = self._units("test")
        parts = {
            protocol: [
                part
                for deal in range(questions.deals_of(learns=True) if protocol == "cross-fit" else 1)
                for part in parts_of(
                    protocol,
                    units,
                    seed=questions.seed,
                    count=questions.folds,
                    calibration=self.caches["calibration"].rows if protocol == "held-out" else None,
                    deal=deal,
                )
            ]
            for protocol in questions.protocols
        }
        total = sum(map(len, parts.values()))
        try:
            with ProgressBar(f"fitting {signal.text}", total, transient=True) as bar:
                for protocol in questions.protocols:
                    ready = self._leave_out(number, signal, protocol)
                    for part in parts[protocol]:
                        self._score_part(number, ready, part, questions.seed)
                        bar.advance(note=f"{protocol} on {self.caches[part.train_role].name}")
        except UntaughtError as error:
            reason = f"cache {self.caches['test'].name}: {one_line(error)}"
            configuration = self.configurations[number]
            self.configurations[number] = dataclasses.replace(
                configuration, problem=reason, left_out=True, cannot_run=True
            )
        except InputError as error:  # the other signals go on
            self._fail(number, error)

    def fit_on_choosing(self, number: int, signal: ExitSignal, seed: int) -> None:
        """Fit and score a signal that learns on the half that a guarantee chooses on."""
        part = certifying_part(self._units("test"), seed)
        ready = without_untaught_layers(signal, self.caches["test"], self.order["test"][part.train], target=self.target)
        self._score_part(number, ready, part, seed)

    def try_on_choosing(self, number: int, signal: ExitSignal, seed: int) -> None:
        """The same in a run, where a half that cannot teach the signal only means that nothing is promised of it."""
        try:
            self.fit_on_choosing(number, signal, seed)
        except InputError as error:
            configuration = self.configurations[number]
            self.configurations[number] = dataclasses.replace(configuration, no_promise=one_line(error))

    def _leave_out(self, number: int, signal: ExitSignal, protocol: str) -> ExitSignal:
        """The signal without the layers that all calibration samples together cannot teach it: no fold decides that."""
        role: Role = "calibration" if protocol == "held-out" else "test"
        ready = without_untaught_layers(signal, self.caches[role], self.order[role], target=self.target)
        unscored = tuple((protocol, layer, reason) for layer, reason in ready.unscored_layers.items())
        configuration = self.configurations[number]
        self.configurations[number] = dataclasses.replace(configuration, unscored=configuration.unscored + unscored)
        return ready

    def _score_part(self, number: int, signal: ExitSignal, part: Part, seed: int) -> None:
        role = part.train_role
        scores, fits = self._out_of_fold(signal, part, seed)
        if role != "test":
            ready, size = self.fits.fit(signal, role, part.train)
            self.store[ScoresKey(number, part.variant, "test")] = self.fits.scores(ready, "test")
            fits = [size]
        elif not part.in_sample:
            scores[:, ~part.train], size = self.fits.unseen(signal, role, part.train)
            fits = [size]
        self.store[ScoresKey(number, part.variant, role)] = scores
        configuration = self.configurations[number]
        # In-sample numbers come from the inner folds' fits, whose mean size counts.
        mean_size = (round(sum(counts) / len(counts)) for counts in zip(*fits, strict=True))
        fits_so_far = (*configuration.fits, (part.variant, *mean_size))
        self.configurations[number] = dataclasses.replace(configuration, fits=fits_so_far)

    def _out_of_fold(self, signal: ExitSignal, part: Part, seed: int) -> tuple[Scores, list[FitSize]]:
        """Scores [layers - 1, samples] of the training samples, each by a fit on the other inner folds; else NaN.

        With them the size of each fit: its parameters and its samples. Inner folds are the protocol's own that are
        left, so that the fit without two of them serves the parts of both, or dealt anew.
        """
        cache, role = self.caches[part.train_role], part.train_role
        scores = full((cache.layers - 1, cache.rows), np.nan, np.float64)
        inner = inner_folds(part, self._units(role), seed)
        numbers = np.unique(inner[part.train])
        if len(numbers) < 2:
            count = int(part.train.sum())
            raise UntaughtError(f"signal {signal.text} learns, and {count} samples are too few for its inner folds")
        fits = []
        for fold in numbers:
            seen = part.train & (inner != fold)
            unseen, size = self.fits.unseen(signal, role, seen)
            own = part.train & (inner == fold)
            scores[:, own] = unseen[:, own[~seen]]
            fits.append(size)
        return scores, fits

    def _fail(self, number: int, error: InputError) -> None:
        self.configurations[number] = dataclasses.replace(self.configurations[number], problem=one_line(error))


def ordered_predictions(cache: Cache, order: NDArray[np.intp]) -> NDArray[np.int64]:
    """The predicted class of every sample at every layer, [layers, samples], in an ``order`` of the cache's rows."""
    position = empty(cache.rows, np.int64)
    position[order] = arange(cache.rows)
    predictions: NDArray[np.int64] = empty((cache.layers, cache.rows), np.int64)
    for rows in cache.blocks():
        for layer in range(1, cache.layers + 1):
            predictions[layer - 1, position[rows]] = cache.logits(layer, rows).argmax(dim=1).cpu().numpy()
    return predictions


def check_same_network(cache: Cache, calibration: Cache) -> None:
    """Raise InputError unless both caches come from one network and task."""
    for what, value, other in (
        ("model", cache.manifest.model.name, calibration.manifest.model.name),
        ("layers", cache.layers, calibration.layers),
        ("classes", cache.manifest.task.classes, calibration.manifest.task.classes),
        ("task", cache.manifest.task.name, calibration.manifest.task.name),
        ("costs", cache.costs, calibration.costs),
    ):
        if value != other:
            raise InputError(
                f"held-out: {cache.name} and its calibration cache {calibration.name} differ in {what}: "
                f"{value} and {other}"
            )
