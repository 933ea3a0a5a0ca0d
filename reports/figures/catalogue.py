"""All figures of a run: which there are, where they belong, and what they say to those who cannot see them."""

from __future__ import annotations

from dataclasses import dataclass

from exitbench.reports.figures.looks import MOST_BANDS, FigureSpec
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import slug, table_name


@dataclass(frozen=True)
class ReportFigure:
    """A figure for a page: where it belongs and what it says to those who cannot see it."""

    name: str
    title: str
    topic: str
    caption: str
    alt: str
    cache: str
    protocol: str
    spec: FigureSpec


def figures_of(run: FinishedRun) -> list[ReportFigure]:
    """Every figure the run has data for, by question; per task the leading protocol's where all look alike."""
    figures: list[ReportFigure] = []
    primary = f"{float(run.suite['primary_speed_up']):g}×"
    drawn = set(run.rows.distinct("cache", "protocol"))

    def add(kind: str, topic: str, title: str, caption: str, spec: FigureSpec, *name: str) -> None:
        parts = [kind, *name]
        if len(run.protocols) > 1:
            parts.append(spec.protocol)
        alt = f"{title}. {caption} The numbers are in the tables of the same question."
        figures.append(
            ReportFigure(
                name="-".join(parts),
                title=title,
                topic=topic,
                caption=caption,
                alt=alt,
                cache=spec.cache,
                protocol=spec.protocol,
                spec=spec,
            )
        )

    for protocol in run.protocols:
        for cache in run.caches:
            if (cache.name, protocol) not in drawn:
                continue
            subtitle = f"{run.task_title(cache)}, {cache.model}, {protocol}"
            spec = FigureSpec("trade-off", protocol, cache=cache.name)
            bands = "bands 95% intervals" if len(run.entries) <= MOST_BANDS else "without bands for so many signals"
            add(
                "trade-off",
                "main",
                f"Task score against speed-up: {subtitle}",
                f"Lines are trade-offs, {bands}, markers the matched operating points; hollow markers are published "
                "figures of another backbone.",
                spec,
                slug(cache.name),
            )
            if protocol != run.leading_protocol([cache]):
                continue
            layers = ", ".join(map(str, cache.table_layers))
            add(
                "exits",
                "main",
                f"Exit layers near {primary}: {subtitle}",
                "How many samples exit at each layer, right and wrong answers apart.",
                FigureSpec("exits", protocol, cache=cache.name),
                slug(cache.name),
            )
            add(
                "risk",
                "dis",
                f"Risk against coverage at layers {layers}: {subtitle}",
                "Error rate among the most certain share of the samples, lower is better.",
                FigureSpec("risk", protocol, cache=cache.name),
                slug(cache.name),
            )
            add(
                "scores",
                "dis",
                f"Scores of right and wrong predictions at layers {layers}: {subtitle}",
                "The further apart the two, the better the signal tells right from wrong.",
                FigureSpec("scores", protocol, cache=cache.name),
                slug(cache.name),
            )
        for number, group in enumerate(run.groups):
            if not any((cache.name, protocol) in drawn for cache in group.caches):
                continue
            subtitle = f"{run.group_title(group)}, {protocol}"
            name = table_name(run, "", group=group).strip("-")
            name_parts = [name] if name else []
            add(
                "dis",
                "dis",
                f"DIS by layer and signal: {subtitle}",
                "100 is a perfect ranking, 50 is chance.",
                FigureSpec("dis", protocol, group=number),
                *name_parts,
            )
            add(
                "rates",
                "rates",
                f"Premature against delayed exiting rates: {subtitle}",
                "Filled: all decisions; hollow: reached decisions. Nearer to the lower left corner is better.",
                FigureSpec("rates", protocol, group=number),
                *name_parts,
            )
            statistics = {row["statistic"] for row in run.across_of(group, protocol)}
            if "average_rank" in statistics:
                add(
                    "ranks",
                    "across",
                    f"Average ranks over tasks: {subtitle}",
                    "The best on the left. A bar joins signals that are not shown to differ: their ranks lie within "
                    "the critical difference.",
                    FigureSpec("ranks", protocol, group=number),
                    *name_parts,
                )
            if "profile" in statistics:
                add(
                    "profile",
                    "across",
                    f"Performance profile over tasks and networks: {subtitle}",
                    "The share of runs whose normalised score (0 random exits, 1 the oracle) is higher, with 95% "
                    "bands; the higher line is better.",
                    FigureSpec("profile", protocol, group=number),
                    *name_parts,
                )
            for position, entry in enumerate(run.entries):
                if entry.is_grid and len(entry.varied) == 1:
                    again = [grid.signal for grid in run.entries if grid.is_grid].count(entry.signal) > 1
                    add(
                        "parameters",
                        "parameters",
                        f"{run.label(entry.signal, entry.parameters)} by {entry.varied[0]}: {subtitle}",
                        f"Task score near {primary} and DIS at a middle layer for each value, with 95% intervals.",
                        FigureSpec("parameters", protocol, group=number, entry=position),
                        slug(entry.text if again else entry.signal),
                        *name_parts,
                    )
    return figures
