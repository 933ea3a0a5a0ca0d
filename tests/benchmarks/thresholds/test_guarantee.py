"""Guarantees on caches: what chooses, what certifies, and what is said where nothing can be promised."""

import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from exitbench.benchmarks.guarantees.certify import Promise
from exitbench.benchmarks.guarantees.losses import RISKS
from exitbench.benchmarks.guarantees.split import choosing_rows
from exitbench.benchmarks.replay.exit_rule import exit_layers, per_layer_exits
from exitbench.benchmarks.scoring.configuration import configuration_of, signal_scores
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.benchmarks.thresholds.guarantee import guaranteed_threshold
from exitbench.cache import Cache, synthetic_cache
from exitbench.cli.app import build
from exitbench.cli.formats.threshold_lines import recommendation_lines
from exitbench.errors import InputError
from exitbench.signals import load_registry

pytestmark = pytest.mark.long

torch.set_num_threads(1)
ROWS = 900
KEYS = {"risk", "limit", "confidence", "procedure", "rows_choose", "rows_certify", "grid", "p_value", "sentence"}


def promise(risk="harm", limit=0.05, confidence=0.9, procedure="learn-then-test"):
    return Promise(RISKS[risk], limit, confidence, procedure)


def grids(*texts):
    return [load_registry().expand(text) for text in texts]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarantee") / "c"
    return synthetic_cache(folder, rows=ROWS, layers=6, width=8, compact=True, shard_rows=300)


@pytest.fixture(scope="module")
def cache(path):
    return Cache(path)


def scores_of(cache, record):
    signal = load_registry().from_json(record.signal)
    return signal_scores(configuration_of(signal, cache.layers), score(cache, signal))


def test_the_certified_threshold_passes_the_binomial_test_on_the_certifying_rows(cache):
    record = guaranteed_threshold(cache, grids("deebert"), promise())
    certifying = ~choosing_rows(cache.ids, 0)
    exits = exit_layers(scores_of(cache, record), record.threshold)[certifying]
    answers = cache.predictions()[:, certifying]
    early, last, truth = answers[exits - 1, np.arange(len(exits))], answers[-1], cache.labels[certifying]
    harm = int(((early != truth) & (last == truth)).sum())
    from scipy.stats import binomtest

    assert record.guarantee.p_value == pytest.approx(binomtest(harm, len(exits), 0.05, "less").pvalue)
    assert record.guarantee.p_value <= 0.1
    assert record.speed_up.value == pytest.approx(6 / exits.mean())
    assert record.speed_up.low < record.speed_up.value < record.speed_up.high
    assert record.score.value == pytest.approx(100 * (early == truth).mean())
    assert record.loss.value == pytest.approx(100 * ((last == truth).mean() - (early == truth).mean()))
    assert (record.guarantee.rows_choose, record.guarantee.rows_certify) == (ROWS - len(exits), len(exits))


def test_labels_of_certifying_rows_change_neither_what_is_learned_nor_the_grid(path, tmp_path):
    from tests.support.cache_rewriting import with_labels

    cache = Cache(path)
    certifying = ~choosing_rows(cache.ids, 0)
    other = Cache(with_labels(path, tmp_path / "other", np.where(certifying, 1 - cache.labels, cache.labels)))
    entries = grids("right-tool[temperature=fitted]")
    first, second = (guaranteed_threshold(each, entries, promise("consistency", 0.1)) for each in (cache, other))
    assert first.signal == second.signal
    assert (first.threshold, first.guarantee.p_value) == (second.threshold, second.guarantee.p_value)


def test_the_order_of_rows_plays_no_part(path, tmp_path):
    from tests.support.cache_rewriting import shuffled

    other = Cache(shuffled(path, tmp_path / "other"))
    for risk in ("gap", "brier"):
        first, second = (
            guaranteed_threshold(each, grids("deebert"), promise(risk, 0.1)) for each in (Cache(path), other)
        )
        assert first.to_json() | {"cache": ""} == second.to_json() | {"cache": ""}
        assert first.threshold is not None


