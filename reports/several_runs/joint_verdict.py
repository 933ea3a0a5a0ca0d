"""The verdict over several runs: who leads where all can be compared, what changed between runs, what is not shared."""

from __future__ import annotations

from exitbench.benchmarks.results.vocabulary import is_claimed
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.sentences import listed, short_name
from exitbench.reports.several_runs.joint_runs import Contender, JointRuns
from exitbench.reports.several_runs.joint_table import JointContest, not_shared, why_apart
from exitbench.reports.verdict.alert import first_few
from exitbench.reports.verdict.standings import Lead
from exitbench.reports.verdict.verdict import Sentence, margin

MOST_CHANGES = 4
"""As many changes of a signal between runs as the verdict names."""


def joint_sentences(contest: JointContest) -> list[Sentence]:
    """Who leads, with a subject where it stands, who takes no part, what changed between runs, what is not shared."""
    sentences = [
        subject_sentence_of(contest),
        leading_sentence(contest),
        apart_sentence(contest),
        changes_sentence(contest),
        same_sentence(contest),
        *((sentence,) for sentence in not_shared(contest.joint)),
    ]
    return [sentence for sentence in sentences if sentence]


def near(contest: JointContest) -> str:
    """Where the column is read, at the beginning of a sentence."""
    joint = contest.joint
    names = listed([short_name(name) for name in joint.names])
    return f"Near {joint.ground.point.short}, {short_name(contest.title)}, over {names}"


def leading_sentence(contest: JointContest) -> Sentence:
    """The best of the shared column, from whom it differs, and from whom no difference can be claimed."""
    joint, column = contest.joint, contest.column
    if not column.contenders:
        return (f"{near(contest)}, no score could be compared ({joint.ground.protocol}).",)
    marks = column.marks
    best = marks.first_best
    names = [contender_name(contest, index) for index in range(len(column.contenders)) if marks.best[index]]
    start = f"{near(contest)}, {listed(names)} {'share' if len(names) > 1 else 'keeps'} the highest score, "
    they = "they are" if len(names) > 1 else "it is"
    if len(column.contenders) < 2:
        return (start, contest.score(best), f" ({joint.ground.protocol}); there was nothing to compare it with.")
    level = [
        contender_name(contest, index)
        for index in range(len(column.contenders))
        if marks.tied_with_best[index] and not marks.best[index]
    ]
    worse = [index for index in range(len(column.contenders)) if not marks.tied_with_best[index]]
    parts: list[str | Number] = [start, contest.score(best), f" ({joint.ground.protocol}); "]
    if level:
        parts.append(f"no difference from {listed(level)} can be claimed")
    if worse:
        nearest = max(worse, key=lambda index: column.values[index])
        parts.append(f", but {they} ahead of " if level else f"{they} ahead of every other, of ")
        parts += [contender_name(contest, nearest), ", the next best, by " if not level else " by "]
        parts += lead_over(contest, best, nearest)
    elif not level:
        parts.append("nobody else was compared")
    return (*parts, ".")


def lead_over(contest: JointContest, first: int, second: int) -> Sentence:
    """A difference with its interval and its adjusted p-value, as the verdict of one run has them."""
    return margin(Lead(contender_name(contest, second), *contest.difference(first, second)))


def contender_name(contest: JointContest, index: int) -> str:
    """A contender of the column inside a sentence."""
    return short_name(contest.joint.label(contest.column.contenders[index]))


def subject_sentence_of(contest: JointContest) -> Sentence:
    """Where the subject stands, ahead of whom and behind whom."""
    if contest.subject is None:
        return ()
    joint, column = contest.joint, contest.column
    label = short_name(joint.label(contest.subject))
    if contest.reference is None:
        return (f"{near(contest)}, {label} is not compared ({why_apart(contest, contest.subject)}).",)
    index = contest.reference
    rank = 1 + int((column.values > column.values[index]).sum())
    parts: list[str | Number] = [
        f"{near(contest)}, {label} scores ",
        contest.score(index),
        f" ({joint.ground.protocol}), place {rank} of {len(column.contenders)}; ",
    ]
    ahead: list[str] = []
    behind: list[str] = []
    level: list[str] = []
    for other in range(len(column.contenders)):
        if other == index:
            continue
        difference, adjusted = contest.difference(index, other)
        claimed = is_claimed(adjusted.value)
        (level if not claimed else ahead if difference.value > 0 else behind).append(contender_name(contest, other))
    words = [
        f"{verb} {listed(names)}"
        for verb, names in (
            ("ahead of", ahead),
            ("behind", behind),
            ("no difference can be claimed from", level),
        )
        if names
    ]
    return (*parts, "; ".join(words) or "nothing was tested against it", ".")


def apart_sentence(contest: JointContest) -> Sentence:
    """Who takes no part in the shared column, and why."""
    apart = [contender for contender in contest.joint.contenders if contender not in contest.column.contenders]
    if not apart:
        return ()
    words = [f"{short_name(contest.joint.label(contender))} ({why_apart(contest, contender)})" for contender in apart]
    return (f"Not part of this: {first_few(words)}.",)


def changes_sentence(contest: JointContest) -> Sentence:
    """Signals that several runs have with other answers: the later run less the earlier."""
    column = contest.column
    parts: list[str | Number] = []
    pairs = repeated(contest.joint)
    shown = [(first, second) for first, second in pairs if {first, second} <= set(column.contenders)][:MOST_CHANGES]
    for first, second in shown:
        places = [column.contenders.index(contender) for contender in (second, first)]
        names = [contest.joint.run_names(contender) for contender in (first, second)]
        label = short_name(contest.joint.signal_label(first))
        parts.append("; " if parts else "Other answers of one signal: ")
        parts.append(f"{label} changes from {short_name(names[0])} to {short_name(names[1])} by ")
        parts += lead_over(contest, *places)
    more = len(pairs) - len(shown)
    return (*parts, f"; {more} more in the table." if more else ".") if parts else ()


def repeated(joint: JointRuns) -> list[tuple[Contender, Contender]]:
    """Pairs of contenders that are one signal with the same parameters in two runs, with other answers."""
    first_of: dict[tuple[str, str], Contender] = {}
    pairs = []
    for contender in joint.contenders:
        if contender.name in first_of:
            pairs.append((first_of[contender.name], contender))
        first_of.setdefault(contender.name, contender)
    return pairs


def same_sentence(contest: JointContest) -> Sentence:
    """Signals that give the same answers in several runs, which stand in the table once."""
    same = [contest.joint.signal_label(contender) for contender in contest.joint.contenders if len(contender.runs) > 1]
    if not same:
        return ()
    return (f"The same answers in several runs, so in the table once: {listed([short_name(name) for name in same])}.",)


def subject_of(joint: JointRuns, entries: list[RunEntry | None]) -> Contender | None:
    """The contender that the subject of one of the runs stands for; of several the first."""
    for contender in joint.contenders:
        if any(entries[number] == contender.entry for number in contender.runs):
            return contender
    return None
