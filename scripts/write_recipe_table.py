"""Writes the tables of ``docs/recipes.md`` from runs of the suites that ``scripts/make_recipe_caches.py`` writes.

    python scripts/write_recipe_table.py [RUN ...]

What the tables need of the runs is kept in ``fixtures/studies/recipes.csv``, because most of the networks are not among
the fixtures. A run's numbers take the place of those of its caches there, and all others stay: networks were trained on
several machines. Without a run the tables are made of that file.

A number is the mean over the trainings of a recipe. Its 95% interval holds both what other rows and what other
trainings would change: the variance of a mean over rows that all networks share, and the variance between trainings
over their number, with Student's quantile for so few trainings (Satterthwaite's degrees of freedom). Of a single
training it is the run's own interval, over rows alone.
"""

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parent))

from recipe_differences import differences_table

from exitbench.atomic_files import write_text
from exitbench.benchmarks.statistics.crossed_errors import MeanError, network_variance
from exitbench.cache import TASKS
from exitbench.models.training.recipe_registry import load_recipes
from exitbench.signals import load_registry

PAGE = Path(__file__).resolve().parents[1] / "docs" / "recipes.md"
BEGIN, END = "<!-- begin: written by scripts/write_recipe_table.py -->\n", "<!-- end -->\n"
STUDY = PAGE.parents[1] / "fixtures" / "studies" / "recipes.csv"
DIFFERENCES = "<!-- begin: differences, written by scripts/write_recipe_table.py -->\n"
SEVERAL = "sst2"
"""The task on which every recipe has several trainings."""
ENTROPY, LAYERS, SPEED_UP = "deebert", (2, 4), "speed_up=2"


KEPT = ["cache", "model", "task", "signal", "parameters", "operating_point", "layer", "measure"]
KEPT += ["value", "low", "high", "std_err"]
"""The columns of the kept numbers."""


def kept(results: pd.DataFrame) -> pd.DataFrame:
    """The numbers that the tables are made of, of all networks: entropy, each recipe's own rule and the last layer."""
    recipes, registry = load_recipes(), load_registry()
    rules = {f"minilm-l6, {name}": registry.make(recipes.make(name).exit_rule) for name in recipes.classes}
    rows = results[results.model.isin(rules) & (results.protocol == "cross-fit") & (results.cache != "")]
    rows = rows[(rows.status == "ok") & (rows.decisions == "")]
    own = rows.model.map(lambda model: rules[model].name) == rows.signal
    own &= rows.model.map(lambda model: rules[model].parameters_text) == rows.parameters
    entropy = (rows.signal == ENTROPY) & (rows.parameters == registry.make(ENTROPY).parameters_text)
    score = rows.measure == rows.task.map(task_score)
    ranking = (rows.measure == "dis") & rows.layer.isin(LAYERS)
    near = (own | entropy) & (ranking | (score & (rows.operating_point == SPEED_UP)))
    last = (rows.signal == "final") & (rows.operating_point == "final") & score
    return rows[near | last][KEPT].sort_values(KEPT[:8])


def joined(before: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """The numbers kept before, those of the measured caches replaced as a whole; a line for each number of a cache."""
    others = before[~before.cache.isin(measured.cache)]
    return pd.concat([others, measured], ignore_index=True).sort_values(KEPT[:8], ignore_index=True)


def task_score(task: str) -> str:
    """The measure that a task is judged by; a run has accuracy beside F1."""
    return "f1" if TASKS[task].metric == "f1" else "accuracy"


def cell(rows: pd.DataFrame, networks: int) -> str:
    """The mean of one number over networks with its interval; how many have it where not all do; a dash for none."""
    if rows.empty:
        return "-"
    values = rows.value.tolist()
    mean, low, high = values[0], rows.low.iloc[0], rows.high.iloc[0]
    if len(values) > 1:
        mean = statistics.fmean(values)
        on_rows, between = statistics.fmean(rows.std_err), network_variance(values)
        degrees = (len(values) - 1) * ((on_rows**2 + between) / between) ** 2 if between else math.inf
        error = MeanError(on_rows, math.sqrt(between), degrees)
        low, high = (mean + sign * error.quantile * error.std_err for sign in (-1, 1))
    some = "" if len(values) == networks else f" ({len(values)} of {networks})"
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]{some}"


