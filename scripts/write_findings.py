"""Writes ``docs/findings.md``, its pictures and tables from finished runs, and keeps the rows they were made from.

    exitbench run paper && exitbench run classes && ... && python scripts/write_findings.py out/paper out/classes ...

``fixtures/findings`` takes the part of each run that the pages show, so that tests can hold the pages against the
baseline without running the suites. Without a folder, the pages are written again from what is kept there: for changes
of the wording.
"""

import argparse
import json
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import make_fixtures  # noqa: E402
import text_networks  # noqa: E402

from exitbench.atomic_files import write_text  # noqa: E402
from exitbench.benchmarks.results.files import write_json, write_table  # noqa: E402
from exitbench.benchmarks.results.operating_point import at_speed_up  # noqa: E402
from exitbench.benchmarks.results.schema import ACROSS, rows_table, table_of  # noqa: E402
from exitbench.benchmarks.results.vocabulary import EQUAL_SHARE, EXIT_RATES  # noqa: E402
from exitbench.benchmarks.suites.suite_file import load_suite  # noqa: E402
from exitbench.errors import InputError  # noqa: E402
from exitbench.reports.findings.evidence.contested_runs import RunsTogether  # noqa: E402
from exitbench.reports.findings.evidence.dot_charts import drawn_svg  # noqa: E402
from exitbench.reports.findings.evidence.page import answers_of, evidence_page  # noqa: E402
from exitbench.reports.findings.findings import findings  # noqa: E402
from exitbench.reports.run_data.finished_run import FinishedRun  # noqa: E402
from exitbench.reports.run_data.identical import is_telling  # noqa: E402

KEPT = ROOT / "fixtures" / "findings"
PAGE, FOLDER = ROOT / "docs" / "findings.md", "findings"
SUITES = ("paper", "classes", "power", "seeds", "shift", "per-layer")
"""The suites that the page asks, in the order in which it names them; a cache of several counts in the first."""
RATES_OF = "nsp"
"""The signal whose exit rates the page asks about: in the paper, what it adds is fewer premature exits."""
ORIGIN = "written by: python scripts/write_findings.py"
RECORD = ("schema", "complete", "suite", "seed", "caches", "entries", "versions")
"""What is kept of ``run.json``: nothing of the machine."""
SMALLEST = 19
"""The level of compression of what is kept."""
MEASURES = ("accuracy", "f1", "mean_accuracy_f1", "speed_up", "dis", "premature_rate", "delayed_rate")


def is_shown(run: FinishedRun, row: Any) -> bool:
    """Whether the page may show a row of the results or pairs: a value at a speed-up, or DIS at a table's layer."""
    measure, layer, decisions, cache = (row[name] for name in ("measure", "layer", "decisions", "cache"))
    if measure not in MEASURES or decisions == "reached":
        return False
    if measure == "dis":
        return any(listed.name == cache and layer in listed.table_layers for listed in run.caches)
    if layer is not None:
        return False
    point = row["operating_point"]
    if measure in EXIT_RATES and point.kind == "speed_up":
        return bool(point == at_speed_up(float(run.suite["rates_speed_up"])))  # elsewhere they have no intervals
    return point.kind == "speed_up" or decisions == EQUAL_SHARE or row.get("signal") == "oracle"


def keep(run_dir: Path) -> None:
    """Copy what the pages are made of; raises InputError for anything but a complete run of a suite as it is now."""
    run = FinishedRun(run_dir)
    name = str(run.suite["name"])
    if name not in SUITES:
        raise InputError(f"{run_dir} is a run of {name}: expected one of {', '.join(SUITES)}")
    if not run.record["complete"]:
        raise InputError(f"{run_dir} is incomplete: expected a finished run of {name}")
    if run.suite != json.loads(json.dumps(load_suite(name).to_json())):
        raise InputError(f"{run_dir} is a run of another suite than {name} is now; run it again: exitbench run --force")
    folder = KEPT / name
    folder.mkdir(parents=True, exist_ok=True)
    # Whether two signals agree in every number is told from more than the page shows.
    rows = [row for row in run.rows.values() if is_shown(run, row._asdict()) or is_telling(row)]
    write_table(folder / "results.parquet", rows_table(rows), SMALLEST)
    pairs = [{**pair, "operating_point": pair["operating_point"].text} for pair in run.pair_rows if is_shown(run, pair)]
    write_table(folder / "pairs.parquet", table_of("pairs", pairs), SMALLEST)
    if run.across:
        write_table(folder / "across.parquet", pa.Table.from_pylist(run.across, schema=ACROSS), SMALLEST)
    write_json(folder / "run.json", {name: run.record[name] for name in RECORD})


