"""Rows of the result files as cells: digits that fit the interval, marks, and notes."""

from __future__ import annotations

import math
from typing import Any

from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.vocabulary import is_claimed
from exitbench.reports.run_data.numbers import Number, fixed, number, p_text
from exitbench.reports.run_data.provenance import Pair
from exitbench.reports.run_data.published import WHAT, PublishedFigure
from exitbench.reports.tables.table import Cell, missing

AVERAGE = "AVG"
"""The heading of averages over tasks."""
PERCENT_TIED = 5.0
"""From this share on, tied pairs are printed beside a DIS instead of only when hovering."""


def result_number(row: Row, digits: int | None = None) -> Number:
    """The number of one row."""
    return number(row.value, row.low, row.high, key=row.key, digits=digits)


def row_notes(row: Row, *more: str) -> tuple[str, ...]:
    """What a reader who hovers wants to know of a number, besides the interval that its cell shows."""
    parts = []
    if row.n:
        parts.append(f"{row.n} samples")
    if row.threshold is not None and not math.isnan(row.threshold):
        which = "median threshold of the folds" if row.protocol == "cross-fit" else "threshold"
        parts.append(f"{which} {row.threshold:.6g}")
    return (*parts, *filter(None, more))


def cell_of(row: Row | None, text: str, numbers: tuple[Number, ...], *more: str) -> Cell:
    """A cell with the marks and the status of ``row``."""
    if row is None:
        return missing("the run has no such number")
    ok = row.status == "ok"
    return Cell(
        text,
        numbers,
        best=bool(row.best),
        tied=bool(row.tied_with_best),
        status=row.status,
        reason="" if ok else row.reason,
        notes=row_notes(row, *more, row.reason if ok else ""),
    )


def has_value(row: Row | None) -> bool:
    """Whether there is a number to print."""
    return row is not None and not math.isnan(row.value)


def undefined_cell(row: Row | None) -> Cell:
    """A cell for a row without a value, or for no row."""
    if row is None:
        return missing("the run has no such number")
    return Cell("–", status=row.status, reason=row.reason)


def number_cell(row: Row | None, digits: int | None = None, suffix: str = "") -> Cell:
    """One number, such as a rate."""
    if row is None or not has_value(row):
        return undefined_cell(row)
    value = result_number(row, digits)
    return cell_of(row, value.text + suffix, (value,))


def ratio(row: Row | None) -> Cell:
    """A speed-up."""
    return number_cell(row, digits=2, suffix="×")


def speed_at_loss(speed: Row | None, loss: Row | None) -> Cell:
    """A largest speed-up within a loss with the loss that the scored rows realise, ``1.83× (0.41)``.

    Where they lose more than was asked for, the cell says so: ``2.19× (0.60, over by 0.10)``.
    """
    if speed is None or not has_value(speed) or loss is None or not has_value(loss):
        return ratio(speed)
    fast, lost = result_number(speed, digits=2), result_number(loss, digits=2)
    over = fixed(loss.value - loss.operating_point.number, 2)
    beyond = f", over by {over}" if float(over) > 0 else ""
    return cell_of(speed, f"{fast.text}× ({lost.text}{beyond})", (fast, lost))


def score_at_speed(score: Row | None, speed: Row | None, exact: Row | None = None, exactly: str = "") -> Cell:
    """The paper's form ``score (speed-up×)``; beside an unmatched score the value at ``exactly`` that speed-up."""
    if score is None or not has_value(score):
        return undefined_cell(score)
    shown_score = result_number(score)
    numbers, text = [shown_score], shown_score.text
    if speed is not None and has_value(speed):
        two = result_number(speed, digits=2)
        numbers.append(two)
        text += f" ({two.text}×)"
    if exact is not None and has_value(exact):
        three = result_number(exact, digits=max(0, shown_score.text[::-1].find(".")))
        numbers.append(three)
        text += f"; {three.text} at {exactly}"
    return cell_of(score, text, tuple(numbers))


def dis_cell(dis: Row | None, tied: Row | None) -> Cell:
    """A DIS, with the share of tied pairs beside it where it matters."""
    if dis is None or not has_value(dis):
        return undefined_cell(dis)
    shown_dis = result_number(dis)
    if tied is None or not has_value(tied) or tied.value == 0:
        return cell_of(dis, shown_dis.text, (shown_dis,))
    share = result_number(tied, digits=0 if tied.value >= PERCENT_TIED else 2)
    if tied.value < PERCENT_TIED:
        return cell_of(dis, shown_dis.text, (shown_dis,), f"{share.text}% of pairs tied")
    return cell_of(dis, f"{shown_dis.text} ({share.text}% tied)", (shown_dis, share))


def pair_cell(pair: Pair, key: tuple[Any, ...], sign: int) -> Cell:
    """A paired difference with its adjusted p-value; ``sign`` is -1 when the row of the table is the second signal."""
    difference, adjusted = float(pair["difference"]), float(pair["p_adjusted"])
    if math.isnan(difference):
        return Cell("–", status=pair["status"], reason=pair["reason"])
    low, high = sorted((sign * float(pair["low"]), sign * float(pair["high"])))
    shown_difference = number(sign * difference, low, high, source="pairs", key=key, column="difference")
    two = Number(adjusted, p_text(adjusted), source="pairs", key=key, column="p_adjusted")
    signed = (
        shown_difference.text
        if shown_difference.text.startswith("-") or not shown_difference.text.strip("0.")
        else f"+{shown_difference.text}"
    )
    p = f"p {two.text}" if two.text.startswith("<") else f"p={two.text}"
    numbers = (shown_difference, two) if not math.isnan(adjusted) else (shown_difference,)
    won = is_claimed(adjusted) and sign * difference > 0
    notes = (f"unadjusted p {p_text(float(pair['p_value']))}", f"{int(pair['n'])} samples")
    reason = "" if pair["status"] == "ok" else pair["reason"]
    return Cell(f"{signed} ({p})", numbers, best=won, status=pair["status"], reason=reason, notes=notes)


def published_cell(figure: PublishedFigure) -> Cell:
    """A published figure with the decimals it was printed with, and no interval: none was published."""
    key = (figure.file, figure.line)
    column = "dis" if figure.layer else "score"
    value = Number(figure.value, fixed(figure.value, 1), source="published", key=key, column=column)
    text, numbers = value.text, [value]
    if figure.speed_up is not None:
        speed = Number(figure.speed_up, fixed(figure.speed_up, 2), source="published", key=key, column="speedup")
        text, numbers = f"{text} ({speed.text}×)", [value, speed]
    return Cell(text, tuple(numbers), status="published", notes=(WHAT[figure.file],))