def test_the_fastest_of_several_signals_is_taken_and_the_level_is_shared(cache):
    alone = [guaranteed_threshold(cache, grids(text), promise()) for text in ("random", "deebert")]
    both = guaranteed_threshold(cache, grids("random", "deebert"), promise())
    assert both.text == "deebert"
    assert (both.guarantee.level, both.guarantee.signals) == (0.05, 2)
    assert "2 signals were looked at, each tested at 5% instead of 10%" in both.guarantee.sentence
    assert both.speed_up.value <= alone[1].speed_up.value
    mean = guaranteed_threshold(cache, grids("random", "deebert"), promise(procedure="risk-control"))
    assert mean.text == "deebert"
    assert (mean.guarantee.confidence, mean.guarantee.level, mean.guarantee.p_value) == (None, None, None)
    assert "one was chosen on the choosing rows" in mean.guarantee.sentence


def test_per_layer_thresholds_are_certified_as_a_list(cache):
    record = guaranteed_threshold(cache, grids("cap[alpha=0.1|1]"), promise(limit=0.1), schedule="quota")
    assert len(record.threshold) == 5
    levels = np.array([-np.inf if level is None else level for level in record.threshold])
    exits = per_layer_exits(scores_of(cache, record), levels)[~choosing_rows(cache.ids, 0)]
    assert record.speed_up.value == pytest.approx(6 / exits.mean())
    assert "the layer's threshold: 1: " in recommendation_lines(record)[1]


def test_conformal_consistency_chooses_parameters_before_it_looks(cache):
    record = guaranteed_threshold(
        cache, grids("cap[alpha=0.1|100]"), promise("consistency", 0.1, procedure="conformal-consistency")
    )
    assert record.text == "cap[alpha=0.1]"
    assert (record.guarantee.grid, record.guarantee.passed) == (None, 1)
    assert record.speed_up.value > 1


def test_too_few_rows_end_in_do_not_exit_with_the_number_that_would_do(cache):
    record = guaranteed_threshold(cache, grids("deebert"), promise(limit=0.001))
    assert (record.threshold, record.speed_up.value, record.loss.value) == (None, 1.0, 0.0)
    assert record.rows_needed == pytest.approx(2302 * ROWS / record.guarantee.rows_certify, abs=1)
    assert record.guarantee.sentence.startswith("Do not exit: ")
    assert f"About {record.rows_needed} rows in all" in record.guarantee.sentence


def test_an_error_that_the_network_itself_has_is_said_to_be_its_own(cache):
    record = guaranteed_threshold(cache, grids("deebert"), promise("error", 0.001))
    assert record.threshold is None
    assert "not even the full network keeps this" in record.guarantee.sentence
    assert record.rows_needed is None
    assert "More rows like these would not help." in record.guarantee.sentence


def test_a_network_that_keeps_an_error_on_too_few_rows_is_not_said_to_break_it(cache):
    error = 1 - guaranteed_threshold(cache, grids("deebert"), promise("error", 0.9)).final_score / 100
    record = guaranteed_threshold(cache, grids("deebert"), promise("error", error + 0.002))
    assert record.threshold is None
    assert "that the full network keeps this cannot be shown either" in record.guarantee.sentence
    assert f"About {record.rows_needed} rows in all" in record.guarantee.sentence


def test_an_unlabelled_cache_certifies_consistency_and_refuses_what_needs_labels(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "u", rows=ROWS, layers=6, width=8, compact=True, labelled=False))
    record = guaranteed_threshold(cache, grids("deebert"), promise("consistency", 0.1))
    assert record.threshold is not None
    assert record.target == "final"
    assert "right means: agrees with the last layer" in recommendation_lines(record)
    with pytest.raises(InputError, match="the risk harm needs labels, which cache u does not hold; --risk consistency"):
        guaranteed_threshold(cache, grids("deebert"), promise())


def test_groups_stay_together_and_count_once(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "g", rows=ROWS, layers=6, width=8, compact=True, group_rows=3))
    record = guaranteed_threshold(cache, grids("deebert"), promise(limit=0.1))
    certifying = ~choosing_rows(cache.groups, 0)
    assert record.guarantee.rows_certify == certifying.sum()
    assert record.guarantee.method == "Hoeffding-Bentkus"
    assert f"{certifying.sum()} certifying rows in {certifying.sum() // 3} groups, each counted once" in (
        record.guarantee.sentence
    )


