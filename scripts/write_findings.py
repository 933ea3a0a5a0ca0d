"""Writes ``docs/findings.md`` from a finished run of the paper suite, and keeps the rows it was made from.

    exitbench run && python scripts/write_findings.py out/paper

``fixtures/findings`` takes the part of the run that the page shows, so that tests can hold the page against the
baseline without running the suite. Without a folder, the page is written again from what is kept there: for changes of
the wording.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import make_fixtures  # noqa: E402

from exitbench.atomic_files import write_text  # noqa: E402
from exitbench.benchmarks.results.files import write_json, write_table  # noqa: E402
from exitbench.benchmarks.results.schema import rows_table, table_of  # noqa: E402
from exitbench.benchmarks.results.vocabulary import EQUAL_SHARE  # noqa: E402
from exitbench.benchmarks.suites.suite_file import load_suite  # noqa: E402
from exitbench.errors import InputError  # noqa: E402
from exitbench.reports.findings.findings import findings  # noqa: E402
from exitbench.reports.run_data.finished_run import FinishedRun  # noqa: E402
from exitbench.reports.run_data.identical import is_telling  # noqa: E402

KEPT = ROOT / "fixtures" / "findings"
PAGE = ROOT / "docs" / "findings.md"
ORIGIN = "written by: exitbench run && python scripts/write_findings.py out/paper"
RECORD = ("schema", "complete", "suite", "seed", "caches", "entries", "versions")
"""What is kept of ``run.json``: nothing of the machine."""
MEASURES = ("accuracy", "f1", "mean_accuracy_f1", "speed_up", "dis", "premature_rate", "delayed_rate")


def is_shown(run: FinishedRun, row: Any) -> bool:
    """Whether the page may show a row of the results or pairs: a reading at a speed-up, or DIS at a table's layer."""
    measure, layer, decisions, cache = (row[name] for name in ("measure", "layer", "decisions", "cache"))
    if measure not in MEASURES or decisions == "reached":
        return False
    if measure == "dis":
        return any(listed.name == cache and layer in listed.table_layers for listed in run.caches)
    return layer is None and (row["operating_point"].kind == "speed_up" or decisions == EQUAL_SHARE)


def keep(run_dir: Path) -> None:
    """Copy what the page is made of; raises InputError for anything but a complete run of today's paper suite."""
    run, suite = FinishedRun(run_dir), load_suite("paper")
    if not run.record["complete"]:
        raise InputError(f"{run_dir} is incomplete: expected a finished run of the paper suite")
    if run.suite != json.loads(json.dumps(suite.to_json())):
        raise InputError(f"{run_dir} is a run of another suite than paper is now; run it again: exitbench run --force")
    KEPT.mkdir(exist_ok=True)
    # Whether two signals agree in every number is told from more than the page shows.
    rows = [row for row in run.rows.values() if is_shown(run, row._asdict()) or is_telling(row)]
    write_table(KEPT / "results.parquet", rows_table(rows))
    pairs = [{**pair, "operating_point": pair["operating_point"].text} for pair in run.pair_rows if is_shown(run, pair)]
    write_table(KEPT / "pairs.parquet", table_of("pairs", pairs))
    write_json(KEPT / "run.json", {name: run.record[name] for name in RECORD})


def training(run: FinishedRun) -> list[str]:
    """What is to be known of the networks behind the caches of a run, from their recipes."""
    trainings = []
    for recipe in make_fixtures.RECIPES:
        if recipe.name in run.suite["caches"]:
            rows = f"{recipe.rows:,} rows" if recipe.rows else "every row of the training file"
            trainings.append(f"{recipe.name}: {rows}, {recipe.epochs} epoch{'s' if recipe.epochs > 1 else ''}")
    return [
        f"The networks were trained for a short time, with one seed each ({'; '.join(trainings)}). They pool the "
        "mean over the tokens and have a pooler for every layer; the paper's read the first token and share one "
        "pooler, and its main table comes from GLUE's test server.",
        "fixtures/README.md says more: which training files had been cut before, what stands in for the dev sets of QQP"
        " and MNLI, and which tasks the pretrained encoders have seen.",
    ]


def page() -> str:
    """The page, from the rows that are kept."""
    run = FinishedRun(KEPT)
    text = findings(run, ORIGIN, training(run))
    if text is None:
        raise InputError(f"{KEPT} has not the signals that the findings are about")
    return text


def main() -> None:
    """Keep the run on the command line, if there is one, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run_dir", nargs="?", type=Path, metavar="RUN_DIR", help="such as out/paper")
    options = parser.parse_args()
    try:
        if options.run_dir is not None:
            keep(options.run_dir)
        write_text(PAGE, page())
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
