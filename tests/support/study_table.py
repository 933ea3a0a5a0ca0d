"""The table of the study of intervals and marks: its counts as a file, and as a table in ``docs/statistics.md``.

``python -m tests.support.study_table --draws 100`` adds so many draws of each size to the stored counts and writes
both; ``--parts`` draws only some parts, and ``--fresh`` starts them from nothing, as is needed once their intervals or
marks are made in another way.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from exitbench.places import FIXTURES
from tests.support.interval_study import COLUMNS, MORE_DRAWS, Tried, contests, ranked, read_off
from tests.support.learned_study import RANKED_COMMITTED, RANKED_LEARNED, LearnedStudy, committed_law

STORED = FIXTURES / "studies" / "intervals.csv"
PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
BEGIN, END = "<!-- written by tests/support/study_table.py: begin -->", "<!-- end -->"
SIZES = (277, 872)
PARTS = {
    "ranked": "DIS",
    "read-off": "accuracy at 2x",
    "contests": "difference of accuracy at 2x",
    "learned": "accuracy at 2x of a learned signal",
    "ranked-learned": RANKED_LEARNED,
    "ranked-committed": RANKED_COMMITTED,
}
"""The parts of the study, each with a question whose draws number the next ones."""
HEADINGS = {"coverage": "95% intervals that hold the truth", "error": "false claims at a nominal 5%"}


def stored_counts(file: Path = STORED) -> list[Tried]:
    """The counts of all draws so far."""
    with file.open(encoding="utf-8", newline="") as lines:
        return [
            Tried(row["question"], int(row["samples"]), row["kind"], int(row["hits"]), int(row["draws"]))
            for row in csv.DictReader(lines)
        ]


def store_counts(counts: Sequence[Tried], file: Path = STORED) -> None:
    """Write the counts; a line each, so that a change can be read."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(["question", "samples", "kind", "hits", "draws"])
        writer.writerows([count.question, count.samples, count.kind, count.hits, count.draws] for count in counts)


def added(counts: Iterable[Tried]) -> list[Tried]:
    """Counts of the same question and size taken together: part by part, else as they first appear."""
    together: dict[tuple[str, int], Tried] = {}
    for count in counts:
        whole = together.setdefault((count.question, count.samples), Tried(count.question, count.samples, count.kind))
        whole.hits, whole.draws = whole.hits + count.hits, whole.draws + count.draws
    order = list(PARTS)
    return sorted(together.values(), key=lambda count: order.index(part_of(count.question)))


def study_table(counts: Sequence[Tried]) -> str:
    """One table for coverage and one for errors, each with the shares, their draws and Monte Carlo errors."""
    lines: list[str] = []
    for kind, heading in HEADINGS.items():
        questions = dict.fromkeys(count.question for count in counts if count.kind == kind)
        sizes = sorted({count.samples for count in counts if count.kind == kind})
        lines += [
            f"| {heading} | " + " | ".join(f"{size} samples" for size in sizes) + " |",
            "|---" * (len(sizes) + 1) + "|",
        ]
        for question in questions:
            cells = {count.samples: shown(count) for count in counts if count.question == question}
            lines.append(f"| {question} | " + " | ".join(cells.get(size, "") for size in sizes) + " |")
        lines.append("")
    return "\n".join(lines)


def shown(count: Tried) -> str:
    """A share as the page has it; one that is not what it says, by more than two Monte Carlo errors, is marked."""
    mark = "" if count.keeps else " †"
    return f"{count.percent:.1f}% ± {count.monte_carlo_error:.1f} ({count.draws} draws){mark}"


def with_table(page: str, table: str) -> str:
    """The page with another table between its markers."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END, 1)
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def add_draws(
    part: str, draws: int, counts: Sequence[Tried], folder: Path, sizes: Sequence[int] = SIZES
) -> list[Tried]:
    """Counts with draws of one part of the study added, numbered on from those before."""
    done = {(count.question, count.samples): count.draws for count in counts}
    more: list[Tried] = []
    for samples in sizes:
        first = done.get((PARTS[part], samples), 0)
        if part == "ranked":
            more += ranked(samples, draws * MORE_DRAWS, first)
        elif part == "ranked-learned":
            more.append(LearnedStudy(folder / str(samples)).law().ranked(samples, draws * MORE_DRAWS, first))
        elif part == "ranked-committed":
            more.append(committed_law().ranked(samples, draws * MORE_DRAWS, first))
        elif part == "read-off":
            more += read_off(samples, draws * MORE_DRAWS, first)
        elif part == "contests":
            more += contests(samples, draws, first)
        else:
            read_off_curves = LearnedStudy(folder / str(samples)).studied(samples, draws, first)
            more += [count for count in read_off_curves if count.question != RANKED_LEARNED]
    return added([*counts, *more])


def part_of(question: str) -> str:
    """Which part of the study answers a question."""
    if "learned" in question:
        return {RANKED_LEARNED: "ranked-learned", RANKED_COMMITTED: "ranked-committed"}.get(question, "learned")
    if question in COLUMNS:
        return "read-off"
    return "ranked" if "DIS" in question else "contests"


def main() -> None:
    """Add draws, then write the counts and the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, required=True, help="data sets of each size; 0 writes the page again")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="parts of the study to draw")
    parser.add_argument(
        "--sizes", nargs="+", type=int, choices=SIZES, default=list(SIZES), help="samples of a data set"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the stored counts of these parts")
    options = parser.parse_args()
    counts = stored_counts() if STORED.exists() else []
    if options.fresh:
        counts = [count for count in counts if part_of(count.question) not in options.parts]
    STORED.parent.mkdir(exist_ok=True)
    for part in options.parts if options.draws else ():
        with tempfile.TemporaryDirectory() as folder:
            counts = add_draws(part, options.draws, counts, Path(folder), options.sizes)
        store_counts(counts)
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), study_table(stored_counts())), encoding="utf-8")


if __name__ == "__main__":
    main()