def training(runs: Sequence[FinishedRun]) -> list[str]:
    """What is to be known of the networks behind the caches of some runs, from their recipes."""
    caches = {name for run in runs for name in run.suite["caches"]}
    trainings = []
    for recipe in make_fixtures.RECIPES:
        if recipe.name in caches:
            rows = f"{recipe.rows:,} rows" if recipe.rows else "every row of the training file"
            trainings.append(f"{recipe.name}: {rows}, {recipe.epochs} epoch{'s' if recipe.epochs > 1 else ''}")
    sentences = []
    if trainings:
        sentences.append(
            "The networks of the paper suite were trained for a short time, with one seed each"
            f" ({'; '.join(trainings)})."
        )
    for encoder, seeds in text_networks.SEEDS.items():
        if any(network.seed in seeds and in_run(network, caches) for network in networks_of(encoder)):
            sentences.append(
                f"The {encoder} networks with seeds {seeds[0]} to {seeds[-1]} saw one pass over the"
                f" {text_networks.FIRST_ROWS_SEEN:,} training rows of {text_networks.FIRST_TASK.upper()} and then about"
                f" {text_networks.SEED_ROWS_SEEN:,} rows of their task, exits trained together"
                f" (recipe {text_networks.CHOSEN_RECIPE})."
            )
    return [
        *sentences,
        "fixtures/README.md says more: how every network was trained, which training files had been cut before, what"
        " stands in for the dev sets of QQP and MNLI, and which tasks the pretrained encoders have seen.",
    ]


def page_options(runs: Sequence[FinishedRun]) -> dict[str, Any]:
    """What the page asks and says beside its numbers: whose exit rates, and what is not as in the paper."""
    recipes = {recipe.name for recipe in make_fixtures.RECIPES}
    stood = sum(name in recipes for run in runs for name in run.suite["caches"])
    differences = (
        "Under these differences: 12-layer MPNet and 6-layer MiniLM here, BERT-base and ALBERT-base there; the mean"
        " over tokens and a pooler for every layer here, the first token and one shared pooler there; minutes of"
        " training on parts of the training files here; dev rows with thresholds and parameters chosen on other rows"
        " here, GLUE's test server there; one value at about 2x and no interval there,"
        f" {stood} caches with intervals here."
    )
    return {"asked": RATES_OF, "differences": [differences] if stood else []}


def networks_of(encoder: str) -> list[text_networks.Network]:
    """The networks on an encoder."""
    return [network for network in text_networks.NETWORKS if network.encoder == encoder]


def in_run(network: text_networks.Network, caches: Collection[str]) -> bool:
    """Whether a cache of the network is among some caches."""
    return any(network.cache_name(split) in caches for split in network.splits)


def kept_runs() -> list[FinishedRun]:
    """The runs whose rows are kept, in the order of the page."""
    return [FinishedRun(KEPT / name) for name in SUITES if (KEPT / name / "run.json").is_file()]


def pages(runs: Sequence[FinishedRun], evidence: RunsTogether) -> dict[Path, str]:
    """The page and the tables of each suite, by path."""
    names = [str(run.suite["name"]) for run in runs]
    links = ", ".join(f"[{name}]({FOLDER}/{name}.md)" for name in names)
    files = {PAGE: evidence_page(evidence, ORIGIN, FOLDER, links, training(runs), **page_options(runs))}
    for name, run in zip(names, runs, strict=True):
        tables = findings(run, ORIGIN, training([run]))
        assert tables is not None  # RunsTogether would have raised
        files[PAGE.parent / FOLDER / f"{name}.md"] = tables
    return files


def pictures(runs: Sequence[FinishedRun], evidence: RunsTogether) -> dict[Path, str]:
    """The page's pictures, by path."""
    charts = [answer.chart for answer in answers_of(evidence, **page_options(runs))]
    return {PAGE.parent / FOLDER / f"{chart.name}.svg": drawn_svg(chart) for chart in charts}


def main() -> None:
    """Keep the runs on the command line, if there are any, and write the pages."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run_dirs", nargs="*", type=Path, metavar="RUN_DIR", help="such as out/paper")
    options = parser.parse_args()
    try:
        for run_dir in options.run_dirs:
            keep(run_dir)
        runs = kept_runs()
        evidence = RunsTogether(runs)
        for path, text in {**pages(runs, evidence), **pictures(runs, evidence)}.items():
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)
    except InputError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
