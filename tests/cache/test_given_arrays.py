"""The doors of version 2 for anybody's arrays: what is taken, what is refused, and what is doubted."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exitbench.cache import Cache, CacheWarning, import_arrays, verify
from exitbench.cache.given_arrays import doubts, transposed
from exitbench.errors import InputError

ROWS, LAYERS, CLASSES, WIDTHS = 12, 3, 2, (4, 5, 6)


def example() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {
        "labels": rng.integers(CLASSES, size=ROWS),
        "bias": np.zeros((LAYERS, CLASSES), "float32"),
    }
    logits = []
    for layer, width in enumerate(WIDTHS, 1):
        features, weight = rng.normal(size=(ROWS, width)), rng.normal(size=(CLASSES, width))
        arrays[f"features.{layer:02d}"] = features.astype("float32")
        arrays[f"weight.{layer:02d}"] = weight.astype("float32")
        logits.append(features @ weight.T)
    return arrays | {
        "logits": np.stack(logits).astype("float32"),
        "groups": np.arange(ROWS) // 4,
        "costs": np.array([10, 25, 60]),
        "outputs.lte": rng.random((LAYERS, ROWS)).astype("float32"),
        "outputs.policy": rng.random((LAYERS, ROWS, 3)).astype("float32"),
    }


def save(path: Path, arrays: dict[str, Any], *, folder: bool) -> Path:
    if not folder:
        np.savez(path.with_suffix(".npz"), **arrays)
        return path.with_suffix(".npz")
    path.mkdir()
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


def imported(tmp_path: Path, arrays: dict[str, Any], *, folder: bool = False, **options: Any) -> Cache:
    source = save(tmp_path / "in", arrays, folder=folder)
    import_arrays(source, tmp_path / "out", **({"task": "demo", "split": "dev", "shard_rows": 5} | options))
    assert verify(tmp_path / "out") == []
    return Cache(tmp_path / "out")


@pytest.mark.parametrize("folder", [False, True], ids=["npz", "folder of npy"])
def test_every_array_of_version_2_is_taken(tmp_path: Path, folder: bool) -> None:
    arrays = example()
    cache = imported(
        tmp_path, arrays, folder=folder, role="calibration", cost_unit="operations", descriptions={"lte": "P(right)"}
    )
    assert cache.costs == (10.0, 25.0, 60.0)
    assert (cache.manifest.cost_unit, cache.manifest.split_role) == ("operations", "calibration")
    assert cache.widths == WIDTHS
    assert [(output.name, output.size, output.description) for output in cache.manifest.outputs] == [
        ("lte", None, "P(right)"),
        ("policy", 3, ""),
    ]
    np.testing.assert_array_equal(cache.groups, arrays["groups"])
    for layer in range(1, LAYERS + 1):
        np.testing.assert_array_equal(cache.features(layer).numpy(), arrays[f"features.{layer:02d}"])
        np.testing.assert_array_equal(cache.output("policy", layer).numpy(), arrays["outputs.policy"][layer - 1])


def test_arrays_without_labels_make_a_cache_that_is_judged_by_agreement(tmp_path: Path) -> None:
    arrays = {"logits": example()["logits"]}
    cache = imported(tmp_path, arrays)
    assert (cache.labelled, cache.manifest.target, cache.manifest.version) == (False, "final", 2)
    np.testing.assert_array_equal(cache.truth(), arrays["logits"][-1].argmax(axis=1))


def test_zeros_before_the_number_of_a_layer_do_not_matter(tmp_path: Path) -> None:
    arrays = {name.replace(".0", "."): array for name, array in example().items()}
    assert imported(tmp_path, arrays).widths == WIDTHS


def without(*names: str) -> dict[str, Any]:
    return {name: array for name, array in example().items() if name not in names}


def swapped(name: str, *axes: int) -> dict[str, Any]:
    arrays = example()
    return arrays | {name: arrays[name].transpose(axes)}


def plain(**changes: Any) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    arrays = {
        "labels": rng.integers(2, size=ROWS),
        "logits": rng.normal(size=(3, ROWS, 2)),
        "features": rng.normal(size=(3, ROWS, 4)),
        "weight": rng.normal(size=(3, 2, 4)),
        "bias": np.zeros((3, 2)),
    }
    return arrays | changes


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "logits with the samples first": (swapped("logits", 1, 0, 2), {}, "found [12, 3, 2]; transposed?"),
    "logits with the classes in the middle": (swapped("logits", 0, 2, 1), {}, "found [3, 2, 12]; transposed?"),
    "features with the samples first": (
        plain(features=np.zeros((ROWS, 3, 4))),
        {},
        "expected features [3, 12, 4], found [12, 3, 4]; transposed?",
    ),
    "weights with the classes last": (plain(weight=np.zeros((3, 4, 2))), {}, "found [3, 4, 2]; transposed?"),
    "an output with the samples first": (
        swapped("outputs.lte", 1, 0),
        {},
        "expected outputs.lte [3, 12], found [12, 3]; transposed?",
    ),
    "features of one layer, transposed": (swapped("features.02", 1, 0), {}, "expected features.02 [12, 12]"),
    "an output of two rows": (example() | {"outputs.lte": np.zeros((3, 2))}, {}, "expected outputs.lte [3, 12]"),
    "an output of four axes": (example() | {"outputs.lte": np.zeros((3, 12, 2, 2))}, {}, "expected outputs.lte"),
    "groups of another length": (example() | {"groups": np.zeros(5, int)}, {}, "expected groups [12], found [5]"),
    "too few costs": (example() | {"costs": np.array([1, 2])}, {}, "expected costs [3], found [2]"),
    "falling costs": (example() | {"costs": np.array([3, 2, 1])}, {}, "expected costs that never fall"),
    "negative costs": (example() | {"costs": np.array([-1, 2, 3])}, {}, "expected costs above 0, found -1 at layer 1"),
    "a missing layer": (without("features.02"), {}, "expected features.01 to features.03, found no features.02"),
    "a layer too many": (example() | {"features.04": np.zeros((12, 2))}, {}, "expected features.01 to features.03"),
    "features twice": (example() | {"features": np.zeros((3, 12, 4))}, {}, "or features.01 and so on, found both"),
    "one layer twice": (example() | {"features.1": np.zeros((12, 4))}, {}, "expected features.01 once, found it twice"),
    "one weight for features of many widths": (
        without("weight.01", "weight.02", "weight.03") | {"weight": np.zeros((3, 2, 4))},
        {},
        "expected weight.01 and so on beside features.01",
    ),
    "a weight of another width": (example() | {"weight.02": np.zeros((2, 4))}, {}, "expected weight.02 [2, 5]"),
    "weights without bias": (without("bias"), {}, "expected weight and bias together"),
    "an output without a name": (example() | {"outputs.": np.zeros((3, 12))}, {}, "found 'outputs.'"),
    "an output with a strange name": (example() | {"outputs.a b": np.zeros((3, 12))}, {}, "found 'outputs.a b'"),
    "an unknown role": (example(), {"role": "exam"}, "expected the role test, calibration, train, found 'exam'"),
    "an unknown unit": (
        example(),
        {"cost_unit": "second"},
        "expected the cost unit relative, operations, ",
    ),
    "a description of nothing": (example(), {"descriptions": {"lt": ""}}, "Did you mean lte?"),
}


@pytest.mark.parametrize(("arrays", "options", "message"), WRONG.values(), ids=WRONG.keys())
def test_arrays_that_cannot_be_a_cache_are_refused_before_anything_is_written(
    tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        imported(tmp_path, arrays, **options)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def softmax(logits: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits)
    return exponentials / exponentials.sum(axis=2, keepdims=True)


def test_probabilities_in_the_place_of_logits_are_doubted_and_taken(tmp_path: Path) -> None:
    arrays = {"labels": example()["labels"], "logits": softmax(example()["logits"])}
    with pytest.warns(CacheWarning, match="logits look like probabilities .*before the softmax"):
        assert imported(tmp_path, arrays).rows == ROWS


def test_log_probabilities_are_doubted(tmp_path: Path) -> None:
    (line,) = doubts({"logits": np.log(softmax(example()["logits"]))})
    assert line.startswith("logits look like log-probabilities")
    certain = np.zeros((3, ROWS, 2))
    certain[..., 1] = -100.0  # the logarithm of a probability of 1 is 0
    assert doubts({"logits": certain}) == [line]


@pytest.mark.parametrize("shift", [0.0, -50.0, 50.0])
def test_logits_are_not_doubted(shift: float) -> None:
    assert doubts({"labels": example()["labels"], "logits": example()["logits"] + shift}) == []


def test_more_layers_than_samples_without_labels_are_doubted() -> None:
    (line,) = doubts({"logits": np.random.default_rng(0).normal(size=(40, 3, 2))})
    assert line == "logits have 40 layers and 3 samples: transposed?"


@pytest.mark.parametrize(
    ("shape", "expected", "swapped"),
    [
        ((4, 2), (2, 4), True),
        ((3, 4, 2), (3, 2, 9), True),
        ((3, 4, 2), (3, 4, 2), False),
        ((3, 4, 5), (3, 2, 9), False),
        ((4,), (2,), False),
    ],
)
def test_swapped_axes_are_guessed(shape: tuple[int, ...], expected: tuple[int, ...], swapped: bool) -> None:
    assert transposed(shape, expected) == ("; transposed?" if swapped else "")
