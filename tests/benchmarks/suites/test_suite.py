import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.suites.questions import Questions, band_costs, layers_at
from exitbench.benchmarks.suites.suite_file import known_suites, load_suite, suite_of_caches, suite_of_values
from exitbench.errors import InputError

MINIMAL = {
    "name": "mine",
    "caches": ["a"],
    "signals": ["deebert"],
    "layers": [1],
    "speed_ups": [2.0],
    "primary_speed_up": 2.0,
    "protocols": ["in-sample"],
    "resamples": 10,
    "seed": 0,
}


def suite(**changes):
    return suite_of_values({**MINIMAL, **changes}, Path("mine.toml"))


def test_an_unknown_key_is_an_error_with_a_suggestion():
    with pytest.raises(InputError, match=r"unknown key 'speedups'.* Did you mean speed_ups"):
        suite(speedups=[2.0])
    below_a_table = {"subject": "cap", "against": ["deebert"], "sed": 3}  # where TOML puts a key that comes too late
    with pytest.raises(InputError, match=r"unknown key 'findings.sed'.* Did you mean seed"):
        suite(findings=below_a_table)


def test_a_missing_key_is_named():
    values = {key: value for key, value in MINIMAL.items() if key != "signals"}
    with pytest.raises(InputError, match=r"missing key signals"):
        suite_of_values(values, Path("mine.toml"))


def test_a_suite_needs_only_caches_and_signals(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('caches = ["mpnet-base-rte-dev"]\nsignals = ["deebert"]\n')
    suite = load_suite(file)
    assert (suite.name, suite.questions) == ("mine", Questions())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"protocols": ["crossfit"]}, "unknown protocol 'crossfit'.* Did you mean cross-fit"),
        ({"layers": [0]}, "layers are numbers from 1"),
        ({"layers": ["5/4"]}, "fractions between 0 and 1"),
        ({"layers": ["half"]}, "fractions such as"),
        ({"layers": [True]}, "fractions such as"),
        ({"layers": ["1e-999999999"]}, "fractions such as"),
        ({"layers": ["1e-1"]}, "fractions such as"),
        ({"layers": ["1/1" + "0" * 5000]}, "fractions such as"),
        ({"speed_ups": [0.5]}, "a speed-up is at least 1"),
        ({"speed_ups": ["2"]}, "speed_ups: expected a number, found '2'"),
        ({"resamples": 1}, "resamples must be between 2 and 100,000"),
        ({"resamples": 10**9}, "resamples must be between 2 and 100,000"),
        ({"resamples": 2.5}, "resamples must be a whole number"),
        ({"seed": -1}, "seed must not be negative"),
        ({"signals": []}, "signals must not be empty"),
        ({"signals": "deebert"}, "signals must be a list"),
        ({"caches": ["x/a", "y/a"]}, "two caches share the name a"),
        ({"caches": ["a", "a"]}, "caches names something twice"),
        ({"name": "."}, "name must be that of a folder of its own"),
        ({"name": ".."}, "name must be that of a folder of its own"),
        ({"speed_ups": [2.0, 2.0000001]}, "speed_ups names something twice, as results print it: 2, 2"),
        ({"losses": [0.5, 0.50000001]}, "losses names something twice"),
        ({"primary_speed_up": 2.0000001}, "primary_speed_up 2.0000001 and the speed-up 2.0 are both printed as 2"),
        ({"speed_ups": [10**400]}, "speed_ups: a whole number of 401 digits is too large"),
        ({"thresholds": {"deebert": [float("nan")]}}, "thresholds.deebert must be numbers.*found nan"),
        ({"ties": "third"}, "ties must be half or strict, found 'third'"),
        ({"folds": 1}, "folds must be between 2 and 100"),
        ({"losses": [-1]}, "losses are points"),
        ({"thresholds": {"pabee": ["mean"]}}, "thresholds.pabee"),
        ({"thresholds": [1]}, "thresholds must be a table"),
        ({"thresholds": "per-sample"}, "thresholds: expected a table or \"per-layer\", found 'per-sample'"),
        ({"protocols": ["held-out"]}, "needs a calibration cache in .held_out. for a"),
        ({"held_out": {"a": "b\0c"}}, r"expected the name or the path of a cache, found 'b.x00c'"),
        ({"caches": ["b\0c"]}, r"expected the name or the path of a cache, found 'b.x00c'"),
        ({"held_out": {"b": "c"}}, "held_out names b, which is not among the caches"),
        ({"held_out": {"a": "a"}}, "cannot be its own calibration cache"),
        ({"name": "a/b"}, "name must be text without slashes"),
    ],
)
def test_values_that_make_no_sense_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        suite(**change)


def test_one_word_asks_every_signal_for_per_layer_thresholds():
    assert suite().questions.thresholds == {}
    assert not suite().questions.per_layer("deebert")
    assert suite(thresholds="per-layer").questions.per_layer("deebert")


