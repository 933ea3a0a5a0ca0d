"""The findings say what the results say: other numbers, other sentences."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from exitbench.reports.run_data.finished_run import FinishedRun
from tests.support.findings_runs import Change, altered, opening, page_of
from tests.support.page_runs import HOSTILE, main_run

pytestmark = pytest.mark.long

PAPER = ["CAP", "E-LANG", "F-PABEE", "PCEE-BERT", "PABEE", "Right-Tool", "DeeBERT"]
"""The order of the paper's main table by its mean over SST-2 and MRPC, but for near ties; NSP is not in it."""


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, three tasks: base-sst2, base-mrpc, tiny-mnli."""
    return main_run(tmp_path_factory)


def between(pairs: pd.DataFrame, first: str, second: str) -> tuple[pd.Series, pd.Series]:
    """The rows of two signals, and the sign that turns each into first less second."""
    forward = (pairs["signal_a"] == first) & (pairs["signal_b"] == second)
    backward = (pairs["signal_a"] == second) & (pairs["signal_b"] == first)
    return forward | backward, forward.astype(int) - backward.astype(int)


def set_difference(value: float, p_value: float, other: str) -> Change:
    """CAP less another signal is this everywhere, with this adjusted p-value."""

    def change(_: pd.DataFrame, pairs: pd.DataFrame) -> None:
        rows, sign = between(pairs, "cap", other)
        pairs.loc[rows, "difference"] = value * sign[rows]
        pairs.loc[rows, "low"], pairs.loc[rows, "high"] = -abs(value) - 1, abs(value) + 1
        pairs.loc[rows, "p_adjusted"] = p_value

    return change


NEITHER = "not shown to differ from {} in any of 12 comparisons"
"""Three caches at two speed-ups and at two layers."""


@pytest.mark.parametrize(
    ("value", "p_value", "tally", "word", "short"),
    [
        (
            2.0,
            0.001,
            "better on 3, worse on 0 and not distinguishable on 0 of 3",
            "better",
            "shown to be better than {} in 12 of 12 comparisons, worse in none",
        ),
        (
            -2.0,
            0.001,
            "better on 0, worse on 3 and not distinguishable on 0 of 3",
            "worse",
            "shown to be worse than {} in 12 of 12 comparisons, better in none",
        ),
        (2.0, 0.0501, "better on 0, worse on 0 and not distinguishable on 3 of 3", "not distinguishable", NEITHER),
        (-2.0, 1.0, "better on 0, worse on 0 and not distinguishable on 3 of 3", "not distinguishable", NEITHER),
    ],
)
def test_better_worse_and_not_distinguishable_are_what_the_pairs_say(
    run_dir: Path, tmp_path: Path, value: float, p_value: float, tally: str, word: str, short: str
) -> None:
    """Against E-LANG the case at hand, against DeeBERT its opposite, on one page."""

    def change(results: pd.DataFrame, pairs: pd.DataFrame) -> None:
        set_difference(value, p_value, "e-lang")(results, pairs)
        set_difference(-value, p_value, "deebert")(results, pairs)

    page = page_of(altered(run_dir, tmp_path / "run", change))
    assert short.format("E-LANG") in opening(page)
    opposite = {"better": "worse", "worse": "better"}
    for name, sign, verdict in (("E-LANG", 1, word), ("DeeBERT", -1, opposite.get(word, word))):
        section = page.split(f"### Task score: CAP less {name}")[1].split("\n###")[0]
        lines = [line for line in section.splitlines() if line.startswith("| ") and "near" in line]
        assert len(lines) == 2 * (3 + 1), "two speed-ups, three tasks and the average of the two tasks of base"
        assert all(line.endswith(f"| {verdict} |") for line in lines)
        assert all(("\\+2.0" if sign * value > 0 else "\\-2.0") in line for line in lines)
        assert all(("**" in line) == (verdict == "better") for line in lines)
    assert f"against E-LANG it is {tally}" in opening(page)


def test_a_lower_rate_is_better(run_dir: Path, tmp_path: Path) -> None:
    page = page_of(altered(run_dir, tmp_path / "run", set_difference(-3.0, 0.001, "e-lang")))
    assert (
        "At equal exit shares, CAP against E-LANG: both rates are lower on 3 of 3 caches (distinguishable: lower on 3, "
        "higher on 0)."
    ) in page
    assert (
        "CAP against E-LANG: the premature rate is lower without a higher delayed rate on 2 of 3 caches "
        "(distinguishable: on 2); on 0 one rate falls"
    ) in page, "at 4x of four layers every sample exits at the first, so nothing is compared there"


def test_a_lower_premature_rate_that_the_delayed_rate_pays_for_is_not_claimed(run_dir: Path, tmp_path: Path) -> None:
    lower = set_difference(-3.0, 0.001, "e-lang")

    def change(results: pd.DataFrame, pairs: pd.DataFrame) -> None:
        lower(results, pairs)
        rows, sign = between(pairs, "cap", "e-lang")
        delayed = rows & (pairs["measure"] == "delayed_rate") & (pairs["decisions"] == "all")
        pairs.loc[delayed, "difference"] = 3.0 * sign

    page = page_of(altered(run_dir, tmp_path / "run", change))
    assert (
        "CAP against E-LANG: the premature rate is lower without a higher delayed rate on 0 of 3 caches "
        "(distinguishable: on 0); on 2 one rate falls as the other rises"
    ) in page
    section = page.split("exiting rates near 4×")[1].split("\n##")[0]
    lines = [line for line in section.splitlines() if "| E-LANG |" in line]
    assert len(lines) == 3
    assert sum("| lower, the other rises |" in line for line in lines) == 2
    assert not any("**" in line for line in lines)


def test_what_was_not_compared_is_no_finding(run_dir: Path, tmp_path: Path) -> None:
    def keep(frame: pd.DataFrame) -> pd.Series:
        if "signal_a" not in frame:
            return frame["cache"].notna()
        rows, _sign = between(frame, "cap", "e-lang")
        return ~(rows & (frame["cache"] == "base-sst2") & (frame["operating_point"] == "speed_up=2"))

    page = page_of(altered(run_dir, tmp_path / "run", keep=keep))
    assert "(1 could not be compared)" in opening(page)
    assert "| SST-2 with base | near 2× | – | not compared |" in page


def set_scores(order: list[str]) -> Change:
    """All signals score in this order near 2x, the first highest, NSP between the third and the fourth."""
    names = [*order[:3], "NSP", *order[3:]]
    keys = {
        "CAP": "cap",
        "E-LANG": "e-lang",
        "F-PABEE": "f-pabee",
        "PCEE-BERT": "pcee",
        "PABEE": "pabee",
        "Right-Tool": "right-tool",
        "DeeBERT": "deebert",
        "NSP": "nsp",
    }

    def change(results: pd.DataFrame, _: pd.DataFrame) -> None:
        for position, name in enumerate(names):
            rows = (
                (results["signal"] == keys[name])
                & (results["operating_point"] == "speed_up=2")
                & results["measure"].isin(["accuracy", "f1"])
            )
            results.loc[rows, "value"] = 90.0 - position
            results.loc[rows, "status"] = "ok"  # F-PABEE is degenerate here

    return change


def test_the_papers_order_is_seen_when_it_is_there(run_dir: Path, tmp_path: Path) -> None:
    page = page_of(altered(run_dir, tmp_path / "run", set_scores(PAPER)))
    sentence = (
        "The paper's order of the signals appears on these networks: by score with base it appears, by score with tiny"
    )
    assert sentence in opening(page)
    assert "With base, by score, CAP is number 1 of 7 (in the paper number 1 of 7)" in page


def test_the_papers_order_is_denied_when_it_is_not_there(run_dir: Path, tmp_path: Path) -> None:
    page = page_of(altered(run_dir, tmp_path / "run", set_scores(PAPER[::-1])))
    assert "The paper's order of the signals does not appear on these networks" in opening(page)
    assert "With base, by score, CAP is number 7 of 7 (in the paper number 1 of 7)" in page


def test_cap_on_top_of_a_reversed_order_is_the_paper_in_part(run_dir: Path, tmp_path: Path) -> None:
    page = page_of(altered(run_dir, tmp_path / "run", set_scores(["CAP", *PAPER[:0:-1]])))
    assert "The paper's order of the signals appears in part on these networks" in opening(page)


def test_the_spread_of_alpha_is_measured_against_a_standard_error(run_dir: Path, tmp_path: Path) -> None:
    def scores(narrow: float) -> Change:
        def change(results: pd.DataFrame, _: pd.DataFrame) -> None:
            rows = (results["signal"] == "cap") & (results["operating_point"] == "speed_up=2")
            rows &= results["measure"].isin(["accuracy", "f1"])
            for parameters, value in (("alpha=0.1,center=false", 80.0), ("alpha=1,center=false", 80.0 + narrow)):
                of_value = rows & (results["parameters"] == parameters)
                results.loc[of_value, ["value", "std_err"]] = value, 1.5

        return change

    close = page_of(altered(run_dir, tmp_path / "close", scores(1.2)))
    assert "Between the values of alpha, the score near 2× differs by at most 1.2 points" in opening(close)
    assert "the whole spread is smaller than one standard error on 3 of 3 caches" in opening(close)
    wide = page_of(altered(run_dir, tmp_path / "wide", scores(-4.0)))
    assert "differs by at most 4.0 points" in opening(wide)
    assert "smaller than one standard error on 0 of 3 caches" in opening(wide)


def test_the_alpha_that_was_chosen_is_named_without_what_does_not_vary(run_dir: Path) -> None:
    results = pd.read_parquet(run_dir / "results.parquet")
    chosen = results[
        (results["signal"] == "cap")
        & results["parameters"].str.contains("|", regex=False)
        & (results["protocol"] == "cross-fit")
        & (results["operating_point"] == "speed_up=2")
        & (results["cache"] == "tiny-mnli")
    ]
    reported = re.search(r"chosen: ([^;]+)", chosen["reason"].iloc[0])
    assert reported is not None
    section = page_of(FinishedRun(run_dir)).split("### CAP by alpha: score")[1].split("###")[0]
    line = next(line for line in section.splitlines() if line.startswith("| MNLI"))
    assert line.endswith(f"| {reported[1].replace(',center=false', '')} |")


def test_a_protocol_that_changes_verdicts_and_leaders_is_said_to(run_dir: Path, tmp_path: Path) -> None:
    def change(results: pd.DataFrame, pairs: pd.DataFrame) -> None:
        set_difference(0.0, 1.0, "e-lang")(results, pairs)
        set_difference(0.0, 1.0, "deebert")(results, pairs)
        rows, sign = between(pairs, "cap", "e-lang")
        rows &= (
            (pairs["protocol"] == "in-sample")
            & (pairs["cache"] == "base-mrpc")
            & (pairs["operating_point"] == "speed_up=3")
        )
        pairs.loc[rows, "difference"] = 1.0 * sign[rows]
        pairs.loc[rows, "p_adjusted"] = 0.01
        column = (
            (results["operating_point"] == "speed_up=2") & results["best"].notna() & (results["cache"] == "tiny-mnli")
        )
        for protocol, leader in (("in-sample", "nsp"), ("cross-fit", "deebert")):
            of_protocol = column & (results["protocol"] == protocol)
            results.loc[of_protocol, "best"] = results.loc[of_protocol, "signal"] == leader

    page = page_of(altered(run_dir, tmp_path / "run", change))
    assert (
        "verdicts above, 1 change with the protocol: E-LANG, MRPC with base, near 3×: better (in-sample), not "
        "distinguishable (cross-fit)."
    ) in page
    assert "MNLI with tiny (in-sample: NSP; cross-fit: DeeBERT)" in page


def test_names_that_try_to_be_markup_stay_names(run_dir: Path, tmp_path: Path) -> None:
    model, task = "evil | model <script>alert(1)</script>", HOSTILE[5]

    def change(results: pd.DataFrame, pairs: pd.DataFrame) -> None:
        for frame in (results, pairs):
            frame["model"] = frame["model"].replace("tiny", model)
            frame["task"] = frame["task"].replace("mnli", task)

    run = altered(run_dir, tmp_path / "run", change)
    record = json.loads((run.path / "run.json").read_text())
    record["caches"]["tiny-mnli"] |= {"model": model, "task": task}
    (run.path / "run.json").write_text(json.dumps(record))
    page = page_of(FinishedRun(run.path))
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    for block in re.findall(r"(?:^\|.*\n)+", page, flags=re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}) == 1, block


def test_a_run_under_one_protocol_says_nothing_of_protocols(run_dir: Path, tmp_path: Path) -> None:
    page = page_of(altered(run_dir, tmp_path / "run", keep=lambda frame: frame["protocol"] == "in-sample"))
    assert "where no protocol is named it is in-sample" in page
    assert "What the protocol changes" not in page


def test_a_cache_that_failed_leaves_dashes(run_dir: Path, tmp_path: Path) -> None:
    page = page_of(altered(run_dir, tmp_path / "run", keep=lambda frame: frame["cache"] != "tiny-mnli"))
    assert re.search(r"CAP has the highest value, alone or shared, on \d of 2 caches", opening(page))
    assert "(1 could not be compared)" in opening(page)
    assert "| MNLI with tiny | near 2× | – | not compared |" in page