def parts_of_rule(rows: pd.DataFrame, rule: str) -> list[pd.DataFrame]:
    """DIS at the layers and the score at twice the speed, of one exit rule."""
    signal = load_registry().make(rule)
    rows = rows[(rows.signal == signal.name) & (rows.parameters == signal.parameters_text)]
    ranking = [rows[(rows.measure == "dis") & (rows.layer == layer)] for layer in LAYERS]
    return [*ranking, rows[rows.operating_point == SPEED_UP]]


def of_rule(rows: pd.DataFrame, rule: str, networks: int) -> list[str]:
    """The cells of :func:`parts_of_rule`."""
    return [cell(part, networks) for part in parts_of_rule(rows, rule)]


def task_table(scored: pd.DataFrame) -> str:
    """A line for each recipe that has networks on a task."""
    recipes = load_recipes()
    heads = [f"DIS, layer {layer}" for layer in LAYERS] + ["score at 2x"]
    columns = ["recipe", "networks", "last layer", *(f"entropy: {head}" for head in heads)]
    columns += ["own rule", *(f"own: {head}" for head in heads)]
    lines = [f"| {' | '.join(columns)} |", f"|---|--:|{'---|' * (len(columns) - 2)}"]
    for name in sorted(recipes.classes):
        rows = scored[scored.model == f"minilm-l6, {name}"]
        if rows.empty:
            continue
        rule, networks = recipes.make(name).exit_rule, rows.cache.nunique()
        last = rows[rows.signal == "final"]
        own = ["as entropy"] * 3 if rule == ENTROPY else of_rule(rows, rule, networks)
        cells = [f"`{name}`", str(networks), cell(last, networks), *of_rule(rows, ENTROPY, networks), f"`{rule}`", *own]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def generated(scored: pd.DataFrame) -> str:
    """A table for each task, of the kept numbers."""
    tasks = sorted(scored.task.unique(), reverse=True)
    return "\n".join(
        f"**{task}**{', scored by F1' if task_score(task) == 'f1' else ''}\n\n{task_table(scored[scored.task == task])}"
        for task in tasks
    )


def trainings(scored: pd.DataFrame) -> dict[str, dict[str, Sequence[float]]]:
    """The values of every number of the tables by recipe, where all of at least two trainings have one.

    A number that fewer than two recipes have is left out: there is nothing to compare.
    """
    recipes = load_recipes()
    titles = ["last layer", *(f"entropy: DIS, layer {layer}" for layer in LAYERS), "entropy: score at 2x"]
    numbers: dict[str, dict[str, Sequence[float]]] = {title: {} for title in [*titles, "own: score at 2x"]}
    for name in sorted(recipes.classes):
        rows = scored[scored.model == f"minilm-l6, {name}"]
        own = parts_of_rule(rows, recipes.make(name).exit_rule)[-1]
        parts = [rows[rows.signal == "final"], *parts_of_rule(rows, ENTROPY), own]
        for title, part in zip(numbers, parts, strict=True):
            if 1 < len(part) == rows.cache.nunique():
                numbers[title][name] = part.value.tolist()
    return {title: each for title, each in numbers.items() if len(each) > 1}


def as_text(numbers: pd.DataFrame) -> str:
    """The kept numbers as a file."""
    return numbers.to_csv(index=False, float_format="%.4f", lineterminator="\n")


def study() -> pd.DataFrame:
    """The kept numbers."""
    return pd.read_csv(STUDY, keep_default_na=False, na_values={"layer": "", "low": "", "high": "", "std_err": ""})


def replaced(page: str, begin: str, text: str) -> str:
    """The page with another text between a mark and the next end."""
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    """Replace what stands between the marks."""
    if runs := sys.argv[1:]:
        numbers = study()
        for run in runs:
            measured = kept(pd.read_parquet(Path(run) / "results.parquet"))
            if measured.empty:
                raise SystemExit(f"{run}: expected networks trained by the recipes, found none")
            numbers = joined(numbers, measured)
        write_text(STUDY, as_text(numbers))
    numbers = study()
    page = replaced(
        PAGE.read_text(encoding="utf-8"), DIFFERENCES, differences_table(trainings(numbers[numbers.task == SEVERAL]))
    )
    write_text(PAGE, replaced(page, BEGIN, generated(numbers)))


if __name__ == "__main__":
    main()