def test_f1_is_refused_with_the_nearest_promise(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "f", rows=300, layers=6, width=8, compact=True, metric="f1"))
    with pytest.raises(InputError, match=r"F1.* is not a mean over rows.*nearest promise is --risk harm"):
        guaranteed_threshold(cache, grids("deebert"), promise("gap"))
    record = guaranteed_threshold(cache, grids("deebert"), promise("harm", 0.2))
    assert "not about F1" in record.guarantee.sentence
    assert record.measure == "f1"


@pytest.mark.parametrize(
    ("asked", "options", "message"),
    [
        (promise(limit=0.0), {}, r"a limit on harm lies between 0 and 1 \(0.01 is one point\), found 0"),
        (promise("brier", 2.0), {}, "a limit on brier lies between 0 and 2"),
        (promise(confidence=1.0), {}, "a confidence lies between 0 and 1, found 1"),
        (promise(procedure="conformal-consistency"), {}, "found the risk harm and shared thresholds"),
        (
            promise("consistency", procedure="conformal-consistency"),
            {"schedule": "quota"},
            "found the risk consistency and quota thresholds",
        ),
    ],
)
def test_promises_that_nobody_can_give_are_refused(cache, asked, options, message):
    with pytest.raises(InputError, match=message):
        guaranteed_threshold(cache, grids("deebert"), asked, **options)


def test_whole_thresholds_have_no_per_layer_form(cache):
    with pytest.raises(InputError, match="per-layer thresholds are for continuous ones, found signal pabee"):
        guaranteed_threshold(cache, grids("pabee"), promise(), schedule="quota")
    assert guaranteed_threshold(cache, grids("pabee"), promise(limit=0.2)).threshold in range(1, 5)


def test_a_signal_that_cannot_exit_so_early_is_refused(cache):
    with pytest.raises(InputError, match="has no exit in a network of 6 layers"):
        guaranteed_threshold(cache, grids("pcee[patience=6]"), promise())


def test_rows_that_trained_the_network_promise_nothing(tmp_path):
    cache = Cache(synthetic_cache(tmp_path / "t", rows=100, layers=4, width=4, compact=True, role="train"))
    with pytest.raises(InputError, match="the network was trained on the rows of t"):
        guaranteed_threshold(cache, grids("deebert"), promise())


def invoke(*words):
    return CliRunner().invoke(build(), ["threshold", *map(str, words)])


def test_the_verb_prints_one_object_with_the_guarantee(path):
    words = [path, "--signal", "deebert", "--guarantee", "--risk", "harm", "--limit", 0.05, "--confidence", 0.95]
    done = invoke(*words, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.output)
    assert set(record["guarantee"]) >= KEYS
    assert (record["guarantee"]["limit"], record["guarantee"]["confidence"]) == (0.05, 0.95)
    assert isinstance(record["threshold"], float)
    assert record["note"] == ""
    lines = invoke(*words).output
    assert "With 95% confidence, at most 5% of the answers are wrong where the last layer's is right." in lines
    assert "estimate, not a promise" not in lines
    assert "candidates passed, p = " in lines


def test_do_not_exit_is_an_answer_and_no_error(path):
    done = invoke(path, "--signal", "deebert", "--guarantee", "--limit", 0.0001)
    assert done.exit_code == 0
    assert "\ndo not exit\n" in done.output
    assert "at the first" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--guarantee", "--risk", "f1"], "no guarantee for F1: it is not a mean over rows"),
        (["--guarantee", "--speed-up", "2"], "--guarantee promises a risk up to --limit"),
        (["--limit", "0.1", "--speed-up", "2"], "--limit says what is promised; ask for it with --guarantee"),
    ],
)
def test_options_that_do_not_go_together_are_refused(path, words, message):
    done = invoke(path, "--signal", "deebert", *words)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)


def test_a_cache_of_the_clone_may_be_named(monkeypatch, path, tmp_path):
    monkeypatch.chdir(path.parent)
    done = invoke("mpnet-base-sst2-de", "--signal", "deebert", "--guarantee")
    assert "'mpnet-base-sst2-de' is no cache. Did you mean mpnet-base-sst2-dev" in str(done.exception)
    done = invoke("mpnet-base-rte-dev", "--signal", "deebert", "--guarantee", "--limit", "0.05")
    assert done.exit_code == 0
    assert done.output.startswith("deebert on mpnet-base-rte-dev (277 samples)")
