"""The evidence page in Markdown: a summary of short answers, then a section for each with its numbers and picture.

Every sentence has its number, and every number comes from the runs' files. Which signal is asked about, and against
which others, the suites say (``[findings]``): of each run the entries of that name. ``docs/findings.md`` is this page
for the committed caches (``scripts/write_findings.py``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from exitbench.reports.findings.duels import tally
from exitbench.reports.findings.evidence.answers import AnsweredQuestion
from exitbench.reports.findings.evidence.by_classes import classes_answer
from exitbench.reports.findings.evidence.choices_answer import choices_answer
from exitbench.reports.findings.evidence.contested_runs import RunsTogether
from exitbench.reports.findings.evidence.exit_rates import rates_answer
from exitbench.reports.findings.evidence.models_answer import models_answer
from exitbench.reports.findings.evidence.power_answer import power_answer
from exitbench.reports.findings.evidence.published_answer import published_answer
from exitbench.reports.findings.evidence.shift_answer import shift_answer
from exitbench.reports.findings.evidence.steadiness_answer import steadiness_answer
from exitbench.reports.findings.findings import markdown_environment
from exitbench.reports.findings.sentences import counted
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DIS_NOTE
from exitbench.reports.sentences import listed


def answers_of(evidence: RunsTogether, asked: str = "", differences: Sequence[str] = ()) -> list[AnsweredQuestion]:
    """Every question that the runs can answer, in order.

    ``asked`` is the signal whose exit rates are asked about; ``differences`` say in what the networks are not those of
    the paper.
    """
    answers = [
        classes_answer(evidence),
        rates_answer(evidence, asked),
        choices_answer(evidence),
        steadiness_answer(evidence),
        models_answer(evidence),
        shift_answer(evidence),
        power_answer(evidence),
        published_answer(evidence, differences),
    ]
    return [answer for answer in answers if answer is not None and not answer.chart.is_empty]


def anchor(question: str) -> str:
    """The name of a heading in links.

    >>> anchor("Does CAP beat the others, and how?")
    'does-cap-beat-the-others-and-how'
    """
    return re.sub(r"[^\w\- ]", "", question.lower()).replace(" ", "-")


def counted_verdicts(evidence: RunsTogether) -> str:
    """How often the subject is shown to be better and worse than each opponent on single caches."""
    parts = []
    for title, by_cache in evidence.duels.items():
        every = [duel for duels in by_cache for duel in (duels.score, *duels.dis)]
        counts = tally(every)
        compared = len(every) - counts["not compared"]
        parts.append(f"better than {title} in {counts['better']}, worse in {counts['worse']} of {compared}")
    return (
        f"On single caches, by task score and by DIS at the layers of the tables, {evidence.subject} is shown to be "
        f"{'; '.join(parts)} comparisons."
    )


def evidence_scope(evidence: RunsTogether) -> str:
    """What the page rests on."""
    caches = evidence.caches
    classes = [str(number) for number in sorted({len(cache.classes) for cache in caches})]
    models, rows = dict.fromkeys(cache.model for cache in caches), [cache.rows for cache in caches]
    tasks = dict.fromkeys(cache.task for cache in caches)
    return (
        f"It rests on {counted(len(caches), 'cache')} of {counted(len(tasks), 'task')} and "
        f"{counted(len(models), 'model')} ({listed(list(models))}), with {', '.join(classes)} classes and "
        f"{min(rows):,} to {max(rows):,} rows."
    )


def suite_lines(runs: Sequence[FinishedRun]) -> list[str]:
    """What each suite says of itself, its networks' strength included, and how it is read."""
    return [
        f"{run.suite['name']} ({run.leading_protocol()}, scores near {float(run.suite['primary_speed_up']):g}×): "
        f"{run.suite['description']}"
        for run in runs
    ]


def evidence_page(
    evidence: RunsTogether,
    origin: str,
    folder: str,
    tables: str,
    more: Sequence[str],
    *,
    asked: str = "",
    differences: Sequence[str] = (),
) -> str:
    """The page; its pictures lie in ``folder`` beside it, and ``tables`` links to what is behind it.

    ``more`` are sentences on the networks, of which a run knows nothing; for the others see :func:`answers_of`.
    """
    template = markdown_environment().get_template("evidence/page.md.j2")
    answers = answers_of(evidence, asked, differences)
    runs = [contest.run for contest in evidence.contests]
    return template.render(
        origin=origin,
        scope=evidence_scope(evidence),
        answers=[(answer, anchor(answer.question)) for answer in answers],
        counts=counted_verdicts(evidence),
        suites=suite_lines(runs),
        dis=DIS_NOTE,
        folder=folder,
        tables=tables,
        more=more,
    )
