"""Values that nobody would write into a record, and where to put them."""

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["../x", "/etc/passwd"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def key_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every value inside a value, from the whole to the leaves."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from key_paths(item, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """A copy in which the value at ``path`` is another one."""
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], new)
    return copy


def with_bytes(data: st.DataObject, original: bytes) -> bytes:
    """Some bytes changed, cut or added."""
    start = data.draw(st.integers(0, len(original)))
    stop = data.draw(st.integers(start, min(len(original), start + 60)))
    changed = original[:start] + data.draw(st.binary(max_size=40)) + original[stop:]
    return changed[: data.draw(st.sampled_from([len(changed), len(changed) // 2, 8]))]
