"""The answers of live inference as lines of CSV or JSON."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from exitbench.cli.standard_streams import output_lost
from exitbench.printable import printable

if TYPE_CHECKING:
    from exitbench.models.answers import Answer


def answer_lines(answers: Iterable[Answer], output_format: str) -> Iterator[str]:
    """Answers as CSV, or as JSON lines, which also have the probability of every class."""
    if output_format == "jsonl":
        for answer in answers:
            record = {
                **{"id": answer.id, "class": answer.label, "exit_layer": answer.exit_layer, "score": answer.score},
                "probabilities": answer.probabilities,
            }
            yield json.dumps(record) + "\n"
        return
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(["id", "class", "exit_layer", "score"])
    for answer in answers:
        score = "" if answer.score is None else repr(answer.score)
        writer.writerow([answer.id, answer.label, answer.exit_layer, score])
        yield line.getvalue()
        line.seek(0)
        line.truncate()


def write_answers(answers: Iterable[Answer], output_format: str, out: Path | None) -> None:
    """To standard output line by line, or to ``out``, all of it or nothing."""
    if out is not None:
        from exitbench.atomic_files import write_whole

        write_whole(out, (line.encode() for line in answer_lines(answers, output_format)))
        return
    if sys.stdout.isatty():  # data stays as it is in files and pipes
        answers = (replace(answer, label=printable(answer.label)) for answer in answers)
    for line in answer_lines(answers, output_format):
        sys.stdout.write(line)
        sys.stdout.flush()
        if output_lost():  # whoever read has had enough
            raise typer.Exit(1)
