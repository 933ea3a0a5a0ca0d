"""The speed run: every ratio is recorded, held against the committed one, and shown in one table at the end.

``--update-ratios`` commits what was measured: it rewrites ``ratios.json`` and, from it, ``docs/performance.md``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from exitbench.benchmarks.speed.harness.committed import (
    Committed,
    complaint,
    orphans,
    read_committed,
    this_machine,
    unexplained,
    write_committed,
)
from exitbench.benchmarks.speed.harness.page import terminal_table, write_page
from exitbench.benchmarks.speed.harness.ratios import Measured
from exitbench.benchmarks.speed.harness.rows import Record, RecordOne, SpeedRow, Topic, all_rows, topics
from exitbench.executors.worker_processes import LIBRARIES

if TYPE_CHECKING:
    from exitbench.models import MultiExitModel


@dataclass
class Findings:
    """What this session measured, and what is wrong with it."""

    committed: Committed
    update: bool
    partial: bool = False
    measured: dict[str, Measured] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    owed: dict[str, SpeedRow] = field(default_factory=dict)


FINDINGS = pytest.StashKey[Findings]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-ratios",
        action="store_true",
        help="commit the measured ratios: rewrite benchmarks/speed/ratios.json and docs/performance.md",
    )


def pytest_configure(config: pytest.Config) -> None:
    # One thread, set before numpy and torch are loaded. Threads that wait for each other by spinning would count as
    # processor time, and a ratio of single threads is the same on any number of cores; where parallel work is the
    # question (--jobs), processes do it.
    for library in LIBRARIES:
        os.environ[library] = "1"
    os.environ.setdefault("MPLBACKEND", "agg")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    config.stash[FINDINGS] = Findings(
        read_committed(), config.getoption("update_ratios"), any("::" in argument for argument in config.args)
    )


def pytest_deselected(items: list[pytest.Item]) -> None:
    for item in items:
        item.config.stash[FINDINGS].partial = True


def pytest_collection_finish(session: pytest.Session) -> None:
    findings = session.config.stash[FINDINGS]
    for item in session.items:
        topic = getattr(getattr(item, "module", None), "TOPIC", None)
        if isinstance(topic, Topic):
            findings.owed |= {row.name: row for row in topic.rows}


@pytest.fixture
def record_ratios(request: pytest.FixtureRequest, benchmark: Any) -> Record:
    """Measure rows and record them; the test fails where a ratio is worse than the committed one allows.

    pytest-benchmark times the whole comparison, both sides and all rounds; the ratios are in its ``extra_info``.
    """
    findings = request.config.stash[FINDINGS]

    def record(compare: Callable[[], Mapping[SpeedRow, Measured]]) -> None:
        measurements = benchmark.pedantic(compare, rounds=1)
        wrong = []
        for row, measured in measurements.items():
            findings.measured[row.name] = measured
            benchmark.extra_info[row.name] = {
                "what": row.what,
                "ratio": measured.value,
                "goal": row.goal_text,
                "met": row.meets_goal(measured.value),
                "detail": measured.detail,
            }
            if not findings.update and (line := complaint(row, measured.value, findings.committed)):
                wrong.append(line)
        findings.complaints += wrong
        if wrong:
            pytest.fail("\n".join(wrong), pytrace=False)

    return record


@pytest.fixture
def record_ratio(record_ratios: Record) -> RecordOne:
    """The same for one row."""
    return lambda row, compare: record_ratios(lambda: {row: compare()})


@pytest.fixture(scope="session", autouse=True)
def heap_of_a_process_that_has_read_a_cache() -> None:
    """Let the allocator keep what is given back, as it does in every run, whichever files were measured before.

    The C library's thresholds follow the largest block that was ever freed, up to 32 MB. Before that, arrays of a
    megabyte go back to the system after each call, and a ratio measures page faults: `curve` read 1.4x alone, 2.4x
    after the other files.
    """
    import numpy as np

    np.empty(31 * 2**20, dtype=np.uint8)


@pytest.fixture(scope="session")
def large_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of QQP's size with stored offset norms; do not write into it."""
    from exitbench.benchmarks.speed.harness.caches import qqp_sized

    path = qqp_sized(tmp_path_factory.mktemp("speed") / "large")
    yield path
    shutil.rmtree(path)  # pytest keeps the folders of three sessions, and this is most of a gigabyte


@pytest.fixture(scope="session")
def bert_base() -> MultiExitModel:
    """A network of BERT-base's shape with random weights."""
    from exitbench.models.timing import random_model

    return random_model(layers=12, width=768, intermediate=3072, classes=2, positions=128)


def pytest_sessionfinish(session: pytest.Session) -> None:
    findings = session.config.stash[FINDINGS]
    if session.config.option.collectonly or not findings.owed:
        return
    rows = all_rows()
    if not findings.partial:
        findings.complaints += [f"{name}: not measured" for name in findings.owed if name not in findings.measured]
    if findings.update:
        write_committed(read_committed().updated(rows.values(), findings.measured, this_machine()))
        write_page()
        findings.complaints += unexplained(rows, read_committed())
    else:
        findings.complaints += orphans(rows, findings.committed)
    if findings.complaints and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    findings = config.stash[FINDINGS]
    if not findings.measured:
        return
    terminalreporter.section("ratios")
    terminalreporter.write_line(terminal_table(topics(), findings.measured, findings.committed))
    if findings.update:
        terminalreporter.write_line("\nratios.json and docs/performance.md are rewritten")
    for line in findings.complaints:
        terminalreporter.write_line(line, red=True)
