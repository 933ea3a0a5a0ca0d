"""One test that loops over cases of microseconds, where tests of their own would cost pytest more than they compute."""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable
from typing import Any


def for_each(**cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Run a test once for every combination of the named values, as ``pytest.mark.parametrize`` would, but in one test.

    The first case that fails ends the test, and its values stand under the error. Fixtures are made once for all cases.
    """
    combinations = [dict(zip(cases, values, strict=True)) for values in itertools.product(*cases.values())]

    def looped(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            for case in combinations:
                try:
                    test(**case, **fixtures)
                except BaseException as error:
                    error.add_note("in the case " + ", ".join(f"{name}={value!r}" for name, value in case.items()))
                    raise

        signature = inspect.signature(test)
        left = [each for name, each in signature.parameters.items() if name not in cases]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return looped
