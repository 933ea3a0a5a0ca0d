"""Writes the part of ``fixtures/README.md`` that comes from the caches: commands, versions, accuracy per layer.

python scripts/describe_fixtures.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import describe_networks  # noqa: E402
import make_fixtures  # noqa: E402
from scipy.stats import spearmanr  # noqa: E402

from exitbench.atomic_files import write_text  # noqa: E402
from exitbench.cache import Cache, cache_card  # noqa: E402

README = ROOT / "fixtures" / "README.md"
BEGIN, END = "<!-- begin: written by scripts/describe_fixtures.py -->\n", "<!-- end -->\n"


def caches() -> list[tuple[make_fixtures.Recipe, Cache]]:
    """The caches that are there, each with its recipe, in the order in which they are made."""
    return [
        (recipe, Cache(make_fixtures.CACHES / recipe.name))
        for recipe in make_fixtures.RECIPES
        if (make_fixtures.CACHES / recipe.name / "manifest.json").is_file()
    ]


def described() -> list[Cache]:
    """Every cache that the page speaks of."""
    return [
        *(cache for _, cache in caches()),
        *(cache for family in describe_networks.families() for cache in family.caches),
    ]


def growth(accuracy: list[float]) -> tuple[float, float]:
    """How accuracy per layer grows with depth: Spearman's correlation with the layer, and last minus first."""
    return float(spearmanr(range(len(accuracy)), accuracy).statistic), accuracy[-1] - accuracy[0]


def majority(classes: dict[str, int | None]) -> float | None:
    """The share of the most frequent class, in percent; ``None`` without labels."""
    counts = [count for count in classes.values() if count is not None]
    return 100 * max(counts) / sum(counts) if counts else None


def overview() -> str:
    """One line for each cache."""
    names = ("cache", "rows", "classes", "layers", "features", "size")
    names += ("majority class", "first layer", "last layer", "Spearman")
    lines = [f"| {' | '.join(names)} |", "|---|--:|--:|--:|---|--:|--:|--:|--:|--:|"]
    for cache in described():
        card = cache_card(cache)
        accuracy, share = card["accuracy_per_layer"], majority(card["classes"])
        largest = "" if share is None else f"{share:.1f}"
        lines.append(
            f"| `{cache.name}` | {card['rows']:,} | {len(card['classes'])} | {card['layers']} "
            f"| {card['features'] or 'compact'} | {card['bytes'] / 1e6:.1f} MB | {largest} "
            f"| {accuracy[0]:.1f} | {accuracy[-1]:.1f} | {growth(accuracy)[0]:.2f} |"
        )
    return "\n".join(lines) + "\n"


def section(recipe: make_fixtures.Recipe, cache: Cache) -> str:
    """The part on one cache."""
    card = cache_card(cache)
    accuracy, provenance = card["accuracy_per_layer"], card["provenance"]
    subset = f"{recipe.rows:,} random rows of the training file" if recipe.rows else "every row of the training file"
    classes = ", ".join(f"{name} ({count:,})" for name, count in card["classes"].items())
    versions = ", ".join(f"{name} {number}" for name, number in provenance["versions"].items())
    epochs = f"{recipe.epochs} epoch{'s' if recipe.epochs > 1 else ''}"
    layers = " | ".join(str(number) for number in range(1, len(accuracy) + 1))
    return f"""### {cache.name}

Trained on {subset}, {epochs}; classes of the {card["rows"]:,} rows: {classes}.

```
{" ".join(["exitbench", *make_fixtures.train_words(recipe)])}
{provenance["command"]}
```

| layer | {layers} |
|---|{"--:|" * len(accuracy)}
| accuracy | {" | ".join(f"{value:.1f}" for value in accuracy)} |

Collected on {provenance["device"]} in {provenance["dtype"]} with {versions}.
"""


def generated() -> str:
    """Everything between the two marks."""
    families = [family for family in describe_networks.families() if family.caches]
    networks = [describe_networks.section(family) for family in families]
    return "\n".join([overview(), *(section(recipe, cache) for recipe, cache in caches()), *networks])


def main() -> None:
    """Replace what stands between the marks."""
    before, rest = README.read_text(encoding="utf-8").split(BEGIN)
    write_text(README, f"{before}{BEGIN}\n{generated()}\n{END}{rest.split(END)[1]}")


if __name__ == "__main__":
    main()
