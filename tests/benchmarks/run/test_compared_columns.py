"""The tests of a column on real caches, where grids make resamples with two humps."""

from pathlib import Path

import pytest

from exitbench import evaluate

pytestmark = pytest.mark.long
MRPC = Path(__file__).parents[3] / "fixtures" / "caches" / "mpnet-base-mrpc-dev"

GRIDS = ["deebert", "f-pabee[patience=1|2|3|4|5|6]", "pcee[patience=1|2|3|4|5|6]", "nsp", "cap[alpha=0.01|0.1|1|10]"]


@pytest.fixture(scope="module")
def evaluated():
    return evaluate(MRPC, GRIDS)


def test_no_p_value_contradicts_the_interval_of_its_difference(evaluated):
    tested = evaluated.pairs[evaluated.pairs["p_value"].notna()]
    leaves_out_zero = (tested["low"] > 0) | (tested["high"] < 0)
    assert len(tested) > 900
    assert ((tested["p_value"] <= 0.05) == leaves_out_zero).all()
    assert leaves_out_zero.any()
    assert not leaves_out_zero.all()


def test_every_value_lies_within_its_own_interval(evaluated):
    for table, column in ((evaluated.results, "value"), (evaluated.pairs, "difference"), (evaluated.curves, "score")):
        numbers = table[table["low"].notna()]
        assert len(numbers)
        assert ((numbers["low"] <= numbers[column]) & (numbers[column] <= numbers["high"])).all()


def test_marks_are_the_claims_of_the_pairs(evaluated):
    """One rule: an entry is tied with the best exactly where no adjusted p-value claims a difference from it."""
    results, pairs = evaluated.results, evaluated.pairs
    question = ["protocol", "operating_point", "layer", "decisions", "measure"]
    against_best = pairs[pairs["p_against_best"].notna()]
    results, against_best = results.fillna({"layer": 0}), against_best.fillna({"layer": 0})
    tied_rows = {
        tuple(getattr(row, name) for name in (*question, "signal", "parameters")): bool(row.tied_with_best)
        for row in results[results["best"].notna()].itertuples()
    }
    claims = 0
    for pair in against_best.itertuples():
        column = tuple(getattr(pair, name) for name in question)
        sides = [(pair.signal_a, pair.parameters_a), (pair.signal_b, pair.parameters_b)]
        tied = [tied_rows[column + side] for side in sides]
        assert all(tied) == (pair.p_adjusted > 0.05)
        claims += not all(tied)
    assert claims


def test_in_sample_a_grid_is_marked_neither_best_nor_tied_and_says_why(evaluated):
    results, pairs = evaluated.results, evaluated.pairs
    contested = results[(results["operating_point"] == "speed_up=2") & (results["measure"] == "f1")]
    contested = contested[(contested["decisions"] == "") & contested["signal"].isin(["deebert", "nsp", "cap", "pcee"])]
    grids = contested[contested["parameters"].str.contains("|", regex=False)].set_index("protocol")
    assert len(grids.loc["in-sample"]) == len(grids.loc["cross-fit"]) == 2
    assert grids.loc["in-sample", "best"].isna().all()
    assert grids.loc["in-sample", "tied_with_best"].isna().all()
    assert grids.loc["in-sample", "reason"].str.contains("chosen on the scored samples").all()
    assert grids.loc["cross-fit", "best"].notna().all()
    assert not grids.loc["cross-fit", "reason"].str.contains("chosen on the scored samples").any()
    flagged = (pairs["parameters_a"] + pairs["parameters_b"]).str.contains("|", regex=False)
    in_sample = pairs[flagged & (pairs["protocol"] == "in-sample") & (pairs["status"] != "undefined")]
    assert len(in_sample)
    assert in_sample["p_adjusted"].isna().all()
    assert in_sample["p_against_best"].isna().all()
    assert (in_sample["status"] == "unreliable").all()
    assert in_sample["difference"].notna().all()
    columns = pairs[~flagged & (pairs["protocol"] == "in-sample")].groupby(
        ["operating_point", "layer", "decisions", "measure"], dropna=False
    )
    assert (columns["p_adjusted"].count() <= 1).all(), "DeeBERT and NSP alone are tested against each other"
