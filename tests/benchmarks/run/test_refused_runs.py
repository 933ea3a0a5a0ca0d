"""Runs that are refused before anything is scored or written: lost caches, wrong signals, too many rows."""

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from exitbench.benchmarks.run.plan import plan_run
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.cli.app import build
from exitbench.errors import InputError
from exitbench.signals.registry.discovery import load_registry


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    cache = synthetic_cache(
        tmp_path_factory.mktemp("caches") / "m-a-dev", rows=70, layers=5, width=6, compact=True, task="a"
    )
    return suite_of_caches([cache]).with_signals(("deebert", "pabee"))


def test_a_missing_cache_is_reported_before_anything_is_written(suite, tmp_path):
    lost = replace(suite, caches=(*suite.caches, tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"1 of 2 caches are missing: nowhere"):
        run_suite(lost, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("signals", "message"),
    [
        (("debert",), r"unknown signal 'debert'.*Did you mean deebert"),
        (("cap", "cap[alpha=1]"), r"lists the same signal twice: cap\[alpha=1\]"),
    ],
)
def test_signals_are_checked_before_anything_is_written(suite, tmp_path, signals, message):
    with pytest.raises(InputError, match=message):
        run_suite(replace(suite, signals=signals), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_all_thresholds_of_a_signal_that_has_no_end_of_them_are_refused(suite, tmp_path):
    with pytest.raises(InputError, match=r'thresholds.deebert: "all" is for signals with integer thresholds'):
        run_suite(suite.asking(thresholds={"deebert": ("all",)}), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    plan_run(suite.asking(thresholds={"*": ("all",), "pabee": ("all",)}), load_registry())


def test_the_verb_answers_an_unknown_target_with_the_nearest(tmp_path):
    with pytest.raises(InputError, match=r"'papper' is neither a cache nor a suite. Did you mean paper"):
        CliRunner().invoke(build(), ["run", "papper"], catch_exceptions=False)
