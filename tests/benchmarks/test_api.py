"""Every number of an evaluation against independent oracles: loops, scikit-learn, samples counted one by one."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score

from exitbench.benchmarks.api import evaluate, replay
from exitbench.benchmarks.results.schema import KEY
from exitbench.benchmarks.results.vocabulary import MEASURES
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.benchmarks.statistics.hashed_randomness import folds
from exitbench.benchmarks.suites.questions import Questions
from exitbench.cache import Cache, CacheWriter, Model, Task, synthetic_cache
from exitbench.errors import InputError
from exitbench.signals import load_registry
from tests.support.evaluations import ASKED, only_row

pytestmark = pytest.mark.long

torch.set_num_threads(1)


def test_the_key_is_unique_and_measures_are_the_documented_ones(evaluation):
    assert not evaluation.results.duplicated(list(KEY)).any()
    assert set(evaluation.results.measure) == set(MEASURES)
    forms = evaluation.results["operating_point"].str.replace(r"=.*", "", regex=True)
    assert set(forms) == {"", "speed_up", "loss", "harm", "tau", "final"}
    assert set(evaluation.results.status) <= {"ok", "undefined", "unmatched", "degenerate", "no-exit", "unreliable"}
    assert ((evaluation.results.status == "ok") | (evaluation.results.reason != "")).all()


def test_in_sample_dis_is_a_hundred_times_scikit_learns_auroc(evaluation, path):
    cache = Cache(path)
    entropy = score(cache, load_registry().make("deebert"))
    right = cache.predictions() == cache.labels
    for layer in range(1, 5):
        row = only_row(evaluation.results, protocol="in-sample", signal="deebert", measure="dis", layer=layer)
        assert row.value == pytest.approx(100 * roc_auc_score(right[layer - 1], -entropy[layer - 1]))


def test_cross_fit_dis_counts_pairs_within_folds(evaluation, path):
    cache = Cache(path)
    entropy = score(cache, load_registry().make("deebert"))[1]
    right = (cache.predictions() == cache.labels)[1]
    fold = folds(cache.ids, 0, 3)
    won = pairs = 0.0
    for hard in np.flatnonzero(~right):
        for easy in np.flatnonzero(right & (fold == fold[hard])):
            won += 1.0 if entropy[easy] < entropy[hard] else 0.5 * (entropy[easy] == entropy[hard])
            pairs += 1
    row = only_row(evaluation.results, protocol="cross-fit", signal="deebert", measure="dis", layer=2)
    assert row.value == pytest.approx(100 * won / pairs)


def test_aurc_is_the_mean_risk_over_coverages(evaluation, path):
    cache = Cache(path)
    entropy = score(cache, load_registry().make("deebert"))[2]
    wrong = (cache.predictions() != cache.labels)[2][np.argsort(entropy, kind="stable")]
    risks = [wrong[:k].mean() for k in range(1, len(wrong) + 1)]
    best = [np.sort(wrong)[:k].mean() for k in range(1, len(wrong) + 1)]
    row = only_row(evaluation.results, protocol="in-sample", signal="deebert", measure="aurc", layer=3)
    assert row.value == pytest.approx(100 * np.mean(risks))
    row = only_row(evaluation.results, protocol="in-sample", signal="deebert", measure="excess_aurc", layer=3)
    assert row.value == pytest.approx(100 * (np.mean(risks) - np.mean(best)))


@pytest.mark.parametrize("protocol", ["in-sample", "cross-fit"])
@pytest.mark.parametrize("signal", ["deebert", "right-tool", "pcee", "cap"])
def test_scores_and_speed_ups_are_those_of_the_samples_file(evaluation, protocol, signal):
    entries = evaluation.samples[(evaluation.samples.protocol == protocol) & (evaluation.samples.signal == signal)]
    for at, samples in entries.groupby("operating_point"):
        entry = {
            "protocol": protocol,
            "signal": signal,
            "parameters": samples.parameters.iloc[0],
            "operating_point": at,
        }
        assert len(samples) == 150
        exact = {
            "speed_up": 5 / samples.exit_layer.mean(),
            "accuracy": 100 * accuracy_score(samples.label, samples.prediction),
            "f1": 100 * f1_score(samples.label, samples.prediction),
        }
        for measure, value in exact.items():
            assert only_row(evaluation.results, **entry, decisions="", measure=measure).value == pytest.approx(value)
        exits = evaluation.histograms
        exits = exits[(exits.protocol == protocol) & (exits.signal == signal) & (exits["operating_point"] == at)]
        np.testing.assert_array_equal(exits["count"], np.bincount(samples.exit_layer, minlength=6)[1:])
        np.testing.assert_array_equal(exits["right"], np.bincount(samples.exit_layer[samples.right], minlength=6)[1:])


def test_rates_count_every_decision(evaluation, path):
    cache = Cache(path)
    entropy = score(cache, load_registry().make("deebert"))
    wrong = (cache.predictions() != cache.labels)[:-1]
    entry = {"protocol": "in-sample", "signal": "deebert", "operating_point": "speed_up=2"}
    row = only_row(evaluation.results, **entry, decisions="all", layer=None, measure="premature_rate")
    exits = entropy < row.threshold
    assert row.value == pytest.approx(100 * (exits & wrong).sum() / wrong.sum())
    row = only_row(evaluation.results, **entry, decisions="all", layer=3, measure="delayed_rate")
    assert row.value == pytest.approx(100 * (~exits & ~wrong)[2].sum() / (~wrong)[2].sum())
    exited_at = np.where(exits.any(axis=0), exits.argmax(axis=0), 4)
    reached = np.arange(4)[:, None] <= exited_at
    row = only_row(evaluation.results, **entry, decisions="reached", layer=None, measure="premature_rate")
    assert row.value == pytest.approx(100 * (exits & wrong & reached).sum() / (wrong & reached).sum())


@pytest.mark.parametrize("protocol", ["in-sample", "cross-fit"])
def test_rates_over_all_layers_are_there_at_every_speed_up(evaluation, path, protocol):
    right = Cache(path).predictions() == Cache(path).labels
    entry = {"protocol": protocol, "signal": "deebert", "decisions": "reached", "layer": None}
    for at in ("speed_up=1.5", "speed_up=2"):
        samples = evaluation.samples
        mine = (samples.protocol == protocol) & (samples.signal == "deebert") & (samples["operating_point"] == at)
        exits = samples[mine].set_index("id").exit_layer[Cache(path).ids].to_numpy()
        decided = [(row, layer) for row, left in enumerate(exits) for layer in range(1, min(left, 4) + 1)]
        wrong = [(row, layer) for row, layer in decided if not right[layer - 1, row]]
        kept_right = [(row, layer) for row, layer in decided if right[layer - 1, row]]
        premature = only_row(evaluation.results, **entry, operating_point=at, measure="premature_rate")
        delayed = only_row(evaluation.results, **entry, operating_point=at, measure="delayed_rate")
        assert premature.value == pytest.approx(100 * np.mean([exits[row] == layer for row, layer in wrong]))
        assert delayed.value == pytest.approx(100 * np.mean([exits[row] != layer for row, layer in kept_right]))
        assert np.isnan(premature.low) == (at != "speed_up=2"), "only there are resamples"


def test_the_largest_speed_up_within_a_loss_is_the_last_before_the_first_fall(evaluation, path):
    curve = replay(path, "deebert")
    score_at, final = curve.score("f1"), float(curve.final.f1)
    last = 0
    while last + 1 < curve.points and score_at[last + 1] >= final - 2.0 - 1e-9:
        last += 1
    row = only_row(
        evaluation.results, protocol="in-sample", signal="deebert", operating_point="loss=2", measure="max_speed_up"
    )
    assert row.value == pytest.approx(curve.speed_up[last])


def test_what_is_asked_by_default_is_what_a_suite_asks():
    defaults = {name: asked.default for name, asked in inspect.signature(evaluate).parameters.items()}
    questions = Questions()
    for name in ("area_range", "resamples", "folds", "seed", "ties", "losses"):
        assert defaults[name] == getattr(questions, name), name


def test_every_value_of_a_grid_has_rows_and_so_has_the_choice(evaluation):
    rows = evaluation.results[(evaluation.results.signal == "cap") & (evaluation.results.protocol == "in-sample")]
    assert set(rows.parameters) == {
        "alpha=0.1,center=false",
        "alpha=10,center=false",
        "alpha=0.1|10,center=false",
    }
    at = {"operating_point": "speed_up=1.5", "decisions": "", "measure": "f1"}
    single = [only_row(rows, parameters=f"alpha={value},center=false", **at).value for value in ("0.1", "10")]
    chosen = only_row(rows, parameters="alpha=0.1|10,center=false", **at)
    assert chosen.value == max(single)
    assert json.loads(chosen.chosen) == {f"alpha={('0.1', '10')[int(np.argmax(single))]},center=false": 1}
    assert chosen.reason.startswith(f"chosen: alpha={('0.1', '10')[int(np.argmax(single))]},center=false")


def test_a_grid_value_that_exits_too_late_is_left_out_with_a_note(evaluation):
    rows = evaluation.results[evaluation.results.signal == "pcee"]
    assert set(rows.parameters) == {"patience=1", "patience=2", "patience=1|2|9"}
    noted = rows[rows.parameters == "patience=1|2|9"].reason
    assert noted.str.contains("left out, they exit too late for this depth: patience=9").all()


def test_a_measure_before_the_first_exit_layer_is_marked(evaluation):
    row = only_row(
        evaluation.results, protocol="in-sample", signal="pcee", parameters="patience=2", measure="dis", layer=1
    )
    assert row.status == "no-exit"
    assert row.reason.startswith("no exit here: before layer 2, the first that may exit")
    assert row.value > 50
    for measure in ("dis", "aurc", "excess_aurc"):
        for protocol in ("in-sample", "cross-fit"):
            early = evaluation.results[
                (evaluation.results.signal == "pcee")
                & (evaluation.results.parameters == "patience=2")
                & (evaluation.results.measure == measure)
                & (evaluation.results.protocol == protocol)
            ].set_index("layer")
            assert early.status[1] == "no-exit" and np.isnan(early.best.astype(float)[1])
            assert set(early.status.loc[2:]) <= {"ok", "unreliable"}


def test_layer_one_of_pabee_is_undefined_and_never_fifty(evaluation):
    row = only_row(evaluation.results, protocol="in-sample", signal="pabee", measure="dis", layer=1)
    assert row.status == "undefined"
    assert np.isnan(row.value)


def test_unmatched_cells_take_no_part_and_have_a_randomised_value_too(evaluation):
    rows = evaluation.results[evaluation.results.status == "unmatched"]
    assert len(rows)
    assert rows.best.isna().all()
    randomised = evaluation.results[evaluation.results.decisions == "randomised"]
    exact = randomised[(randomised.measure == "speed_up") & (randomised.protocol == "in-sample")]
    assert len(exact)
    np.testing.assert_allclose(exact.value, exact["operating_point"].str.removeprefix("speed_up=").astype(float))


def test_the_best_of_a_column_has_the_best_value_and_is_tied_with_itself(evaluation):
    compared = evaluation.results[evaluation.results.best.notna()]
    for question, column in compared.groupby(
        ["protocol", "operating_point", "layer", "decisions", "measure"], dropna=False
    ):
        lower = question[-1] in ("aurc", "excess_aurc", "premature_rate", "delayed_rate")
        top = column.value.min() if lower else column.value.max()
        assert (column.value[column.best.astype(bool)] == top).all()
        assert column.tied_with_best[column.best.astype(bool)].all()
    assert not set(compared.signal) & {"oracle", "final", "fixed", "random"}


def test_pairs_are_differences_of_the_results(evaluation):
    keys = ["protocol", "operating_point", "layer", "decisions", "measure"]
    for pair in evaluation.pairs.sample(40, random_state=0).itertuples():
        question = {name: getattr(pair, name) for name in keys}
        question = {name: None if value != value else value for name, value in question.items()}
        a = only_row(evaluation.results, **question, signal=pair.signal_a, parameters=pair.parameters_a)
        b = only_row(evaluation.results, **question, signal=pair.signal_b, parameters=pair.parameters_b)
        assert pair.difference == pytest.approx(a.value - b.value)
        assert not pair.p_adjusted < pair.p_value


def test_the_order_of_rows_changes_nothing(tmp_path):
    source = Cache(synthetic_cache(tmp_path / "first" / "c", rows=80, layers=4, width=6, compact=True))
    order = np.random.default_rng(0).permutation(80)
    logits = torch.stack([source.logits(m) for m in range(1, 5)])[:, order]
    norms = torch.stack([source.offset_norms(m) for m in range(1, 5)])[:, order]
    with CacheWriter(
        tmp_path / "second" / "c",
        task=Task("synthetic", ("class 0", "class 1"), "accuracy"),
        split="dev",
        model=Model("synthetic", None, 4, 6, "none", "none"),
        heads=source.head_tensors(),
        shard_rows=33,
    ) as writer:
        done = 0
        for rows in writer.pending(80):
            part = slice(done, done + len(rows))
            writer.add(
                labels=source.labels[order][part],
                ids=source.ids[order][part],
                logits=logits[:, part],
                offset_norm=norms[:, part],
            )
            done += len(rows)
    options = {"speed_ups": [1.5], "resamples": 10, "folds": 3}
    signals = ["cap[alpha=0.1|1]", "right-tool[temperature=fitted]"]
    first = evaluate(tmp_path / "first" / "c", signals, **options)
    second = evaluate(tmp_path / "second" / "c", signals, **options)
    for name in ("results", "pairs", "curves", "samples", "histograms", "risk_coverage"):
        assert getattr(first, name).equals(getattr(second, name)), name


def test_a_text_instead_of_a_list_is_refused(path):
    with pytest.raises(InputError, match=r"expected a list of signals"):
        evaluate(path, "deebert")


def strict_placements(certainty, right):
    """For each hard sample the share of easy ones above it, and for each easy one that of hard ones below it."""
    above = np.array([[easy > hard for easy in certainty[right]] for hard in certainty[~right]], dtype=float)
    return above.mean(axis=1), above.mean(axis=0)


def test_strict_ties_count_nothing_in_value_interval_and_pairs(evaluation, path):
    strict = evaluate(path, ["pabee", "deebert"], ties="strict", **ASKED)
    cache, layer = Cache(path), 3
    right = cache.predictions()[layer - 1] == cache.labels
    placed = {
        "pabee": strict_placements(score(path, "pabee")[layer - 1], right),
        "deebert": strict_placements(-score(path, "deebert")[layer - 1], right),
    }
    at = {"protocol": "in-sample", "measure": "dis", "layer": layer}
    for signal, (hard, easy) in placed.items():
        row = only_row(strict.results, signal=signal, **at)
        assert row.value == pytest.approx(100 * hard.mean())
        assert row.std_err == pytest.approx(100 * np.sqrt(hard.var(ddof=1) / len(hard) + easy.var(ddof=1) / len(easy)))
        assert row.low < row.value < row.high
    assert (
        only_row(strict.results, signal="pabee", **at).value
        < only_row(evaluation.results, signal="pabee", **at).value - 1
    )
    pair = only_row(strict.pairs, signal_a="pabee", **at)
    hard, easy = (first - second for first, second in zip(placed["pabee"], placed["deebert"], strict=True))
    assert pair.difference == pytest.approx(100 * hard.mean())
    assert pair.std_err == pytest.approx(100 * np.sqrt(hard.var(ddof=1) / len(hard) + easy.var(ddof=1) / len(easy)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ties": "third"}, "ties must be half or strict"),
        ({"thresholds": {"deebert": ["all"]}}, r'thresholds.deebert: "all" is for signals with integer thresholds'),
        ({"thresholds": {"deebert": [float("nan")]}}, "found nan"),
        ({"speed_ups": [2, 2.0000001]}, "speed_ups names something twice"),
    ],
)
def test_questions_without_an_answer_are_refused(path, options, message):
    with pytest.raises(InputError, match=message):
        evaluate(path, ["deebert"], **options)


def test_a_cache_of_the_clone_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert score("mpnet-base-rte-dev", "deebert").shape == (11, 277)
    with pytest.raises(InputError, match=r"'mpnet-base-rte-de' is no cache.*mpnet-base-rte-dev"):
        evaluate("mpnet-base-rte-de", ["deebert"])
