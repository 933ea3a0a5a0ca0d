"""What a run promises is what ``exitbench threshold --guarantee`` certifies."""

import math

import pytest
import torch

from exitbench.benchmarks.guarantees.certify import Promise
from exitbench.benchmarks.guarantees.losses import RISKS
from exitbench.benchmarks.run.measure_stage import measure_signal
from exitbench.benchmarks.run.score_stage import score_signals
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.thresholds.guarantee import guaranteed_threshold
from exitbench.cache import Cache, synthetic_cache
from exitbench.signals import load_registry

torch.set_num_threads(1)
QUESTIONS = Questions(speed_ups=(2.0,), losses=(), protocols=("cross-fit", "in-sample"), resamples=2, deals=1)


def rows_of(cache, text, questions=QUESTIONS):
    signals = load_registry().expand(text)
    scored = score_signals(cache, signals, questions)
    rows = measure_signal(scored, [range(len(signals))], questions, ["results"]).rows
    return {row.operating_point.text: row for row in rows if row.measure == "certified_speed_up"}


@pytest.mark.long
@pytest.mark.parametrize("text", ["deebert", "cap[alpha=0.1|1]", "right-tool[temperature=fitted]"])
def test_a_row_is_what_the_verb_certifies(tmp_path, text):
    cache = Cache(synthetic_cache(tmp_path / "c", rows=2000, layers=5, width=8, compact=True))
    rows = rows_of(cache, text)
    assert list(rows) == ["harm=2", "harm=1"]
    for row, limit in zip(rows.values(), (0.02, 0.01), strict=True):
        record = guaranteed_threshold(cache, [load_registry().expand(text)], Promise(RISKS["harm"], limit))
        assert (row.value, row.low, row.high) == (record.speed_up.value, record.speed_up.low, record.speed_up.high)
        assert (row.threshold, row.n) == (record.threshold, record.guarantee.rows_certify)
        assert (row.protocol, row.status) == ("certified", "ok")
        assert ("certified: alpha=" in row.reason) == ("|" in text)


def test_what_cannot_be_promised_is_undefined_with_the_rows_needed(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "c", rows=150, layers=4, width=8, compact=True))
    row = rows_of(cache, "deebert")["harm=1"]
    assert (row.status, row.threshold, math.isnan(row.value)) == ("undefined", None, True)
    assert "at most 1% of the answers are wrong where the last layer's is right: 230 certifying rows" in row.reason


def test_rows_that_trained_the_network_promise_nothing(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "c", rows=150, layers=4, width=8, compact=True, role="train"))
    assert "trained on these rows" in rows_of(cache, "deebert")["harm=2"].reason


@pytest.mark.long
def test_a_half_that_cannot_teach_a_signal_costs_the_promise_and_nothing_else(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "c", rows=40, layers=4, width=8, compact=True))
    scored = score_signals(cache, load_registry().expand("meta"), QUESTIONS)
    row = rows_of(cache, "meta")["harm=2"]
    assert scored.configurations[0].problem == ""
    assert scored.configurations[0].no_promise in row.reason
    assert "needs 10 samples" in row.reason


def test_one_group_is_too_few_to_be_halved(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "c", rows=100, layers=4, width=8, compact=True, group_rows=1))
    in_sample = Questions(speed_ups=(2.0,), losses=(), protocols=("in-sample",), resamples=2)
    single = Cache(synthetic_cache(tmp_path / "s", rows=60, layers=4, width=8, compact=True, group_rows=60))
    assert "needs rows to choose on and rows to certify on" in rows_of(single, "deebert", in_sample)["harm=2"].reason
    without = Questions(speed_ups=(2.0,), losses=(), protocols=("in-sample",), resamples=2, promises=False)
    assert rows_of(cache, "deebert", without) == {}