def test_per_layer_thresholds_stand_beside_given_ones_in_the_table():
    asked = suite(thresholds={"deebert": ["median", "per-layer"], "*": ["median"]}).questions
    assert (asked.per_layer("deebert"), asked.per_layer("cap")) == (True, False)
    assert asked.operating_points("deebert", None) == asked.operating_points("cap", None)


def test_a_bare_name_is_a_fixture_and_a_path_is_relative_to_the_file(tmp_path):
    (tmp_path / "beside").mkdir()
    made = suite_of_values(
        {**MINIMAL, "caches": ["a", "sub/b", "beside"]}, tmp_path / "mine.toml", fixtures=Path("/fixtures")
    )
    assert made.caches == (Path("/fixtures/caches/a"), tmp_path / "sub" / "b", tmp_path / "beside")


def test_fractions_share_a_suite_between_depths():
    thirds = [Fraction(1, 6), Fraction(1, 2), Fraction(5, 6)]
    assert layers_at(thirds, 12) == (2, 6, 10)
    assert layers_at(thirds, 6) == (1, 3, 5)
    assert layers_at(thirds, 2) == (1,)


def test_a_layer_number_beyond_the_depth_is_refused():
    with pytest.raises(InputError, match=r"layer 6 is not an internal layer of a network with 6 layers"):
        suite(layers=[2, 6, 10]).layers_of(6)


def test_the_paper_suite_parses_and_says_which_caches_are_missing(tmp_path):
    paper = load_suite("paper", fixtures=tmp_path)
    assert paper.signals[-4:] == ("cap[alpha=0.01|0.1|1|10,center=true]", "calibrated", "meta", "meta[target=final]")
    assert paper.layers_of(12) == (2, 6, 10)
    count = len(paper.caches)
    with pytest.raises(InputError, match=rf"{count} of {count} caches are missing: mpnet-base-rte-dev, .*minilm-l6"):
        paper.require_caches()


def test_every_suite_that_comes_along_loads():
    assert set(known_suites()) >= {"paper", "smoke"}
    for name in known_suites():
        assert load_suite(name).name == name


def test_every_cache_of_a_suite_comes_along():
    for name in known_suites():
        assert load_suite(name).missing_caches() == ()


def test_an_unknown_suite_answers_with_the_nearest():
    with pytest.raises(InputError, match=r"no suite 'papr'.* Did you mean paper"):
        load_suite("papr")


def test_a_file_that_is_not_toml_is_refused(tmp_path):
    (tmp_path / "bad.toml").write_text("name = ")
    with pytest.raises(InputError, match=r"bad.toml is not a TOML file"):
        load_suite(tmp_path / "bad.toml")


def test_a_number_with_more_digits_than_python_reads_is_refused(tmp_path):
    (tmp_path / "long.toml").write_text(f"seed = {'9' * 5000}")
    with pytest.raises(InputError, match=r"long.toml is not a TOML file: .*digits"):
        load_suite(tmp_path / "long.toml")


def test_ties_are_halved_unless_a_suite_says_otherwise():
    assert (suite().questions.ties, suite(ties="strict").questions.ties) == ("half", "strict")
    assert suite(ties="strict").to_json()["ties"] == "strict"


def test_caches_of_ones_own_get_the_papers_questions():
    made = suite_of_caches([Path("somewhere/mine")])
    assert (made.name, made.caches) == ("mine", (Path("somewhere/mine"),))
    assert made.signals == load_suite("paper").signals


@pytest.mark.process
def test_reading_suites_loads_nothing_heavy():
    heavy = (
        "import sys, exitbench.benchmarks.suites.suite_file as s; s.load_suite('paper'); "
        "print([m for m in ('torch', 'pandas', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_all_thresholds_of_a_signal_are_its_whole_numbers_and_none_for_real_ones():
    asked = suite(thresholds={"*": ["all", 0.5]}).questions
    taus = [point.number for point in asked.operating_points("pabee", (1, 3)) if point.kind == "tau"]
    assert taus == [1.0, 2.0, 3.0, 0.5]
    taus = [point.number for point in asked.operating_points("deebert", None) if point.kind == "tau"]
    assert taus == [0.5]


def test_a_protocol_may_be_asked_for_once():
    with pytest.raises(InputError, match="protocols"):
        suite(protocols=["in-sample", "in-sample"])


def test_by_default_layers_lie_at_a_sixth_a_half_and_five_sixths_of_the_depth() -> None:
    assert list(layers_at(Questions().layers, 12)) == [2, 6, 10]


def test_the_costs_of_a_band_go_from_the_cheapest_layer_to_all_of_them() -> None:
    costs = band_costs(1 / 12)
    assert (len(costs), costs[0], costs[-1]) == (48, 1 / 12, pytest.approx(1.0))
    assert np.diff(costs) == pytest.approx(np.full(47, costs[1] - costs[0]))
    assert set(band_costs(1)) == {1.0}, "every layer costs the same"
    for cheapest in (12, 0, -0.1):
        with pytest.raises(ValueError, match=f"found {cheapest}"):
            band_costs(cheapest)
