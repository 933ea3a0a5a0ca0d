"""Judge mutants in one warm process: everything is imported and collected once, and each mutant has a forked copy.

A change inside a function is made in the copy by giving the live function the code of the changed source. Whatever was
computed while modules were imported is that of the unchanged code, so a survivor of this is asked again in processes
that import the change (:mod:`mutation_fresh`); so is a change outside functions at once.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from mutants import Mutant
from mutation_names import Tests

ALWAYS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:anyio", "--hypothesis-seed=0")
TIER = "not process and not browser and not e2e and not slow"
SECONDS = 20
"""Processor time that one test may take beyond the time that all tests of a mutant may take together."""


def changed_function(source: str, mutant: Mutant) -> tuple[str, int] | None:
    """Qualified name and first line of the outermost function that a change lies in; None where it runs at import."""
    names: list[str] = []
    nodes: Sequence[ast.stmt] = ast.parse(source).body
    while True:
        inner = next((node for node in nodes if node.lineno <= mutant.line <= (node.end_lineno or node.lineno)), None)
        if isinstance(inner, ast.ClassDef):
            names.append(inner.name)
            nodes = inner.body
        elif isinstance(inner, ast.FunctionDef) and mutant.line >= inner.body[0].lineno:
            lines = (inner.lineno, *(decorator.lineno for decorator in inner.decorator_list))
            return ".".join([*names, inner.name]), min(lines)
        else:
            return None


def codes_of(module: CodeType) -> Iterator[CodeType]:
    """The code of every function and class of a module."""
    for constant in module.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_of(constant)


class Functions:
    """The live functions of a tree, by file, qualified name and first line."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.live: dict[tuple[str, str, int], list[FunctionType]] = {}
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(tree)):
                code = thing.__code__
                key = (str(Path(code.co_filename).resolve()), code.co_qualname, code.co_firstlineno)
                self.live.setdefault(key, []).append(thing)

    def change(self, mutant: Mutant) -> bool:
        """Make a change in this process; False where no live function can take it."""
        path = (self.tree / mutant.file).resolve()
        name_and_line = changed_function(path.read_text(), mutant)
        live = self.live.get((str(path), *name_and_line), []) if name_and_line else []
        changed = compile(mutant.applied(path.read_bytes()), live[0].__code__.co_filename, "exec") if live else None
        for code in codes_of(changed) if changed else ():
            free = code.co_freevars == live[0].__code__.co_freevars
            if free and (code.co_qualname, code.co_firstlineno) == name_and_line:
                for function in live:
                    function.__code__ = code
                return True
        return False


class Judge:
    """A pytest plug-in that runs no test itself: for each mutant a forked copy asks the tests that are chosen."""

    def __init__(self, tree: Path, mutants: Sequence[Mutant], tests: Tests, end: float) -> None:
        self.tree, self.mutants, self.tests, self.end = tree, mutants, tests, end
        self.note: Callable[[Mutant, str, str, float], None] = lambda mutant, outcome, test, seconds: None
        self.failed: list[str] = []
        self.collected = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: Any) -> bool:
        self.collected = len(session.items)
        gc.unfreeze()  # the tests freeze what they have collected, and frozen functions cannot be listed
        functions = Functions(self.tree)
        gc.freeze()  # else the collector of every copy copies all pages
        for mutant in self.mutants:
            if time.monotonic() > self.end:
                break
            began = time.monotonic()
            self.note(mutant, *self._asked(session, functions, mutant), time.monotonic() - began)
        return True

    def _asked(self, session: Any, functions: Functions, mutant: Mutant) -> tuple[str, str]:
        """``killed``, ``survived``, ``timeout`` or ``at import``, and the test that noticed."""
        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        folder = tempfile.mkdtemp()
        process = context.Process(target=self._copy, args=(session, functions, mutant, folder, sender))
        process.start()
        sender.close()
        last: tuple[str, str] = ("timeout", "before any test")
        with contextlib.suppress(EOFError):
            while True:
                last = receiver.recv()
        process.join()
        shutil.rmtree(folder)
        return last

    def _copy(self, session: Any, functions: Functions, mutant: Mutant, folder: str, answer: Any) -> None:
        """In the copy: each test is announced, so that one that never ends is known by its name."""
        os.environ["PYTEST_DEBUG_TEMPROOT"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        if not functions.change(mutant):
            answer.send(("at import", ""))
            os._exit(0)
        for tests, budget in self.tests.groups(mutant, session.items):
            used = time.process_time()
            for item in tests:
                if time.process_time() - used > budget:
                    break
                limit = int(time.process_time()) + 1 + SECONDS
                resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))
                answer.send(("timeout", item.nodeid))
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                if self.failed:
                    answer.send(("killed", self.failed[0]))
                    os._exit(0)
        answer.send(("survived", ""))
        os._exit(0)


def judge(
    tree: Path, mutants: Sequence[Mutant], tests: Tests, end: float, note: Callable[[Mutant, str, str, float], None]
) -> None:
    """Judge mutants one after the other until the time is over; ``note`` is called with each answer."""
    import pytest

    os.chdir(tree)
    sys.path.insert(0, str(tree))
    os.environ["PYTHONPATH"] = str(tree)
    sys.dont_write_bytecode = False  # pytest compiles test files in its own way: once for this and all later processes
    plugin = Judge(tree, mutants, tests, end)
    plugin.note = note
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = pytest.main([*ALWAYS, "-m", TIER, *tests.files()], plugins=[plugin])
    if code != 0:
        raise SystemExit(f"expected tests that can be collected in the unchanged tree, found {code}: {said.getvalue()}")
