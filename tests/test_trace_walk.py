"""The tracer of ``scripts/trace_walk.py``: edges between modules, and those that go back."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("trace_walk", ROOT / "scripts" / "trace_walk.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_an_edge_back_leads_to_a_module_that_was_entered_before_its_caller(script: ModuleType) -> None:
    walk = script.Walk(
        entered={"a": 0, "b": 1, "c": 2},
        edges=dict.fromkeys([("a", "b"), ("b", "c"), ("c", "a"), ("c", "b"), ("a", "c")]),
    )
    assert walk.back == [("c", "a"), ("c", "b")]
    assert walk.mutual == 2  # a with c, and b with c
    assert script.report(walk).startswith("modules 3, edges 5, back 2 (40%), mutual 2\n")


def test_a_verb_enters_the_app_first_and_its_own_module_later(
    script: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    walk = script.traced(["list", "suites"])
    assert "smoke" in capsys.readouterr().out
    modules = list(walk.entered)
    assert modules[0] == "exitbench/cli/app.py"
    assert "exitbench/cli/verbs/list_.py" in modules
    assert all(caller in walk.entered and callee in walk.entered and caller != callee for caller, callee in walk.edges)
    assert sys.getprofile() is None


def test_what_other_libraries_call_among_themselves_is_not_counted(script: ModuleType) -> None:
    import json

    from exitbench.errors import did_you_mean

    walk = script.Walk()
    sys.setprofile(walk.profile)
    json.dumps([1])
    did_you_mean("a", ["b"])
    sys.setprofile(None)
    assert list(walk.entered) == ["exitbench/errors.py"]
    assert walk.edges == {}


def test_what_runs_while_a_module_is_imported_is_not_counted(script: ModuleType) -> None:
    walk = script.Walk()
    importing = compile("from exitbench.errors import did_you_mean\ndid_you_mean('a', ['b'])", "mine.py", "exec")
    sys.setprofile(walk.profile)
    exec(importing, {})
    sys.setprofile(None)
    assert walk.entered == {}
    assert walk.imports == 0
