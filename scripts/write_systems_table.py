"""Writes the systems of the paper's main table into ``docs/recipes.md``: what runs for each, and its scores.

    python scripts/write_systems_table.py [RUN ...]

A run shows each system in the closest form that it has, on all networks of that form. What the tables need of a run is
kept in ``fixtures/studies/systems.csv``, because most networks are not among the fixtures; a run's numbers take the
place of those of its networks, and all others stay. Without a run the tables are made of that file, of what
``studies/recipes.csv`` holds of further networks whose recipe names the system's exit rule as its own, and the list of
systems of ``published/systems.toml``. A number is the mean over the networks of a task, with the interval of
``write_recipe_table.py``.
"""

import math
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))

import write_recipe_table as recipe_table
from write_recipe_table import PAGE, cell, replaced

from exitbench.atomic_files import write_text
from exitbench.benchmarks.results.operating_point import FINAL, at_speed_up
from exitbench.cache import TASKS
from exitbench.models.training.recipe_registry import load_recipes
from exitbench.reports.run_data.finished_run import TASK_TITLES, FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.systems import paper_systems
from exitbench.reports.tables.systems.systems_table import SystemHere, shown_as
from exitbench.signals import load_registry

STUDY = PAGE.parents[1] / "fixtures" / "studies" / "systems.csv"
LIST = "<!-- begin: the systems, written by scripts/write_systems_table.py -->\n"
RECIPES = "<!-- begin: systems by their recipes, written by scripts/write_systems_table.py -->\n"
SEEDS = "<!-- begin: systems on five trainings, written by scripts/write_systems_table.py -->\n"
SPEED = 2.0
NUMBERS = ["value", "low", "high", "std_err"]
KEPT = ["cache", "model", "task", "system", "ours", "signal", "status"]
KEPT += [*NUMBERS, "exact", *(f"last_{column}" for column in NUMBERS)]
"""The columns of the kept numbers; ``exact`` is the expected score at exactly the wanted speed-up."""


@dataclass(frozen=True)
class Section:
    """A table: the tasks of its columns with the networks each has, and whether a model belongs to it."""

    mark: str
    networks: dict[str, int]
    by_recipe: bool

    def has(self, model: str) -> bool:
        """Networks that were trained to compare recipes name theirs behind a comma."""
        return (", " in model) == self.by_recipe


SECTIONS = (
    Section(RECIPES, {"sst2": 3, "qqp": 1}, by_recipe=True),
    Section(SEEDS, dict.fromkeys(("sst2", "qqp", "mnli", "mrpc", "qnli", "rte"), 5), by_recipe=False),
)


def kept(run: FinishedRun) -> pd.DataFrame:
    """A line for every system and network that shows it, under the run's leading protocol.

    Of a form that several recipes train, networks by the first of them count.
    """
    protocol = run.leading_protocol()
    rows = [
        numbers_of(run, protocol, system.name, here, cache)
        for system in paper_systems()
        for here in shown_as(run, protocol, system)
        for cache in here.group.caches
        if cache.recipe.partition("[")[0] in here.form.recipes[:1] or not here.form.recipes
    ]
    return pd.DataFrame(rows, columns=KEPT).sort_values(KEPT[:4], ignore_index=True)


def numbers_of(
    run: FinishedRun, protocol: str, system: str, here: SystemHere, cache: CacheMetadata
) -> dict[str, object]:
    """The score of a system on a network near the speed-up and at exactly it, and that of the last layer."""
    signal, parameters, measure = here.entry.signal, here.entry.parameters, cache.measure
    near = run.row(cache, protocol, signal, parameters, measure, at_speed_up(SPEED))
    exact = run.row(cache, protocol, signal, parameters, measure, at_speed_up(SPEED), None, "randomised")
    last = run.row(cache, protocol, "final", "", measure, FINAL)
    if near is None or last is None:
        raise SystemExit(f"{run.path}: expected scores near {SPEED:g}x and of the last layer of {cache.name}")
    fields: dict[str, object] = {"cache": cache.name, "model": cache.model, "task": cache.task, "system": system}
    fields |= {"ours": here.form.ours, "signal": here.form.signal, "status": near.status}
    fields |= {column: getattr(near, column) for column in NUMBERS} | {"exact": exact.value if exact else math.nan}
    return fields | {f"last_{column}": getattr(last, column) for column in NUMBERS}


def of_own_rules(recipes: pd.DataFrame) -> pd.DataFrame:
    """The same lines of the numbers kept of recipes: of networks by a recipe whose exit rule is a system's form.

    A score that is not near the speed-up is not among those; such a network has the status ``elsewhere``.
    """
    known, rows = load_recipes(), []
    for system in paper_systems():
        for form in system.forms:
            signal = load_registry().make(form.signal)
            for recipe in form.recipes:
                if load_registry().make(known.make(recipe).exit_rule).text != signal.text:
                    continue
                trained = recipes[recipes.model == f"minilm-l6, {recipe}"]
                for cache, own in trained.groupby("cache"):
                    near = recipe_table.parts_of_rule(own, form.signal)[-1]
                    last = own[own.signal == "final"].iloc[0]
                    fields: dict[str, object] = {"cache": cache, "model": last.model, "task": last.task}
                    fields |= {"system": system.name, "ours": form.ours, "signal": form.signal}
                    fields |= {"status": "ok" if len(near) else "elsewhere"}
                    fields |= {column: near[column].iloc[0] if len(near) else math.nan for column in NUMBERS}
                    rows.append(fields | {f"last_{column}": last[column] for column in NUMBERS})
    return pd.DataFrame(rows, columns=KEPT)


