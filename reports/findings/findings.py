"""The findings of a run as one Markdown page: whether one signal beats some others, and what that rests on.

A view like the tables: every number and every word that judges comes from ``results.parquet`` and ``pairs.parquet``.
Which signals, the suite says (``[findings]``). The pages in ``docs/findings`` are made so from the committed
caches (see ``scripts/write_findings.py``); ``docs/findings.md`` answers from all of them together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.benchmarks.suites.suite import entries_named
from exitbench.reports.findings import sentences as text
from exitbench.reports.findings.choices import change_table, dis_spreads, protocol_changes, score_spreads, spread_table
from exitbench.reports.findings.duels import Duel, Duels, duel_table, single, tally_table
from exitbench.reports.findings.paper_order import MOST_PAIRS, agreement_table, group_orders, order_table
from exitbench.reports.findings.power import power_table, published_difference, published_dis_difference
from exitbench.reports.findings.rates import equal_share_duels, rate_duels, rates_table
from exitbench.reports.formats.markdown import markdown_table, markdown_text
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DIS_NOTE, EQUAL_SHARES
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.published import published_range, score_file
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.sentences import listed
from exitbench.reports.tables.table import Table


@dataclass(frozen=True)
class Section:
    """A heading, what can be said in sentences, and the tables that show it."""

    title: str
    sentences: tuple[str, ...]
    tables: tuple[Table, ...] = ()


def contestants(run: FinishedRun) -> tuple[RunEntry, list[RunEntry]] | None:
    """The subject and its opponents as the suite names them; None without any, or in a run without results.

    A subject that was asked for stands against all others.
    """
    if run.subject is not None and run.rows:
        others = [entry for entry in run.entries if entry != run.subject]
        return (run.subject, others) if others else None
    contest = run.suite["findings"]
    if contest is None or not run.rows:
        return None
    texts = [(entry.text, entry.signal) for entry in run.entries]
    subject, *others = (
        run.entries[entries_named(name, texts)[0]] for name in (contest["subject"], *contest["against"])
    )
    return subject, others


def findings(run: FinishedRun, origin: str = "", more: Sequence[str] = ()) -> str | None:
    """The page; None for a run whose suite asks for no findings.

    ``origin`` says how the page was made, to those who read its source; ``more`` are sentences on the networks, of
    which a run knows nothing.
    """
    contest = contestants(run)
    if contest is None:
        return None
    page = Findings(run, *contest)
    environment = markdown_environment()
    made = origin or "written by exitbench run and exitbench report from the results beside it"
    template = environment.get_template("findings.md.j2")
    return template.render(origin=made, opening=page.opening(), dis=DIS_NOTE, sections=page.sections(more))


def markdown_environment() -> Environment:
    """Templates of Markdown pages: every name in them passes the filter ``md``, or a table."""
    environment = Environment(
        loader=PackageLoader("exitbench.reports.findings", ""),
        autoescape=False,  # noqa: S701 - this is Markdown, and every name passes a filter
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"md": markdown_text, "table": markdown_table}
    return environment


class Findings:
    """What can be said of one run, section by section."""

    def __init__(self, run: FinishedRun, subject: RunEntry, others: Sequence[RunEntry]) -> None:
        self.run, self.subject, self.others = run, subject, list(others)
        self.protocol = run.leading_protocol()
        self.primary = float(run.suite["primary_speed_up"])
        self.speed_ups = list(dict.fromkeys((self.primary, *map(float, run.suite["speed_ups"]))))
        self.near = f"near {self.primary:g}×"
        self.duels = Duels(run, self.protocol, subject, others)
        self.orders = group_orders(run, self.protocol)

    def opening(self) -> list[str]:
        """The conclusions: one paragraph."""
        run, subject, at = self.run, self.subject.title, at_speed_up(self.primary)
        scores = [(cache, cache.measure, at, None) for cache in run.caches]
        ranks = [(cache, "dis", NOWHERE, layer) for cache in run.caches for layer in cache.table_layers]
        by_score = [(other.title, self.duels.score(other, self.primary)) for other in self.others]
        by_dis = [(other.title, self.duels.dis(other)) for other in self.others]
        every = [(other.title, [*self.scores(self.duels, other), *self.duels.dis(other)]) for other in self.others]
        what = f"task score {self.near}"
        return [
            text.headline_sentence(subject, every),
            text.scope_sentence(run, self.protocol),
            text.contest_sentence(what, "caches", subject, self.first_places(scores), by_score),
            text.contest_sentence(
                "Difficulty Inversion Score (DIS)",
                "pairs of cache and layer",
                subject,
                self.first_places(ranks),
                by_dis,
            ),
            *text.order_sentences(self.orders, subject)[:1],
            *filter(None, [self.beside_paper(self.others[0], by_score[0][1])]),
            *self.parameter().sentences[:1],
            *self.protocols().sentences[:1],
        ]

    def first_places(
        self, questions: Sequence[tuple[CacheMetadata, str, OperatingPoint, int | None]]
    ) -> tuple[int, int, int]:
        """In how many columns the subject is highest, in how many it is not shown to be worse, of how many."""
        best = level = total = 0
        for cache, measure, at, layer in questions:
            row = self.run.row(cache, self.protocol, self.subject.signal, self.subject.parameters, measure, at, layer)
            if row is not None and row.best is not None:
                total += 1
                best += bool(row.best)
                level += bool(row.tied_with_best)
        return best, level, total

    def sections(self, more: Sequence[str]) -> list[Section]:
        """Everything below the opening, in order."""
        sections = [self.against(), self.order(), self.parameter(), self.protocols(), self.rates(), self.caution(more)]
        return [section for section in sections if section.sentences or section.tables]

    def against(self) -> Section:
        """The subject against each of the others, by score and by DIS."""
        subject, sentences, tables = self.subject.title, [], []
        for other in self.others:
            ranks = self.duels.dis(other)
            near = self.duels.score(other, self.primary)
            sentences += [self.beside_paper(other, near), self.beside_paper_dis(other, ranks)]
            tables.append(duel_table(self.scores(self.duels, other), subject, other.title, "Task score"))
            tables.append(duel_table(ranks, subject, other.title, "DIS"))
        counts = [
            (f"task score near {speed_up:g}×", [self.duels.score(other, speed_up) for other in self.others])
            for speed_up in self.speed_ups
        ]
        counts.append(("DIS", [self.duels.dis(other) for other in self.others]))
        first = tally_table(counts, subject, [other.title for other in self.others])
        title = f"Where {subject} beats {listed([other.title for other in self.others])}, and where not"
        return Section(title, tuple(filter(None, sentences)), (first, *tables))

    def beside_paper(self, other: RunEntry, duels: Sequence[Duel]) -> str:
        """The paper's differences by score on the same tasks, which are for about twice the speed."""
        published, differences = {}, []
        for cache, duel in zip(self.run.caches, single(duels), strict=True):
            figure = published_difference(self.run, cache, self.subject, other)
            if self.primary == 2 and not math.isnan(figure + duel.difference):
                published[score_file(cache.model), self.run.task_title(cache)] = figure
                differences.append(duel.difference)
        what, units = f"By score {self.near} (published: GLUE test)", ("task", "cache")
        return text.paper_sentence(what, self.subject.title, other.title, list(published.values()), differences, units)

    def beside_paper_dis(self, other: RunEntry, duels: Sequence[Duel]) -> str:
        """The paper's differences by DIS at the same layers of the same tasks."""
        columns = [(cache, layer) for cache in self.run.caches for layer in cache.table_layers]
        published, differences = {}, []
        for (cache, layer), duel in zip(columns, duels, strict=True):
            figure = published_dis_difference(self.run, cache, layer, self.subject, other)
            if not math.isnan(figure + duel.difference):
                published[self.run.task_title(cache), layer] = figure
                differences.append(duel.difference)
        what, units = "By DIS at the published layers (published: dev)", ("published figure", "comparison")
        return text.paper_sentence(what, self.subject.title, other.title, list(published.values()), differences, units)

    def order(self) -> Section:
        """The paper's order of the signals against ours; nothing where the paper has not the subject."""
        sentences = text.order_sentences(self.orders, self.subject.title)
        if not sentences:
            return Section("", ())
        tables = []
        for group in self.orders:
            tasks, ranked = ", ".join(group.tasks), ", ".join(group.dis_tasks)
            layers = f"{ranked} ({group.dis.over} pairs of task and layer, where every signal has a DIS)"
            tables.append(order_table(group.score, f"By score {self.near}, {group.title}", tasks))
            tables.append(order_table(group.dis, f"By DIS, {group.title}", layers))
        tables.append(agreement_table(self.run, self.protocol, self.subject))
        rule = (
            f"Ranks are those of point values. The order is said to appear where {self.subject.title} alone comes "
            f"first and at least {MOST_PAIRS:.0%} of the pairs of signals are in the paper's order, and to appear in "
            "part where one of the two holds."
        )
        return Section("The paper's order and ours", (*sentences, rule), tuple(tables))

    def parameter(self) -> Section:
        """How far the parameters of the subject matter, with the first opponent for comparison."""
        subject, opponent = self.subject, self.others[0]
        if not subject.is_grid:
            return Section("", ())
        scores = score_spreads(self.run, subject, opponent, self.protocol)
        ranks = dis_spreads(self.run, subject, opponent, self.protocol)
        varied = " and ".join(subject.varied)
        sentences = [
            text.spread_sentence(scores, f"the score {self.near}", varied, "caches"),
            text.spread_sentence(ranks, "DIS", varied, "pairs of cache and layer"),
        ]
        if len(subject.varied) == 1:
            advice = published_range(subject.title, subject.varied[0])
            if advice is not None:
                numbers = [float(subject.varied_text(value).partition("=")[2]) for value in subject.values]
                sentences.append(text.recommended_sentence(scores, numbers, advice))
        tables = [
            spread_table(self.run, subject, opponent, scores, f"score {self.near} ({self.protocol})"),
            spread_table(self.run, subject, opponent, ranks, f"DIS ({self.protocol})"),
        ]
        return Section(f"How far {varied} matters", tuple(filter(None, sentences)), tuple(tables))

    def protocols(self) -> Section:
        """What the most cautious protocol changes against in-sample."""
        first, second = "in-sample", self.protocol
        if first == second or first not in self.run.protocols:
            return Section("", ())
        changes = protocol_changes(self.run, first, second)
        before, after = (
            self.verdicts(Duels(self.run, protocol, self.subject, self.others)) for protocol in (first, second)
        )
        sentences = (
            text.change_sentence(changes, first, second, self.near),
            text.flip_sentence(first, second, before, after),
            text.hands_sentence(first, second, self.leaders(first), self.leaders(second)),
        )
        return Section("What the protocol changes", sentences, (change_table(self.run, changes, first, second),))

    def verdicts(self, duels: Duels) -> list[Duel]:
        """Every duel of the first section, under the protocol of ``duels``."""
        return [duel for other in self.others for duel in (*self.scores(duels, other), *duels.dis(other))]

    def scores(self, duels: Duels, other: RunEntry) -> list[Duel]:
        """The duels with one opponent by task score at every speed-up, the primary one first."""
        return [duel for speed_up in self.speed_ups for duel in duels.score(other, speed_up)]

    def leaders(self, protocol: str) -> dict[str, tuple[str, ...]]:
        """Who has the highest score near the primary speed-up, by place."""
        run, at = self.run, at_speed_up(self.primary)
        return {
            task_with_model(run, cache): tuple(
                run.label(entry.signal, entry.parameters)
                for entry in run.entries
                if (row := run.row(cache, protocol, entry.signal, entry.parameters, cache.measure, at)) and row.best
            )
            for cache in run.caches
        }

    def rates(self) -> Section:
        """Premature and delayed exits: at equal exit shares, and at the suite's speed-up for rates."""
        subject, speed_up = self.subject.title, f"{float(self.run.suite['rates_speed_up']):g}×"
        equal = [equal_share_duels(self.duels, other) for other in self.others]
        near = [rate_duels(self.duels, other) for other in self.others]
        titles = [other.title for other in self.others]
        sentences = [
            *(text.equal_share_sentence(subject, *against) for against in zip(titles, equal, strict=True)),
            *(text.rates_sentence(subject, *against, speed_up) for against in zip(titles, near, strict=True)),
        ]
        shares = f"In percent, over all internal layers: {EQUAL_SHARES}."
        every = "All decisions, in percent of them; at one speed-up signals exit unequal shares of the samples."
        tables = (
            rates_table(equal, subject, "at equal exit shares", shares),
            rates_table(near, subject, f"near {speed_up}", every),
        )
        return Section("Exiting too early, continuing too long", tuple(sentences), tables)

    def caution(self, more: Sequence[str]) -> Section:
        """What to know before believing it."""
        others = [(other, single(self.duels.score(other, self.primary))) for other in self.others]
        power = [
            text.power_sentence(
                self.subject.title,
                other.title,
                duels,
                [published_difference(self.run, cache, self.subject, other) for cache in self.run.caches],
            )
            for other, duels in others
        ]
        same = text.identical_sentences(
            self.run, [twins for twins in self.run.identical if twins.protocol == self.protocol]
        )
        seeds = "Intervals cover the choice of the rows, not another training run of the network."
        sentences = (*more, seeds, *filter(None, power), *same)
        return Section("What to know before believing it", sentences, (power_table(self.run, self.subject, others),))
