"""The table at the end of a speed run, and ``docs/performance.md``, wholly made from the committed ratios."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from exitbench.benchmarks.speed.harness.committed import Committed, read_committed
from exitbench.benchmarks.speed.harness.ratios import Measured
from exitbench.benchmarks.speed.harness.rows import MARGIN, PAST_GOAL, SpeedRow, Topic, topics

PAGE = Path(__file__).resolve().parents[3] / "docs" / "performance.md"

TOP = """\
# Performance

Comparing signals from a cache is only convincing if it is practically free. The limits are physical: one pass over
the bytes that a signal must read, one sort per signal and layer. This page says how near to them exitbench is.

Every number is a *ratio* of two times measured in one run on one machine, so it says something about other machines
too: the two sides take turns, several rounds each, and their medians are compared. Times are processor time of one
thread unless a row says *by the clock*. The goals were set beforehand; one that is missed is shown as missed, with
what limits it.

<!-- Written by `tox -e speed -- --update-ratios` from benchmarks/speed/ratios.json and the texts beside each benchmark;
     a test compares. -->
"""

CHECK = """\
## How to run it, and what the check does

```sh
tox -e speed                      # measure everything, print one table, compare with the committed ratios
tox -e speed -- --update-ratios   # the same, and commit what was measured: ratios.json and this page
pytest benchmarks/speed/test_start_speed.py -o addopts=   # one file
python -m exitbench.benchmarks.speed.harness.page   # this page again, after a text was edited
```

The run ends with 1 when

- a ratio is worse than the committed one by more than its margin: {margin:.0%}, or what the list below says. The margin
  has to be wider than what a neighbour on a two-core machine does to interleaved medians, and narrower than the slips
  that matter: a vectorised path lost, a sort made twice or a second pass over the bytes cost a factor of two or more.
  *Worse* knows the direction: some ratios are better high, some low;
- a ratio misses a goal that the committed one meets, by more than {past:.0%};
- a row has no committed ratio, or a committed ratio has no row, or a benchmark did not measure what it should.

A goal that the committed ratio misses already does not fail again, but it must have an explanation on this page.
Threads are set to one: threads that wait for each other count as processor time, and a ratio of single threads holds
for any number of cores. Where parallel work is the question (`--jobs`), processes do it, and the clock decides.

Margins of their own, narrower where a ratio cannot move far or hardly varies, wider where microseconds are timed:
"""


def wrapped(text: str) -> str:
    """Paragraphs with lines of at most 120 signs."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n"))
    return "\n\n".join(
        textwrap.fill(paragraph, 120, break_long_words=False, break_on_hyphens=False) for paragraph in paragraphs
    )


def page_text(shown: Sequence[Topic], committed: Committed) -> str:
    """The whole page."""
    rows = [row for topic in shown for row in topic.rows]
    parts = [TOP, machine_text(committed.machine), summary_text(rows, committed), table(rows, committed)]
    for topic in shown:
        parts.append(f"## {topic.title}\n\n{wrapped(topic.text)}\n")
        parts += [topic.table] if topic.table else []
        parts += [wrapped(f"**`{row.name}`.** {row.limit}") + "\n" for row in topic.rows if row.limit]
        if listed := list(details(topic.rows, committed)):
            parts.append("\n".join(listed) + "\n")
    parts.append(CHECK.format(margin=MARGIN, past=PAST_GOAL))
    parts.append("\n".join(margins(rows)) + "\n")
    return "\n".join(parts)


def machine_text(machine: Mapping[str, str]) -> str:
    """Where the numbers come from."""
    named = ", ".join(f"{name} {value}" for name, value in machine.items() if name not in ("processor", "cores"))
    return f"Measured on {machine.get('cores', '?')} cores ({machine.get('processor', '?')}) with {named}.\n"


def summary_text(rows: Sequence[SpeedRow], committed: Committed) -> str:
    """How many goals are met, which are not, and of which nothing is known yet."""
    aimed = [row for row in rows if row.goal is not None]
    measured_rows = [row for row in aimed if row.name in committed.rows]
    missed = [row for row in measured_rows if not row.meets_goal(committed.rows[row.name].value)]
    unknown = [row for row in aimed if row not in measured_rows]
    text = f"{len(measured_rows) - len(missed)} of {len(aimed)} goals are met"
    for words, some in (("not met", missed), ("not measured yet", unknown)):
        if some:
            text += f"; {words}: {', '.join(f'`{row.name}`' for row in some)}"
    return wrapped(f"{text}.") + "\n"


def table(rows: Sequence[SpeedRow], committed: Committed) -> str:
    """All ratios, as Markdown."""
    lines = ["| row | what | goal | measured | met |", "|---|---|---|---|---|"]
    for row in rows:
        stored = committed.rows.get(row.name)
        cells = ("not yet", "") if stored is None else (row.text(stored.value), met(row, stored.value))
        lines.append(f"| `{row.name}` | {row.what} | {row.goal_text} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def met(row: SpeedRow, ratio: float) -> str:
    """Yes or no; empty without a goal."""
    if row.goal is None:
        return ""
    return "yes" if row.meets_goal(ratio) else "**no**"


def details(rows: Sequence[SpeedRow], committed: Committed) -> Iterator[str]:
    """What each ratio was made of, a list in Markdown."""
    for row in rows:
        if row.name in committed.rows:
            stored = committed.rows[row.name]
            yield f"- `{row.name}`: {row.text(stored.value)} ({stored.detail})"


def margins(rows: Sequence[SpeedRow]) -> Iterator[str]:
    """The rows whose margin is their own, by margin, a list in Markdown."""
    for margin in sorted({row.margin for row in rows if row.margin != MARGIN}):
        names = ", ".join(f"`{row.name}`" for row in rows if row.margin == margin)
        yield wrapped(f"- {margin:.0%}: {names}").replace("\n", "\n  ")


def terminal_table(shown: Sequence[Topic], measured: Mapping[str, Measured], committed: Committed) -> str:
    """What a run found, beside the goals and the committed ratios, in columns."""
    lines = [("row", "ratio", "goal", "met", "committed", "worse by", "detail")]
    for topic in shown:
        for row in topic.rows:
            if row.name not in measured:
                continue
            now, before = measured[row.name], committed.rows.get(row.name)
            earlier = ("–", "–")
            if before is not None:
                earlier = row.text(before.value), f"{row.worse_by(now.value, before.value):+.0%}"
            goal = row.goal_text or "–"
            answer = met(row, now.value).replace("*", "") or "–"
            lines.append((row.name, row.text(now.value), goal, answer, *earlier, now.detail))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def write_page() -> None:
    """Write the page from the committed ratios."""
    PAGE.write_text(page_text(topics(), read_committed()), encoding="utf-8")


if __name__ == "__main__":
    write_page()