def joined(before: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """The numbers kept before, those of the measured networks replaced as a whole."""
    others = before[~before.cache.isin(measured.cache)]
    return pd.concat([others, measured], ignore_index=True).sort_values(KEPT[:4], ignore_index=True)


def score(rows: pd.DataFrame, networks: int) -> str:
    """Near the speed-up, over the networks that come near it by deciding; where none does, marked as in the report."""
    fine = rows[rows.status == "ok"]
    if len(fine) or rows.empty:
        return cell(fine, networks)
    at_exactly = rows[(rows.status == "unmatched") & rows.exact.notna()]
    if len(at_exactly):
        some = "" if len(at_exactly) == networks else f" ({len(at_exactly)} of {networks})"
        return f"{statistics.fmean(at_exactly.exact):.1f}†{some}"
    fixed = rows[rows.status == "degenerate"]
    return f"{cell(fixed, networks)}§" if len(fixed) else "-"


def last_layer(rows: pd.DataFrame, networks: int) -> str:
    """The score of the last layer of some networks."""
    own = rows[[f"last_{column}" for column in NUMBERS]]
    return cell(own.set_axis(NUMBERS, axis="columns"), networks)


def title(task: str) -> str:
    """A task as it is printed, with its measure where that is not accuracy."""
    return TASK_TITLES[task] + (" F1" if TASKS[task].metric == "f1" else "")


def recipes_table(rows: pd.DataFrame, section: Section) -> str:
    """A line for each system with the score of its own networks and that of their last layer."""
    columns = [f"{title(task)}: {what}" for task in section.networks for what in ("near 2x", "last layer")]
    lines = [f"| system | ours | network | {' | '.join(columns)} |", f"|---|---|---|{'--:|' * len(columns)}"]
    for system in paper_systems():
        own = rows[rows.system == system.name]
        for model in sorted(own.model.unique()):
            shown, cells = own[own.model == model], []
            for task, networks in section.networks.items():
                of_task = shown[shown.task == task]
                cells += [score(of_task, networks), last_layer(of_task, networks)]
            trained = f"`{model.partition(', ')[2]}`"
            lines.append(f"| {system.name} | {shown.ours.iloc[0]} | {trained} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def seeds_table(rows: pd.DataFrame, section: Section) -> str:
    """A line for each system on the networks that all share, and the last layer of these below."""
    columns = [title(task) for task in section.networks]
    lines = [f"| system | ours | {' | '.join(columns)} |", f"|---|---|{'--:|' * len(columns)}"]
    for system in paper_systems():
        own = rows[rows.system == system.name]
        cells = [score(own[own.task == task], networks) for task, networks in section.networks.items()]
        if len(own):
            lines.append(f"| {system.name} | {own.ours.iloc[0]} | {' | '.join(cells)} |")
    networks_once = rows.drop_duplicates("cache")
    plain = networks_once[~networks_once.model.str.endswith(")")]  # a derived cache has the last layer of its source
    cells = [last_layer(plain[plain.task == task], networks) for task, networks in section.networks.items()]
    lines.append(f"| last layer | | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def systems_list() -> str:
    """Every form of every system of the paper's main table, the closest first."""
    lines = ["| system | ours | what runs | where it differs |", "|---|---|---|---|"]
    for system in paper_systems():
        for form in system.forms:
            lines.append(f"| {system.name} | {form.ours} | {form.needs} | {form.differs} |")  # noqa: PERF401
    return "\n".join(lines) + "\n"


def generated(numbers: pd.DataFrame) -> dict[str, str]:
    """What stands behind each mark of the page."""
    texts = {LIST: systems_list()}
    for section in SECTIONS:
        rows = numbers[numbers.model.map(section.has) & numbers.task.isin(list(section.networks))]
        if section.by_recipe:  # a run of a part of the networks shows other systems' rules on them, too
            rows = rows[rows.ours.str.startswith("trained")]
        texts[section.mark] = (recipes_table if section.by_recipe else seeds_table)(rows, section)
    return texts


def all_numbers() -> pd.DataFrame:
    """What is known of all networks."""
    return joined(of_own_rules(recipe_table.study()), study())


def study() -> pd.DataFrame:
    """The kept numbers."""
    return pd.read_csv(STUDY, dtype=dict.fromkeys(KEPT[:7], str), keep_default_na=False, na_values=[""])


def main() -> None:
    """Replace what stands between the marks."""
    numbers = study() if STUDY.exists() else pd.DataFrame(columns=KEPT)
    for run in sys.argv[1:]:
        measured = kept(FinishedRun(Path(run)))
        if measured.empty:
            raise SystemExit(f"{run}: expected a run that shows systems of the paper, found none")
        numbers = joined(numbers, measured)
    if sys.argv[1:]:
        write_text(STUDY, numbers.to_csv(index=False, float_format="%.4f", lineterminator="\n"))
    page = PAGE.read_text(encoding="utf-8")
    for mark, text in generated(all_numbers()).items():
        page = replaced(page, mark, text)
    write_text(PAGE, page)


if __name__ == "__main__":
    main()
