"""Writes the table of ``docs/recipes.md`` from runs of the suite ``recipes`` and of more caches of its kind.

python scripts/write_recipe_table.py RUN ...
"""

import sys
from pathlib import Path

import pandas as pd

from exitbench.atomic_files import write_text
from exitbench.models.training.recipe_registry import load_recipes
from exitbench.signals import load_registry

PAGE = Path(__file__).resolve().parents[1] / "docs" / "recipes.md"
BEGIN, END = "<!-- begin: written by scripts/write_recipe_table.py -->\n", "<!-- end -->\n"
ENTROPY, LAYERS, SPEED_UP = "deebert", (2, 4), "speed_up=2"


def cell(rows: pd.DataFrame) -> str:
    """The numbers of one place in the table, a network each, with their intervals; a dash where there is none."""
    return " / ".join(f"{row.value:.1f} [{row.low:.1f}, {row.high:.1f}]" for row in rows.itertuples()) or "-"


def of_rule(rows: pd.DataFrame, rule: str) -> list[str]:
    """DIS at the layers and the score at twice the speed, of one exit rule."""
    signal = load_registry().make(rule)
    rows = rows[(rows.signal == signal.name) & (rows.parameters == signal.parameters_text) & (rows.status == "ok")]
    at_speed = rows[(rows.operating_point == SPEED_UP) & rows.measure.isin(["accuracy", "f1"]) & (rows.decisions == "")]
    ranking = [cell(rows[(rows.measure == "dis") & (rows.layer == layer)]) for layer in LAYERS]
    return [*ranking, cell(at_speed)]


def generated(results: pd.DataFrame) -> str:
    """A table for each task, a line for each recipe."""
    recipes, parts = load_recipes(), []
    scored = results[results.protocol == "cross-fit"]
    heads = [f"DIS, layer {layer}" for layer in LAYERS] + ["score at 2x"]
    columns = [
        "recipe",
        "last layer",
        *(f"entropy: {head}" for head in heads),
        "own rule",
        *(f"own: {head}" for head in heads),
    ]
    for task in sorted(scored.task.unique(), reverse=True):
        lines = [f"| {' | '.join(columns)} |", f"|---|{'---|' * (len(columns) - 1)}"]
        for name in sorted(recipes.classes):
            rows = scored[(scored.task == task) & (scored.model == f"minilm-l6, {name}")].sort_values("cache")
            if rows.empty:
                continue
            rule = recipes.make(name).exit_rule
            last = rows[(rows.signal == "final") & rows.measure.isin(["accuracy", "f1"])].drop_duplicates("cache")
            own = ["as entropy"] * 3 if rule == ENTROPY else of_rule(rows, rule)
            lines.append(f"| {' | '.join([f'`{name}`', cell(last), *of_rule(rows, ENTROPY), f'`{rule}`', *own])} |")
        parts.append(f"**{task}**\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def main() -> None:
    """Replace what stands between the marks."""
    results = pd.concat([pd.read_parquet(Path(run) / "results.parquet") for run in sys.argv[1:]])
    before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
    write_text(PAGE, f"{before}{BEGIN}\n{generated(results)}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
